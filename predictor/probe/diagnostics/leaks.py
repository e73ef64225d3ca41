"""The leak audit: how much of a hint an answer repeats, from texts alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from predictor.records import Estimate
from predictor.records.diagnostics import LeakAudit
from predictor.stats import cluster_mean

_NGRAM = 4
_WORD = re.compile(r"\w+")
_STEP = re.compile(r"\n+|(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Shown:
    """One completion and the hint it is compared with."""

    example_id: str
    unit: str
    hint: str
    text: str


def audit(teacher: Sequence[Shown], student: Sequence[Shown], answers: Iterable[tuple[Shown, str]]) -> LeakAudit:
    """The teacher's rollouts against their hints, the student's against the same hints, and answers against hints."""
    held = [(shown, float(contains(words(shown.hint), words(answer)))) for shown, answer in answers if words(answer)]
    return LeakAudit(
        answer_in_hint=_macro(held, "share"),
        ngram_overlap=_macro(_overlaps(teacher), "share"),
        student_ngram_overlap=_macro(_overlaps(student), "share"),
        last_step_overlap=_macro(
            [(shown, last_step_overlap(shown.hint, shown.text)) for shown in teacher if words(shown.text)], "share"
        ),
    )


def words(text: str) -> list[str]:
    """Lower-case words of letters, digits and underscores."""
    return _WORD.findall(text.lower())


def contains(whole: Sequence[str], part: Sequence[str]) -> bool:
    """Whether the words of `part` stand in `whole`, one after the other."""
    return any(list(whole[start : start + len(part)]) == list(part) for start in range(len(whole) - len(part) + 1))


def ngram_overlap(hint: str, text: str) -> float:
    """Share of the text's word 4-grams that stand in the hint; a shorter text is one n-gram of its own length."""
    own, shown = words(text), words(hint)
    size = min(_NGRAM, len(own))
    known = set(_ngrams(shown, size))
    found = [gram in known for gram in _ngrams(own, size)]
    return sum(found) / len(found)


def last_step_overlap(hint: str, text: str) -> float:
    """Share of the words of the text's last step that stand in the hint's last step.

    A step is a line or a sentence, whichever is shorter.
    """
    own, shown = words(_last_step(text)), set(words(_last_step(hint)))
    return sum(word in shown for word in own) / len(own)


def _last_step(text: str) -> str:
    steps = [step for step in _STEP.split(text) if words(step)]
    return steps[-1] if steps else ""


def _ngrams(found: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(found[start : start + size]) for start in range(len(found) - size + 1))


def _overlaps(completions: Sequence[Shown]) -> list[tuple[Shown, float]]:
    return [(shown, ngram_overlap(shown.hint, shown.text)) for shown in completions if words(shown.text)]


def _macro(values: Sequence[tuple[Shown, float]], kind: str) -> Estimate | None:
    """Mean over examples of each one's mean; None without values."""
    by_example: dict[str, list[float]] = {}
    units: dict[str, str] = {}
    for shown, value in values:
        by_example.setdefault(shown.example_id, []).append(value)
        units[shown.example_id] = shown.unit
    if not by_example:
        return None
    found = cluster_mean([sum(own) / len(own) for own in by_example.values()], list(units.values()))
    return found.model_copy(update={"kind": kind})
