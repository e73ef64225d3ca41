"""Behind a gate the law predicts from the net gap, and says so under its own name."""

from __future__ import annotations

from predictor.config import parse_study_config
from predictor.law.points import measured_gap
from predictor.records import Estimate, GapEstimate, LawSpec
from tests.planted_study import STUDY_YAML, planted_gaps


def gap_of(**changes: object) -> GapEstimate:
    config = parse_study_config(STUDY_YAML.replace("FAMILY", "llama"), where="test")
    rule = next(gap for gap in planted_gaps(config) if gap.hint == "rule")
    return rule.model_copy(update=changes)


def test_behind_a_gate_the_net_gap_is_the_predictor() -> None:
    net = Estimate(value=0.111, stderr=0.01, num_units=20, kind="difference")
    spec = LawSpec(predictor="gap")
    assert measured_gap(gap_of(gating="failed", net_gap=net), spec) == (net, "net_gap")
    assert measured_gap(gap_of(net_gap=net), spec)[1] == "gap"
    assert measured_gap(gap_of(gating="failed", net_gap=None), spec)[1] == "gap"
    other = LawSpec(predictor="consensus_gap", fallback="gap")
    assert measured_gap(gap_of(gating="failed", net_gap=net), other)[1] == "consensus_gap"
