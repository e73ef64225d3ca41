"""What the loss will hold in memory, before it does; and one clear error where a step runs out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from predictor.engines.loading import is_out_of_memory
from predictor.errors import RunError, StudyError
from predictor.records import RunConfig
from trainer.config import rollout_sampling
from trainer.model import LanguageModel

# Float32 copies at the peak of the full-vocabulary loss, as measured on a GPU (tests/trainer/test_gpu.py).
_LOGIT_COPIES = 10
_HEAD_COPIES = 3
_FLOAT = 4
_GIB = 2**30


def loss_bytes(config: RunConfig, *, vocab_size: int, hidden_size: int) -> int:
    """Bytes that the loss holds at its peak: ten copies of one chunk of logits, three of the head's gradient.

    A chunk is never longer than the tokens of one micro-batch.
    """
    training = config.training
    rows = min(training.micro_batch, training.prompts_per_step * training.rollouts_per_prompt)
    positions = min(training.support.chunk, rows * rollout_sampling(config).max_tokens)
    return _FLOAT * vocab_size * (_LOGIT_COPIES * positions + _HEAD_COPIES * hidden_size)


def check_memory(config: RunConfig, model: LanguageModel, *, free: int | None = None) -> None:
    """StudyError when the loss would not fit in what is free on the model's device (or in `free` bytes)."""
    shape = model.network.config.get_text_config(decoder=True)
    needed = loss_bytes(config, vocab_size=shape.vocab_size, hidden_size=shape.hidden_size)
    available = free_bytes(model.device) if free is None else free
    if needed > available:
        raise StudyError(
            "the loss over the vocabulary does not fit in memory",
            where="training.overrides.support.chunk",
            found=f"{needed / _GIB:.1f} GiB for {config.training.support.chunk} positions of {shape.vocab_size} logits",
            expected=f"at most the {available / _GIB:.1f} GiB that are free on {model.device}",
            fix="lower training.overrides.support.chunk; the loss does not depend on it",
        )


def free_bytes(device: torch.device) -> int:
    """Memory that is free on the device; on a CPU what Linux says could be had without swapping."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


@contextmanager
def within_memory() -> Iterator[None]:
    """A step that runs out of the device's memory becomes a RunError that says what to lower."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise RunError(
            "training ran out of memory",
            found=str(error).strip().splitlines()[0],
            fix="lower training.overrides.micro_batch, which changes no number, or training.overrides.max_tokens",
        ) from error
