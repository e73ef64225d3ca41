"""Sampling noise fixed by (request seed, sample index, position) alone, never by what else is in the batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def uniforms(seed: int, index: int, count: int) -> npt.NDArray[np.float64]:
    """`count` numbers in [0, 1), one for each position of sample `index`; a shorter call gives a prefix.

    Philox is keyed by (seed, index), so samples of one request and of different requests are independent streams.
    """
    return np.random.Generator(np.random.Philox(key=[seed % 2**64, index])).random(count)
