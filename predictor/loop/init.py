"""`gapcast init`: a new study from a template, with a commented study.yaml and its example file."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from predictor.config import STUDY_FILE
from predictor.errors import StudyError
from predictor.store import is_unfinished, write_text


def template_names() -> list[str]:
    """Names of the templates that ship with gapcast."""
    return sorted(entry.name for entry in _templates().iterdir() if (entry / STUDY_FILE).is_file())


def init_study(path: Path, template: str) -> list[Path]:
    """Write the template's files into a new or empty directory; StudyError when something is already there."""
    source = _templates() / template
    if template not in template_names():
        raise StudyError(f"there is no template `{template}`", where="--template", expected=", ".join(template_names()))
    strangers = _strangers(path, source)
    if strangers:
        raise StudyError(
            "the study directory is not empty",
            where=str(path),
            found=", ".join(strangers[:5]),
            fix="choose a new directory, or go on with the study that is there",
        )
    written = []
    # study.yaml last: a directory without it is not a study, and the same command started again completes it.
    for entry in sorted(source.iterdir(), key=lambda entry: entry.name == STUDY_FILE):
        if entry.is_file():
            write_text(path / entry.name, entry.read_text(encoding="utf-8"))
            written.append(path / entry.name)
    return written


def _strangers(path: Path, source: Traversable) -> list[str]:
    """What stands in the way; the files of an `init` that was killed do not."""
    if not path.exists():
        return []
    if not path.is_dir():
        return ["a file"]
    ours = {entry.name: entry.read_bytes() for entry in source.iterdir() if entry.is_file()}
    found = sorted(entry for entry in path.iterdir() if not is_unfinished(entry.name))
    return [entry.name for entry in found if entry.name == STUDY_FILE or not _is_copy(entry, ours.get(entry.name))]


def _is_copy(entry: Path, content: bytes | None) -> bool:
    return content is not None and entry.is_file() and entry.read_bytes() == content


def _templates() -> Traversable:
    return resources.files("predictor") / "templates"
