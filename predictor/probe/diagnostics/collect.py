"""One scoring pass over the student's stored rollouts: after its own prompt, and after each hint config's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from predictor.engines.base import ConsensusEngine, Ids, Panel, TokenContrast, check_aligned
from predictor.probe.arms import Job
from predictor.probe.diagnostics.tokens import TokenKinds
from predictor.store import ContrastRow, ContrastStore

_ROLLOUTS_AT_ONCE = 512
"""Rollouts between two writes: what a kill loses."""


@dataclass(frozen=True, slots=True)
class ContrastTask:
    """One stored rollout of the student, and the two prompts it is scored after."""

    arm_key: str
    example_id: str
    index: int
    prompt_hash: str
    panel: Panel
    """Student's prompt, then the hinted one."""


def contrast_tasks(student: Sequence[Job], teacher: Sequence[Job], frame: pd.DataFrame) -> list[ContrastTask]:
    """One task for each of the student's rollouts in `frame` that the hint config has a context for."""
    plain = {job.example.example_id: job.prompts[0].ids for job in student}
    hinted = by_rollout(teacher)
    tasks = []
    columns = (frame[name] for name in ("example_id", "index", "completion_ids"))
    for name, index, ids in zip(*columns, strict=True):
        job = hinted.get((name, int(index)))
        if job is not None and job.shown:
            panel = Panel((plain[name], job.prompts[0].ids), tuple(map(int, ids)))
            tasks.append(ContrastTask(job.arm.key, name, int(index), job.prompts[0].hash, panel))
    return tasks


def by_rollout(jobs: Sequence[Job]) -> Mapping[tuple[str, int], Job]:
    """The job that each rollout belongs to, by (example id, index)."""
    return {(job.example.example_id, index): job for job in jobs for index in range(job.start, job.start + job.n)}


def collect_contrasts(
    tasks: Sequence[ContrastTask], engine: ConsensusEngine, temperature: float, store: ContrastStore
) -> Iterator[int]:
    """Score what is not stored yet and yield after every write how many rollouts are done.

    At temperature 0 the distributions are compared at temperature 1.
    """
    frame = store.read()
    columns = (frame[name] for name in ("arm_key", "example_id", "index", "prompt_hash"))
    have = {(arm, name, int(index), prompt) for arm, name, index, prompt in zip(*columns, strict=True)}
    todo = [t for t in tasks if (t.arm_key, t.example_id, t.index, t.prompt_hash) not in have]
    kinds = TokenKinds(engine.tokenizer)
    for start in range(0, len(todo), _ROLLOUTS_AT_ONCE):
        batch = todo[start : start + _ROLLOUTS_AT_ONCE]
        # Short answers repeat; each distinct one is scored once.
        panels = list(dict.fromkeys(task.panel for task in batch))
        found = dict(zip(panels, engine.contrast(panels, temperature or 1.0), strict=True))
        store.add([_row(task, found[task.panel], kinds.of(task.panel.completion_ids)) for task in batch])
        yield len(tasks) - len(todo) + start + len(batch)


def _row(task: ContrastTask, found: TokenContrast, kinds: Ids) -> ContrastRow:
    check_aligned(kinds, found.forward_kl, where=f"contrast of example `{task.example_id}`, rollout {task.index}")
    return ContrastRow(
        arm_key=task.arm_key,
        example_id=task.example_id,
        index=task.index,
        prompt_hash=task.prompt_hash,
        token_kind=kinds,
        **asdict(found),
    )
