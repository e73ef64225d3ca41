"""Behind a gate the law predicts from the net gap, and says so under its own name."""

from __future__ import annotations

from predictor.config import parse_study_config
from predictor.forecast import forecast
from predictor.law import LinearLaw
from predictor.law.points import measured_gap
from predictor.law.simulate import PlantedLaw
from predictor.records import Estimate, GapEstimate, LawSpec
from tests.planted_study import STUDY_YAML, planted_gaps

PLANTED = PlantedLaw(probe_stderr=0.02, eval_stderr=0.02)


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
    missing = gap_of(gating="failed", net_gap=net, consensus_gap=None)
    assert measured_gap(missing, other) == (net, "net_gap"), "the raw gap holds the bare resample's luck"


def test_a_net_gap_stands_in_only_where_another_gap_was_asked_for() -> None:
    net = PLANTED.gap("gated", 0.3).gap
    gated = PLANTED.gap("gated", 0.4).model_copy(update={"gating": "failed", "net_gap": net})
    records = [
        record.model_copy(update={"gap": gated.model_copy(update={"hint": record.spec.hint})})
        for record in PLANTED.records((0.1, 0.2, 0.3))
    ]
    for law, flagged in (
        (LinearLaw(predictor="gap"), False),
        (LinearLaw(predictor="consensus_gap", fallback="gap"), True),
    ):
        fit = law.fit(records)
        item = forecast(fit, [gated], threshold=0.0)[0]
        assert fit.points[0].predictor == item.predictor == "net_gap"
        for guards in (fit.guards, item.guards):
            assert ("fallback_predictor" in {guard.name for guard in guards}) is flagged
