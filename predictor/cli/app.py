"""The commands and their options; everything heavy is imported inside them, so that help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.console import Console

from predictor import __version__

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON document instead of tables.")]
DryRun = Annotated[
    bool,
    Parameter(
        name="--dry-run",
        negative="",
        help="Show the resolved study, both prompts with the hint marked, and token counts; do nothing.",
    ),
]
StudyDir = Annotated[Path, Parameter(help="The study directory.")]

app = App(
    name="gapcast",
    version=__version__,
    help="Forecast what on-policy self-distillation will gain before anyone trains, and launch only what pays.",
    result_action="return_value",
    error_console=Console(stderr=True),
)


@app.command
def init(study: StudyDir, *, template: str = "miniature", json: Json = False) -> int:
    """Create a study from a template.

    Parameters
    ----------
    template
        miniature, format-rules, hidden-rules, math, code, multiple-choice, tool-use or reasoning-gym.
    """
    from predictor.cli import files

    return files.init(study, template, as_json=json)


@app.command
def probe(
    study: StudyDir,
    *,
    diagnostics: Annotated[bool, Parameter(negative="")] = False,
    explain: str | None = None,
    plan: Annotated[bool, Parameter(negative="")] = False,
    half_width: float = 0.05,
    json: Json = False,
    dry_run: DryRun = False,
) -> int:
    """Measure the gap of every hint config and its controls; a second call goes on where the first stopped.

    Parameters
    ----------
    diagnostics
        Score the stored rollouts token by token too: KL by position, alignment with correctness, leaks of the hint.
    explain
        Say what a number means (`net_gap`, `recovery_pooled`, `forward_kl`, …; `all` for each), and stop.
    plan
        Print how many examples and rollouts reach --half-width and what they cost, and stop.
    half_width
        With --plan: half the width of the gap's interval that is wanted.
    """
    from predictor.cli import commands, files, sizing

    if explain is not None:
        return files.explain_number(explain, as_json=json)
    if plan:
        return sizing.plan_probe(study, half_width, as_json=json)
    if dry_run:
        return files.preview(study, as_json=json)
    return commands.probe(study, diagnostics=diagnostics, as_json=json)


@app.command
def forecast(
    study: StudyDir,
    *,
    prior: Literal["published", "none"] | None = None,
    predictor: Literal["consensus_gap", "gap", "net_gap", "transferable_gap"] | None = None,
    json: Json = False,
) -> int:
    """Apply the law to the measured gaps and freeze the forecasts to disk.

    Parameters
    ----------
    prior
        Prior of the law; the study's own when not given.
    predictor
        What the law is fitted on; the study's own when not given.
    """
    from predictor.cli import commands

    return commands.forecast(study, prior=prior, predictor=predictor, as_json=json)


@app.command
def plan(study: StudyDir, *, json: Json = False) -> int:
    """Choose the runs to launch under the budget, and say why the others are out."""
    from predictor.cli import commands

    return commands.plan(study, as_json=json)


@app.command
def pilot(study: StudyDir, *, steps: int | None = None, json: Json = False) -> int:
    """Train the candidates the plan is unsure about for a few steps, and forecast their full runs again.

    Parameters
    ----------
    steps
        Steps of a pilot; the study's plan.pilot_steps, else a fifth of the full run's.
    """
    from predictor.cli import commands

    return commands.pilot(study, steps=steps, as_json=json)


@app.command
def launch(
    study: StudyDir,
    *,
    hint: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    all_hints: Annotated[bool, Parameter(name="--all", negative="")] = False,
    outside_budget: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
    dry_run: DryRun = False,
) -> int:
    """Train the planned runs as local processes and record each.

    Parameters
    ----------

    Hint:
        Train these hint configs whatever the plan says (repeatable); every seed of the study.
    all_hints
        Train every hint config with every seed.
    outside_budget
        With --hint or --all: spend beyond the budget's cap; the ledger still shows it.
    """
    from predictor.cli import commands, files

    if dry_run:
        return files.preview(study, as_json=json)
    chosen = commands.Chosen(hint, all_hints=all_hints, outside_budget=outside_budget)
    return commands.launch(study, chosen, as_json=json)


@app.command
def record(study: StudyDir, run: str, *, json: Json = False) -> int:
    """Measure a finished run with the probe's own instrument and append its record.

    Parameters
    ----------
    run
        Key of the run: the name of its directory under runs/.
    """
    from predictor.cli import commands

    return commands.record(study, run, as_json=json)


@app.command
def fit(
    study: StudyDir,
    more: Annotated[tuple[Path, ...], Parameter(help="Further studies whose runs are fitted too.")] = (),
    *,
    method: Literal["ols", "wls", "bayes", "york", "theil_sen", "hierarchical"] | None = None,
    predictor: Literal["consensus_gap", "gap", "net_gap", "transferable_gap"] | None = None,
    form: Literal["auto", "linear", "saturating"] | None = None,
    select: Annotated[bool, Parameter(negative="")] = False,
    half_width: float | None = None,
    allow_mixed: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> int:
    """Refit the law on all records: lines, leave-one-out errors, and how the frozen forecasts did.

    Parameters
    ----------
    method
        The study's own when not given.
    predictor
        The study's own when not given.
    form
        A straight line, one that bends at the ceiling, or the better by held-out error; the study's own when not given.
    select
        Compare every predictor, and further terms as far as the hint configs support them, by held-out error.
    half_width
        Print how many hint configs, examples and rollouts bring a new run's 80 % interval to this half-width.
    allow_mixed
        Fit records that differ in task, decoding, steps or training settings, with guards that say so.
    """
    from predictor.cli import fitting

    options = fitting.FitOptions(method, predictor, form, allow_mixed, select, half_width)
    return fitting.fit((study, *more), options, as_json=json)


@app.command
def run(study: StudyDir, *, json: Json = False, dry_run: DryRun = False) -> int:
    """Do the whole loop: probe, forecast, plan, train, record, refit, replan, until budget or candidates end."""
    from predictor.cli import commands, files

    return files.preview(study, as_json=json) if dry_run else commands.run(study, as_json=json)


@app.command
def regrade(study: StudyDir, *, json: Json = False) -> int:
    """Judge the stored rollouts again with the study's present checker; generates nothing."""
    from predictor.cli import files

    return files.regrade(study, as_json=json)


@app.command(name="import")
def import_rows(
    study: StudyDir, file: Path, *, kind: Literal["rows", "trl", "verl", "wandb"] = "rows", json: Json = False
) -> int:
    """Import (gap, improvement) rows of runs trained elsewhere; importing twice counts nothing twice.

    Parameters
    ----------
    file
        A CSV, JSONL or Parquet table of runs, or the log of one run.
    kind
        rows for a table; trl, verl or wandb for the log of one run (with FILE.facts.yaml beside it).
    """
    from predictor.cli import files

    return files.import_rows(study, file, kind, as_json=json)


@app.command
def export(study: StudyDir, run: str, *, target: Literal["trl", "verl"] | None = None, json: Json = False) -> int:
    """Print a TRL or verl configuration that trains a chosen run or hint config elsewhere.

    Parameters
    ----------
    run
        Key of a run, or name of a hint config.
    target
        trl, or verl for feedback on the student's own attempts; chosen by the hint when not given.
    """
    from predictor.cli import files

    return files.export(study, run, target, as_json=json)


@app.command
def report(study: StudyDir, *, output: Path | None = None, figures: Path | None = None, json: Json = False) -> int:
    """Write one self-contained HTML page with figures and tables.

    Parameters
    ----------
    output
        The file; report.html in the study when not given.
    figures
        A directory for the figures as SVG files of their own.
    """
    from predictor.cli import files

    return files.report(study, output, figures, as_json=json)
