"""Reading a section as a reader would: by the name of a row."""

from __future__ import annotations

from predictor.records import RunRecord
from predictor.report import Evidence, read_evidence
from predictor.report.page import Section
from predictor.store import Study


def row(section: Section, name: str) -> list[str]:
    """The row of that name in a section's first table that has one; details after a bar."""
    rows = [found for table in section.tables for found in table.rows if found.cells[0].text == name]
    return [cell.text + (f"|{cell.detail}" if cell.detail else "") for cell in rows[0].cells]


def changed_runs(study: Study, **update: object) -> Evidence:
    study.replace("runs", [run.model_copy(update=update) for run in study.records("runs", RunRecord)])
    return read_evidence(study)
