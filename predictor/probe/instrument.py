"""The one instrument: requests in, judged rollouts on disk. Probing and recording both use it (design, rule 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from predictor.checkers import Checker
from predictor.contexts import Attempt
from predictor.engines.base import Completion, ConsensusEngine, ConsensusRequest, Engine, Request
from predictor.engines.texts import ids_text
from predictor.errors import PromptError, StudyError
from predictor.probe.arms import Job
from predictor.records import SamplingConfig, Verdict, utc_now
from predictor.store import RolloutRow, RolloutStore, judged

NOT_JUDGED = "none"
"""Name of the checker of rollouts that answer no question."""
_NO_ANSWER = Verdict(correct=None, reason="key hints, not an answer", checker=NOT_JUDGED, checker_version="1")
OnProgress = Callable[[str, int, int], None]
"""Called with (stage, rollouts done, rollouts in all)."""


class Instrument:
    """Sends jobs to an engine, judges the text, and stores shards as they fill; finished jobs are never sent again."""

    def __init__(
        self,
        engine: Engine,
        checker: Checker,
        sampling: SamplingConfig,
        store: RolloutStore,
        *,
        shard_rollouts: int,
        baseline: str = "",
    ) -> None:
        """`baseline` is the key of the student arm that everything else is compared with."""
        self.engine = engine
        self._baseline = baseline
        self._checker = checker
        self._sampling = sampling
        self._store = store
        self._shard_rollouts = shard_rollouts
        self._pending: list[RolloutRow] = []
        self._serving: Path | None = None

    def serve(self, model_dir: Path) -> None:
        """Make the engine serve these weights; nothing happens when it does already."""
        if self._serving != model_dir:
            self.engine.update_weights(model_dir)
            self._serving = model_dir

    def started_with(self, model_dir: Path) -> None:
        """Say which weights the engine was opened with."""
        self._serving = model_dir

    def collect(
        self, jobs: Sequence[Job], *, stage: str, on_progress: OnProgress, max_tokens: int | None = None
    ) -> int:
        """Fill the arms of `jobs` in one engine call; the number of rollouts that had to be generated.

        `max_tokens` replaces the decoding's own for texts that are no answers.
        """
        stored = self._store.read({self._baseline, *(job.arm.key for job in jobs)})
        todo = {job.request_id: job for job in self._missing(jobs, stored)}
        if todo:
            self._refuse_other_engine(stored)
        total = sum(job.n for job in jobs)
        done = total - sum(job.n for job in todo.values())
        on_progress(stage, done, total)

        def finished(request: Request, completions: list[Completion]) -> None:
            nonlocal done
            self._keep(todo[request.request_id], completions)
            done += len(completions)
            on_progress(stage, done, total)

        requests = [Request(name, job.prompts[0].ids, job.n, job.seed) for name, job in todo.items()]
        sampling = self._sampling
        if max_tokens is not None:
            sampling = sampling.model_copy(update={"max_tokens": max_tokens})
        self.engine.generate(requests, sampling, finished)
        self._flush()
        return sum(job.n for job in todo.values())

    def collect_consensus(
        self, jobs: Sequence[Job], engine: ConsensusEngine, *, stage: str, on_progress: OnProgress
    ) -> int:
        """Fill consensus arms by ensemble decoding, in slices that a kill loses at most one of."""
        todo = self.missing(jobs)
        total = sum(job.n for job in jobs)
        done = total - sum(job.n for job in todo)
        on_progress(stage, done, total)
        for slice_ in _slices(todo, 32):
            requests = [ConsensusRequest(j.request_id, tuple(p.ids for p in j.prompts), j.n, j.seed) for j in slice_]
            arm = slice_[0].arm
            found = engine.generate_consensus(requests, self._sampling, arm.mean or "arithmetic", alpha=arm.alpha)
            for job, completions in zip(slice_, found, strict=True):
                self._keep(job, completions, engine)
                done += job.n
            self._flush()
            on_progress(stage, done, total)
        return sum(job.n for job in todo)

    def attempts(self, arm_key: str) -> dict[tuple[str, int], Attempt]:
        """The judged rollouts of an arm by (example id, index)."""
        frame = self._store.read([arm_key])
        attempts: dict[tuple[str, int], Attempt] = {}
        columns = ["example_id", "index", "text", "correct", "reason", "checker", "checker_version"]
        for name, index, text, correct, reason, checker, version in zip(*(frame[c] for c in columns), strict=True):
            verdict = Verdict(
                correct=judged(correct),
                reason=reason,
                checker=checker,
                checker_version=version,
            )
            attempts[(name, int(index))] = Attempt(text, verdict, int(index))
        return attempts

    def with_engine(self, engine: Engine) -> Instrument:
        """The same instrument on another engine: same checker, decoding and store."""
        return Instrument(engine, self._checker, self._sampling, self._store, shard_rollouts=self._shard_rollouts)

    def missing(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs, or what is left of them, whose rollouts are not stored yet.

        StudyError when an example's stored rollouts answer another prompt than it has now.
        """
        return self._missing(jobs, self._store.read({job.arm.key for job in jobs}))

    def _missing(self, jobs: Sequence[Job], stored: pd.DataFrame) -> list[Job]:
        if stored.empty:
            return list(jobs)
        columns = (stored[name] for name in ("arm_key", "example_id", "index", "prompt_hash"))
        prompts = {(key, name, int(index)): prompt for key, name, index, prompt in zip(*columns, strict=True)}
        missing: list[Job] = []
        for job in jobs:
            have = [prompts.get((job.arm.key, job.example.example_id, job.start + i)) for i in range(job.n)]
            if have[0] is not None and have[0] != job.prompts[0].hash:
                raise _changed_prompt(job, have[0])
            # A request's rollouts are stored together, so those it has are its first ones.
            count = sum(prompt is not None for prompt in have)
            if count < job.n:
                missing.append(_tail_of(job, count))
        return missing

    def _refuse_other_engine(self, stored: pd.DataFrame) -> None:
        """StudyError when the student was sampled by another engine: their difference would pass for a gap."""
        others = set(stored.loc[stored["arm_key"] == self._baseline, "engine"]) - {self.engine.name}
        if others:
            raise StudyError(
                "a study's rollouts come from one engine, and its student was sampled by another one",
                where="model.engine",
                found=self.engine.name,
                expected=", ".join(sorted(others)),
                fix=f"set model.engine: {min(others)}, or start a new study for {self.engine.name}",
            )

    def _keep(self, job: Job, completions: Sequence[Completion], engine: Engine | None = None) -> None:
        self._pending += self._rows(job, completions, engine or self.engine)
        if len(self._pending) >= self._shard_rollouts:
            self._flush()

    def _flush(self) -> None:
        self._store.append(self._pending)
        self._pending = []

    def _rows(self, job: Job, completions: Sequence[Completion], engine: Engine) -> Iterator[RolloutRow]:
        """The completions of one request, decoded and judged; what they share is worked out once."""
        prompt, time_utc, seed = job.prompts[0], utc_now(), job.seed
        for index, completion in enumerate(completions, job.start):
            text = ids_text(engine.tokenizer, completion.ids)
            verdict = _NO_ANSWER if job.arm.role == "extract" else self._checker.check(text, job.example)
            answer = text.strip()
            yield RolloutRow(
                arm_key=job.arm.key,
                arm=job.arm.name,
                example_id=job.example.example_id,
                unit=job.example.unit,
                split=job.example.split,
                index=index,
                has_context=bool(job.shown) or len(job.prompts) > 1,
                prompt_hash=prompt.hash,
                prompt_len=len(prompt.ids),
                completion_ids=completion.ids,
                text=text,
                finish_reason=completion.finish_reason,
                logprob_sum=sum(completion.logprobs),
                correct=verdict.correct,
                extracted=verdict.extracted,
                reason=verdict.reason,
                copied=bool(answer) and answer in job.shown,
                checker=verdict.checker,
                checker_version=verdict.checker_version,
                seed=seed,
                engine=engine.name,
                engine_version=engine.version,
                time_utc=time_utc,
            )


def _changed_prompt(job: Job, stored: str) -> StudyError:
    return StudyError(
        "an example's prompt is not the one its stored rollouts answered",
        where=f"example `{job.example.example_id}`, arm `{job.arm.name}`",
        found=f"prompt {job.prompts[0].hash}",
        expected=f"prompt {stored}",
        fix="restore the example, give the changed one a new example_id, or start a new study",
    )


def _tail_of(job: Job, count: int) -> Job:
    return Job(job.arm, job.example, job.start + count, job.n - count, job.prompts, job.shown)


def _slices(jobs: Sequence[Job], size: int) -> Iterable[Sequence[Job]]:
    """Consecutive jobs of one arm, at most `size` at a time."""
    start = 0
    while start < len(jobs):
        end = start
        while end < len(jobs) and end - start < size and jobs[end].arm == jobs[start].arm:
            end += 1
        yield jobs[start:end]
        start = end


def preflight(jobs: Sequence[Job], engine: Engine, sampling: SamplingConfig) -> None:
    """Raise PromptError before any work when a prompt with its completion does not fit the model's context."""
    longest = max(jobs, key=lambda job: max(len(p.ids) for p in job.prompts), default=None)
    if longest is None:
        return
    length = max(len(p.ids) for p in longest.prompts)
    if length + sampling.max_tokens > engine.max_model_len:
        raise PromptError(
            "a prompt does not fit the model's context",
            where=f"arm `{longest.arm.name}`, example `{longest.example.example_id}`",
            found=f"{length} prompt tokens + sampling.max_tokens {sampling.max_tokens}",
            expected=f"at most {engine.max_model_len} tokens",
            fix="lower sampling.max_tokens, shorten the hint, or drop the example; nothing is cut silently",
        )
