"""Where a model is: a directory, or the name of an embedded one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from predictor.errors import ModelError

SMOLLM2: Final = "smollm2-135m-instruct"
_PACKAGE: Final = Path(__file__).resolve().parents[1]
# In a checkout the data lies beside the package; a wheel carries it inside.
_MINIATURES: Final = (_PACKAGE.parent / "data" / "miniature", _PACKAGE / "_data" / "miniature")
_PREFIX: Final = "miniature/"


def resolve_model(path: str, base_dir: Path) -> Path:
    """The model's directory: `path` itself, relative to `base_dir`, or the embedded model of that name.

    A directory wins over an embedded name. SmolLM2 is fetched and converted on first use. ModelError names the
    embedded models when nothing fits.
    """
    directory = base_dir / Path(path).expanduser()
    if directory.is_dir():
        return directory.resolve()
    if path == SMOLLM2:
        # Imported here, because `python -m predictor.engines.smollm2` runs that module as the main one.
        from predictor.engines.smollm2 import ensure_smollm2

        return ensure_smollm2()
    if path.startswith(_PREFIX):
        for root in _MINIATURES:
            found = root / path.removeprefix(_PREFIX)
            if (found / "config.json").is_file():
                return found
    raise ModelError(
        "the model does not exist",
        where="model.path",
        found=path,
        expected=f"a directory ({directory} is none), or one of {', '.join(embedded_models())}",
        fix="give a directory in Hugging Face layout, absolute or relative to the study",
    )


def embedded_models() -> tuple[str, ...]:
    """Names that `resolve_model` knows without a directory."""
    found = {_PREFIX + path.parent.name for root in _MINIATURES for path in root.glob("*/config.json")}
    return (*sorted(found), SMOLLM2)
