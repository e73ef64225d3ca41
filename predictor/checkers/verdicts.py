"""How a judge writes its verdict: always storable, never longer than a person would read."""

from __future__ import annotations

from typing import Protocol

from predictor.records import Verdict

_LONGEST = 2_000


class Named(Protocol):
    """What a verdict says about its judge."""

    name: str
    version: str


def verdict(judge: Named, *, correct: bool | None, extracted: str = "", reason: str = "") -> Verdict:
    """The judge's verdict; texts are cut at 2,000 characters, and half surrogate pairs (JSON allows them) replaced."""
    return Verdict(
        correct=correct,
        extracted=_storable(extracted),
        reason=_storable(reason),
        checker=judge.name,
        checker_version=judge.version,
    )


def _storable(text: str) -> str:
    return text[:_LONGEST].encode("utf-8", errors="replace").decode("utf-8")
