"""What a user sees on standard error while engines start: nothing, unless something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

QUIET = """
import sys
from pathlib import Path
from predictor.engines import Request, open_engine
from predictor.records import ModelConfig, SamplingConfig

engine = open_engine(ModelConfig(path="miniature/llama-s", engine=sys.argv[1]), Path())
found = engine.generate([Request("r", (1, 2, 3), 2, 0)], SamplingConfig(max_tokens=2))
engine.close()
print(len(found[0]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_an_engine_starts_and_ends_without_a_word(engine: str) -> None:
    hidden = ("VLLM_LOGGING_LEVEL", "TORCH_CPP_LOG_LEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [sys.executable, "-c", QUIET, engine], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("2\n", "", 0)
