"""What hints are made of: the student's judged rollouts, and the key hints that the model extracted from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from predictor.engines.base import Engine
from predictor.probe.arms import ArmFactory, Attempts
from predictor.probe.instrument import Instrument, OnProgress, preflight
from predictor.records import Example, HintConfig, SamplingConfig


class Material:
    """The second stage of two-stage hints; a hint config that needs no extraction gets the rollouts as they are."""

    def __init__(self, factory: ArmFactory, instrument: Instrument, sampling: SamplingConfig) -> None:
        self._factory = factory
        self._instrument = instrument
        self._sampling = sampling

    def collect(
        self, hints: Sequence[HintConfig], examples: Sequence[Example], engine: Engine, on_progress: OnProgress
    ) -> int:
        """Extract the key hints that these hint configs show; the number of rollouts that had to be generated."""
        generated = 0
        rollouts = self._rollouts()
        for hint in hints:
            if hint.kind != "key_hints":
                continue
            jobs = self._factory.extraction_jobs(self._factory.extraction(hint), examples, rollouts)
            preflight(jobs, engine, self._sampling.model_copy(update={"max_tokens": hint.extraction_tokens}))
            generated += self._instrument.collect(
                jobs, stage=f"{hint.name}: key hints", on_progress=on_progress, max_tokens=hint.extraction_tokens
            )
        return generated

    def attempts(self, hints: Iterable[HintConfig]) -> dict[str, Attempts]:
        """The student's rollouts as each hint config needs them, by its name; key hints are there after `collect`."""
        rollouts = self._rollouts()
        return {hint.name: self._with_key_hints(hint, rollouts) for hint in hints}

    def _with_key_hints(self, hint: HintConfig, rollouts: Attempts) -> Attempts:
        if hint.kind != "key_hints":
            return rollouts
        extracted = self._instrument.attempts(self._factory.extraction(hint).key)
        return {
            place: replace(attempt, key_hints=extracted[place].text) if place in extracted else attempt
            for place, attempt in rollouts.items()
        }

    def _rollouts(self) -> Attempts:
        return self._instrument.attempts(self._factory.student().key)
