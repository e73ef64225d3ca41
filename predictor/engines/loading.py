"""Loading causal models from local safetensors, and nothing else: no network, no remote code, no pickle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch

from predictor.engines.model_files import check_weights
from predictor.errors import EngineError, GapcastError, ModelError

DtypeName = Literal["auto", "float32", "bfloat16", "float16"]

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_dtype(dtype: DtypeName, device: torch.device) -> torch.dtype:
    """The named type; `auto` is bfloat16 on a GPU and float32 on a CPU."""
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return _DTYPES[dtype]


def default_device() -> torch.device:
    """The current CUDA device where there is one, else the CPU."""
    return torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")


def load_model(model_dir: Path, dtype: torch.dtype, device: torch.device) -> Any:
    """The directory's model in eval mode; ModelError unless every one of its weights is read from safetensors."""
    check_weights(model_dir)
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    # Small models load in milliseconds, and the bar would land in the middle of the commands' own.
    logging.disable_progress_bar()

    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            str(model_dir),
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise _refused(model_dir, found=str(error).strip().splitlines()[0]) from error
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise _refused(model_dir, found=f"{len(missing)} weights are missing, the first is {missing[0]}")
    return model.to(device).eval()


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Dropout off inside; afterwards every module is in the mode it was in before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def within_memory() -> Iterator[None]:
    """Running out of the device's memory inside becomes an EngineError that says what to lower."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise EngineError(
            "the device ran out of memory",
            where="transformers engine",
            found=str(error).strip().splitlines()[0],
            fix="free it of other programs, lower sampling.max_tokens, or use a smaller model.dtype",
        ) from error


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch could not allocate a tensor; on a CPU it has no error of its own for that."""
    if isinstance(error, GapcastError):
        return False
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _refused(model_dir: Path, found: str) -> ModelError:
    return ModelError(
        "the model's weights do not load",
        where=str(model_dir),
        found=found,
        expected="an architecture that transformers knows, and every weight its config.json asks for",
        fix="save the model again with `save_pretrained`; models with their own code are not supported",
    )
