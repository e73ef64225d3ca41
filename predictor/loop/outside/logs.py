"""The log of one run elsewhere: TRL's trainer state, verl's metrics, a W&B history export.

A log holds accuracies by step and no standard errors, so `LogFacts` says which metric is which and what is not logged.
"""

from __future__ import annotations

import csv
import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError

from predictor.errors import DataError
from predictor.loop.outside.facts import OWN, UNKNOWN, OutsideRun, StandardError, said
from predictor.records import GapEstimate, HintKind, Record
from predictor.store import Study

LogKind = Literal["trl", "verl", "wandb"]
Series = dict[str, list[tuple[int, float]]]
"""Logged (step, value) pairs of each metric, in the log's order."""
_STEP_COLUMNS = ("_step", "Step", "step", "global_step", "train/global_step", "trainer/global_step")
_CONSOLE = re.compile(r"(?:^|\s)step:(\d+) - (.+)$")


class LogFacts(Record):
    """What a log does not say about its run, or says under a name that only its owner knows."""

    family: str
    """`study` is the study's own, as for `model` and `task`."""
    model: str
    task: str
    hint: str
    kind: HintKind | None = None
    accuracy: str
    """Metric that holds the student's held-out accuracy: its first value is before training, its last after."""
    teacher_accuracy: str | None = None
    """Metric whose first value is the self-teacher's accuracy on the same examples; None takes the study's own gap."""
    gap_stderr: StandardError | None = None
    """Needed with `teacher_accuracy`; `unknown` is an answer."""
    num_units: int = Field(ge=1)
    """Examples behind each logged accuracy."""
    improvement_stderr: StandardError
    """Standard error of after minus before, paired over examples; `unknown` is an answer."""
    seed: int = 0
    preset: str = UNKNOWN
    decoding: str = UNKNOWN
    baseline_id: str = ""
    checkpoint_rule: Literal["final", "best"] = "final"
    """`final` takes the last logged accuracy, `best` the highest, which flatters and is flagged."""


def read_facts(file: Path) -> LogFacts:
    """The facts in `<file>.facts.yaml`; DataError that says what to write there."""
    path = file.with_name(file.name + ".facts.yaml")
    needed = ", ".join(name for name, field in LogFacts.model_fields.items() if field.is_required())
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        return LogFacts.model_validate(raw)
    except FileNotFoundError:
        found = "no such file"
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        found = " ".join(str(error).split())[:200]
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:6])
    raise DataError(
        "a log alone does not say which run it is",
        where=str(path),
        found=found,
        expected=f"a YAML mapping with {needed}",
        fix=f"write that file; `{OWN}` means the study's own and `{UNKNOWN}` a number that nobody knows",
    )


def outside_run(study: Study, file: Path, kind: LogKind, facts: LogFacts) -> OutsideRun:
    """The run that a log and its facts tell of; DataError for a metric that the log does not have."""
    series = read_log(file, kind)
    accuracy = _metric(series, facts.accuracy, file)
    # Two values at one step are two evaluations, not before and after.
    if len({step for step, _ in accuracy}) < 2:
        raise DataError(
            "one logged accuracy is no improvement",
            where=str(file),
            found=f"`{facts.accuracy}` at step {accuracy[0][0]} only",
            expected="a value before training and one after it",
        )
    before = accuracy[0][1]
    after = accuracy[-1][1] if facts.checkpoint_rule == "final" else max(value for _, value in accuracy[1:])
    shared = facts.model_dump(exclude={"accuracy", "teacher_accuracy", "gap_stderr"})
    measured = {
        "before": before,
        "after": after,
        "improvement": after - before,
        "improvement_stderr": said(facts.improvement_stderr),
        "num_steps": accuracy[-1][0],
    }
    try:
        return OutsideRun(**(shared | measured | _gap(study, file, facts, series)))
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(
            "the log's numbers are not accuracies",
            where=f"{file}, {'.'.join(map(str, first['loc']))}",
            found=repr(first.get("input")),
            expected="shares between 0 and 1 (not per cent)",
        ) from None


def _gap(study: Study, file: Path, facts: LogFacts, series: Series) -> dict[str, Any]:
    """The gap that was logged, else the one that this study measured for the same model, task and hint config."""
    if facts.teacher_accuracy is not None:
        if facts.gap_stderr is None:
            raise DataError(
                "the gap has no standard error", where=str(file), fix=f"give `gap_stderr`, or declare it `{UNKNOWN}`"
            )
        teacher, student = (_metric(series, name, file)[0][1] for name in (facts.teacher_accuracy, facts.accuracy))
        return {"gap": teacher - student, "gap_stderr": said(facts.gap_stderr)}
    # A gap belongs to its model and task: another model's would be a guess.
    own = {facts.model, facts.family, facts.task} == {OWN}
    gaps = [gap for gap in study.records("gaps", GapEstimate) if gap.hint == facts.hint and own]
    if not gaps:
        raise DataError(
            f"nothing says what the gap of `{facts.hint}` is",
            where=str(file),
            expected="`teacher_accuracy` in the facts, or a gap that this study measured",
            fix=f"name the metric, or probe the hint config here and set model, family and task to `{OWN}`",
        )
    # The latest, if a probe was repeated.
    gap = gaps[-1]
    consensus = gap.consensus_gap
    return {
        "gap": gap.gap.value,
        "gap_stderr": said(gap.gap.stderr),
        "consensus_gap": consensus.value if consensus is not None else None,
        "consensus_gap_stderr": said(consensus.stderr) if consensus is not None else None,
        "num_units": gap.gap.num_units,
        "improvement_units": facts.num_units,
    }


def _metric(series: Series, name: str, file: Path) -> list[tuple[int, float]]:
    if series.get(name):
        return series[name]
    near = difflib.get_close_matches(name, series, n=3, cutoff=0.3)
    raise DataError(
        f"the log has no metric `{name}`",
        where=str(file),
        found=f"{len(series)} metrics",
        expected=f"a logged metric; near this name: {', '.join(near) or 'none'}",
    )


def read_log(file: Path, kind: LogKind) -> Series:
    """Every finite number that the log holds, by metric; DataError when it is not a log of that kind."""
    readers = {"trl": _trl_rows, "verl": _verl_rows, "wandb": _wandb_rows}
    series: Series = {}
    try:
        for step, metrics in readers[kind](file):
            for name, value in metrics.items():
                # Logs mix numbers with texts, flags and NaN; only numbers can be an accuracy.
                if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                    series.setdefault(name, []).append((step, float(value)))
    except (OSError, UnicodeDecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"this is not a log of kind `{kind}`", where=str(file), found=str(error)[:200]) from None
    if not series:
        raise DataError(f"the log of kind `{kind}` holds no numbers", where=str(file))
    return series


def _trl_rows(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """trainer_state.json, or its `log_history` alone."""
    content = json.loads(file.read_text(encoding="utf-8"))
    for entry in content["log_history"] if isinstance(content, dict) else content:
        yield int(entry["step"]), {name: value for name, value in entry.items() if name != "step"}


def _verl_rows(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The file logger's `{"step": …, "data": {…}}` lines, or console lines `step:3 - metric:0.5 - …`."""
    for line in file.read_text(encoding="utf-8").splitlines():
        console = _CONSOLE.search(line)
        if console is not None:
            yield int(console[1]), _console_metrics(console[2])
        elif line.lstrip().startswith("{"):
            entry = json.loads(line)
            yield int(entry["step"]), entry.get("data", {k: v for k, v in entry.items() if k != "step"})


def _console_metrics(text: str) -> dict[str, float]:
    # From the right, because metric names may hold colons.
    pairs = (part.rpartition(":") for part in text.split(" - "))
    return {name.strip(): float(value) for name, _, value in pairs if re.fullmatch(r"[-+.\deE]+", value)}


def _wandb_rows(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """A history export as CSV; empty fields are steps at which a metric was not logged."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        column = next((name for name in _STEP_COLUMNS if name in (reader.fieldnames or ())), None)
        if column is None:
            raise ValueError(f"no step column ({', '.join(_STEP_COLUMNS)})")
        for row in reader:
            numbers = {name: _number(text) for name, text in row.items() if name != column}
            yield int(float(row[column])), {name: value for name, value in numbers.items() if value is not None}


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
