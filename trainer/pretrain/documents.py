"""What the miniature reads while it learns: questions with answers, after every kind of hint it must understand.

A document is `<bos> [hint] <q> question <a> answer <eos>`. Only answers are learned: the final one, and those that
demonstrations show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from types import MappingProxyType
from typing import Final

import numpy as np

from predictor.tasks.strings import (
    ALIASES,
    RULE_PRIOR,
    RULES,
    STRING_LENGTH,
    SYMBOLS,
    apply_rule,
    is_held_out,
    is_unambiguous,
)
from trainer.pretrain.tokenizer import ANSWER, BOS, EOS, FILLERS, QUESTION, VOCABULARY

RULE_NAMES: Final = tuple(RULES)
NUM_FILLERS_PER_NOTE: Final = 4

# Rules that keep the symbols and change their order: only the places of symbols tell them apart, so models learn to
# read them from demonstrations last.
REARRANGEMENTS: Final = ("reverse", "rotate_left", "rotate_right", "swap_pairs", "swap_ends", "sort")
EARLY_REARRANGING_SHARE: Final = 0.6

WORD_IDS: Final[Mapping[str, int]] = MappingProxyType({word: index for index, word in enumerate(VOCABULARY)})


@dataclass(frozen=True, kw_only=True)
class Document:
    """One question, its answer, and the hint before them; an empty hint is no hint."""

    hint: str
    question: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class HintKind:
    """A hint's share of early and of all later documents, whether its rules follow the prior, and how to write it."""

    early_share: float
    share: float
    follows_prior: bool
    write: Callable[[Source, str, str], str]


class Source:
    """Draws strings, rules and fillers with one generator that belongs to one batch.

    A share of the rules that do not follow the prior is drawn from the rearrangements alone.
    """

    def __init__(self, rng: np.random.Generator, strings: Sequence[str], *, rearranging_share: float = 0.0) -> None:
        self.rng = rng
        self.strings = strings
        self.rearranging_share = rearranging_share

    def string(self) -> str:
        """A question from the allowed strings."""
        return self.strings[int(self.rng.integers(len(self.strings)))]

    def rule(self, *, follows_prior: bool, but_not: str = "") -> str:
        """A rule from the skewed prior or from the uniform one, never the excluded one."""
        while True:
            name = self._prior_rule() if follows_prior else self._uniform_rule()
            if name != but_not:
                return name

    def _prior_rule(self) -> str:
        return RULE_NAMES[int(np.searchsorted(_PRIOR_STEPS, self.rng.random(), side="right"))]

    def _uniform_rule(self) -> str:
        rearranges = self.rng.random() < self.rearranging_share
        names = REARRANGEMENTS if rearranges else RULE_NAMES
        return names[int(self.rng.integers(len(names)))]

    def demonstration(self, rule: str) -> str:
        """Another question with its answer."""
        question = self.string()
        return f"demo {question} gives {apply_rule(rule, question)}"


# The last step is infinite so that rounding in the sum cannot push a draw past the last rule.
_PRIOR_STEPS: Final = np.append(np.cumsum([RULE_PRIOR[name] for name in RULE_NAMES])[:-1], math.inf)


def first_half(answer: str) -> str:
    """The first half of an answer's symbols, rounded up."""
    symbols = answer.split()
    return " ".join(symbols[: math.ceil(len(symbols) / 2)])


def _either(source: Source, rule: str, _question: str) -> str:
    other = source.rule(follows_prior=False, but_not=rule)
    return f"either {rule} {other}" if source.rng.random() < 0.5 else f"either {other} {rule}"


def _maybe(percent: int) -> Callable[[Source, str, str], str]:
    def write(source: Source, rule: str, _question: str) -> str:
        is_right = source.rng.random() < percent / 100
        named = rule if is_right else source.rule(follows_prior=False, but_not=rule)
        return f"maybe{percent} {named}"

    return write


def _demonstrations(count: int) -> Callable[[Source, str, str], str]:
    return lambda source, rule, _question: " ".join(source.demonstration(rule) for _ in range(count))


def _half_demonstration(source: Source, rule: str, _question: str) -> str:
    question = source.string()
    return f"demo {question} gives half {first_half(apply_rule(rule, question))}"


def _tried(source: Source, rule: str, question: str) -> str:
    return f"tried {apply_rule(source.rule(follows_prior=True, but_not=rule), question)}"


def _note(source: Source, _rule: str, _question: str) -> str:
    words = source.rng.integers(len(FILLERS), size=NUM_FILLERS_PER_NOTE)
    return " ".join(("note", *(FILLERS[int(word)] for word in words)))


def _kind(
    early_share: float, share: float, write: Callable[[Source, str, str], str], *, follows_prior: bool = False
) -> HintKind:
    return HintKind(early_share=early_share, share=share, follows_prior=follows_prior, write=write)


# Early documents name the rule or show it: until the rules themselves are learned, guessing between them teaches
# nothing, and reading demonstrations is the skill that appears last.
HINT_KINDS: Final[Mapping[str, HintKind]] = MappingProxyType(
    {
        "none": _kind(0.05, 0.20, lambda _s, _r, _q: "", follows_prior=True),
        "rule": _kind(0.27, 0.08, lambda _s, rule, _q: f"rule {rule}"),
        "alias": _kind(0.05, 0.03, lambda _s, rule, _q: f"rule {ALIASES[rule]}"),
        "either": _kind(0.08, 0.12, _either),
        "maybe25": _kind(0.00, 0.05, _maybe(25)),
        "maybe50": _kind(0.00, 0.05, _maybe(50)),
        "maybe75": _kind(0.04, 0.05, _maybe(75)),
        "demo1": _kind(0.10, 0.09, _demonstrations(1)),
        "demo2": _kind(0.11, 0.06, _demonstrations(2)),
        "demo3": _kind(0.15, 0.03, _demonstrations(3)),
        "half_demo": _kind(0.02, 0.03, _half_demonstration),
        "answer": _kind(0.05, 0.04, lambda _s, rule, question: f"answer {apply_rule(rule, question)}"),
        "half": _kind(0.08, 0.06, lambda _s, rule, question: f"half {first_half(apply_rule(rule, question))}"),
        "tried": _kind(0.00, 0.06, _tried, follows_prior=True),
        "note": _kind(0.00, 0.04, _note, follows_prior=True),
    }
)
"""Every hint the miniature is taught, with its shares of the documents."""


@cache
def question_pool(*, held_out: bool) -> tuple[str, ...]:
    """All unambiguous strings on one side of the held-out split, as questions."""
    every = permutations(SYMBOLS, STRING_LENGTH)
    return tuple(" ".join(s) for s in every if is_held_out(s) == held_out and is_unambiguous(s))


def draw_document(source: Source, kind: str, *, rule: str | None = None) -> Document:
    """A document of one kind; its rule is drawn as the kind demands unless one is given."""
    hint_kind = HINT_KINDS[kind]
    rule = rule or source.rule(follows_prior=hint_kind.follows_prior)
    question = source.string()
    hint = hint_kind.write(source, rule, question)
    return Document(hint=hint, question=question, answer=apply_rule(rule, question))


def draw_documents(source: Source, count: int, *, early: bool) -> list[Document]:
    """Documents of all kinds in their early or later shares."""
    shares = np.array([kind.early_share if early else kind.share for kind in HINT_KINDS.values()])
    names = list(HINT_KINDS)
    picks = source.rng.choice(len(names), size=count, p=shares / shares.sum())
    return [draw_document(source, names[int(pick)]) for pick in picks]


def prompt_ids(document: Document) -> list[int]:
    """The prompt's token ids, the same that the chat template gives."""
    words = (BOS, *document.hint.split(), QUESTION, *document.question.split(), ANSWER)
    return [WORD_IDS[word] for word in words]


def answer_ids(document: Document) -> list[int]:
    """The answer's token ids, without the end-of-sequence token."""
    return [WORD_IDS[word] for word in document.answer.split()]


def document_ids(document: Document) -> list[int]:
    """All token ids of a document, end-of-sequence token included."""
    return [*prompt_ids(document), *answer_ids(document), WORD_IDS[EOS]]


_ANSWERS_START: Final = frozenset({WORD_IDS["gives"], WORD_IDS[ANSWER]})
_ANSWERS_END: Final = frozenset({WORD_IDS["demo"], WORD_IDS[QUESTION]})


def learned_positions(ids: Sequence[int]) -> list[bool]:
    """Which tokens of a document are learned: those of answers, the demonstrated ones included."""
    learned, inside = [], False
    for token in ids:
        inside = inside and token not in _ANSWERS_END
        learned.append(inside)
        inside = inside or token in _ANSWERS_START
    return learned
