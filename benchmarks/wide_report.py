"""Tables and figures of the wide miniature study: which gap forecasts, in which form, and how forecasts did.

`python benchmarks/wide_report.py studies/wide reports/miniature-findings`

Everything is read from the studies' records; the classes of hint configs were written down before any run
(notebooks/LOG.md). R² and slopes are those of ordinary least squares over hint configs, errors leave one of them out.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import numpy as np
from matplotlib.figure import Figure
from wide_study import SETTINGS, TASKS

from predictor.config import STUDY_FILE
from predictor.forecast import score_studies
from predictor.law import LinearLaw
from predictor.plots.honesty import plot_calibration
from predictor.plots.law import plot_law
from predictor.records import (
    Forecast,
    FrozenForecast,
    GapName,
    LawFit,
    LawForm,
    Predictive,
    RunRecord,
    ScoredForecast,
    current_provenance,
)
from predictor.store import Study, write_text

HintClass = Literal["well-behaved", "unreliable", "instance-specific"]
CLASSES: Final[tuple[HintClass, ...]] = ("well-behaved", "unreliable", "instance-specific")
PREDICTORS: Final[tuple[GapName, ...]] = ("gap", "transferable_gap", "consensus_gap")
WORKED: Final = frozenset({"answer", "half-answer", "own-failure"})


def hint_class(task: str, hint: str) -> HintClass:
    """The class of a hint config by its settings alone, as written down before any run."""
    options, hints = TASKS[task]
    kind = next(str(fields["kind"]) for fields in hints if fields["name"] == hint)
    one_rule = "rule" in options
    if kind == "static" or (kind == "demonstrations" and one_rule):
        return "well-behaved"
    return "unreliable" if one_rule and hint not in WORKED else "instance-specific"


@dataclass(frozen=True)
class Setting:
    """Everything measured under one training setting."""

    name: str
    studies: dict[str, Study]

    @cached_property
    def runs(self) -> list[tuple[str, RunRecord]]:
        """Finished runs with the name of their task."""
        found = ((task, run) for task, study in self.studies.items() for run in study.records("runs", RunRecord))
        return [(task, run) for task, run in found if run.state == "finished"]

    @property
    def is_complete(self) -> bool:
        """Whether every hint config of every task is trained."""
        return len(self.runs) == sum(len(hints) for _, hints in TASKS.values())

    def of(self, wanted: HintClass | None) -> list[RunRecord]:
        """The runs of one class, or all."""
        return [run for task, run in self.runs if wanted is None or hint_class(task, run.spec.hint) == wanted]

    @property
    def scored(self) -> list[ScoredForecast]:
        """Frozen forecasts beside outcomes."""
        return list(score_studies([_frozen_and_runs(study) for study in self.studies.values()]).scored)


def main() -> None:
    """Write README.md, runs.csv and figures of the finished settings into the report directory."""
    root, out = Path(sys.argv[1]), Path(sys.argv[2])
    settings = [Setting(name, _studies(root / name)) for name in SETTINGS]
    settings = [setting for setting in settings if setting.is_complete]
    write_text(out / "README.md", "\n".join(_page(settings)) + "\n")
    write_text(out / "runs.csv", _csv(settings))
    for setting in settings:
        for predictor in ("gap", "consensus_gap"):
            _save(plot_law(_fit(setting.of(None), predictor)).figure, out / f"{setting.name}-{predictor}.svg")
    figure = plot_calibration(*_outcomes(settings)).figure
    _save(figure, out / "calibration.svg")


def _studies(path: Path) -> dict[str, Study]:
    return {task: Study(path / task) for task in TASKS if (path / task / STUDY_FILE).exists()}


def _frozen_and_runs(study: Study) -> tuple[list[FrozenForecast], list[RunRecord]]:
    return study.records("forecasts", FrozenForecast), study.records("runs", RunRecord)


def _page(settings: Sequence[Setting]) -> list[str]:
    made = current_provenance()
    commits = sorted({run.provenance.git_commit + _dirt(run) for setting in settings for _, run in setting.runs})
    num_runs = sum(len(setting.runs) for setting in settings)
    dirt = " with uncommitted changes" if made.git_dirty else ""
    return [
        "# The miniature's findings",
        "",
        f"Runs made at commit {', '.join(commits)} by `make study-wide`,",
        f"tables at commit {made.git_commit}{dirt}.",
        f"{num_runs} runs of miniature/llama-s, one seed, 50 steps, 96 held-out examples; shares of 1 everywhere.",
        "Classes, predictors and aims were fixed before any run: notebooks/LOG.md.",
        "",
        *_predictor_section(settings),
        *_form_section(settings),
        *_forecast_section(settings),
        *_run_section(settings),
    ]


def _dirt(run: RunRecord) -> str:
    return " (uncommitted changes)" if run.provenance.git_dirty else ""


def _predictor_section(settings: Sequence[Setting]) -> list[str]:
    rows = [
        _predictor_row(setting, wanted, predictor)
        for setting in settings
        for wanted in (None, *CLASSES)
        for predictor in PREDICTORS
    ]
    head = ("setting", "hint configs", "n", "predictor", "R²", "slope [95 %]", "held-out MAE", "held-out CRPS")
    return ["## Which gap forecasts the improvement", "", *_table(head, rows), ""]


def _predictor_row(setting: Setting, wanted: HintClass | None, predictor: GapName) -> list[str]:
    fit = _fit(setting.of(wanted), predictor, "linear")
    law, errors = fit.families[0], fit.leave_one_out
    low, high = law.slope.interval()
    return [
        setting.name,
        wanted or "all",
        str(law.num_configs),
        predictor,
        f"{law.r2:.2f}",
        f"{law.slope.value:.2f} [{low:.2f}, {high:.2f}]",
        f"{errors.mae:.3f}" if errors else "",
        f"{errors.crps:.3f}" if errors else "",
    ]


def _form_section(settings: Sequence[Setting]) -> list[str]:
    wanted: tuple[tuple[HintClass | None, GapName], ...] = (
        (None, "gap"),
        (None, "consensus_gap"),
        ("well-behaved", "gap"),
    )
    rows = [_form_row(setting, *which) for setting in settings for which in wanted]
    head = ("setting", "hint configs", "predictor", "linear: CRPS, MAE", "saturating: CRPS, MAE", "slopes", "chosen")
    return ["## Straight or bent at the ceiling (errors held out)", "", *_table(head, rows), ""]


def _form_row(setting: Setting, wanted: HintClass | None, predictor: GapName) -> list[str]:
    runs = setting.of(wanted)
    straight, bent, chosen = (_fit(runs, predictor, form) for form in ("linear", "saturating", "auto"))
    slopes = ", ".join(f"{fit.families[0].slope.value:.2f}" for fit in (straight, bent))
    return [
        setting.name,
        wanted or "all",
        predictor,
        _errors_text(straight),
        _errors_text(bent),
        slopes,
        chosen.form,
    ]


def _errors_text(fit: LawFit) -> str:
    errors = fit.leave_one_out
    return f"{errors.crps:.3f}, {errors.mae:.3f}" if errors else ""


def _forecast_section(settings: Sequence[Setting]) -> list[str]:
    groups = [(setting.name, setting.scored) for setting in settings]
    groups.append(("all", [row for _, rows in groups for row in rows]))
    rows = [
        [name, words, *_coverage(found)]
        for name, scored in groups
        for words, found in (
            ("all", scored),
            ("no own run", [row for row in scored if row.num_own_runs == 0]),
            ("1 or 2 own runs", [row for row in scored if 1 <= row.num_own_runs <= 2]),
            ("3 or more own runs", [row for row in scored if row.num_own_runs >= 3]),
        )
        if found
    ]
    head = ("setting", "forecasts made with", "runs", "80 % intervals hold", "mean width 80 %", "MAE", "CRPS")
    return ["## Forecasts frozen before their run", "", *_table(head, rows), ""]


def _coverage(scored: Sequence[ScoredForecast]) -> list[str]:
    inside = sum(row.inside80 for row in scored)
    widths = [row.interval80[1] - row.interval80[0] for row in scored]
    errors = [abs(row.error) for row in scored]
    crps = [row.crps for row in scored]
    share = f"{inside} ({inside / len(scored):.2f})"
    return [str(len(scored)), share, *(f"{np.mean(values):.3f}" for values in (widths, errors, crps))]


def _run_section(settings: Sequence[Setting]) -> list[str]:
    outcomes = {(setting.name, task, run.spec.hint): run for setting in settings for task, run in setting.runs}
    rows = []
    for task, (_, hints) in TASKS.items():
        for hint in (str(fields["name"]) for fields in hints):
            runs = [outcomes.get((setting.name, task, hint)) for setting in settings]
            rows.append([task, hint, hint_class(task, hint), *_gap_cells(settings, runs), *map(_gain, runs)])
    geometric, arithmetic = "consensus (reverse KL)", "consensus (forward KL)"
    head = ("task", "hint config", "class", "gap", geometric, arithmetic, *(setting.name for setting in settings))
    return ["## Every run (improvement by setting)", "", *_table(head, rows)]


def _gap_cells(settings: Sequence[Setting], runs: Sequence[RunRecord | None]) -> list[str]:
    gaps = {setting.name.split("-")[0]: run.gap for setting, run in zip(settings, runs, strict=True) if run and run.gap}
    raw = next(iter(gaps.values()), None)
    means = [gaps[name].consensus_gap if name in gaps else None for name in ("reverse", "forward")]
    return [f"{estimate.value:+.2f}" if estimate else "" for estimate in (raw.gap if raw else None, *means)]


def _gain(run: RunRecord | None) -> str:
    return f"{run.improvement.value:+.2f}" if run and run.improvement else ""


def _fit(runs: Sequence[RunRecord], predictor: GapName, form: LawForm = "auto") -> LawFit:
    # One text for every example is its own other example's hint: its transferable gap is its gap.
    return LinearLaw(method="ols", predictor=predictor, fallback="gap", form=form, allow_mixed=True).fit(runs)


def _outcomes(settings: Sequence[Setting]) -> tuple[list[Predictive], list[float]]:
    pairs = [
        (_forecast_of(study, row).predictive, row.outcome)
        for setting in settings
        for study in setting.studies.values()
        for row in score_studies([_frozen_and_runs(study)]).scored
    ]
    return [predictive for predictive, _ in pairs], [outcome for _, outcome in pairs]


def _forecast_of(study: Study, row: ScoredForecast) -> Forecast:
    """The frozen forecast that a run was scored against."""
    frozen = next(f for f in study.records("forecasts", FrozenForecast) if f.frozen_hash == row.frozen_hash)
    return next(item for item in frozen.forecasts if item.hint == row.hint)


def _csv(settings: Sequence[Setting]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    names = ("gap", "transferable_gap", "consensus_gap", "improvement")
    columns = [column for name in names for column in (name, f"{name}_stderr")]
    writer.writerow(["setting", "task", "hint", "class", "student", *columns])
    for setting in settings:
        for task, run in setting.runs:
            if run.gap is None or run.before is None:
                continue
            estimates = [run.gap.gap, run.gap.transferable_gap, run.gap.consensus_gap, run.improvement]
            cells = [value for e in estimates for value in ((e.value, e.stderr) if e else ("", ""))]
            writer.writerow(
                [setting.name, task, run.spec.hint, hint_class(task, run.spec.hint), run.before.value, *cells]
            )
    return text.getvalue()


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _save(figure: object, path: Path) -> None:
    if isinstance(figure, Figure):
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
