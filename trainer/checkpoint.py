"""Resume states and the final model, as safetensors and JSON only; each appears whole or not at all.

A resume state holds no random generator: every draw of the trainer is seeded by names (step, epoch, example).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GenerationConfig

from predictor.errors import StoreError
from predictor.records import Record
from trainer.files import atomic_directory, disk_errors
from trainer.model import LanguageModel

_STATE_FILE = "state.json"
_COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "generation_config.json",
)

Tensors = Mapping[str, Mapping[str, Tensor]]
"""Named tensors by file: student, optimizer, and teacher where it moves."""


class ResumeState(Record):
    """What is known beside the tensors: how far the run is and what it belongs to."""

    step: int
    """Finished steps."""
    seconds: float
    """Wall-clock seconds of all processes so far."""
    run_hash: str
    """Content hash of run.json."""
    base_fingerprint: str
    """Fingerprint of the initial weights, which a frozen teacher is loaded from again."""


def save_state(root: Path, state: ResumeState, tensors: Tensors) -> None:
    """Write one resume state and remove older ones; the older one stays until the new one is on disk."""
    with atomic_directory(_state_dir(root, state.step)) as directory:
        for name, group in tensors.items():
            if group:
                contiguous = {key: tensor.detach().contiguous() for key, tensor in group.items()}
                save_file(contiguous, directory / f"{name}.safetensors")
        (directory / _STATE_FILE).write_text(state.to_json() + "\n", encoding="utf-8")
    for older in _state_dirs(root)[:-1]:
        shutil.rmtree(older, ignore_errors=True)


def load_state(root: Path, device: torch.device) -> tuple[ResumeState, dict[str, dict[str, Tensor]]] | None:
    """The newest resume state, None when there is none; StoreError when it is damaged."""
    found = _state_dirs(root)
    if not found:
        return None
    newest = found[-1]
    try:
        state = ResumeState.model_validate_json((newest / _STATE_FILE).read_text(encoding="utf-8"))
        files = sorted(newest.glob("*.safetensors"))
        return state, {file.stem: load_file(file, device=str(device)) for file in files}
    except (OSError, ValidationError, UnicodeDecodeError, SafetensorError) as error:
        raise StoreError(
            "a resume state is damaged",
            where=str(newest),
            found=str(error).splitlines()[0],
            fix="remove the run's `state` directory to train it from the start",
        ) from error


def remove_states(root: Path) -> None:
    """Delete all resume states, once the result is on disk."""
    shutil.rmtree(root, ignore_errors=True)


@torch.no_grad()
def copy_into(targets: Mapping[str, Tensor], stored: Mapping[str, Tensor], where: str) -> None:
    """Set every target to its stored tensor, bit by bit; StoreError unless names and shapes are the same."""
    shapes = {name: tensor.shape for name, tensor in targets.items()}
    if shapes != {name: tensor.shape for name, tensor in stored.items()}:
        raise StoreError(
            "a resume state does not fit the model",
            where=where,
            fix="remove the run's `state` directory to train it from the start",
        )
    for name, target in targets.items():
        target.copy_(stored[name])


def fingerprint(model: LanguageModel) -> str:
    """Hash of names, shapes and the first values of every weight: tells models apart, reads little of them."""
    digest = hashlib.blake2b(digest_size=16)
    for name, weight in model.parameters.items():
        digest.update(f"{name}{tuple(weight.shape)}".encode())
        digest.update(weight.detach().flatten()[:64].float().cpu().numpy().tobytes())
    return digest.hexdigest()


def export_model(path: Path, model: LanguageModel, model_dir: Path) -> None:
    """Write weights, configuration and the source's own tokenizer files; loadable by transformers and vLLM.

    Weights are float32, as they were trained, also when the source's are bfloat16: an update at a learning rate of
    1e-5 is smaller than half a bfloat16 step of most weights, so rounding takes it back. The engine that measures
    the checkpoint uses the precision it measured the source in, whatever the file holds.
    """
    network = model.network
    # The source's own file replaces it below; a default one cannot be refused by save_pretrained's validation.
    network.generation_config = GenerationConfig()
    with atomic_directory(path) as directory:
        network.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        for name in _COPIED:
            if (model_dir / name).is_file():
                shutil.copyfile(model_dir / name, directory / name)


def _state_dir(root: Path, step: int) -> Path:
    return root / f"step-{step:08d}"


def _state_dirs(root: Path) -> list[Path]:
    """Complete states, oldest first; temporary directories of a killed process are not among them."""
    with disk_errors(root):
        return sorted(root.glob("step-*")) if root.is_dir() else []
