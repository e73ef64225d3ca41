"""Which engine serves a model here, and why, in one sentence."""

from __future__ import annotations

import importlib.util
import json
import os
from functools import partial
from pathlib import Path

from predictor.engines.base import ConsensusEngine, Engine
from predictor.engines.byte_tokenizer import ByteTokenizer
from predictor.engines.model_files import check_weights
from predictor.engines.models import resolve_model
from predictor.engines.scripted import TABLE_FILE, ScriptedEngine, ScriptedTable
from predictor.errors import ModelError
from predictor.records import ModelConfig

_INSTALL = 'pip install "gapcast[train]", or "gapcast[vllm]" with a GPU'


def open_engine(model: ModelConfig, base_dir: Path, *, max_model_len: int | None = None) -> Engine:
    """The engine that `model.engine` names; `auto` takes vLLM where it can serve the model here, else transformers.

    `engine.reason` says why. A directory with `scripted.json` is a scripted model and needs neither.
    """
    # Read when torch is imported: vLLM's CPU build would announce its memory policy at every start. Errors still show.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    model_dir = resolve_model(model.path, base_dir)
    if model.replicas > 1:
        return _replicated(model, base_dir, model_dir, max_model_len)
    if (model_dir / TABLE_FILE).is_file():
        return ScriptedEngine(ScriptedTable.load(model_dir))
    check_weights(model_dir)
    if model.engine == "transformers":
        return _transformers(model, model_dir, max_model_len, "model.engine asks for it")
    if model.engine == "vllm":
        return _vllm(model, model_dir, max_model_len, "model.engine asks for it")
    obstacle = vllm_obstacle(model_dir)
    if obstacle:
        return _transformers(model, model_dir, max_model_len, f"vLLM cannot serve the model here: {obstacle}")
    return _vllm(model, model_dir, max_model_len, "vLLM is installed and knows the model's architecture")


def open_consensus_engine(
    model: ModelConfig, base_dir: Path, probing: Engine, *, max_model_len: int | None = None
) -> ConsensusEngine:
    """The engine that decodes consensus policies: `probing` itself where it can, else a transformers engine."""
    if isinstance(probing, ConsensusEngine):
        return probing
    reason = "vLLM gives one prompt's distribution at a time, and the consensus policy averages several"
    return _transformers(model, resolve_model(model.path, base_dir), max_model_len, reason)


def vllm_obstacle(model_dir: Path) -> str:
    """Why vLLM cannot serve the directory's model here; empty when nothing speaks against it."""
    if importlib.util.find_spec("vllm") is None:
        return "the package is not installed"
    architectures = json.loads((model_dir / "config.json").read_text(encoding="utf-8")).get("architectures") or []
    from predictor.engines.vllm_runtime import platform_obstacle, supported_architectures

    unknown = [name for name in architectures if name not in supported_architectures()]
    if unknown or not architectures:
        return f"it does not know the architecture {', '.join(unknown) or '(config.json names none)'}"
    return platform_obstacle()


def _transformers(model: ModelConfig, model_dir: Path, max_model_len: int | None, reason: str) -> ConsensusEngine:
    _require("torch", "transformers")
    from predictor.engines.transformers import TransformersEngine

    return TransformersEngine.from_pretrained(model_dir, model.dtype, max_model_len=max_model_len, reason=reason)


def _vllm(model: ModelConfig, model_dir: Path, max_model_len: int | None, reason: str) -> Engine:
    _require("torch", "transformers", "vllm")
    from predictor.engines.vllm import VLLMEngine

    return VLLMEngine(model_dir, model.dtype, max_model_len=max_model_len, reason=reason)


def _replicated(model: ModelConfig, base_dir: Path, model_dir: Path, max_model_len: int | None) -> Engine:
    from predictor.engines.replicas import ReplicatedEngine

    one = model.model_copy(update={"replicas": 1})
    # Resolved here: an actor may have another working directory.
    opener = partial(open_engine, one, base_dir.resolve(), max_model_len=max_model_len)
    scripted = ByteTokenizer() if (model_dir / TABLE_FILE).is_file() else None
    return ReplicatedEngine(opener, model_dir, model.replicas, tokenizer=scripted)


def _require(*packages: str) -> None:
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ModelError(
            "the model cannot be served",
            where="model.engine",
            found=f"not installed: {', '.join(missing)}",
            fix=_INSTALL,
        )
