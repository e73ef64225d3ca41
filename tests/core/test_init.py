"""New studies come from templates that parse, and what is shown on a terminal cannot drive it."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.checkers import build_checker
from predictor.config import STUDY_FILE, StudyConfig, load_study_config
from predictor.contexts import ContextBuilder
from predictor.errors import GapcastError, StudyError, printable
from predictor.loop.init import init_study, template_names
from predictor.tasks import load_examples


def made(path: Path, template: str) -> StudyConfig:
    written = init_study(path, template)
    assert written[-1] == path / STUDY_FILE
    assert {p.name for p in path.iterdir()} == {p.name for p in written}
    return load_study_config(path)


@pytest.mark.parametrize("template", template_names())
def test_every_template_makes_a_study_whose_examples_hints_and_checker_can_be_built(
    template: str, tmp_path: Path
) -> None:
    config = made(tmp_path / "new" / "study", template)
    data = load_examples(config.task, tmp_path / "new" / "study")
    assert len(data.eval) == config.task.eval_examples
    assert build_checker(config.task.checker).check("text", data.eval[0]).correct is not None
    assert config.training.resolved.optimizer.lr > 0
    for hint in config.hints:
        builder = ContextBuilder(hint, data.train)
        if not builder.needs_attempt and hint.kind != "none":
            assert all(builder.build(example) is not None for example in data.eval)
            assert len(builder.others(data.eval[0], config.probe.consensus_hints)) == config.probe.consensus_hints


def test_an_unknown_template_names_the_known_ones(tmp_path: Path) -> None:
    for name in ("nonsense", "", "..", "miniature/.."):
        with pytest.raises(StudyError, match="no template") as caught:
            init_study(tmp_path / "study", name)
        assert "miniature" in caught.value.expected
    assert not (tmp_path / "study").exists()


def test_a_directory_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StudyError, match="not empty") as caught:
        init_study(tmp_path, "miniature")
    assert caught.value.found == "notes.txt"
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_study_or_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    made(tmp_path / "study", "format-rules")
    before = {p.name: p.read_bytes() for p in (tmp_path / "study").iterdir()}
    for template in template_names():
        with pytest.raises(StudyError, match="not empty"):
            init_study(tmp_path / "study", template)
    assert {p.name: p.read_bytes() for p in (tmp_path / "study").iterdir()} == before
    (tmp_path / "file").write_text("x")
    with pytest.raises(StudyError, match="not empty"):
        init_study(tmp_path / "file", "miniature")


def test_an_init_that_was_killed_can_be_started_again(tmp_path: Path) -> None:
    study = tmp_path / "study"
    made(study, "format-rules")
    whole = (study / "examples.jsonl").read_bytes()
    (study / STUDY_FILE).unlink()
    (study / f".{STUDY_FILE}.123.tmp").write_bytes(b"half")
    init_study(study, "format-rules")
    assert (study / "examples.jsonl").read_bytes() == whole
    assert load_study_config(study).hints


def test_example_files_of_ones_own_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "examples.jsonl").write_text("mine")
    with pytest.raises(StudyError, match="not empty"):
        init_study(tmp_path, "format-rules")
    assert (tmp_path / "examples.jsonl").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(GapcastError):
        init_study(tmp_path / "file" / "study", "miniature")


@given(st.text() | st.text(st.characters(categories=("Cc", "Cf", "Cs", "Co", "Zl", "Zp")), min_size=1))
def test_what_is_printed_holds_no_control_character_but_the_newline(text: str) -> None:
    shown = printable(text)
    assert not [c for c in shown if c != "\n" and unicodedata.category(c)[0] == "C"]
    assert "\u2028" not in shown
    assert shown.count("\n") == text.count("\n")


def test_an_error_quotes_hostile_data_without_driving_the_terminal() -> None:
    error = StudyError("bad \x1b[2J", where="\x07", found="two\nlines\u202e")
    assert str(error) == "bad \\x1b[2J\n  where: \\x07\n  found: two\nlines\\u202e"


def test_readable_text_is_printed_as_it_is_and_escapes_tell_the_character() -> None:
    assert printable("żółć – 漢字 🙂\n[bold]") == "żółć – 漢字 🙂\n[bold]"
    assert printable("\x1b[2J\x07\t\u202e\ud800") == r"\x1b[2J\x07\t\u202e\ud800"
