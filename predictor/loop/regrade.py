"""Judge stored rollouts again: another checker or version, the same texts, nothing generated."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from predictor.checkers import build_checker
from predictor.errors import DataError
from predictor.probe import NOT_JUDGED, Effort, ProbeResult, estimate_study
from predictor.records import Verdict
from predictor.store import Study, judged
from predictor.tasks import load_examples


@dataclass(frozen=True, slots=True)
class Regraded:
    """What judging again changed."""

    num_rollouts: int
    num_changed: int
    """Rollouts whose verdict is another one now."""
    result: ProbeResult


def regrade(study: Study) -> Regraded:
    """Judge every stored rollout of the study's arms anew, and write rollouts and gaps.jsonl from the verdicts."""
    data = load_examples(study.config.task, study.path)
    examples = {example.example_id: example for example in data.train + data.eval}
    checker = build_checker(study.config.task.checker)
    frame = study.rollouts.read()
    unknown = sorted(set(frame["example_id"]) - set(examples))
    if unknown:
        raise DataError(
            "stored rollouts belong to examples that the task no longer has",
            where=str(study.path / "rollouts"),
            found=", ".join(unknown[:5]),
            fix="restore the example file that the rollouts were made from",
        )
    rows = zip(frame["text"], frame["example_id"], frame["checker"], frame["reason"], strict=True)
    verdicts = [
        Verdict(correct=None, reason=reason, checker=judge, checker_version="1")
        if judge == NOT_JUDGED
        else checker.check(text, examples[name])
        for text, name, judge, reason in rows
    ]
    changed = sum(judged(old) != new.correct for old, new in zip(frame["correct"], verdicts, strict=True))
    study.rollouts.replace_all(_with_verdicts(frame, verdicts))
    return Regraded(len(frame), changed, estimate_study(study, data, None, Effort()))


def _with_verdicts(frame: pd.DataFrame, verdicts: list[Verdict]) -> pd.DataFrame:
    columns = {
        "correct": pd.array([verdict.correct for verdict in verdicts], dtype="boolean"),
        "extracted": [verdict.extracted for verdict in verdicts],
        "reason": [verdict.reason for verdict in verdicts],
        "checker": [verdict.checker for verdict in verdicts],
        "checker_version": [verdict.checker_version for verdict in verdicts],
    }
    return frame.assign(**columns)
