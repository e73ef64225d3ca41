"""On an NVIDIA GPU an engine makes room for a training process and comes back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from predictor.engines import Request
from predictor.engines.transformers import TransformersEngine
from predictor.records import SamplingConfig

pytestmark = pytest.mark.gpu


def test_a_released_engine_leaves_the_gpu_until_its_next_call(miniature: Path) -> None:
    engine = TransformersEngine.from_pretrained(miniature)
    requests = [Request("r", (5, 6, 7), 4, 11)]
    before = engine.generate(requests, SamplingConfig(max_tokens=6))
    weights = sum(parameter.numel() * parameter.element_size() for parameter in engine.model.parameters())
    held = torch.cuda.memory_allocated()
    engine.release()
    assert held - torch.cuda.memory_allocated() >= weights
    assert engine.generate(requests, SamplingConfig(max_tokens=6)) == before
    assert torch.cuda.memory_allocated() >= weights
