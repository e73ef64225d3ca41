"""Commands that need no engine: new studies, previews, regrading, outside runs, exports and reports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from predictor.cli import show

DONE = 0


def init(study: Path, template: str, *, as_json: bool) -> int:
    """Create a study and say what comes next."""
    from predictor.loop.init import init_study

    written = init_study(study, template)
    if as_json:
        show.print_json({"study": str(study), "template": template, "files": [path.name for path in written]})
    else:
        show.say(f"{study}: {', '.join(path.name for path in written)}")
        show.say(f"next: gapcast probe {study} --dry-run")
    return DONE


def preview(study: Path, *, as_json: bool) -> int:
    """--dry-run."""
    from predictor.cli.preview import preview as build_preview
    from predictor.cli.preview import print_preview

    content = build_preview(study)
    if as_json:
        show.print_json(content)
    else:
        print_preview(content)
    return DONE


def explain_number(name: str, *, as_json: bool) -> int:
    """Print what one number means, or all of them for `all`; InputError names the nearest one for an unknown name."""
    from predictor.records.numbers import definition, definitions

    chosen = definitions() if name == "all" else {name: definition(name)}
    if as_json:
        show.print_json(chosen)
    else:
        for number, meaning in chosen.items():
            show.say(f"{number}: {meaning}")
    return DONE


def regrade(study: Path, *, as_json: bool) -> int:
    """Judge stored rollouts again."""
    from predictor.loop.regrade import regrade as judge_again
    from predictor.store import Study

    opened_study = Study(study)
    level = opened_study.config.probe.confidence
    with opened_study.locked():
        done = judge_again(opened_study)
    if as_json:
        show.print_json(done.result.as_json(level) | {"num_changed": done.num_changed})
    else:
        show.say(f"{done.num_rollouts} rollouts judged again, {done.num_changed} verdicts changed")
        show.print_table("Gaps", show.GAP_COLUMNS, show.gap_rows(done.result.hints, level))
    return DONE


def import_rows(study: Path, file: Path, kind: Literal["rows", "trl", "verl", "wandb"], *, as_json: bool) -> int:
    """Append runs from outside to runs.jsonl."""
    from predictor.cli.tables import print_runs
    from predictor.loop.outside import import_rows as read_rows
    from predictor.loop.outside import store_rows
    from predictor.store import Study

    target = Study(study)
    with target.locked():
        records = store_rows(target, read_rows(target, file, kind))
    if as_json:
        show.print_json([show.nulls(record.model_dump(mode="json")) for record in records])
    else:
        print_runs(records)
    return DONE


def export(study: Path, run: str, target: Literal["trl", "verl"] | None, *, as_json: bool) -> int:
    """Print a configuration for another trainer."""
    from predictor.loop.outside import export_run
    from predictor.store import Study

    text = export_run(Study(study), run, target)
    if as_json:
        show.print_json({"run": run, "config": text})
    else:
        sys.stdout.write(text)
    return DONE


def report(study: Path, output: Path | None, figures: Path | None, *, as_json: bool) -> int:
    """Write the HTML page."""
    from predictor.report import build_report, write_figures
    from predictor.store import Study

    page = build_report(Study(study), output or study / "report.html")
    drawn = [] if figures is None else write_figures(Study(study), figures)
    if as_json:
        show.print_json({"report": str(page), "figures": [str(path) for path in drawn]})
    else:
        show.say(str(page))
    return DONE
