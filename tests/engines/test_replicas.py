"""Replicas are one engine to everyone else: same results, none lost and none doubled, whatever dies."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from predictor.engines import Completion, Request, open_engine
from predictor.engines.replicas import ReplicatedEngine, fleet
from predictor.engines.scripted import ScriptedEngine, ScriptedTable, plant
from predictor.errors import EngineError, ModelError
from predictor.records import ModelConfig, SamplingConfig, derive_seed

SAMPLING = SamplingConfig(max_tokens=8)
TABLE = ScriptedTable(rules=plant("Is it so?", ("yes", "no"), 0.5, {"hint": 0.9}))


def requests(count: int) -> list[Request]:
    prompt = tuple(ScriptedEngine(TABLE).tokenizer.encode("Is it so?"))
    return [Request(f"r{index}", prompt, 3, derive_seed("replicas", index)) for index in range(count)]


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_whatever_dies_nothing_is_lost_or_doubled_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TABLE.save(tmp_path / "model")
    engine = open_engine(ModelConfig(path="model", replicas=2), tmp_path)
    assert isinstance(engine, ReplicatedEngine)
    try:
        asked = requests(400)
        expected = ScriptedEngine(TABLE).generate(asked, SAMPLING)
        victim = engine.processes()[0]
        finished: list[str] = []

        def on_done(request: Request, _completions: list[Completion]) -> None:
            finished.append(request.request_id)
            if len(finished) == 7:
                os.kill(victim, signal.SIGKILL)

        assert engine.generate(asked, SAMPLING, on_done) == expected
        assert sorted(finished) == sorted(request.request_id for request in asked)
        assert victim not in engine.processes()
        # An engine's own error comes out as it is, and the replicas serve what they served.
        with pytest.raises(ModelError):
            engine.update_weights(tmp_path)
        # One that dies between two calls is replaced, too.
        os.kill(engine.processes()[1], signal.SIGKILL)
        assert engine.generate(asked[:9], SAMPLING) == expected[:9]
        monkeypatch.setattr(fleet, "_MOST_REPLACEMENTS", 0)
        processes, files = engine.processes(), engine._fleet._directory
        os.kill(processes[0], signal.SIGKILL)
        with pytest.raises(EngineError, match="keep dying") as caught:
            engine.generate(asked[:9], SAMPLING)
        assert "finished rollouts are kept" in caught.value.fix
    finally:
        engine.close()
        engine.close()
    # Where another fleet's Ray served this one, its files stay until that fleet is closed.
    assert files is None or not files.exists()
    assert not [process for process in processes if Path(f"/proc/{process}/cmdline").exists()]


def test_without_ray_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TABLE.save(tmp_path / "model")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ModelError, match="need Ray") as caught:
        open_engine(ModelConfig(path="model", replicas=2), tmp_path)
    assert 'pip install "gapcast[ray]"' in caught.value.fix


def test_a_study_names_replicas_in_its_engine_and_they_change_no_hash() -> None:
    several = ModelConfig.model_validate({"path": "m", "engine": {"kind": "vllm", "replicas": 2}})
    assert (several.engine, several.replicas) == ("vllm", 2)
    assert several.content_hash() == ModelConfig(path="m", engine="vllm").content_hash()
    for engine in ({"kind": "vllm", "replicas": 0}, {"kind": "sglang"}, {"kind": "vllm", "replica": 2}):
        with pytest.raises(ValidationError):
            ModelConfig.model_validate({"path": "m", "engine": engine})


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_two_vllm_engines_give_what_one_gives(vllm_served: Any) -> None:
    asked = [
        Request(f"r{index}-{place}", prompt, 2, derive_seed("vllm", index, place))
        for index in range(4)
        for place, prompt in enumerate(vllm_served.prompts)
    ]
    model = ModelConfig.model_validate({"path": "miniature/llama-s", "engine": {"kind": "vllm", "replicas": 2}})
    engine = open_engine(model, Path())
    try:
        found = engine.generate(asked, SAMPLING)
        engine.update_weights(vllm_served.other_dir)
        moved = engine.generate(asked, SAMPLING)
    finally:
        engine.close()
    assert (engine.name, engine.version) == (vllm_served.engine.name, vllm_served.engine.version)
    one = vllm_served.engine.generate(asked, SAMPLING)
    assert [c.ids for samples in found for c in samples] == [c.ids for samples in one for c in samples]
    assert [c.ids for samples in moved for c in samples] != [c.ids for samples in one for c in samples]
