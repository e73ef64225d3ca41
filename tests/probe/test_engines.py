"""One engine for one contrast, and the numbers that say how far two engines are apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from predictor.engines.scripted import ScriptedEngine, ScriptedTable
from predictor.errors import StudyError
from predictor.probe import Probe, estimate_study
from predictor.probe.summary import Effort
from predictor.store import Study
from tests.probe.test_reweight import change, opened, quiet, reweighted, write_study


class OtherEngine(ScriptedEngine):
    """The same law under another name, as transformers beside vLLM."""

    name = "other"


def probe_with_other(path: Path) -> Probe:
    engine = OtherEngine(ScriptedTable.load(path / "model"))
    return Probe(Study(path), engine, path / "model", lambda: engine)


def test_engines_are_never_mixed_within_one_contrast(tmp_path: Path) -> None:
    """F17: a study that was begun on one engine is not continued on another; what is complete can be read on any."""
    path = write_study(tmp_path / "study", rollouts=2, consensus_examples=2, consensus_rollouts=1)
    opened(path).run(quiet)
    before = len(Study(path).rollouts.read())
    assert probe_with_other(path).run(quiet).effort.generated_rollouts == 0
    change(path, probe={"rollouts": 3})
    with pytest.raises(StudyError, match="one engine") as caught:
        probe_with_other(path).run(quiet)
    assert caught.value.found == "other"
    assert "model.engine: scripted" in caught.value.fix
    assert len(Study(path).rollouts.read()) == before
    assert opened(path).run(quiet).effort.generated_rollouts > 0


def test_the_distance_of_two_engines_is_told_as_mean_and_99th_percentile(tmp_path: Path) -> None:
    """F17: 0.012 nats per token between vLLM and transformers make a factor 3.3 over a hundred tokens."""
    path = write_study(tmp_path / "study", consensus_estimator="reweight")
    probe = opened(path)
    probe.run(quiet)
    study = Study(path)
    frame = study.rollouts.read()
    apart = np.full(len(frame), 0.012)
    apart[::50] = 0.5
    lengths = frame["completion_ids"].map(len)
    study.rollouts.replace_all(frame.assign(logprob_sum=frame["logprob_sum"] - apart * lengths))
    result = estimate_study(study, probe.data, None, Effort())
    found = reweighted(result)
    assert found.engine_difference == pytest.approx(0.012 + 0.488 / 50, abs=0.004)
    assert found.engine_difference_p99 == pytest.approx(0.5)
    assert np.exp(100 * 0.012) == pytest.approx(3.3, abs=0.05)
    # Numerator and denominator of a weight come from the engine that scored, so the estimate does not move.
    assert found.gap == reweighted(opened(path).run(quiet)).gap
    shown = next(hint for hint in result.as_json()["hints"] if hint["hint"] == "mixed")["reweighted"]
    assert shown["engine_difference_p99"] == found.engine_difference_p99
