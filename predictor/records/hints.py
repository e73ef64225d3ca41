"""Hint configs: every way of making privileged context, as data."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from predictor.records.base import Record
from predictor.records.presets import PRESETS, PresetName

HintKind = Literal[
    "none",
    "static",
    "solution",
    "partial",
    "answer",
    "demonstrations",
    "feedback",
    "own_attempt",
    "peer_solution",
    "key_hints",
    "all",
    "messages",
]
ControlKind = str
"""`none`, `other_example`, `corrupted`, `irrelevant`, `shuffled`, or the name of one of the study's own."""
Placement = Literal["system", "before_question", "after_question", "turns"]
Gating = Literal["all", "failed"]
SelfSuccess = Literal["exclude_self", "skip_row", "own"]

PEER_KINDS: frozenset[str] = frozenset({"peer_solution", "key_hints", "all"})
"""Kinds that show a correct rollout of the same group, or what was extracted from it."""
ATTEMPT_KINDS: frozenset[str] = frozenset({"feedback", "own_attempt"}) | PEER_KINDS
"""Kinds whose content comes from the student's own rollouts, so that these are needed first."""
WORKED_KINDS: frozenset[str] = frozenset({"solution", "partial", "answer"}) | ATTEMPT_KINDS
"""Kinds whose content works out one question; another example's is shown together with its own question."""
CONTROLS: tuple[str, ...] = ("none", "other_example", "corrupted", "irrelevant", "shuffled")

_CORRUPTIBLE = frozenset({"solution", "partial", "answer", "demonstrations", "peer_solution", "all"})
_SHUFFLED = frozenset({"feedback", "all"})
_READ_BY: dict[str, frozenset[str]] = {
    "template": frozenset({"static", "messages", "demonstrations"}) | WORKED_KINDS,
    "source": frozenset({"solution", "partial", "answer", "feedback", "demonstrations"}),
    "fraction": frozenset({"partial"}),
    "num_demonstrations": frozenset({"demonstrations"}),
    "separator": frozenset({"demonstrations"}),
    "self_success": PEER_KINDS,
    "remove_thinking": frozenset({"own_attempt"}) | PEER_KINDS,
    "extraction_template": frozenset({"key_hints"}),
    "extraction_tokens": frozenset({"key_hints"}),
    "feedback_only_without_solution": frozenset({"all"}),
}
"""Hint fields that only some kinds read; with another kind they would be accepted and ignored."""
_LATER_FIELDS = (
    "preset",
    "self_success",
    "remove_thinking",
    "extraction_template",
    "extraction_tokens",
    "feedback_only_without_solution",
    "control_templates",
)
"""Fields that earlier versions did not have: written only where set, so that their studies keep their keys."""
_EXTRACTION = (
    "Question:\n{{ question }}\n\nA correct solution:\n{{ attempt }}\n\n"
    "List five to ten short, numbered hints that carry what matters in this solution. "
    "Do not give the final answer and do not write out the solution."
)


class HintConfig(Record):
    """One way of making privileged context for the teacher prompt."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$")
    preset: PresetName | None = None
    """A published construction whose fields are taken where this config does not set its own."""
    kind: HintKind
    template: str | None = None
    """Sandboxed Jinja over the example's fields, plus `hint` (the content), `attempt`, and with kind `all` `peer` and
    `message`; each kind has a default."""
    source: str | None = None
    """Dotted example field that holds the content (`solution`, `metadata.trace`); each kind has a default."""
    fraction: float = Field(0.5, gt=0.0, le=1.0)
    """Share of the content's words that a `partial` hint shows, from the start, rounded up."""
    num_demonstrations: int = Field(1, ge=1, le=64)
    """Solved examples that a `demonstrations` hint shows."""
    demonstration_template: str = "Question: {{ question }}\nAnswer: {{ hint }}"
    """How a solved example is written, and how another example's worked hint is shown with its own question."""
    separator: str = "\n\n"
    """Text between demonstrations."""
    irrelevant: str = "The library opens at nine and closes at six on weekdays."
    """Text of the `irrelevant` control."""
    placement: Placement = "system"
    """Where the hint goes; `turns` shows demonstrations as earlier question and answer turns."""
    gating: Gating = "all"
    """Which rollouts see the hint: `failed` shows it only where the student's own rollout was judged wrong; the others
    are answered from the bare prompt, and training leaves them out."""
    self_success: SelfSuccess = "exclude_self"
    """What a peer hint shows a rollout that is itself correct: another correct one, nothing, or its own text."""
    remove_thinking: bool = True
    """Whether think blocks are cut from rollouts that a hint shows."""
    extraction_template: str = _EXTRACTION
    """What the model is asked when it extracts key hints; `attempt` is the correct rollout."""
    extraction_tokens: int = Field(256, ge=1)
    """Longest extracted key hints."""
    feedback_only_without_solution: bool = False
    """Whether an `all` hint leaves the feedback out where it can show a solution."""
    controls: tuple[ControlKind, ...] | None = None
    """Controls measured beside it; None means those that make sense for its kind."""
    control_templates: dict[str, str] = {}
    """Controls of one's own: a template for each name, over the same fields as the hint's."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("preset") not in PRESETS:
            return given
        return {"name": given["preset"], **PRESETS[given["preset"]], **given}

    @model_serializer(mode="wrap")
    def _leave_out_unset_later_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        # What the preset would fill in on reading is written even where it was set back to the default.
        filled = PRESETS[self.preset] if self.preset else {}
        unset = [
            name
            for name in _LATER_FIELDS
            if name not in filled and getattr(self, name) == type(self).model_fields[name].default
        ]
        return {name: value for name, value in written.items() if name not in unset}

    @model_validator(mode="after")
    def _kind_has_its_parts(self) -> Self:
        if self.kind in ("static", "messages") and not (self.template or "").strip():
            raise ValueError(f"a hint of kind `{self.kind}` needs a `template`")
        if self.placement == "turns" and (self.kind != "demonstrations" or self.template is not None):
            raise ValueError("placement `turns` is for hints of kind `demonstrations` without a `template`")
        if self.kind == "none" and self.gating != "all":
            raise ValueError("a hint of kind `none` shows nothing that could be gated")
        for name, kinds in _READ_BY.items():
            if self.kind not in kinds and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"a hint of kind `{self.kind}` does not read `{name}`")
        return self

    @model_validator(mode="after")
    def _controls_can_be_made(self) -> Self:
        own, named = set(self.control_templates), self.controls or ()
        if own & set(CONTROLS):
            raise ValueError(f"`control_templates` may not redefine {', '.join(sorted(own & set(CONTROLS)))}")
        if len(set(named)) < len(named):
            raise ValueError("`controls` names a control twice")
        unknown = [name for name in named if name not in (*CONTROLS, *own)]
        if unknown:
            raise ValueError(f"there is no control `{unknown[0]}`; there are {', '.join((*CONTROLS, *sorted(own)))}")
        for name, kinds in (("corrupted", _CORRUPTIBLE), ("shuffled", _SHUFFLED)):
            if name in named and self.kind not in kinds:
                raise ValueError(f"control `{name}` is for hints of kind {', '.join(sorted(kinds))}")
        return self

    @property
    def control_kinds(self) -> tuple[ControlKind, ...]:
        """The controls in force: given, or by kind (a shared text has no other example's version)."""
        if self.controls is not None:
            return self.controls
        if self.kind == "none":
            return tuple(self.control_templates)
        made: tuple[str, ...] = ("other_example",) if self.kind != "static" else ()
        made += ("corrupted",) if self.kind in _CORRUPTIBLE - {"demonstrations"} else ()
        made += ("shuffled",) if self.kind in _SHUFFLED else ()
        return (*made, "irrelevant", *self.control_templates)

    @property
    def reads_attempts(self) -> bool:
        """Whether the content comes from the student's own rollouts."""
        return self.kind in ATTEMPT_KINDS
