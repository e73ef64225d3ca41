"""gapcast's measuring, fitting, forecasting and planning half; imports nothing heavy by itself."""

__version__ = "0.1.0"
