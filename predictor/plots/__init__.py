"""Figures: each takes values and axes and returns the axes."""
