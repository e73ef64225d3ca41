"""Hostile models, data and checkers from end to end: one clear error or undecided, no traceback, nothing lost."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from predictor.cli import run
from predictor.engines.scripted import ScriptedRule, ScriptedTable
from predictor.store import RolloutStore

ESCAPES = "\x1b[31m\x1b]0;owned\x07\x9b2J\u202eright\u200b\x00\x08"
Screen = pytest.CaptureFixture[str]


def study_of(path: Path, completions: list[str], task: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    """A study whose model gives each of these completions equally often, with or without the hint."""
    path.mkdir(parents=True)
    share = {text: 1.0 / len(completions) for text in completions}
    ScriptedTable(rules=(ScriptedRule(completions=share),)).save(path / "model")
    both = [
        row | {"example_id": f"{split}-{row['example_id']}", "split": split}
        for row in rows
        for split in ("train", "eval")
    ]
    (path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in both))
    content = {
        "model": {"path": "model", "family": "planted"},
        "task": {"source": "jsonl", "path": "examples.jsonl", "eval_examples": len(rows), "train_examples": len(rows)}
        | task,
        "sampling": {"max_tokens": 400},
        "probe": {"rollouts": 2},
        "hints": [
            {"name": "none", "kind": "none"},
            {"name": "told", "kind": "static", "template": "HINT", "controls": []},
        ],
        "plan": {"budget": {"seconds": 60}},
    }
    (path / "study.yaml").write_text(yaml.safe_dump(content))
    return path


def questions(count: int = 4, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"example_id": f"q{number}", "prompt": f"question {number}?", "answer": "right"} | fields
        for number in range(count)
    ]


def stored(study: Path) -> pd.DataFrame:
    return RolloutStore(study / "rollouts").read()


def with_checker(study: Path, **checker: Any) -> None:
    content = yaml.safe_load((study / "study.yaml").read_text())
    content["task"]["checker"] = checker
    (study / "study.yaml").write_text(yaml.safe_dump(content))


def on_miniature(study: Path) -> None:
    """A dry run needs a tokenizer, which the scripted model has none of."""
    content = yaml.safe_load((study / "study.yaml").read_text())
    content["model"]["path"] = "miniature/llama-s"
    (study / "study.yaml").write_text(yaml.safe_dump(content))


def assert_harmless(text: str) -> None:
    """No character that a terminal would obey, and no traceback."""
    assert not {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
    assert "Traceback" not in text


def test_what_a_model_or_a_row_writes_never_drives_a_terminal_or_a_page(tmp_path: Path, capsys: Screen) -> None:
    rows = questions(prompt=f"question {ESCAPES}?", metadata={"note": ESCAPES})
    study = study_of(tmp_path / "study", [ESCAPES, "right"], {}, rows)
    shown = study_of(tmp_path / "shown", ["right"], {}, rows)
    on_miniature(shown)
    commands = [["probe", shown, "--dry-run"], *([name, study] for name in ("probe", "forecast", "report", "regrade"))]
    for command in commands:
        assert run([str(part) for part in command]) in (0, 3)
        captured = capsys.readouterr()
        assert_harmless(captured.out)
        assert_harmless(captured.err)
    assert_harmless((study / "report.html").read_text())
    assert ESCAPES in set(stored(study)["text"])


def test_errors_that_quote_hostile_rows_are_harmless_too(tmp_path: Path, capsys: Screen) -> None:
    for number, row in enumerate(
        ('{"example_id": "\\u001b[31m"', json.dumps({"example_id": ESCAPES, ESCAPES: 1}), ESCAPES)
    ):
        study = study_of(tmp_path / f"study{number}", ["right"], {}, questions())
        (study / "examples.jsonl").write_text(row + "\n")
        assert run(["probe", str(study)]) == 2
        error = capsys.readouterr().err
        assert_harmless(error)
        assert "line 1" in error


def test_templates_in_data_stay_data_and_attacks_in_hints_are_refused(tmp_path: Path, capsys: Screen) -> None:
    data = "{{ 7 * 7 }} {% raw %} {{ ''.__class__ }}"
    shown = study_of(tmp_path / "shown", ["right"], {}, questions(prompt=data))
    on_miniature(shown)
    assert run(["probe", str(shown), "--dry-run"]) == 0
    assert data in capsys.readouterr().out
    study = study_of(tmp_path / "study", ["right"], {}, questions(prompt=data))
    content = yaml.safe_load((study / "study.yaml").read_text())
    for attack in ("{{ question.__class__.__mro__ }}", "{{ metadata.__init__ }}", "{{ 'a' * 10**9 }}"):
        content["hints"][1] |= {"kind": "messages", "template": attack}
        (study / "study.yaml").write_text(yaml.safe_dump(content))
        assert run(["probe", str(study)]) == 2
        assert_harmless(capsys.readouterr().err)


def test_a_field_of_a_megabyte_is_one_error_where_it_must_fit_and_harmless_elsewhere(
    tmp_path: Path, capsys: Screen
) -> None:
    megabyte = "long " * 200_000
    long_question = study_of(tmp_path / "question", ["right"], {}, questions(prompt=megabyte))
    assert run(["probe", str(long_question)]) == 2
    error = capsys.readouterr().err
    assert "does not fit" in error
    assert len(error) < 2_000
    long_answer = study_of(tmp_path / "answer", ["right"], {}, questions(answer=megabyte, metadata={"note": megabyte}))
    assert run(["probe", str(long_answer)]) == 0


PROGRAMS = {
    "right": "def f(x): return x + 1",
    "fork loop": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "endless": "while True: pass",
    "flood": "while True: print('x' * 10000)",
    "memory": "x = bytearray(8 << 30)",
    "leaves": "import os; os._exit(0)",
}


@pytest.mark.slow
def test_hostile_programs_are_wrong_in_time_and_every_rollout_is_kept(tmp_path: Path, capsys: Screen) -> None:
    checker = {"kind": "code", "timeout_s": 1.0, "memory_mb": 512, "max_processes": 16}
    rows = questions(6, tests=["assert f(1) == 2"], metadata={"public_tests": ["assert f(0) == 1"]})
    study = study_of(tmp_path / "study", list(PROGRAMS.values()), {"checker": checker}, rows)
    content = yaml.safe_load((study / "study.yaml").read_text())
    content["probe"]["rollouts"] = 1
    content["hints"] = content["hints"][:1]
    (study / "study.yaml").write_text(yaml.safe_dump(content))
    assert run(["probe", str(study)]) in (0, 3)
    assert_harmless(capsys.readouterr().err)
    frame = stored(study)
    assert len(frame) >= 12
    # On a machine that is too busy to end a fork loop in time, that is an outage and not a verdict.
    outage = frame["correct"].isna()
    assert frame.loc[outage, "reason"].str.startswith("infra: some of its processes").all()
    assert outage.sum() <= 2
    frame = frame[~outage]
    right = frame["text"] == PROGRAMS["right"]
    assert frame.loc[right, "correct"].all()
    assert not frame.loc[~right, "correct"].any()
    assert set(frame.loc[frame["text"] == PROGRAMS["memory"], "extracted"].str.split(",").str[0]) <= {"memory"}


def test_an_outage_of_the_sandbox_is_undecided_and_regrade_judges_what_is_stored(
    tmp_path: Path, capsys: Screen
) -> None:
    """F27: neither pass nor fail; left out of accuracy, counted, and judged later."""
    rows = questions(2, tests=["assert f(1) == 2"])
    task = {"checker": {"kind": "code", "python": "/nowhere/python", "timeout_s": 30.0}}
    study = study_of(tmp_path / "study", [PROGRAMS["right"]], task, rows)
    assert run(["probe", str(study)]) == 2
    assert "gapcast regrade" in capsys.readouterr().err
    frame = stored(study)
    assert frame["correct"].isna().all()
    assert frame["reason"].str.startswith("infra: ").all()
    with_checker(study, kind="code", timeout_s=30.0)
    assert run(["regrade", str(study), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_changed"] == len(frame)
    assert stored(study)["correct"].all()


def test_a_checker_that_raises_or_hangs_loses_no_rollout_and_is_regraded_once_it_works(
    tmp_path: Path, capsys: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = tmp_path / "my_rewards.py"
    module.write_text(
        "import time\ndef score(completions, **rest):\n  if completions == ['hang']: time.sleep(99)\n  1 / 0\n"
    )
    task = {"checker": {"kind": "function", "function": "my_rewards:score", "timeout_s": 1.0}}
    study = study_of(tmp_path / "study", ["right", "wrong", "hang"], task, questions(3))
    assert run(["probe", str(study)]) == 2
    assert_harmless(capsys.readouterr().err)
    before = stored(study)
    assert before["correct"].isna().all()
    assert set(before["reason"]) <= {
        "the checker raised ZeroDivisionError: division by zero",
        "the checker took more than 1 s",
    }
    module.write_text("def score(completions, answer, **rest):\n  return [float(completions == answer)]\n")
    assert run(["regrade", str(study)]) == 0
    after = stored(study)
    assert (after["correct"] == (after["text"] == "right")).all()
    assert after[["arm_key", "example_id", "index", "text"]].equals(before[["arm_key", "example_id", "index", "text"]])
    assert set(after["checker_version"]).isdisjoint(set(before["checker_version"]))


CALL = json.dumps({"name": "f", "arguments": {"x": 1}})
NEW_CHECKERS: list[tuple[dict[str, Any], list[str], dict[str, Any]]] = [
    ({"kind": "multiple_choice"}, ["Answer: B", "Answer: A"], {"answer": "B", "metadata": {"choices": ["x", "y"]}}),
    ({"kind": "math", "equality": "numbers"}, [r"\boxed{1,000}", r"\boxed{1}"], {"answer": "1000"}),
    ({"kind": "tool_call"}, [CALL, "{}"], {"answer": CALL}),
]


@pytest.mark.parametrize(("checker", "completions", "fields"), NEW_CHECKERS, ids=lambda part: str(part)[:30])
def test_stored_texts_are_judged_again_by_the_new_checkers(
    tmp_path: Path, capsys: Screen, checker: dict[str, Any], completions: list[str], fields: dict[str, Any]
) -> None:
    study = study_of(tmp_path / "study", completions, {}, questions(**fields))
    assert run(["probe", str(study)]) == 0
    texts = list(stored(study)["text"])
    with_checker(study, **checker)
    assert run(["regrade", str(study)]) == 0
    frame = stored(study)
    assert list(frame["text"]) == texts
    assert (frame["correct"] == (frame["text"] == completions[0])).all()
    assert set(frame["checker"]) == {checker["kind"]}
    assert_harmless(capsys.readouterr().out)


def test_a_checker_without_its_library_is_one_error_before_anything_is_generated(
    tmp_path: Path, capsys: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("math_verify", "reasoning_gym"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('No module named {name}')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    study = study_of(tmp_path / "study", ["right"], {}, questions())
    for kind, extra in (("math", "gapcast[math]"), ("reasoning_gym", "gapcast[reasoning-gym]")):
        with_checker(study, kind=kind)
        assert run(["probe", str(study)]) == 2
        error = capsys.readouterr().err
        assert extra in error
        assert_harmless(error)
    assert not (study / "rollouts").exists()
