"""Where the numbers come from: code, versions, engines and settings; and whether the code had uncommitted changes."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from predictor.records import Provenance
from predictor.report.evidence import Evidence
from predictor.report.page import Row, Sample, Section, plain, table
from predictor.report.rows import downloads
from predictor.report.wording import moment


def warning(evidence: Evidence) -> str:
    """The page's first line when any number was made by code with uncommitted changes; else empty."""
    # The records count, not the checkout that draws the page: they are what cannot be made again.
    dirty = sorted({found.git_commit for found in evidence.provenances() if found.git_dirty})
    if not dirty:
        return ""
    commits = ", ".join(commit[:12] for commit in dirty)
    return f"Made with uncommitted changes on top of commit {commits}: the code behind these numbers is not on record."


def origin_section(evidence: Evidence, builder: Provenance) -> Section:
    """Every commit, engine and version behind the page, the resolved settings, and the tables as files."""
    found = list(evidence.provenances())
    rows = [
        ("study", [evidence.name]),
        ("commit", _distinct(_commit(item) for item in found)),
        ("report built by", [_commit(builder)]),
        ("engine", _distinct(f"{item.engine} {item.engine_version}".strip() for item in found)),
        ("versions", _distinct(f"{name} {version}" for item in found for name, version in item.versions.items())),
        ("config key", _distinct(item.config_key for item in found)),
        # Differs from the line above when study.yaml was edited after the measurements.
        ("config key now", [evidence.config.key]),
        ("measured from", [moment(min((item.time_utc for item in found), default=""))]),
        ("measured until", [moment(max((item.time_utc for item in found), default=""))]),
    ]
    cells = [Row((plain(name), plain(", ".join(values)))) for name, values in rows if any(values)]
    settings = Sample("Settings of the study, all defaults filled in", (("study.yaml", _settings(evidence)),))
    return Section(
        "origin",
        "Where this comes from",
        tables=(table("Provenance", ("what", "value"), cells),),
        samples=(settings,),
        downloads=downloads(evidence.gaps, evidence.runs),
    )


def _commit(found: Provenance) -> str:
    return found.git_commit + (" with uncommitted changes" if found.git_dirty else "")


def _distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]


def _settings(evidence: Evidence) -> str:
    # Resolved and not as written, so that a changed default cannot change what the page says.
    return yaml.safe_dump(evidence.config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
