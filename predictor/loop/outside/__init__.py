"""Runs that were trained elsewhere, and configs for training elsewhere: `gapcast import` and `gapcast export`."""

from predictor.loop.outside.export import Target, export_run, export_training_rows
from predictor.loop.outside.logs import LogFacts
from predictor.loop.outside.read import ImportKind, import_rows, store_rows

__all__ = [
    "ImportKind",
    "LogFacts",
    "Target",
    "export_run",
    "export_training_rows",
    "import_rows",
    "store_rows",
]
