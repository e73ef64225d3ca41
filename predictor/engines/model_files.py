"""What a model directory must hold, read without torch: configuration, tokenizer, chat template, stop ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from predictor.errors import ModelError

_FIX = "give a directory in Hugging Face layout, saved with `save_pretrained` for model and tokenizer"


def load_tokenizer(model_dir: Path) -> Any:
    """The directory's Hugging Face tokenizer; ModelError when it, or its chat template, is missing.

    The generic fast class reads tokenizer.json as it is and imports no torch, so `gapcast --dry-run` stays quick.
    """
    check_directory(model_dir)
    if not (model_dir / "tokenizer.json").is_file():
        raise ModelError(
            "the model directory has no fast tokenizer",
            where=str(model_dir),
            expected="a file tokenizer.json",
            fix="load the tokenizer with transformers and `save_pretrained` it there; it writes tokenizer.json",
        )
    from transformers import PreTrainedTokenizerFast

    try:
        tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(str(model_dir), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            "the tokenizer does not load", where=str(model_dir), found=_first_line(error), fix=_FIX
        ) from error
    if not tokenizer.chat_template:
        raise ModelError(
            "the model's tokenizer has no chat template",
            where=str(model_dir),
            expected="chat_template in tokenizer_config.json, or a file chat_template.jinja",
            fix="use an instruct model, or put its template there",
        )
    return tokenizer


def check_directory(model_dir: Path) -> None:
    """ModelError unless the directory exists and has a readable config.json."""
    if not model_dir.is_dir():
        raise ModelError("the model directory does not exist", where=str(model_dir), fix=_FIX)
    config = model_dir / "config.json"
    if not config.is_file():
        raise ModelError("the model directory has no config.json", where=str(model_dir), fix=_FIX)
    try:
        json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(
            "config.json is not valid JSON", where=str(config), found=_first_line(error), fix=_FIX
        ) from None


def check_weights(model_dir: Path) -> None:
    """ModelError unless the directory holds safetensors; pickled weights run code when loaded and are refused."""
    check_directory(model_dir)
    if any(model_dir.glob("*.safetensors")):
        return
    pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in model_dir.glob(pattern))
    raise ModelError(
        "the model directory has no safetensors weights",
        where=str(model_dir),
        found=f"pickled weights {', '.join(pickled)}, which are never loaded" if pickled else "no weights",
        expected="model.safetensors, or its shards",
        fix="save the model again with a current `save_pretrained`",
    )


def eos_ids(*sources: Any) -> frozenset[int]:
    """Every stop id that configurations and tokenizers name as `eos_token_id`, single or listed."""
    found: set[int] = set()
    for source in sources:
        value = getattr(source, "eos_token_id", None)
        found.update([value] if isinstance(value, int) else value or ())
    return frozenset(found)


def context_length(config: Any, wanted: int | None, where: str) -> int:
    """Longest prompt plus completion: the model's limit, or `wanted` below it; ModelError above it."""
    text_config = config.get_text_config(decoder=True)
    limit = getattr(text_config, "max_position_embeddings", None)
    if limit is None and wanted is None:
        raise ModelError(
            "the model's context length is unknown",
            where=where,
            expected="max_position_embeddings in config.json",
            fix="give max_model_len",
        )
    if limit is not None and wanted is not None and wanted > limit:
        raise ModelError(
            "the study needs a longer context than the model has",
            where=where,
            found=f"{wanted} tokens wanted, {limit} supported",
            fix="lower sampling.max_tokens or shorten the hints",
        )
    return int(wanted if wanted is not None else limit or 0)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
