"""The loss is priced before it is paid, and what does not fit is one error that names what to lower."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from predictor.engines import ScoreRequest
from predictor.engines.loading import within_memory as engine_memory
from predictor.engines.vllm import check_score_memory
from predictor.errors import EngineError, PromptError, RunError, StudyError
from trainer import train as train_module
from trainer.config import load_run
from trainer.memory import check_memory, free_bytes, loss_bytes, within_memory
from trainer.train import load_learner, take_step

WriteRun = Callable[..., Path]
QWEN = {"vocab_size": 151_936, "hidden_size": 4096}


def test_a_loss_is_priced_by_its_chunk_and_not_by_its_tokens(write_run: WriteRun) -> None:
    """F19: logits of 8,192 positions over 152k entries are 5 GB a copy; a chunk of 256 holds a thirtieth of that."""
    many = {"prompts_per_step": 32, "rollouts_per_prompt": 8, "micro_batch": 64, "max_tokens": 512}
    runs = {
        chunk: load_run(write_run(f"run{chunk}", training={**many, "support": {"kind": "full", "chunk": chunk}}))
        for chunk in (256, 8192, 10**9)
    }
    head = 3 * 4 * QWEN["hidden_size"] * QWEN["vocab_size"]
    found = {chunk: loss_bytes(config, **QWEN) - head for chunk, config in runs.items()}
    assert found[8192] == 10 * 4 * 8192 * 151_936
    assert found[256] == found[8192] / 32
    assert found[10**9] == 10 * 4 * 64 * 512 * 151_936, "no chunk is longer than the tokens of a micro-batch"


def test_a_loss_that_does_not_fit_names_the_setting_to_lower(write_run: WriteRun) -> None:
    """F19: refused before the first step, with what it needs, what is free, and the setting."""
    directory = write_run()
    config, student = load_run(directory), load_learner(load_run(directory), directory).student
    with pytest.raises(StudyError, match="does not fit in memory") as caught:
        check_memory(config, student, free=1000)
    assert caught.value.where == "training.overrides.support.chunk"
    assert "GiB" in caught.value.expected
    check_memory(config, student)
    assert 2**20 < free_bytes(torch.device("cpu")) < 2**50


def test_an_allocation_that_fails_is_one_error_with_what_to_lower(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F19: in a training step and in an engine; every other error passes as it is."""
    directory = write_run()
    learner = load_learner(load_run(directory), directory)
    monkeypatch.setattr(train_module, "score_and_compare", lambda *_: torch.empty(1 << 55))
    with pytest.raises(RunError, match="ran out of memory") as caught:
        take_step(learner, 0, [])
    assert "micro_batch" in caught.value.fix
    with pytest.raises(EngineError, match="ran out of memory") as told, engine_memory():
        torch.empty(1 << 55)
    assert "sampling.max_tokens" in told.value.fix
    for passing in (engine_memory, within_memory):
        with pytest.raises(RuntimeError, match="must match"), passing():
            torch.zeros(2) + torch.zeros(3)
    with pytest.raises(EngineError, match="ran out") as inner, within_memory(), engine_memory():
        torch.empty(1 << 55)
    assert inner.value.where == "transformers engine", "the engine's own words are kept"


def test_a_sequence_whose_logits_vllm_would_hold_at_once_is_refused() -> None:
    """F19: 8,192 tokens of a 152k vocabulary are more than vLLM's start-up profiling has counted."""
    fits, long = ScoreRequest((1,) * 2048, (2,) * 512), ScoreRequest((1,) * 4096, (2,) * 4096)
    check_score_memory([fits], 151_936)
    with pytest.raises(PromptError, match="too long to be scored") as caught:
        check_score_memory([fits, long], 151_936)
    assert caught.value.where == "score request 1"
    assert "model.engine: transformers" in caught.value.fix
