"""The report: one self-contained HTML page, built only from what is on disk in the study directory."""

from __future__ import annotations

import base64
from pathlib import Path

from predictor.records import current_provenance
from predictor.report.costs import costs_section
from predictor.report.decisions import plan_section
from predictor.report.diagnostics import diagnostics_section
from predictor.report.evidence import Evidence, read_evidence
from predictor.report.figures import figures_section, gaps_picture, law_picture, plan_picture
from predictor.report.forecasts import forecast_section
from predictor.report.honesty import honesty_section
from predictor.report.measured import gaps_section
from predictor.report.origin import origin_section, warning
from predictor.report.outcomes import runs_section
from predictor.report.page import Page, render
from predictor.report.samples import samples_section
from predictor.report.verdict import verdict
from predictor.store import Study, write_text

__all__ = ["Evidence", "build_report", "read_evidence", "write_figures"]


def write_figures(study: Study, directory: Path) -> list[Path]:
    """Write the page's figures as `gaps.svg`, `law.svg` and `plan.svg`; those that cannot exist yet are left out."""
    evidence = read_evidence(study)
    pictures = {"gaps": gaps_picture(evidence), "law": law_picture(evidence), "plan": plan_picture(evidence)}
    written = []
    for name, picture in pictures.items():
        if picture is not None:
            path = directory / f"{name}.svg"
            write_text(path, base64.b64decode(picture.uri.partition(",")[2]).decode("utf-8"))
            written.append(path)
    return written


def build_report(study: Study, output: Path) -> Path:
    """Write the study's page to `output` atomically and return it; parts that do not exist yet are named on the page.

    The same study and code give the same bytes. StoreError for damaged record files and for a disk that refuses.
    """
    evidence = read_evidence(study)
    # Everything is read before anything is written: a damaged file leaves the page of yesterday in place.
    page = Page(
        title=f"gapcast study {evidence.name}",
        warning=warning(evidence),
        verdict=verdict(evidence),
        sections=(
            forecast_section(evidence),
            figures_section(evidence),
            gaps_section(evidence),
            diagnostics_section(evidence),
            plan_section(evidence),
            runs_section(evidence),
            costs_section(evidence),
            honesty_section(evidence),
            origin_section(evidence, current_provenance()),
            # Last, because it is the only part that grows with the length of model outputs.
            samples_section(evidence, study),
        ),
    )
    write_text(output, render(page))
    return output
