"""Task files: every bad row is named with its line, nothing is dropped silently, and rows keep to themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.errors import DataError
from predictor.records import Example, TaskConfig
from predictor.tasks import load_examples
from predictor.tasks.rows import read_jsonl


def row(name: str, split: str = "eval", **fields: Any) -> dict[str, Any]:
    return {"example_id": name, "prompt": f"question {name}", "answer": "4", "split": split, **fields}


def write(path: Path, *lines: str | dict[str, Any]) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def task(**fields: Any) -> TaskConfig:
    base = {"source": "jsonl", "path": "e.jsonl", "eval_examples": 2, "train_examples": 2}
    return TaskConfig.model_validate({**base, **fields})


def refusal(path: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        read_jsonl(path)
    assert caught.value.where == str(path)
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{broken", "not JSON"),
        ("[1, 2]", "should be a mapping"),
        ("5", "should be a mapping"),
        ("null", "should be a mapping"),
        ('{"example_id": "a"}', "exactly one of `prompt` and `messages`"),
        ('{"example_id": 5, "prompt": "q"}', "example_id"),
        ('{"prompt": "q"}', "example_id: is missing"),
        ('{"example_id": "", "prompt": "q"}', "example_id"),
        ('{"example_id": "a", "prompt": ""}', "the question is empty"),
        ('{"example_id": "a", "prompt": "q", "anwser": "4"}', "anwser: unknown key; did you mean `answer`?"),
        ('{"example_id": "a", "prompt": "q", "answer": "4", "answer": "5"}', "a key is given twice"),
        ('{"example_id": "a", "prompt": "q", "metadata": {"n": ' + "1" * 5000 + "}}", "integer string conversion"),
        ('{"example_id": "a", "prompt": "q", "metadata": ' + "[" * 5000 + "]" * 5000 + "}", "not JSON"),
        ('{"example_id": "a", "prompt": "q", "metadata": {"x": "\\ud800"}}', "JSON cannot say"),
        ('{"example_id": "a", "prompt": "\\ud800"}', "JSON cannot say"),
        ('{"example_id": "a", "prompt": "q", "split": "test"}', "split"),
        ('{"example_id": "a", "prompt": "q"}\x00', "not JSON"),
        ('{"example_id": "a", "messages": [{"role": "robot", "content": "q"}]}', "messages.0.role"),
    ],
    ids=lambda value: value[:40].encode("unicode_escape").decode(),
)
def test_a_bad_row_is_named_with_its_line_and_its_reason(line: str, complaint: str, tmp_path: Path) -> None:
    error = refusal(write(tmp_path / "e.jsonl", row("good"), "", line, row("also good")))
    assert error.found.startswith("line 3: ")
    assert complaint in error.found
    assert "1 rows" in error.what


def test_many_bad_rows_are_counted_and_the_first_ones_shown(tmp_path: Path) -> None:
    error = refusal(write(tmp_path / "e.jsonl", *["{"] * 9))
    assert "9 rows" in error.what
    assert error.found.count("not JSON") == 5
    assert error.found.endswith("(and 4 more)")


def test_a_file_that_is_missing_empty_binary_or_a_directory_is_one_error(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "absent.jsonl").what
    assert "holds no rows" in refusal(write(tmp_path / "empty.jsonl")).what
    assert "holds no rows" in refusal(write(tmp_path / "blank.jsonl", "", "  ")).what
    (tmp_path / "latin.jsonl").write_bytes('{"example_id": "é"}'.encode("latin-1"))
    assert "cannot be read" in refusal(tmp_path / "latin.jsonl").what
    assert "cannot be read" in refusal(tmp_path).what
    assert "cannot be read" in refusal(Path("a\x00b")).what


def test_a_byte_order_mark_windows_line_ends_and_a_missing_last_newline_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(json.dumps(row(name)).encode() for name in "abc"))
    assert [example.example_id for example in read_jsonl(path)] == ["a", "b", "c"]


def test_line_separators_inside_strings_do_not_end_a_row(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\x0bfive\x1cend"
    line = json.dumps(row("a", answer=text), ensure_ascii=False).replace("\\u000b", "\x0b").replace("\\u001c", "\x1c")
    path = write(tmp_path / "e.jsonl", line.replace("\x0b", "\\u000b").replace("\x1c", "\\u001c"), row("b"))
    first, second = read_jsonl(path)
    assert first.answer == text
    assert second.example_id == "b"


def test_a_field_of_a_megabyte_arrives_whole(tmp_path: Path) -> None:
    (example,) = read_jsonl(write(tmp_path / "e.jsonl", row("a", solution="é" * 1_000_000)))
    assert example.solution == "é" * 1_000_000


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=30), st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3))
def test_any_text_survives_the_file(
    tmp_path_factory: pytest.TempPathFactory, text: str, metadata: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "e.jsonl"
    written = Example(example_id="é", prompt="q" + text, answer=text, metadata=metadata)
    for ascii_only in (True, False):
        path.write_text(json.dumps(written.model_dump(mode="json"), ensure_ascii=ascii_only) + "\n", encoding="utf-8")
        assert read_jsonl(path) == [written]


def test_examples_are_split_drawn_and_in_an_order_that_more_rows_do_not_change(tmp_path: Path) -> None:
    rows = [row(f"e{i}", split) for i in range(20) for split in ("train", "eval")]
    names = {f"{r['example_id']}-{r['split']}": r for r in rows}
    rows = [{**r, "example_id": name} for name, r in names.items()]
    write(tmp_path / "e.jsonl", *rows)
    few = load_examples(task(eval_examples=5, train_examples=3), tmp_path)
    many = load_examples(task(eval_examples=20, train_examples=20), tmp_path)
    assert (len(few.eval), len(few.train)) == (5, 3)
    assert few.eval == many.eval[:5]
    assert {example.split for example in few.train} == {"train"}
    write(tmp_path / "e.jsonl", *reversed(rows), row("late", "eval"))
    late = [example for example in load_examples(task(eval_examples=21), tmp_path).eval if example.example_id != "late"]
    assert late == list(many.eval)
    assert load_examples(task(eval_examples=5, train_examples=3, seed=1), tmp_path).eval != few.eval


def test_repeated_ids_are_refused_even_across_splits(tmp_path: Path) -> None:
    write(tmp_path / "e.jsonl", row("a"), row("b", "train"), row("b"), row("c"))
    with pytest.raises(DataError, match="1 example ids occur more than once") as caught:
        load_examples(task(), tmp_path)
    assert caught.value.found == "b"


def test_too_few_rows_of_a_split_say_which_and_how_many(tmp_path: Path) -> None:
    write(tmp_path / "e.jsonl", row("a"), row("b"), row("c", "train"))
    with pytest.raises(DataError, match="too few train examples") as caught:
        load_examples(task(), tmp_path)
    assert "1 with split `train`" in caught.value.found
    assert "task.train_examples = 2" in caught.value.expected


def test_a_jsonl_task_needs_a_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs a path"):
        load_examples(task(path=None), tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rule": "revers"},
        {"rule": ["reverse"]},
        {"rule": None},
        {"rule": 5},
        {"rule": "reverse", "hidden_rules": ["copy"]},
        {"hidden_rules": []},
        {"hidden_rules": 5},
        {"hidden_rules": {"copy": 1}},
        {"hidden_rules": ["copy", ["sort"]]},
        {"rules": "reverse"},
        {"rule": "reverse", "extra": 1},
    ],
    ids=str,
)
def test_options_of_the_string_world_that_make_no_sense_are_one_error(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="options are not valid") as caught:
        load_examples(task(source="strings", options=options), tmp_path)
    assert "reverse" in caught.value.expected


def test_more_strings_than_the_world_has_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot give these examples"):
        load_examples(task(source="strings", options={"rule": "reverse"}, eval_examples=20_000), tmp_path)


@pytest.mark.parametrize("options", [{"rule": "reverse"}, {"hidden_rules": ["reverse", "copy"]}])
def test_the_string_world_gives_disjoint_splits_with_the_rules_answers(options: dict[str, Any], tmp_path: Path) -> None:
    data = load_examples(task(source="strings", options=options, eval_examples=40, train_examples=60), tmp_path)
    assert not {e.question for e in data.train} & {e.question for e in data.eval}
    answers = {tuple(e.question.split()): tuple((e.answer or "").split()) for e in data.eval + data.train}
    allowed = [lambda s: s[::-1]] if "rule" in options else [lambda s: s[::-1], lambda s: s]
    assert all(answer in [rule(question) for rule in allowed] for question, answer in answers.items())
