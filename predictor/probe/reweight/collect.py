"""Scores of stored rollouts under consensus policies: what is missing is computed, finished work is never repeated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from predictor.engines.base import ConsensusEngine, Ids, Panel, PanelMean, PanelScore
from predictor.probe.arms import Arm, ArmFactory, Job
from predictor.probe.instrument import OnProgress
from predictor.records import HintConfig, SamplingConfig, content_hash, utc_now
from predictor.store import ScoreRow, ScoreStore

_GROUPS = 4
"""Groups of hints that are left out in turn: each costs as much as the mean itself."""
_TASKS_AT_ONCE = 32
"""Examples between two writes: what a kill loses."""


@dataclass(frozen=True)
class ScoreTask:
    """The distinct stored completions of one example, to be scored under one consensus policy."""

    job: Job
    """The consensus job: the example and its hinted prompts."""
    proposals: Mapping[str, Ids]
    """The prompts that stored rollouts answered, by hash."""
    completions: tuple[Ids, ...]

    @property
    def fingerprint(self) -> str:
        """Fixed by the hinted prompts, the answered prompts and the completions."""
        hinted = [prompt.hash for prompt in self.job.prompts]
        return content_hash([hinted, sorted(self.proposals), [list(ids) for ids in self.completions]])[:20]

    def panels(self) -> list[Panel]:
        """One panel for each completion: hinted prompts first."""
        prompts = (*(prompt.ids for prompt in self.job.prompts), *self.proposals.values())
        return [Panel(prompts, ids) for ids in self.completions]


def proposal_arms(factory: ArmFactory, hint: HintConfig) -> list[Arm]:
    """Arms whose rollouts are reweighted: student and bare resample, the teacher, and another example's hint."""
    arms = [factory.student(), factory.control(hint, "none"), factory.teacher(hint)]
    return [*arms, *(factory.control(hint, name) for name in hint.control_kinds if name == "other_example")]


def score_tasks(consensus: Sequence[Job], sampled: Sequence[Job], frame: pd.DataFrame) -> list[ScoreTask]:
    """One task for each consensus job whose example has rollouts in `frame` that answer a prompt of `sampled`."""
    prompts: dict[str, dict[str, Ids]] = {}
    for job in sampled:
        prompts.setdefault(job.example.example_id, {})[job.prompts[0].hash] = job.prompts[0].ids
    groups = {str(name): group for name, group in frame.groupby("example_id", sort=False)}
    tasks = []
    for job in consensus:
        known = prompts.get(job.example.example_id, {})
        rows = groups.get(job.example.example_id)
        rows = None if rows is None else rows[rows["prompt_hash"].isin(known)]
        if rows is not None and len(rows):
            answered = {key: known[key] for key in sorted(set(rows["prompt_hash"]))}
            tasks.append(ScoreTask(job, answered, tuple(sorted({tuple(map(int, c)) for c in rows["completion_ids"]}))))
    return tasks


def collect_scores(
    tasks: Sequence[ScoreTask], engine: ConsensusEngine, sampling: SamplingConfig, store: ScoreStore
) -> Iterator[int]:
    """Score what is not stored yet and yield after every write how many tasks are done; nothing at temperature 0."""
    if sampling.temperature == 0.0:
        return
    scored = store.read({task.job.arm.key for task in tasks})
    have = set(zip(scored["arm_key"], scored["example_id"], scored["fingerprint"], strict=True))
    keys = [(task.job.arm.key, task.job.example.example_id, task.fingerprint) for task in tasks]
    todo = [task for task, key in zip(tasks, keys, strict=True) if key not in have]
    for start in range(0, len(todo), _TASKS_AT_ONCE):
        batch = todo[start : start + _TASKS_AT_ONCE]
        rows = [row for group in _alike(batch) for row in _scored(group, engine, sampling)]
        store.append(rows)
        yield len(tasks) - len(todo) + start + len(batch)


def _alike(tasks: Sequence[ScoreTask]) -> list[list[ScoreTask]]:
    """Tasks under the same mean of the same number of hints, which one engine call can score."""
    groups: dict[tuple[object, ...], list[ScoreTask]] = {}
    for task in tasks:
        arm = task.job.arm
        groups.setdefault((arm.mean, arm.alpha, len(task.job.prompts)), []).append(task)
    return list(groups.values())


def _scored(tasks: Sequence[ScoreTask], engine: ConsensusEngine, sampling: SamplingConfig) -> Iterator[ScoreRow]:
    arm, num_hints = tasks[0].job.arm, len(tasks[0].job.prompts)
    mean = PanelMean(num_hints, arm.mean or "arithmetic", arm.alpha, hint_groups(num_hints))
    scores = iter(engine.score_panels([panel for task in tasks for panel in task.panels()], sampling, mean))
    for task in tasks:
        for ids in task.completions:
            yield _row(task, ids, next(scores), engine)


def hint_groups(num_hints: int) -> tuple[tuple[int, ...], ...]:
    """At most 4 groups of hints of nearly equal size; none when leaving one out would leave nothing."""
    if num_hints < 2:
        return ()
    return tuple(tuple(map(int, group)) for group in np.array_split(np.arange(num_hints), min(_GROUPS, num_hints)))


def _row(task: ScoreTask, ids: Ids, score: PanelScore, engine: ConsensusEngine) -> ScoreRow:
    return ScoreRow(
        arm_key=task.job.arm.key,
        example_id=task.job.example.example_id,
        fingerprint=task.fingerprint,
        completion_ids=ids,
        policy_logprob=score.policy,
        without_logprobs=score.without,
        proposals=tuple(task.proposals),
        proposal_logprobs=score.plain,
        raw_logprobs=score.raw,
        engine=engine.name,
        engine_version=engine.version,
        time_utc=utc_now(),
    )


def score_progress(on_progress: OnProgress, done: Iterator[int], total: int) -> None:
    """Run the collection to its end under the stage `consensus scores`."""
    on_progress("consensus scores", 0, total)
    for count in done:
        on_progress("consensus scores", count, total)
    on_progress("consensus scores", total, total)
