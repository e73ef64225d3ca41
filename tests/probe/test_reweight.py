"""The reweighted consensus gap of a study on a model known in closed form: exact, resumable, refused when blind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from predictor.engines.scripted import ScriptedEngine, ScriptedRule, ScriptedTable
from predictor.errors import DataError
from predictor.probe import Probe, ProbeResult, estimate_study
from predictor.probe.reweight.collect import hint_groups
from predictor.probe.summary import Effort
from predictor.records import ReweightedConsensus, content_hash
from predictor.store import Study

EXAMPLES = 24
ANSWERS = ("right", "wrong", "other")
LAWS = {"GOOD": (0.9, 0.05, 0.05), "BAD": (0.1, 0.8, 0.1), "": (0.3, 0.5, 0.2)}


def write_study(path: Path, **probe: Any) -> Path:
    """Every second example's hint is GOOD, the others' is BAD; the student's law is another one."""
    path.mkdir(parents=True)
    rules = [
        ScriptedRule(contains=(hint,) if hint else (), completions=dict(zip(ANSWERS, law, strict=True)))
        for hint, law in LAWS.items()
    ]
    ScriptedTable(rules=tuple(rules)).save(path / "model")
    rows = [
        {
            "example_id": f"{split}{number}",
            "prompt": f"question {number}?",
            "answer": "right",
            "split": split,
            "metadata": {"hint": "GOOD" if number % 2 else "BAD"},
        }
        for split in ("train", "eval")
        for number in range(EXAMPLES)
    ]
    (path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "model": {"path": "model"},
        "task": {
            "source": "jsonl",
            "path": "examples.jsonl",
            "eval_examples": EXAMPLES,
            "train_examples": EXAMPLES,
        },
        "sampling": {"max_tokens": 8},
        "probe": {"rollouts": 8, "consensus_hints": 4, "consensus_examples": EXAMPLES, **probe},
        "hints": [
            {"name": "none", "kind": "none"},
            {"name": "mixed", "kind": "messages", "template": "{{ metadata.hint }}", "irrelevant": "note"},
        ],
        "training": {"preset": "sdpo_lcb"},
        "plan": {"budget": {"seconds": 60}},
    }
    (path / "study.yaml").write_text(yaml.safe_dump(config))
    return path


def change(path: Path, **sections: Any) -> Path:
    config = yaml.safe_load((path / "study.yaml").read_text())
    for name, fields in sections.items():
        config[name] = config[name] | fields
    (path / "study.yaml").write_text(yaml.safe_dump(config))
    return path


def quiet(_stage: str, _done: int, _total: int) -> None:
    """No progress."""


def opened(path: Path) -> Probe:
    engine = ScriptedEngine(ScriptedTable.load(path / "model"))
    return Probe(Study(path), engine, path / "model", lambda: engine)


def probed(path: Path) -> ProbeResult:
    return opened(path).run(quiet)


def exact_accuracy(path: Path, mean: str) -> float:
    """Mean over examples of the consensus policy's probability of the right answer: all answers differ at once."""
    probe = opened(path)
    hint = probe.config.hints[1]
    arm = probe.factory.consensus(hint, probe.config.training.resolved.consensus_mean)
    values = []
    for job in probe.factory.consensus_jobs(arm, probe.data.eval, 1, {}):
        laws = np.array([LAWS["GOOD" if "GOOD" in prompt.text else "BAD"] for prompt in job.prompts])
        policy = laws.mean(axis=0) if mean == "arithmetic" else np.exp(np.log(laws).mean(axis=0))
        values.append(policy[0] / policy.sum())
    return float(np.mean(values))


def reweighted(result: ProbeResult) -> ReweightedConsensus:
    detail = result.hint("mixed").consensus_detail
    assert detail is not None
    assert detail.reweighted is not None
    return detail.reweighted


@pytest.mark.parametrize(("preset", "mean"), [("sdpo_lcb", "geometric"), ("opsd_math", "arithmetic")])
def test_stored_rollouts_give_the_exact_consensus_accuracy_where_answers_repeat(
    tmp_path: Path, preset: str, mean: str
) -> None:
    path = change(write_study(tmp_path / "study", consensus_estimator="both"), training={"preset": preset})
    result = probed(path)
    found, exact = reweighted(result), exact_accuracy(path, mean)
    assert found.consensus is not None
    assert found.gap is not None
    assert found.consensus.value == pytest.approx(exact, abs=0.01)
    assert found.gap.value == pytest.approx(found.consensus.value - result.student.value, abs=1e-9)
    assert found.covered.value == pytest.approx(1.0, abs=0.05)
    assert found.engine_difference == pytest.approx(0.0, abs=1e-12)
    gap = result.hint("mixed")
    assert gap.consensus_gap is not None
    assert gap.consensus_detail is not None
    assert gap.consensus_detail.estimator == "ensemble"
    # Both estimators are of one policy on the same examples and hints.
    assert abs(gap.consensus_gap.value - found.gap.value) < 4 * gap.consensus_gap.stderr


def test_the_standard_error_of_reweighting_covers_new_hints_and_examples(tmp_path: Path) -> None:
    values, errors, hint_errors = [], [], []
    for seed in range(12):
        path = write_study(tmp_path / str(seed), consensus_estimator="reweight", seed=seed, rollouts=4)
        found = reweighted(probed(path))
        assert found.consensus is not None
        values.append(found.consensus.value)
        errors.append(found.consensus.stderr)
        hint_errors.append(found.stderr_hints)
    # Examples are alike here, so what is left is the draw of hints: 12 values give its spread to about a fifth.
    assert float(np.std(values, ddof=1)) < 2 * float(np.mean(errors))
    assert 0.4 < float(np.mean(hint_errors)) / float(np.mean(errors)) < 1.3


def test_reweighting_alone_decodes_nothing_and_takes_the_place_of_the_consensus_gap(tmp_path: Path) -> None:
    result = probed(write_study(tmp_path / "study", consensus_estimator="reweight"))
    gap = result.hint("mixed")
    assert gap.consensus_detail is not None
    assert gap.consensus_detail.estimator == "reweight"
    assert gap.consensus_gap == reweighted(result).gap
    assert not Study(tmp_path / "study").rollouts.read()["arm"].str.endswith("/consensus").any()
    shown = result.as_json()["hints"]
    entry = next(hint for hint in shown if hint["hint"] == "mixed")
    assert entry["reweighted"]["consensus_gap"]["value"] == gap.consensus_gap.value
    assert entry["reweighted"]["refused"] is None


def test_a_second_probe_scores_nothing_and_more_rollouts_are_scored_anew(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", consensus_estimator="reweight", rollouts=2)
    first = probed(path)
    shards = sorted((path / "scores").iterdir())
    assert probed(path).hint("mixed").consensus_gap == first.hint("mixed").consensus_gap
    assert sorted((path / "scores").iterdir()) == shards
    change(path, probe={"rollouts": 8})
    second = probed(path)
    assert reweighted(second).num_rollouts > reweighted(first).num_rollouts
    scores = Study(path).scores.read()
    assert not scores.assign(ids=scores["completion_ids"].map(tuple)).duplicated(["example_id", "ids"]).any()


def test_a_killed_scoring_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", consensus_estimator="reweight")

    def stop(stage: str, done: int, _total: int) -> None:
        if stage == "consensus scores" and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(path).run(stop)
    stored = Study(path).scores.read()
    assert len(stored)
    assert len(probed(path).hints)
    assert len(Study(path).scores.read()) == len(stored)


def test_regrading_changes_the_accuracy_and_no_score(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", consensus_estimator="reweight")
    before = reweighted(probed(path))
    study = Study(path)
    frame = study.rollouts.read()
    study.rollouts.replace_all(frame.assign(correct=frame["text"] != "right"))
    after = reweighted(estimate_study(study, opened(path).data, None, Effort()))
    assert before.consensus is not None
    assert after.consensus is not None
    assert after.consensus.value == pytest.approx(1.0 - before.consensus.value)


def test_a_policy_beyond_the_stored_rollouts_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = change(write_study(tmp_path / "few", consensus_estimator="reweight"), probe={"least_effective_rollouts": 99})
    found = reweighted(probed(path))
    assert "effective sample size" in found.refused
    assert found.gap is None
    blind = write_study(tmp_path / "blind", consensus_estimator="reweight")
    rules = json.loads((blind / "model" / "scripted.json").read_text())
    # Other examples' hints are shown in another wording, which the model answers in words nobody else uses.
    rules["rules"].insert(0, {"contains": ["Answer: "], "completions": {"unheard": 1.0 - 1e-9, "right": 1e-9}})
    (blind / "model" / "scripted.json").write_text(json.dumps(rules))
    config = yaml.safe_load((blind / "study.yaml").read_text())
    config["hints"][1] = {"name": "mixed", "kind": "answer", "irrelevant": "note"}
    (blind / "study.yaml").write_text(yaml.safe_dump(config))
    result = probed(blind)
    assert "of the consensus policy's mass" in reweighted(result).refused
    assert result.hint("mixed").consensus_gap is None


def test_greedy_rollouts_have_no_law_to_be_reweighted_from(tmp_path: Path) -> None:
    path = change(
        write_study(tmp_path / "study", consensus_estimator="both"),
        sampling={"temperature": 0.0},
        probe={"rollouts": 1},
    )
    result = probed(path)
    assert "temperature 0" in reweighted(result).refused
    assert result.hint("mixed").consensus_gap is not None
    assert not (path / "scores").exists()


def test_a_rollout_without_a_score_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", consensus_estimator="reweight", rollouts=1)
    probe = opened(path)
    probe.run(quiet)
    change(path, probe={"rollouts": 12, "consensus_estimator": "ensemble"})
    probed(path)
    change(path, probe={"consensus_estimator": "reweight"})
    with pytest.raises(DataError, match="no score under the consensus policy"):
        estimate_study(Study(path), probe.data, None, Effort())


def test_the_weight_of_the_jensen_shannon_mean_is_the_presets(tmp_path: Path) -> None:
    base = {"preset": "sdpo_science"}
    skewed = {**base, "overrides": {"divergence": {"alpha": 0.9}}}
    found = {}
    for name, training in (("half", base), ("skewed", skewed)):
        path = change(write_study(tmp_path / name, consensus_estimator="both"), training=training)
        probe = opened(path)
        found[name] = probe.factory.consensus(probe.config.hints[1], "jsd")
        result = probe.run(quiet)
        gap = result.hint("mixed").consensus_gap
        assert gap is not None
        assert reweighted(result).gap is not None
        assert abs(gap.value - reweighted(result).gap.value) < 4 * gap.stderr  # type: ignore[union-attr]
    assert (found["half"].alpha, found["skewed"].alpha) == (0.5, 0.9)
    assert found["half"].key != found["skewed"].key
    config = Study(tmp_path / "half").config
    content = config.hints[1].model_dump(mode="json", exclude={"name", "controls"})
    # Rollouts that were stored before the weight could be chosen stay valid.
    assert found["half"].key == content_hash([config.measurement_key, "consensus", content, "jsd", 4])[:20]


@pytest.mark.parametrize(("count", "sizes"), [(1, []), (2, [1, 1]), (6, [2, 2, 1, 1]), (8, [2, 2, 2, 2])])
def test_hints_are_left_out_in_at_most_four_groups(count: int, sizes: list[int]) -> None:
    groups = hint_groups(count)
    assert [len(group) for group in groups] == sizes
    assert sorted(hint for group in groups for hint in group) == list(range(count if count > 1 else 0))
