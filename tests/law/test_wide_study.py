"""The wide miniature study: what it compares was fixed before any run, and every study of it can be read."""

from __future__ import annotations

import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from predictor.config import StudyConfig

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture(scope="module", autouse=True)
def benchmarks_on_the_path():
    sys.path.insert(0, BENCHMARKS)
    yield
    sys.path.remove(BENCHMARKS)


def test_every_setting_and_task_is_a_valid_study_that_reads_the_earlier_tasks():
    wide = import_module("wide_study")
    for setting in wide.SETTINGS:
        for number, task in enumerate(wide.TASKS):
            config = StudyConfig.model_validate(wide.study_fields(setting, task))
            assert len(config.law.runs_from) == number
            assert sorted(wide.run_order(task)) == sorted(hint.name for hint in config.hints)
    kinds = {name: StudyConfig.model_validate(wide.study_fields(name, "next")).training for name in wide.SETTINGS}
    assert {name: plan.resolved.divergence.kind + " " + plan.resolved.teacher.kind for name, plan in kinds.items()} == {
        "reverse-frozen": "reverse_kl frozen",
        "forward-frozen": "forward_kl frozen",
        "reverse-ema": "reverse_kl ema",
        "forward-ema": "forward_kl ema",
    }


def test_the_classes_are_those_that_the_log_fixed():
    report, wide = import_module("wide_report"), import_module("wide_study")
    classes = [report.hint_class(task, str(hint["name"])) for task, (_, hints) in wide.TASKS.items() for hint in hints]
    assert Counter(classes) == {"well-behaved": 14, "unreliable": 9, "instance-specific": 11}
    assert report.hint_class("next", "quarter-right-copy") == "unreliable"
    assert report.hint_class("hidden-2", "demo-1") == "instance-specific"
