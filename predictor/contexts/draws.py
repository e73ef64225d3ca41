"""Which other examples are shown to whom: an order of its own for each example and purpose, fixed by names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from predictor.records import Example, derive_seed


@dataclass(frozen=True)
class Pool:
    """Solved examples that hints of others and demonstrations are drawn from."""

    examples: Sequence[Example]

    def ranked(self, example: Example, *parts: str | int) -> Iterator[Example]:
        """The other examples in an order of their own for each example and purpose, without replacement.

        An example's rank depends on its id and on nothing else in the pool, so one more example changes a draw only by
        being in it.
        """
        for position in np.argsort(_mixed(self._digests ^ np.uint64(derive_seed(*parts))), kind="stable"):
            other = self.examples[position]
            if other.example_id != example.example_id and not _gives_away(other, example):
                yield other

    @cached_property
    def _digests(self) -> NDArray[np.uint64]:
        return np.array([derive_seed(example.example_id) for example in self.examples], dtype=np.uint64)


def _gives_away(other: Example, example: Example) -> bool:
    """Whether the other example is this one under another id: same question, same answer."""
    return other.answer is not None and other.answer == example.answer and other.question == example.question


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each number's bits scrambled on their own (the finaliser of splitmix64, Steele et al. 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
