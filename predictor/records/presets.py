"""Published hint constructions as hint configs; their wording follows the sources' structure, it is not a quotation."""

from __future__ import annotations

from typing import Any, Literal

PresetName = Literal[
    "none",
    "static_teacher1",
    "feedback_only",
    "correct_solution_processed",
    "correct_solution_only",
    "all",
    "sdpo",
    "opsd",
    "sdft",
]
_CLOSING = "Now solve the original question correctly."
_SOLUTION_SLOT = "{% if peer %}Correct solution:\n\n{{ peer }}\n\n{% endif %}"
_FEEDBACK_SLOT = "{% if message %}Feedback on your earlier, unsuccessful attempt:\n\n{{ message }}\n\n{% endif %}"
_THREE_SLOTS: dict[str, Any] = {
    "kind": "all",
    "template": f"{{% if peer or message %}}{_SOLUTION_SLOT}{_FEEDBACK_SLOT}{_CLOSING}{{% endif %}}",
    "placement": "after_question",
    "feedback_only_without_solution": True,
}
_EXPERT = """You are an expert competitive programmer. Work through every problem in this order:
1. Read the constraints, and derive from them which complexity is fast enough.
2. Name the data structures and the algorithm before writing any code.
3. Check edge cases: empty input, one element, largest values, repeated values.
4. Write complete, clean code that reads and prints exactly what the statement asks for.
5. Trace the given examples through the code before you answer."""

PRESETS: dict[str, dict[str, Any]] = {
    # After arXiv 2605.30070: the six constructions of its figure, in SDPO's slots behind the question, shown to failed
    # rollouts only.
    "none": {"kind": "none"},
    "static_teacher1": {"kind": "static", "template": _EXPERT, "placement": "before_question", "gating": "failed"},
    "feedback_only": {
        "kind": "feedback",
        "template": f"Feedback on your earlier, unsuccessful attempt:\n\n{{{{ hint }}}}\n\n{_CLOSING}",
        "placement": "after_question",
        "gating": "failed",
    },
    "correct_solution_processed": {
        "kind": "key_hints",
        "template": f"Key hints:\n\n{{{{ hint }}}}\n\n{_CLOSING}",
        "placement": "after_question",
        "gating": "failed",
    },
    "correct_solution_only": {
        "kind": "peer_solution",
        "template": f"Correct solution:\n\n{{{{ hint }}}}\n\n{_CLOSING}",
        "placement": "after_question",
        "gating": "failed",
    },
    "all": {**_THREE_SLOTS, "gating": "failed"},
    # After arXiv 2601.20802: the same three slots; a correct rollout is shown another correct one.
    "sdpo": _THREE_SLOTS,
    # After arXiv 2601.18734: problem, reference solution, then the instruction to solve it in its own way.
    "opsd": {
        "kind": "solution",
        "template": (
            "Here is a reference solution to this problem:\n\n{{ hint }}\n\n"
            "Understand the reasoning behind it, then solve the problem in your own words. "
            "Do not copy or paraphrase the reference."
        ),
        "placement": "after_question",
    },
    # After arXiv 2601.19897: the question with one expert response to it as a demonstration.
    "sdft": {
        "kind": "solution",
        "template": (
            "An example of a good response to this question:\n\n{{ hint }}\n\nNow answer with a response of your own."
        ),
        "placement": "after_question",
    },
}
"""Fields of each preset; a hint config may set any of them otherwise."""
