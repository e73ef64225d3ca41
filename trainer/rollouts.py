"""On-policy rollouts: the student answers without the hint, and each answer becomes a row for both prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from predictor.checkers import Checker
from predictor.contexts import Attempt, ContextBuilder, HintContext
from predictor.engines.base import Engine, Ids, Request, check_lengths
from predictor.engines.texts import ids_text
from predictor.prompts import PromptPair, render_pair, render_prompt
from predictor.records import Example, RunConfig, derive_seed
from trainer.batching import Row
from trainer.config import rollout_sampling


@dataclass(frozen=True, slots=True)
class Draw:
    """One example of one step, and the seed of its rollouts."""

    example: Example
    seed: int


@dataclass(frozen=True, slots=True)
class StepRollouts:
    """What one step learns from, and what is counted about it."""

    rows: tuple[Row, ...]
    """Rollouts whose hint could be built; the others carry no loss and are not part of any mean."""
    num_rollouts: int
    num_tokens: int
    num_truncated: int

    @property
    def num_live_tokens(self) -> int:
        """Tokens that carry loss."""
        return sum(len(row.completion_ids) for row in self.rows)


class Sampler:
    """Draws examples, samples rollouts from the student as it is now, and renders both prompts.

    Nothing here depends on earlier calls: step `n` of a resumed run is step `n` of the undisturbed one.
    """

    def __init__(self, config: RunConfig, train: Sequence[Example], engine: Engine, checker: Checker) -> None:
        self._config = config
        self._train = train
        self._engine = engine
        self._checker = checker
        self._sampling = rollout_sampling(config)
        self._contexts = ContextBuilder(config.hint, train, config.task.seed)
        self._pairs: dict[tuple[str, bool], PromptPair | None] = {}

    def draws(self, step: int) -> list[Draw]:
        """The step's slice of an endless sequence of epochs, each a permutation of its own."""
        size = self._config.training.prompts_per_step
        return [self._draw(position, step) for position in range(step * size, (step + 1) * size)]

    def sample(self, step: int) -> StepRollouts:
        """Rollouts of step `step` from the student prompt, then the rows to learn from."""
        draws = self.draws(step)
        requests = [
            Request(f"{step}/{index}", self.student_pair(d.example).student.ids, self._num_samples, d.seed)
            for index, d in enumerate(draws)
        ]
        completions = self._engine.generate(requests, self._sampling)
        groups = [(d.example, [c.ids for c in found], d.seed) for d, found in zip(draws, completions, strict=True)]
        flat = [completion for found in completions for completion in found]
        return StepRollouts(
            rows=tuple(self._rows(groups)),
            num_rollouts=len(flat),
            num_tokens=sum(len(completion.ids) for completion in flat),
            num_truncated=sum(completion.finish_reason == "length" for completion in flat),
        )

    def student_pair(self, example: Example) -> PromptPair:
        """A pair whose student side has no hint: the one that is trained on where it is known before the rollout."""
        pair = None if self._contexts.needs_attempt else self._rendered(example, hinted=True)
        pair = pair or self._rendered(example, hinted=False)
        if pair is None:
            raise AssertionError("a prompt without a hint can always be built")
        return pair

    def teacher_pairs(self, example: Example, group: Sequence[Ids], seed: int = 0) -> list[PromptPair | None]:
        """Both prompts of each rollout of one example; None where its hint cannot be built or the gating hides it.

        `seed` is the noise of extracting key hints, where the hint shows any.
        """
        if not self._contexts.needs_attempt:
            return [self._rendered(example, hinted=True)] * len(group)
        attempts = [self._attempt(example, index, ids) for index, ids in enumerate(group)]
        if self._config.hint.kind == "key_hints":
            attempts = self._with_key_hints(example, attempts, seed)
        contexts = [self._contexts.build(example, attempt, attempts) for attempt in attempts]
        return [None if context is None else self._render(example, context) for context in contexts]

    @property
    def _num_samples(self) -> int:
        return self._config.training.rollouts_per_prompt

    def _draw(self, position: int, step: int) -> Draw:
        epoch, place = divmod(position, len(self._train))
        example = self._train[
            _permutation(len(self._train), derive_seed(self._config.spec.seed, "order", epoch))[place]
        ]
        # With fewer examples than prompts in a step, one step spans epochs and meets an example again.
        return Draw(example, derive_seed(self._config.spec.seed, step, epoch, example.example_id))

    def _rows(self, groups: Sequence[tuple[Example, Sequence[Ids], int]]) -> Iterator[Row]:
        for example, group, seed in groups:
            for ids, pair in zip(group, self.teacher_pairs(example, group, seed), strict=True):
                if pair is not None:
                    yield Row(pair.student.ids, pair.teacher.ids, ids)

    def _attempt(self, example: Example, index: int, ids: Ids) -> Attempt:
        text = ids_text(self._engine.tokenizer, ids)
        return Attempt(text, self._checker.check(text, example), index)

    def _with_key_hints(self, example: Example, attempts: list[Attempt], seed: int) -> list[Attempt]:
        """The attempts with what the student as it is now extracts from those that are shown as key hints."""
        chosen = (self._contexts.peer(example, a, attempts) for a in attempts if self._contexts.is_open(a))
        peers = {peer.index: peer for peer in chosen if peer is not None}
        thinking = self._sampling.thinking.teacher
        asked = [
            render_prompt(self._contexts.extraction(example, peer), self._engine.tokenizer, thinking=thinking)
            for peer in peers.values()
        ]
        requests = [
            Request(f"{example.example_id}/{index}", prompt.ids, 1, derive_seed(seed, "extract", index))
            for index, prompt in zip(peers, asked, strict=True)
        ]
        sampling = self._sampling.model_copy(update={"max_tokens": self._config.hint.extraction_tokens})
        for index, (completion,) in zip(peers, self._engine.generate(requests, sampling), strict=True):
            text = ids_text(self._engine.tokenizer, completion.ids)
            attempts[index] = replace(attempts[index], key_hints=text)
        return attempts

    def _rendered(self, example: Example, *, hinted: bool) -> PromptPair | None:
        key = (example.example_id, hinted)
        if key not in self._pairs:
            context = self._contexts.build(example) if hinted else None
            missing = hinted and context is None
            self._pairs[key] = None if missing else self._render(example, context)
        return self._pairs[key]

    def _render(self, example: Example, context: HintContext | None) -> PromptPair:
        """PromptError unless the teacher prompt, too, leaves room for the longest completion."""
        pair = render_pair(example, context, self._engine.tokenizer, self._sampling.thinking)
        request = Request(f"teacher of {example.example_id}", pair.teacher.ids, 1, 0)
        check_lengths([request], self._sampling, self._engine.max_model_len)
        return pair


@lru_cache(maxsize=2)
def _permutation(size: int, seed: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).permutation(size).tolist())
