"""run.json is refused with one clear error, or used as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from predictor.errors import StudyError
from predictor.records import SamplingConfig
from trainer.config import load_run, rollout_sampling


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no readable run.json"),
        ("{", "not valid"),
        ("{}", "spec: Field required"),
        ('{"unknown": 1}', "not valid"),
        ("\udcff", "not valid"),
    ],
)
def test_a_bad_run_file_is_one_clear_error(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(StudyError) as caught:
        load_run(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_greedy_rollouts_and_runs_without_steps_are_refused(write_run: Callable[..., Path]) -> None:
    with pytest.raises(StudyError, match="needs sampled rollouts"):
        load_run(write_run("greedy", sampling=SamplingConfig(temperature=0.0)))
    with pytest.raises(StudyError, match="needs steps"):
        load_run(write_run("empty", num_steps=0))


def test_training_may_shorten_rollouts_and_nothing_else(write_run: Callable[..., Path]) -> None:
    study = SamplingConfig(temperature=0.9, top_p=0.8, max_tokens=6)
    assert rollout_sampling(load_run(write_run("study", sampling=study))) == study
    short = load_run(write_run("short", sampling=study, training={"max_tokens": 3}))
    assert rollout_sampling(short) == SamplingConfig(temperature=0.9, top_p=0.8, max_tokens=3)
