"""Shares of rollouts and of pairs of rollouts, each with a standard error over examples or clusters."""

from __future__ import annotations

import numpy as np
import pandas as pd

from predictor.probe.measured import PLACE, judged_wrong, units_of
from predictor.records import Estimate
from predictor.stats import cluster_mean, repeated_samples


def pooled_share(rows: pd.DataFrame, column: pd.Series) -> Estimate:
    """Share of rollouts for which a yes/no column holds, every rollout counted once."""
    grouped = column.astype(float).groupby(rows["example_id"])
    return _weighted(rows, grouped.mean(), grouped.size())


def macro_share(rows: pd.DataFrame, column: pd.Series) -> Estimate:
    """The same share of each example, averaged over examples."""
    means = column.astype(float).groupby(rows["example_id"]).mean()
    return _weighted(rows, means, pd.Series(1.0, index=means.index))


def repeated_share(rows: pd.DataFrame) -> Estimate | None:
    """Share of examples whose several rollouts are all token for token the same; None with one rollout each.

    A seed that is used for every request makes it 1 (peers F20); greedy decoding does too, and then rightly.
    """
    groups = [list(map(tuple, ids)) for _, ids in rows.groupby("example_id")["completion_ids"]]
    several = [group for group in groups if len(group) > 1]
    if not several:
        return None
    return cluster_mean([float(repeated_samples([group])) for group in several], kind="share")


def conditional(
    teacher: pd.DataFrame, student: pd.DataFrame, *, given: bool, by_rollout: bool
) -> dict[str, Estimate | None]:
    """P(teacher right | student's verdict is `given`): `pooled` over the student's rollouts and `macro` over examples.

    An arm that answers to the student's rollouts is paired with them one by one; any other arm says for each of an
    example's student rollouts what all its own rollouts say on average.
    """
    rows = _pairs(teacher, student) if by_rollout else _crossed(teacher, student)
    met = rows[rows["student"] == given]
    if met.empty:
        return {"pooled": None, "macro": None}
    grouped = met.groupby("example_id")["teacher"]
    shares, counts = grouped.mean(), grouped.size()
    return {
        "pooled": _weighted(teacher, shares, counts),
        "macro": _weighted(teacher, shares, pd.Series(1.0, index=shares.index)),
    }


def same_output(teacher: pd.DataFrame, student: pd.DataFrame) -> Estimate | None:
    """P(the teacher's rollout gives the failed attempt's very answer), paired by index; None without failures."""
    joined = _answers(teacher).merge(_answers(student), on=PLACE, suffixes=("", "_student"))
    failed = joined[judged_wrong(joined["correct_student"])].reset_index(drop=True)
    if failed.empty:
        return None
    return pooled_share(failed, failed["answer"] == failed["answer_student"])


def net_recovery(
    teacher: pd.DataFrame, bare: pd.DataFrame, student: pd.DataFrame, *, by_rollout: bool
) -> Estimate | None:
    """Pooled recovery minus the bare resample's, on the same failed rollouts; None without failures."""
    make = _pairs if by_rollout else _crossed
    met = make(teacher, student).merge(make(bare, student), on=[*PLACE, "student"], suffixes=("", "_bare"))
    met = met[~met["student"]]
    if met.empty:
        return None
    grouped = (met["teacher"] - met["teacher_bare"]).groupby(met["example_id"])
    return _weighted(teacher, grouped.mean(), grouped.size(), kind="difference")


def _pairs(teacher: pd.DataFrame, student: pd.DataFrame) -> pd.DataFrame:
    joined = teacher[[*PLACE, "correct"]].merge(student[[*PLACE, "correct"]], on=PLACE, suffixes=("", "_student"))
    decided = joined.dropna(subset=["correct", "correct_student"])
    values = {"teacher": decided["correct"].astype(float), "student": decided["correct_student"].astype(bool)}
    return decided[PLACE].assign(**values)


def _crossed(teacher: pd.DataFrame, student: pd.DataFrame) -> pd.DataFrame:
    judged = teacher.dropna(subset=["correct"])
    shares = judged["correct"].astype(float).groupby(judged["example_id"]).mean()
    decided = student.dropna(subset=["correct"])
    decided = decided[decided["example_id"].isin(shares.index)]
    values = {"teacher": decided["example_id"].map(shares), "student": decided["correct"].astype(bool)}
    return decided[PLACE].assign(**values)


def _answers(frame: pd.DataFrame) -> pd.DataFrame:
    """What each rollout answers: what the checker read out of it, else its text."""
    answer = frame["extracted"].where(frame["extracted"] != "", frame["text"].str.strip())
    return frame[[*PLACE, "correct", "unit"]].assign(answer=answer)


def _weighted(rows: pd.DataFrame, values: pd.Series, weights: pd.Series, kind: str = "share") -> Estimate:
    units = units_of(rows)
    chosen = [units[name] for name in values.index]
    weights_E = weights.loc[values.index].to_numpy(dtype=np.float64)
    return cluster_mean(
        values.to_numpy(dtype=np.float64),
        chosen,
        weights_E=weights_E,
        kind="difference" if kind == "difference" else "share",
    )
