"""The log of a run elsewhere becomes a record once its facts are told, and is refused with what to write until then."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from predictor.errors import DataError
from predictor.loop.outside import ImportKind, import_rows
from predictor.store import Study
from tests.planted_study import planted_study

FACTS = {
    "family": "study",
    "model": "study",
    "task": "study",
    "hint": "rule",
    "accuracy": "val/acc",
    "num_units": 128,
    "improvement_stderr": 0.03,
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return planted_study(tmp_path_factory.mktemp("import") / "study")


def write_csv(path: Path, *rows: dict[str, Any]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_log(path: Path, kind: ImportKind, values: list[tuple[int, dict[str, float]]]) -> Path:
    if kind == "trl":
        history = [{"step": step, "epoch": 0.1, **metrics} for step, metrics in values]
        path.write_text(json.dumps({"global_step": 60, "log_history": history}), encoding="utf-8")
    elif kind == "verl":
        path.write_text("\n".join(json.dumps({"step": s, "data": m}) for s, m in values), encoding="utf-8")
    else:
        names = sorted({name for _, metrics in values for name in metrics})
        write_csv(path, *({"_step": s} | {name: m.get(name, "") for name in names} for s, m in values))
    return path


CURVE = [
    (0, {"val/acc": 0.15, "teacher/acc": 0.79, "lr": 0.0}),
    (30, {"val/acc": 0.62}),
    (50, {"loss": 0.2}),
    (60, {"val/acc": 0.58, "teacher/acc": 0.80}),
]


@pytest.mark.parametrize("kind", ["trl", "verl", "wandb"])
def test_a_log_gives_gap_at_the_first_step_and_improvement_at_the_last(
    study: Study, tmp_path: Path, kind: ImportKind
) -> None:
    file = write_log(tmp_path / "log", kind, CURVE)
    facts = FACTS | {"teacher_accuracy": "teacher/acc", "gap_stderr": "unknown"}
    (tmp_path / "log.facts.yaml").write_text(yaml.safe_dump(facts), encoding="utf-8")
    (record,) = import_rows(study, file, kind)
    assert record.gap is not None
    assert record.improvement is not None
    assert record.gap.gap.value == pytest.approx(0.64)
    assert math.isnan(record.gap.gap.stderr)
    assert record.improvement.value == pytest.approx(0.43)
    assert record.improvement.stderr == 0.03
    assert (record.spec.num_steps, record.source) == (60, kind)
    (tmp_path / "log.facts.yaml").write_text(yaml.safe_dump(facts | {"checkpoint_rule": "best"}), encoding="utf-8")
    (best,) = import_rows(study, file, kind)
    assert best.improvement is not None
    assert best.improvement.value == pytest.approx(0.47)
    assert best.checkpoint_rule == "best"


def test_console_lines_of_verl_and_a_bare_history_of_trl_are_read(study: Study, tmp_path: Path) -> None:
    lines = ["(pid=1) step:0 - val/acc:0.15 - timing_s/step:3.2 - note:x", "noise", "step:60 - val/acc:np.float64(1)"]
    (tmp_path / "console").write_text("\n".join([*lines, "step:60 - val/acc:0.58 - a/b:-1e-3"]), encoding="utf-8")
    (tmp_path / "console.facts.yaml").write_text(yaml.safe_dump(FACTS), encoding="utf-8")
    (record,) = import_rows(study, tmp_path / "console", "verl")
    assert record.improvement is not None
    assert record.improvement.value == pytest.approx(0.43)
    (tmp_path / "history").write_text(json.dumps([{"step": 0, "val/acc": 0.1}, {"step": 9, "val/acc": 0.2}]), "utf-8")
    (tmp_path / "history.facts.yaml").write_text(yaml.safe_dump(FACTS), encoding="utf-8")
    (other,) = import_rows(study, tmp_path / "history", "trl")
    assert other.spec.num_steps == 9


def test_without_a_logged_teacher_the_studys_own_gap_is_taken_only_for_its_own_model(
    study: Study, tmp_path: Path
) -> None:
    file = write_log(tmp_path / "log", "verl", CURVE)
    sidecar = tmp_path / "log.facts.yaml"
    sidecar.write_text(yaml.safe_dump(FACTS), encoding="utf-8")
    (record,) = import_rows(study, file, "verl")
    assert record.gap is not None
    assert record.gap.gap.value == 0.640
    assert record.gap.consensus_gap is not None
    assert record.gap.consensus_gap.stderr == 0.031
    sidecar.write_text(yaml.safe_dump(FACTS | {"model": "another/model"}), encoding="utf-8")
    with pytest.raises(DataError, match="nothing says what the gap"):
        import_rows(study, file, "verl")


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (None, "does not say which run"),
        ({"hint": "rule"}, "does not say which run"),
        (FACTS | {"accuracy": "val/accuracy"}, "no metric"),
        (FACTS | {"accuracy": "loss"}, "one logged accuracy"),
        (FACTS | {"teacher_accuracy": "teacher/acc"}, "no standard error"),
        ({name: value for name, value in FACTS.items() if name != "improvement_stderr"}, "does not say which run"),
    ],
)
def test_a_log_whose_run_is_not_told_is_refused_with_what_to_write(
    study: Study, tmp_path: Path, facts: dict[str, Any] | None, told: str
) -> None:
    file = write_log(tmp_path / "log", "trl", CURVE)
    if facts is not None:
        (tmp_path / "log.facts.yaml").write_text(yaml.safe_dump(facts), encoding="utf-8")
    with pytest.raises(DataError, match=told):
        import_rows(study, file, "trl")


def test_percent_are_refused_instead_of_divided(study: Study, tmp_path: Path) -> None:
    file = write_log(tmp_path / "log", "trl", [(0, {"val/acc": 15.0}), (9, {"val/acc": 58.0})])
    (tmp_path / "log.facts.yaml").write_text(yaml.safe_dump(FACTS), encoding="utf-8")
    with pytest.raises(DataError, match="not accuracies"):
        import_rows(study, file, "trl")


@pytest.mark.parametrize("kind", ["trl", "verl", "wandb"])
@pytest.mark.parametrize("content", [b"", b"{}", b"3", b"\xff\xfe", b'[{"loss": 1}]', b"a,b\n1,2\n"])
def test_a_file_that_is_no_log_is_one_clear_error(
    study: Study, tmp_path: Path, kind: ImportKind, content: bytes
) -> None:
    (tmp_path / "log").write_bytes(content)
    (tmp_path / "log.facts.yaml").write_text(yaml.safe_dump(FACTS), encoding="utf-8")
    with pytest.raises(DataError):
        import_rows(study, tmp_path / "log", kind)
