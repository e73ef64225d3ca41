"""Do the intervals keep their word? `python -m predictor.law.coverage` writes reports/law_coverage.md and .csv."""

from predictor.law.coverage.report import coverage_report, csv_rows
from predictor.law.coverage.simulate import (
    Cell,
    Coverage,
    SlopeCoverage,
    cell_coverage,
    cells,
    simulate,
    slope_cells,
    slope_coverage,
)

__all__ = [
    "Cell",
    "Coverage",
    "SlopeCoverage",
    "cell_coverage",
    "cells",
    "coverage_report",
    "csv_rows",
    "simulate",
    "slope_cells",
    "slope_coverage",
]
