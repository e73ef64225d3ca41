"""Resume states are whole and exact; the final model is what transformers loads, with the source's own tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from predictor.errors import RunError, StoreError
from trainer.checkpoint import ResumeState, copy_into, export_model, fingerprint, load_state, remove_states, save_state
from trainer.files import atomic_directory, exclusive, write_atomically
from trainer.model import LanguageModel, load_model

CPU = torch.device("cpu")


def state(step: int) -> ResumeState:
    return ResumeState(step=step, seconds=1.5, run_hash="run", base_fingerprint="base")


def test_the_newest_state_comes_back_bit_by_bit_and_older_ones_go(tmp_path: Path) -> None:
    tensors = {"student": {"w": torch.randn(3, 2, generator=torch.Generator().manual_seed(0)), "b": torch.zeros(())}}
    assert load_state(tmp_path / "state", CPU) is None
    for step in (9, 10, 100):
        save_state(tmp_path / "state", state(step), tensors | {"optimizer": {}})
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["step-00000100"]
    found = load_state(tmp_path / "state", CPU)
    assert found is not None
    assert found[0] == state(100)
    assert set(found[1]) == {"student"}
    assert all(torch.equal(found[1]["student"][name], tensor) for name, tensor in tensors["student"].items())
    remove_states(tmp_path / "state")
    assert load_state(tmp_path / "state", CPU) is None


def test_a_state_that_a_kill_left_half_written_is_not_seen(tmp_path: Path) -> None:
    save_state(tmp_path, state(2), {"student": {"w": torch.zeros(2)}})
    half = tmp_path / ".step-00000004.tmp"
    half.mkdir()
    (half / "student.safetensors").write_bytes(b"half")
    found = load_state(tmp_path, CPU)
    assert found is not None
    assert found[0].step == 2
    save_state(tmp_path, state(4), {"student": {"w": torch.ones(2)}})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000004"]


@pytest.mark.parametrize("name", ["state.json", "student.safetensors"])
def test_a_damaged_state_is_one_clear_error(tmp_path: Path, name: str) -> None:
    save_state(tmp_path, state(2), {"student": {"w": torch.zeros(2)}})
    (tmp_path / "step-00000002" / name).write_bytes(b"{")
    with pytest.raises(StoreError, match="resume state is damaged"):
        load_state(tmp_path, CPU)


def test_tensors_of_another_shape_are_refused_and_change_nothing() -> None:
    target = {"w": torch.zeros(2), "b": torch.zeros(3)}
    for stored in ({"w": torch.ones(2)}, {"w": torch.ones(2), "b": torch.ones(4)}):
        with pytest.raises(StoreError, match="does not fit"):
            copy_into(target, stored, "here")
    assert target["w"].sum() == 0


def test_the_fingerprint_tells_models_apart(tiny_model_dir: Path) -> None:
    one, other = load_model(tiny_model_dir), load_model(tiny_model_dir)
    assert fingerprint(one) == fingerprint(other)
    with torch.no_grad():
        next(iter(other.parameters.values())).flatten()[0].add_(1e-3)
    assert fingerprint(one) != fingerprint(other)


def test_the_exported_model_loads_and_says_the_same(tiny_model_dir: Path, tmp_path: Path) -> None:
    model = load_model(tiny_model_dir)
    with torch.no_grad():
        for weight in model.parameters.values():
            weight.mul_(1.01)
    ids_BT = torch.tensor([[1, 5, 6, 7]])
    expected = model.network(ids_BT).logits
    export_model(tmp_path / "checkpoint", model, tiny_model_dir)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint", dtype="auto", local_files_only=True)
    assert loaded.dtype == torch.float32
    assert torch.equal(loaded(ids_BT).logits, expected)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / "checkpoint" / name).read_bytes() == (tiny_model_dir / name).read_bytes()
    message = [{"role": "user", "content": "a b"}]
    tokenizers = [AutoTokenizer.from_pretrained(path) for path in (tiny_model_dir, tmp_path / "checkpoint")]
    assert tokenizers[0].apply_chat_template(message) == tokenizers[1].apply_chat_template(message)


def test_updates_below_a_bfloat16_step_survive_in_the_checkpoint(tiny_model_dir: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(tiny_model_dir, source)
    network = load_model(tiny_model_dir).network.to(torch.bfloat16)
    network.save_pretrained(source)
    GenerationConfig(eos_token_id=[2, 7]).save_pretrained(source)
    trained = load_model(source)
    with torch.no_grad():
        for weight in trained.parameters.values():
            weight.mul_(1.001)
    export_model(tmp_path / "checkpoint", trained, source)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint", dtype="auto", local_files_only=True)
    assert loaded.dtype == torch.float32
    assert loaded.generation_config.eos_token_id == [2, 7]
    for name, weight in loaded.named_parameters():
        assert torch.equal(weight, trained.parameters[name])
        # Rounded to bfloat16 they would be what they were before training.
        assert torch.equal(weight.bfloat16(), network.get_parameter(name))


def test_a_source_without_generation_settings_gets_none(tiny_model_dir: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(tiny_model_dir, source)
    (source / "generation_config.json").unlink()
    export_model(tmp_path / "checkpoint", LanguageModel(load_model(source).network), source)
    assert not (tmp_path / "checkpoint" / "generation_config.json").exists()


def test_a_directory_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with atomic_directory(target) as directory:
        (directory / "old").write_text("old")
        assert not target.exists()
    with pytest.raises(StoreError, match="cannot be written"), atomic_directory(target) as directory:  # noqa: PT012
        (directory / "new").write_text("new")
        raise OSError(28, "No space left on device")
    assert [path.name for path in target.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_full_disk_is_one_clear_error_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_atomically(path, "old")
    with pytest.raises(StoreError) as caught:
        write_atomically(tmp_path / "missing" / "result.json", "new")
    assert "do: free space" in str(caught.value)
    assert path.read_text() == "old"


def test_two_trainers_cannot_hold_one_run(tmp_path: Path) -> None:
    with exclusive(tmp_path / ".lock"), pytest.raises(RunError, match="another process"), exclusive(tmp_path / ".lock"):
        pytest.fail("the lock was given twice")
    with exclusive(tmp_path / ".lock"):
        pass
