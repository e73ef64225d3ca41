"""Token diagnostics and leak audit on the page: two tables and KL by position."""

from __future__ import annotations

from predictor.plots.positions import largest, plot_positions
from predictor.records import Estimate
from predictor.records.definitions import DEFINITIONS
from predictor.records.diagnostics import HintDiagnostics
from predictor.report.evidence import Evidence
from predictor.report.figures import svg_uri
from predictor.report.page import Cell, Picture, Row, Section, plain, table
from predictor.report.wording import NOT_MEASURED, number, percent, span

_TOKENS = {
    "forward_kl": "forward KL",
    "reverse_kl": "reverse KL",
    "top1_disagreement": "top-1 disagreement",
    "correctness_alignment": "correctness alignment",
    "privilege_margin": "privilege margin",
    "format_share": "on format tokens",
    "marker_share": "on marker words",
    "student_entropy": "student entropy",
    "teacher_entropy": "teacher entropy",
}
_LEAKS = {
    "answer_in_hint": "answer in hint",
    "ngram_overlap": "4-grams from the hint",
    "student_ngram_overlap": "the student's, by chance",
    "last_step_overlap": "last step from the hint",
}


def diagnostics_section(evidence: Evidence) -> Section:
    """What the hint changes token by token, and how much of it the answers repeat."""
    found = evidence.diagnostics
    if not found:
        missing = "No token diagnostics yet: `gapcast probe --diagnostics` scores the stored rollouts token by token."
        return Section("diagnostics", "Token diagnostics", missing=(missing,))
    level = evidence.config.probe.confidence
    tokens = [Row((plain(i.hint), *_cells(i.tokens, tuple(_TOKENS), level), _quarters(i))) for i in found]
    leaks = [Row((plain(item.hint), *_cells(item.leaks, tuple(_LEAKS), level))) for item in found]
    columns = ("hint config", *_TOKENS.values(), "quarters")
    return Section(
        "diagnostics",
        "Token diagnostics",
        text=("The student's stored rollouts, scored after its own prompt and after the hinted one.",),
        pictures=_picture(found),
        tables=(
            table("Student against self-teacher, per token", columns, tokens, _notes((*_TOKENS, "quarter_shares"))),
            table("How much of the hint is repeated", ("hint config", *_LEAKS.values()), leaks, _notes(tuple(_LEAKS))),
        ),
    )


def _cells(record: object, names: tuple[str, ...], level: float) -> list[Cell]:
    found: list[Estimate | None] = [getattr(record, name, None) for name in names]
    return [
        NOT_MEASURED if value is None else Cell(number(value.value), span(value.interval(level), sign=False))
        for value in found
    ]


def _quarters(item: HintDiagnostics) -> Cell:
    if item.tokens is None:
        return NOT_MEASURED
    return Cell(" ".join(percent(share) for share in item.tokens.quarter_shares))


def _notes(names: tuple[str, ...]) -> list[str]:
    told = {**_TOKENS, **_LEAKS, "quarter_shares": "quarters"}
    return [f"{told[name].capitalize()}: {DEFINITIONS[name].what} ({DEFINITIONS[name].unit})." for name in names]


def _picture(found: tuple[HintDiagnostics, ...]) -> tuple[Picture, ...]:
    shown = largest(found)
    if not shown:
        return ()
    upper, _ = plot_positions(found)
    said = "; ".join(
        f"{hint} forward {number(tokens.profile.forward_kl[0])} and reverse {number(tokens.profile.reverse_kl[0])} at "
        f"the first of {len(tokens.profile.forward_kl)} positions"
        for hint, tokens in shown
    )
    caption = "KL by position for the hint configs with the largest divergence: a spike at the first token says that "
    return (Picture(svg_uri(upper), f"KL by position: {said}.", caption + "both prompts end differently."),)
