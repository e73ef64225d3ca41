"""KL by position as it is drawn."""

from __future__ import annotations

import pytest

from predictor.plots.positions import largest, plot_positions, reaching
from predictor.records import Estimate
from predictor.records.diagnostics import HintDiagnostics, LeakAudit, PositionProfile, TokenDiagnostics
from tests.planted_study import provenance


def estimate(value: float) -> Estimate:
    return Estimate(value=value, stderr=0.01, num_units=20)


def diagnosis(hint: str, size: float, *, scored: bool = True) -> HintDiagnostics:
    leaks = LeakAudit(
        answer_in_hint=estimate(1.0), ngram_overlap=estimate(0.2), student_ngram_overlap=None, last_step_overlap=None
    )
    tokens = TokenDiagnostics(
        forward_kl=estimate(size),
        reverse_kl=estimate(size / 2),
        top1_disagreement=estimate(0.1),
        correctness_alignment=None,
        privilege_margin=estimate(0.05),
        format_share=estimate(0.4),
        marker_share=estimate(0.0),
        student_entropy=estimate(1.2),
        teacher_entropy=estimate(0.7),
        quarter_shares=(0.7, 0.1, 0.1, 0.1),
        profile=PositionProfile(
            forward_kl=(3 * size, size, size / 2), reverse_kl=(size, size / 2, 0.0), num_rollouts=(100, 40, 5)
        ),
        num_rollouts=100,
        num_tokens=145,
    )
    return HintDiagnostics(hint=hint, tokens=tokens if scored else None, leaks=leaks, provenance=provenance())


def test_both_directions_are_drawn_up_to_where_a_tenth_of_the_rollouts_reach() -> None:
    found = [diagnosis("small", 0.1), diagnosis("large $x$", 2.0), diagnosis("unscored", 9.0, scored=False)]
    upper, lower = plot_positions(found)
    assert [line.get_ydata().tolist() for line in upper.lines] == [[6.0, 2.0], pytest.approx([0.3, 0.1])]
    assert [line.get_ydata().tolist() for line in lower.lines] == [[2.0, 1.0], pytest.approx([0.1, 0.05])]
    legend = upper.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [r"large \$x\$", "small"]
    assert "forward" in upper.get_ylabel()
    assert "reverse" in lower.get_ylabel()
    assert reaching(found[0].tokens) == 2  # type: ignore[arg-type]


def test_at_most_six_hint_configs_are_drawn_the_largest_first() -> None:
    found = [diagnosis(f"h{n}", float(n)) for n in range(9)]
    assert [hint for hint, _ in largest(found)] == ["h8", "h7", "h6", "h5", "h4", "h3"]
    assert len(plot_positions(found)[0].lines) == 6


def test_nothing_measured_draws_empty_axes_without_a_legend() -> None:
    upper, _ = plot_positions([])
    assert not upper.lines
    assert upper.get_legend() is None
