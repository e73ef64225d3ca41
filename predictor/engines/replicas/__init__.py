"""Several engines of one model as Ray actors, one on each GPU; to everyone else they are one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from predictor.engines.base import Completion, Engine, OnDone, Request, ScoreRequest, check_lengths, check_scores
from predictor.engines.model_files import load_tokenizer
from predictor.engines.replicas.actor import Description, Work
from predictor.engines.replicas.deal import deal
from predictor.engines.replicas.fleet import Fleet
from predictor.records import SamplingConfig


class ReplicatedEngine:
    """Deals every call out to replicas of one engine; what a dead replica leaves, the others do.

    The replicas are the engine that `opener` opens in each actor, so names, versions and samples are that engine's:
    a study may go on with another number of them.
    """

    def __init__(self, opener: Callable[[], Engine], model_dir: Path, replicas: int, *, tokenizer: Any = None) -> None:
        self.tokenizer = load_tokenizer(model_dir) if tokenizer is None else tokenizer
        with ExitStack() as undo:
            self._fleet = Fleet(opener, model_dir, replicas)
            undo.callback(self._fleet.close)
            opened: Description = self._fleet.everywhere("describe")[0]
            undo.pop_all()
        self.name, self.version, self.max_model_len = opened.name, opened.version, opened.max_model_len
        self.reason = f"{opened.reason}; {replicas} replicas as Ray actors"

    def generate(
        self, requests: Sequence[Request], sampling: SamplingConfig, on_done: OnDone | None = None
    ) -> list[list[Completion]]:
        """n completions for each request, in order; `on_done` is called here, as each request finishes somewhere."""
        check_lengths(requests, sampling, self.max_model_len)
        completions: list[list[Completion]] = [[] for _ in requests]

        def finished(place: int, found: list[Completion]) -> None:
            completions[place] = found
            if on_done is not None:
                on_done(requests[place], found)

        deal(self._fleet, Work("generate", tuple(requests), sampling), finished)
        return completions

    def score(self, requests: Sequence[ScoreRequest]) -> list[tuple[float, ...]]:
        """Raw log-probability of every completion token after its prompt; one tuple for each request."""
        check_scores(requests, self.max_model_len)
        scores: list[tuple[float, ...]] = [()] * len(requests)
        deal(self._fleet, Work("score", tuple(requests)), scores.__setitem__)
        return scores

    def processes(self) -> tuple[int, ...]:
        """Process ids of the replicas."""
        return tuple(found.process for found in self._fleet.everywhere("describe"))

    def update_weights(self, model_dir: Path) -> None:
        """Serve the weights in `model_dir` on every replica, each proven by its canary; on an error, the old on all."""
        self._fleet.serve(model_dir)

    def release(self) -> None:
        """Every replica gives its accelerator's memory back until the next call."""
        self._fleet.everywhere("release")

    def close(self) -> None:
        """End the actors, and Ray where this engine started it."""
        self._fleet.close()
