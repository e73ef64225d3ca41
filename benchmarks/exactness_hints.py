"""The hint configs of the exactness benchmark: shared rules, unreliable hints, rules hidden per question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from predictor.tasks.strings import RULES

DEMO = "demo {{ question }} gives {{ hint }}"
HALF = "demo {{ question }} gives half {{ hint }}"
NOTE = "note grey river seven window"


@dataclass(frozen=True, slots=True)
class Config:
    """One hint config of the benchmark, and the text of its hint when it is drawn again for the same example."""

    name: str
    family: str
    """shared, unreliable or instance."""
    fields: dict[str, Any]
    redraw: str
    """Which hint `redrawn` draws."""


def text_hint(name: str, family: str, template: str, redraw: str) -> Config:
    """A hint that says something about a rule."""
    return Config(name, family, {"kind": "messages", "template": template}, redraw)


def worked(name: str, family: str, redraw: str, **fields: Any) -> Config:
    """A hint that works the example out; another example's is shown as a demonstration."""
    return Config(name, family, {"demonstration_template": DEMO, **fields}, redraw)


SHARED = (
    text_hint("rule", "shared", "rule {{ metadata.rule }}", "rule"),
    text_hint("alias", "shared", "rule {{ metadata.alias }}", "alias"),
    text_hint("unsure-25", "shared", "maybe25 {{ metadata.rule }}", "maybe25"),
    text_hint("unsure-50", "shared", "maybe50 {{ metadata.rule }}", "maybe50"),
    text_hint("unsure-75", "shared", "maybe75 {{ metadata.rule }}", "maybe75"),
    worked("demo-1", "shared", "demo", kind="demonstrations", num_demonstrations=1, separator=" "),
    worked("demo-2", "shared", "demo", kind="demonstrations", num_demonstrations=2, separator=" "),
    worked("demo-3", "shared", "demo", kind="demonstrations", num_demonstrations=3, separator=" "),
    worked("answer", "instance", "answer", kind="answer", template="answer {{ hint }}"),
    worked("half-answer", "instance", "half", kind="partial", template="half {{ hint }}", demonstration_template=HALF),
    text_hint("either-random", "unreliable", "either {{ metadata.alternatives }}", "either"),
    text_hint("either-common", "unreliable", "either {{ metadata.alternatives_common }}", "either-common"),
    text_hint("half-right-random", "unreliable", "rule {{ metadata.coin_rule_random }}", "coin-random"),
    text_hint("half-right-copy", "unreliable", "rule {{ metadata.coin_rule_copy }}", "coin-copy"),
    text_hint("always-wrong", "unreliable", "rule {{ metadata.other_rule }}", "wrong"),
    worked(
        "half-right-answer",
        "unreliable",
        "coin-answer",
        kind="answer",
        source="metadata.coin_answer",
        template="answer {{ hint }}",
    ),
)
HIDDEN = (
    text_hint("rule", "instance", "rule {{ metadata.rule }}", "rule"),
    worked("answer", "instance", "answer", kind="answer", template="answer {{ hint }}"),
    worked("demo-1", "instance", "demo", kind="demonstrations", num_demonstrations=1, separator=" "),
)
Task = tuple[str, tuple[str, ...], tuple[Config, ...]]
"""Name, rules that an example may follow, hint configs."""
TASKS: tuple[Task, ...] = (
    ("reverse", ("reverse",), SHARED),
    ("2 hidden rules", ("reverse", "copy"), HIDDEN),
    ("4 hidden rules", ("reverse", "copy", "next", "rotate_left"), HIDDEN),
    ("12 hidden rules", tuple(RULES), HIDDEN),
)
