"""The string world: twelve rules on four-letter strings, and every hint that can tell which rule holds.

A question is a string of four different symbols; its answer is the string under a rule the question does not name.
Without a hint the rule can only be guessed from a skewed prior, so a hint is worth exactly what it says about the
rule. Everything here is a pure function of names: no generator is carried along, and no example depends on another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from predictor.errors import DataError
from predictor.records import derive_seed

Symbols: TypeAlias = tuple[str, ...]
T = TypeVar("T")

SYMBOLS: Final[Symbols] = tuple("abcdefghijklmnopqrst")
STRING_LENGTH: Final = 4
HELD_OUT_SHARE: Final = 0.20

# Under two thirds of the held-out strings: above that, drawing strings that are all different gets slow.
MAX_EXAMPLES_PER_SPLIT: Final = 10_000


def _shift(string: Symbols, by: int) -> Symbols:
    return tuple(SYMBOLS[(SYMBOLS.index(symbol) + by) % len(SYMBOLS)] for symbol in string)


RULES: Final[Mapping[str, Callable[[Symbols], Symbols]]] = MappingProxyType(
    {
        "copy": lambda s: s,
        "reverse": lambda s: s[::-1],
        "rotate_left": lambda s: s[1:] + s[:1],
        "rotate_right": lambda s: s[-1:] + s[:-1],
        "next": lambda s: _shift(s, 1),
        "previous": lambda s: _shift(s, -1),
        "swap_pairs": lambda s: (s[1], s[0], s[3], s[2]),
        "swap_ends": lambda s: (s[3], s[1], s[2], s[0]),
        "duplicate_first": lambda s: s[:1] + s,
        "drop_last": lambda s: s[:-1],
        "abab": lambda s: s[:2] + s[:2],
        "sort": lambda s: tuple(sorted(s)),
    }
)
"""Each rule's name and the function it stands for."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "copy": "echo",
        "reverse": "mirror",
        "rotate_left": "leftward",
        "rotate_right": "rightward",
        "next": "advance",
        "previous": "retreat",
        "swap_pairs": "crisscross",
        "swap_ends": "bookend",
        "duplicate_first": "stutter",
        "drop_last": "trim",
        "abab": "alternate",
        "sort": "order",
    }
)
"""One other word for each rule: the same hint in different words."""

RULE_PRIOR: Final[Mapping[str, float]] = MappingProxyType(
    {
        "copy": 0.30,
        "next": 0.20,
        "reverse": 0.13,
        "rotate_left": 0.10,
        "previous": 0.08,
        "sort": 0.06,
        "swap_ends": 0.05,
        "drop_last": 0.03,
        "rotate_right": 0.02,
        "swap_pairs": 0.01,
        "duplicate_first": 0.01,
        "abab": 0.01,
    }
)
"""How often each rule holds where nothing names it: the accuracy of a perfect guesser without a hint."""


def derive_uniform(*parts: str | int) -> float:
    """A number in [0, 1) fixed by the parts alone."""
    # A float keeps 53 of the seed's 63 bits; more would round up to 1.
    return (derive_seed(*parts) >> 10) / 2**53


def derive_choice(options: Sequence[T], *parts: str | int) -> T:
    """One of the options, all equally likely, fixed by the parts alone."""
    return options[int(derive_uniform(*parts) * len(options))]


def apply_rule(rule: str, text: str) -> str:
    """The answer to a question under a rule, both as symbols with single spaces between them."""
    return " ".join(RULES[rule](tuple(text.split())))


def is_held_out(string: Symbols) -> bool:
    """Whether a string belongs to the fifth of all strings that no training ever sees."""
    return derive_uniform("held out", *string) < HELD_OUT_SHARE


def is_unambiguous(string: Symbols) -> bool:
    """Whether the twelve rules give twelve different answers, so that an answer proves its rule."""
    return len({rule(string) for rule in RULES.values()}) == len(RULES)


def string_examples(
    *,
    rule: str | None,
    hidden_rules: tuple[str, ...] = (),
    num_train: int,
    num_eval: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Examples whose answers follow one rule, or a rule hidden in each; asking for more leaves the first ones alone.

    `train` examples use strings that are not held out, `eval` examples only held-out ones. The metadata holds what
    hints can say about an example: `rule` and its `alias`, an `other_rule`, two `alternatives` (with a random or a
    common wrong one), hints that are right half the time (`coin_…`, else a random rule or `copy`), and the
    `common_failure`, which is the answer under `copy`.

    >>> row = string_examples(rule="reverse", num_train=1, num_eval=0, seed=0)[0]
    >>> row["prompt"], row["answer"]
    ('n m f o', 'o f m n')
    """
    rules = _candidate_rules(rule, hidden_rules)
    if max(num_train, num_eval) > MAX_EXAMPLES_PER_SPLIT:
        raise DataError(
            "the string world has too few strings",
            found=f"{num_train} training and {num_eval} evaluation examples asked for",
            expected=f"at most {MAX_EXAMPLES_PER_SPLIT} of each",
            fix="lower task.train_examples or task.eval_examples",
        )
    strings = [("train", s) for s in _draw_strings("train", num_train, seed)]
    strings += [("eval", s) for s in _draw_strings("eval", num_eval, seed)]
    return [_example(split, string, rules, seed) for split, string in strings]


def _candidate_rules(rule: str | None, hidden_rules: tuple[str, ...]) -> tuple[str, ...]:
    if (rule is None) == (not hidden_rules):
        raise DataError(
            "the string world needs one rule or several hidden ones",
            where="task.options",
            found=f"rule={rule!r}, hidden_rules={hidden_rules!r}",
            expected="exactly one of `rule` and `hidden_rules`",
        )
    rules = hidden_rules if rule is None else (rule,)
    unknown = [name for name in rules if name not in RULES]
    if unknown:
        raise DataError(
            "the string world does not know this rule",
            where="task.options",
            found=repr(unknown[0]),
            expected=", ".join(RULES),
        )
    return rules


def _draw_strings(split: str, num_strings: int, seed: int) -> list[Symbols]:
    """The first distinct strings of a split's endless sequence, which the seed fixes."""
    found: dict[Symbols, None] = {}
    attempt = 0
    while len(found) < num_strings:
        string = _random_string(seed, split, attempt)
        attempt += 1
        if is_held_out(string) == (split == "eval") and is_unambiguous(string):
            found[string] = None
    return list(found)


def _random_string(*parts: str | int) -> Symbols:
    remaining = list(SYMBOLS)
    picks = (int(derive_uniform(*parts, place) * (len(SYMBOLS) - place)) for place in range(STRING_LENGTH))
    return tuple(remaining.pop(pick) for pick in picks)


def _example(split: str, string: Symbols, rules: tuple[str, ...], seed: int) -> dict[str, Any]:
    example_id = f"{split}-{''.join(string)}"
    rule = derive_choice(rules, seed, example_id, "rule")
    question = " ".join(string)
    answer = apply_rule(rule, question)
    return {
        "example_id": example_id,
        "prompt": question,
        "answer": answer,
        "solution": answer,
        "split": split,
        "cluster_id": None,
        "metadata": _hint_values(example_id, rule, question, seed),
    }


def _hint_values(example_id: str, rule: str, question: str, seed: int) -> dict[str, str]:
    """What each hint says about this example; every coin is tossed on its own."""
    others = [name for name in RULES if name != rule]

    def other(purpose: str) -> str:
        return derive_choice(others, seed, example_id, purpose)

    def tosses_right(purpose: str) -> bool:
        return derive_uniform(seed, example_id, purpose, "coin") < 0.5

    def pair(first: str, second: str, purpose: str) -> str:
        return f"{first} {second}" if tosses_right(purpose) else f"{second} {first}"

    common_other = "copy" if rule != "copy" else other("alternatives_common")
    answer_rule = rule if tosses_right("coin_answer") else other("coin_answer")
    return {
        "rule": rule,
        "alias": ALIASES[rule],
        "other_rule": other("other_rule"),
        "alternatives": pair(rule, other("alternatives"), "alternatives"),
        "alternatives_common": pair(rule, common_other, "alternatives_common"),
        "coin_rule_random": rule if tosses_right("coin_rule_random") else other("coin_rule_random"),
        "coin_rule_copy": rule if tosses_right("coin_rule_copy") else "copy",
        "coin_answer": apply_rule(answer_rule, question),
        "common_failure": apply_rule("copy", question),
    }
