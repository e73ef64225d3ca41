"""The command line: JSON as the design says, one clear error for bad input, exit codes that can be relied on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from predictor.cli import run
from predictor.engines.scripted import ScriptedTable, plant

NUM = 24


def scripted_study(path: Path) -> Path:
    """A study on a model whose hint adds .4 to every question."""
    path.mkdir(parents=True)
    rules = []
    for number in range(NUM):
        rules += plant(f"question {number}?", ("right", "wrong"), 0.3, {"HINT": 0.7})
    ScriptedTable(rules=tuple(rules)).save(path / "model")
    rows = [
        {"example_id": f"{split}{number}", "prompt": f"question {number}?", "answer": "right", "split": split}
        for split in ("train", "eval")
        for number in range(NUM)
    ]
    (path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write(
        path,
        {
            "model": {"path": "model", "family": "planted"},
            "task": {"source": "jsonl", "path": "examples.jsonl", "eval_examples": NUM, "train_examples": NUM},
            "sampling": {"max_tokens": 8},
            "probe": {"rollouts": 4},
            "hints": [
                {"name": "none", "kind": "none"},
                {"name": "told", "kind": "static", "template": "HINT", "irrelevant": "nothing"},
            ],
            "plan": {"budget": {"seconds": 60}},
        },
    )
    return path


def write(path: Path, study: dict[str, object]) -> None:
    (path / "study.yaml").write_text(yaml.safe_dump(study))


def change(study_dir: Path, section: str, **changes: object) -> None:
    study = yaml.safe_load((study_dir / "study.yaml").read_text())
    study[section] = study.get(section, {}) | changes
    write(study_dir, study)


def test_probe_json_has_the_documented_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = scripted_study(tmp_path / "study")
    assert run(["probe", str(study), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {
        "model", "task", "student", "baseline_id", "hints", "num_rollouts", "num_tokens", "seconds",
    }  # fmt: skip
    assert set(printed["student"]) == {"value", "stderr", "num_units", "interval", "level"}
    assert set(printed["hints"][0]) == {
        "hint", "kind", "is_control", "teacher", "gap", "net_gap", "transferable_gap", "consensus_gap", "recovery",
        "harm", "copy_rate", "coverage", "truncated", "undecided", "reweighted", "gating", "estimands", "stopping",
        "num_rollouts",
    }  # fmt: skip
    told = next(hint for hint in printed["hints"] if hint["hint"] == "told")
    assert told["gap"]["interval"][0] < 0.4 < told["gap"]["interval"][1]


def test_forecasts_are_frozen_with_time_and_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = scripted_study(tmp_path / "study")
    assert run(["probe", str(study)]) == 0
    capsys.readouterr()
    assert run(["forecast", str(study), "--json"]) in (0, 3)
    printed = json.loads(capsys.readouterr().out)
    assert [item["hint"] for item in printed] == ["none", "told"]
    assert len({item["content_hash"] for item in printed}) == 1
    told = printed[1]
    low, high = told["improvement"]["interval80"]
    assert low < told["improvement"]["value"] < high
    assert run(["forecast", str(study), "--json", "--predictor", "gap"]) in (0, 3)
    assert len((study / "forecasts.jsonl").read_text().splitlines()) == 2


def test_forecast_before_probe_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = scripted_study(tmp_path / "study")
    assert run(["forecast", str(study)]) == 2
    assert "gapcast probe" in capsys.readouterr().err


def test_fit_without_runs_uses_the_prior_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = scripted_study(tmp_path / "study")
    assert run(["fit", str(study), "--json"]) in (0, 3)
    printed = json.loads(capsys.readouterr().out)
    assert printed["num_runs"] == 0
    assert "prior_only" in json.dumps(printed) or printed["families"] == []
    assert run(["fit", str(study), "--method", "ols"]) == 2
    assert "no finished run" in capsys.readouterr().err


def test_dry_run_marks_the_hint_in_the_teacher_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study"
    assert run(["init", str(study), "--template", "miniature"]) == 0
    capsys.readouterr()
    assert run(["probe", str(study), "--dry-run", "--json"]) == 0
    pairs = {pair["hint"]: pair for pair in json.loads(capsys.readouterr().out)["prompts"]}
    assert "⟦rule reverse" in pairs["rule"]["teacher"]
    assert pairs["rule"]["teacher"].replace("⟦", "").replace("⟧", "").startswith("<bos>")
    assert pairs["none"]["teacher"].replace("⟦⟧", "") == pairs["none"]["student"]
    assert not (study / "rollouts").exists()


@pytest.mark.parametrize(
    ("section", "changes", "expected"),
    [
        ("task", {"pth": "x"}, "did you mean `path`?"),
        ("task", {"path": "missing.jsonl"}, "does not exist"),
        ("task", {"checker": {"kind": "magic"}}, "checker"),
        ("task", {"eval_examples": 9999}, "too few eval examples"),
        ("model", {"path": "nowhere"}, "does not exist"),
        ("sampling", {"temperature": "warm"}, "temperature"),
        ("sampling", {"max_tokens": 100_000}, "does not fit"),
        ("plan", {"budget": {"seconds": 1, "gpu_hours": 1}}, "exactly one"),
    ],
)
def test_bad_input_is_one_clear_error_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], section: str, changes: dict[str, object], expected: str
) -> None:
    study = scripted_study(tmp_path / "study")
    change(study, section, **changes)
    assert run(["probe", str(study)]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert "Traceback" not in error


def test_a_hint_whose_field_an_example_lacks_names_example_template_and_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = scripted_study(tmp_path / "study")
    content = yaml.safe_load((study / "study.yaml").read_text())
    content["hints"].append({"name": "lost", "kind": "messages", "template": "{{ metadata.rule }}"})
    write(study, content)
    assert run(["probe", str(study)]) == 2
    error = capsys.readouterr().err
    assert "eval" in error
    assert "metadata.rule" in error
    assert "question, answer" in error


def test_a_directory_that_is_no_study_and_a_wrong_command_exit_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["probe", str(tmp_path)]) == 2
    assert "gapcast init" in capsys.readouterr().err
    assert run(["prob", str(tmp_path)]) == 2
    assert run(["probe"]) == 2
    assert run(["init", str(tmp_path / "s"), "--template", "nothing"]) == 2
    assert "hidden-rules" in capsys.readouterr().err


def test_rollouts_that_are_all_the_same_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F20: K identical samples at a temperature above 0 may come from one seed, and then say no more than one."""
    study = scripted_study(tmp_path / "study")
    rules = [rule for n in range(NUM) for rule in plant(f"question {n}?", ("right", "wrong"), 0.4, {"HINT": 1.0})]
    ScriptedTable(rules=tuple(rules)).save(study / "model")
    assert run(["probe", str(study)]) == 0
    errors = capsys.readouterr().err
    assert "told: all rollouts of every example are the same" in errors
    assert "none: all rollouts" not in errors


def test_too_much_undecided_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = scripted_study(tmp_path / "study")
    rows = [json.loads(line) for line in (study / "examples.jsonl").read_text().splitlines()]
    for row in rows[: NUM + NUM // 2]:
        row.pop("answer")
    (study / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["probe", str(study)]) == 3
    assert "undecided" in capsys.readouterr().err


def test_regrade_judges_stored_texts_with_the_new_checker_and_generates_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = scripted_study(tmp_path / "study")
    assert run(["probe", str(study)]) == 0
    change(study, "task", checker={"kind": "regex", "pattern": "(nothing)"})
    capsys.readouterr()
    assert run(["regrade", str(study), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["num_changed"] > 0
    assert all(hint["teacher"]["value"] == 0.0 for hint in printed["hints"])
    assert run(["probe", str(study), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["student"]["value"] == 0.0


def test_a_report_of_a_probed_study_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = scripted_study(tmp_path / "study")
    assert run(["probe", str(study)]) == 0
    assert run(["report", str(study)]) == 0
    assert "told" in (study / "report.html").read_text()
    assert str(study) in capsys.readouterr().out


def test_help_of_every_command_says_something() -> None:
    from predictor.cli.app import app

    names = [name for name in app if not name.startswith("-")]
    assert {"init", "probe", "forecast", "plan", "pilot", "launch", "record", "fit", "run", "regrade", "report"} <= set(
        names
    )
    assert all(app[name].help for name in names)
    assert "predictor" in sys.modules
