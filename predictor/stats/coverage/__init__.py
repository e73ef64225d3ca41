"""Do the probe's intervals keep their word? `python -m predictor.stats.coverage` writes the tables that answer it."""

from predictor.stats.coverage.designs import DesignComparison, compare_designs
from predictor.stats.coverage.intervals import Cell, CellCoverage, cells, measure_cell

__all__ = ["Cell", "CellCoverage", "DesignComparison", "cells", "compare_designs", "measure_cell"]
