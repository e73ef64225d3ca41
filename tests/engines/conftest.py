"""Engines under contract: each served once, with prompts, stop ids, and directories to update to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import load_file, save_file

from predictor.engines import Engine, Ids, open_engine, resolve_model
from predictor.engines.scripted import ScriptedEngine, ScriptedTable, plant
from predictor.prompts import render_prompt
from predictor.records import Message, ModelConfig

ENGINES = ("scripted", "transformers", "vllm", pytest.param("replicated", marks=pytest.mark.alone))


@dataclass(frozen=True)
class Served:
    """An engine, and what its contract is tested on."""

    engine: Engine
    model_dir: Path
    other_dir: Path
    """Other weights of the same shape."""
    broken_dirs: tuple[Path, ...]
    """Weights that must be refused."""
    prompts: tuple[Ids, ...]
    stop_ids: frozenset[int]
    tolerance: float
    """Largest difference in nats between two computations of one log-probability."""


@pytest.fixture(scope="session")
def miniature() -> Path:
    return resolve_model("miniature/llama-s", Path())


@pytest.fixture(scope="session")
def variants(miniature: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Path, ...]]:
    """The miniature with other weights, and three directories that hold no usable version of it."""
    root = tmp_path_factory.mktemp("variants")
    weights = load_file(miniature / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    shaken = {
        name: value + 0.02 * torch.randn(value.shape, generator=generator).to(value.dtype)
        for name, value in weights.items()
    }
    last = sorted(weights)[-1]
    return write_variant(root / "other", miniature, shaken), (
        write_variant(root / "nan", miniature, {**weights, last: torch.full_like(weights[last], torch.nan)}),
        write_variant(root / "incomplete", miniature, {name: value for name, value in weights.items() if name != last}),
        narrower(root / "narrower", miniature),
    )


def write_variant(target: Path, source: Path, weights: dict[str, torch.Tensor]) -> Path:
    """A copy of a model directory with other weights."""
    shutil.copytree(source, target)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return target


def narrower(target: Path, source: Path) -> Path:
    """Another model under the same tokenizer: fewer layers."""
    shutil.copytree(source, target)
    config = json.loads((source / "config.json").read_text())
    layers = config["num_hidden_layers"] - 1
    config["num_hidden_layers"] = layers
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:layers]
    (target / "config.json").write_text(json.dumps(config))
    weights = load_file(source / "model.safetensors")
    kept = {name: value for name, value in weights.items() if f"layers.{layers}." not in name}
    save_file(kept, target / "model.safetensors", metadata={"format": "pt"})
    return target


@pytest.fixture(scope="session")
def scripted_served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return serve_script(tmp_path_factory.mktemp("scripted"))


@pytest.fixture(scope="session")
def transformers_served(miniature: Path, variants: tuple[Path, tuple[Path, ...]]) -> Iterator[Served]:
    yield from serve_miniature("transformers", miniature, variants)


@pytest.fixture(scope="session")
def vllm_served(miniature: Path, variants: tuple[Path, tuple[Path, ...]]) -> Iterator[Served]:
    yield from serve_miniature("vllm", miniature, variants)


@pytest.fixture(scope="session")
def replicated_served(miniature: Path, variants: tuple[Path, tuple[Path, ...]]) -> Iterator[Served]:
    yield from serve_miniature("transformers", miniature, variants, replicas=2)


@pytest.fixture(params=ENGINES)
def served(request: pytest.FixtureRequest) -> Served:
    """Each engine in turn; each is opened once, whatever order the tests run in."""
    found: Served = request.getfixturevalue(f"{request.param}_served")
    return found


def serve_miniature(
    name: Literal["transformers", "vllm"],
    model_dir: Path,
    variants: tuple[Path, tuple[Path, ...]],
    replicas: int = 1,
) -> Iterator[Served]:
    """An engine of that name on the miniature, closed at the end."""
    engine = open_engine(ModelConfig(path="miniature/llama-s", engine=name, replicas=replicas), Path())
    yield Served(
        engine=engine,
        model_dir=model_dir,
        other_dir=variants[0],
        broken_dirs=variants[1],
        prompts=miniature_prompts(engine.tokenizer),
        stop_ids=frozenset({engine.tokenizer.eos_token_id}),
        tolerance=1e-4,
    )
    engine.close()


def miniature_prompts(tokenizer: Any) -> tuple[Ids, ...]:
    """Prompts of several lengths, as the chat template writes them."""
    systems = ("", "rule reverse", "note grey river seven", "demo a b c d gives d c b a")
    questions = ("a b c d", "d c b a", "b d f h")
    return tuple(
        render_prompt(
            [*([Message(role="system", content=system)] if system else []), Message(role="user", content=question)],
            tokenizer,
            thinking=None,
        ).ids
        for system in systems
        for question in questions
    )


def serve_script(root: Path) -> Served:
    """A scripted engine on planted answers, and the directories of its contract."""
    questions = [f"question {number}." for number in range(6)]
    first, second = (
        ScriptedTable(
            rules=tuple(rule for q in questions for rule in plant(q, ("yes", "no it is not"), share, {"hint": 0.9}))
        )
        for share in (0.5, 0.25)
    )
    broken = root / "broken"
    broken.mkdir()
    (broken / "scripted.json").write_text('{"rules": [{"completions": {"a": 0.5}}]}')
    engine = ScriptedEngine(first, max_model_len=128)
    return Served(
        engine=engine,
        model_dir=first.save(root / "first"),
        other_dir=second.save(root / "second"),
        broken_dirs=(broken, root / "nowhere"),
        prompts=tuple(tuple(engine.tokenizer.encode(text)) for q in questions for text in (q, f"hint {q}")),
        stop_ids=frozenset({engine.tokenizer.eos_token_id}),
        tolerance=1e-12,
    )
