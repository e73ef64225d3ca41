"""The multiple-choice checker: which option does a completion state last, by letter or by text?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from predictor.checkers.patterns import within_deadline
from predictor.checkers.verdicts import verdict
from predictor.errors import HintError
from predictor.fields import lookup_field
from predictor.records import Example, MultipleChoiceChecker, Verdict

# "The answer is …", "Answer: …", "I choose …", \boxed{…}: what follows, up to the end of its line, states the choice.
_STATEMENT = re.compile(
    r"(?:\b(?:answer|choice|option)\b[ \t]*(?:is|:|=|would be|should be)(?:[ \t]*:)?"
    r"|\bI (?:choose|pick|select)\b|\\boxed\{)[ \t*_`]*",
    re.IGNORECASE,
)
_LONGEST = 200
"""Characters of a statement that are read."""
_LEADING_LETTER = re.compile(
    r"[\s*_`\"'$]*(?:\\text\{)?(?:option\s+)?[(\[]?([A-Za-z])[)\]}.:,;*_`\"'$]*(?=\s|$)", re.IGNORECASE
)
_LETTER_ALONE = re.compile(r"[(\[]([A-Za-z])[)\]]|(?<![\w'’])([A-Z])(?![\w'’])")
_LINE_LETTER = re.compile(r"^[\s*_`]*[(\[]?([A-Za-z])(?:[)\].:][*_`]*(?:\s|$)|[*_`]*\s*$)", re.MULTILINE)


class MultipleChoiceJudge:
    """Letter or option text.

    Policy: the last statement of an answer ("Answer: B", "the answer is Paris", a boxed letter) decides; without one,
    the last line that starts with an option's letter ("B", "(b)", "B) Paris"); without one, the options whose text
    occurs. A statement that begins with "not" states nothing. What names several options gets the configured verdict.
    """

    name = "multiple_choice"
    version = "1"

    def __init__(self, config: MultipleChoiceChecker) -> None:
        self._field = config.choices
        self._several = None if config.several == "undecided" else False

    def check(self, text: str, example: Example) -> Verdict:
        """Correct when the one option stated last is the reference; undecided without options or a known reference."""
        try:
            choices = _lettered(lookup_field(example, self._field))
        except HintError as error:
            return verdict(self, correct=None, reason=error.what)
        wanted = None if choices is None else _reference(example.answer or "", choices)
        if choices is None or wanted is None:
            missing = f"`{self._field}` holds no options" if choices is None else "the reference is none of the options"
            return verdict(self, correct=None, reason=missing)
        found = within_deadline(lambda: _stated(text, choices))
        if isinstance(found, TimeoutError):
            return verdict(self, correct=None, reason=str(found))
        stated = ", ".join(sorted(found))
        if len(found) > 1:
            return verdict(self, correct=self._several, extracted=stated, reason=f"names {len(found)} options")
        if not found:
            return verdict(self, correct=False, reason="states no option")
        return verdict(
            self, correct=found == {wanted}, extracted=stated, reason="" if found == {wanted} else f"expected {wanted}"
        )


def _lettered(value: object) -> dict[str, str] | None:
    """Option texts by upper-case letter; None when this is no list of two to 26 texts, and no mapping of letters."""
    if isinstance(value, list):
        value = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", value, strict=False)) if len(value) <= 26 else None
    if not isinstance(value, Mapping) or len(value) < 2:
        return None
    choices = {str(letter).upper(): _normal(str(option)) for letter, option in value.items()}
    usable = all(re.fullmatch("[A-Z]", letter) for letter in choices) and all(choices.values())
    return choices if usable and len(set(choices.values())) == len(value) == len(choices) else None


def _reference(answer: str, choices: Mapping[str, str]) -> str | None:
    letter = answer.strip().strip("().").upper()
    if letter in choices:
        return letter
    return next((letter for letter, option in choices.items() if option == _normal(answer)), None)


def _stated(text: str, choices: Mapping[str, str]) -> set[str]:
    end = len(text)
    for start in reversed([*_STATEMENT.finditer(text)]):
        statement = text[start.end() : min(end, start.end() + _LONGEST)].partition("\n")[0]
        end = start.start()
        if not re.match(r"not\b|n't\b", statement.strip(), re.IGNORECASE):
            found = _named(statement, choices)
            if found:
                return found
    lines = [letter.upper() for letter in _LINE_LETTER.findall(text)]
    known = [letter for letter in lines if letter in choices]
    if known:
        return {known[-1]}
    return _mentioned(_normal(text), choices)


def _named(statement: str, choices: Mapping[str, str]) -> set[str]:
    """Options that a statement names: by the letter it starts with, by further letters, or by text."""
    by_text = _mentioned(_normal(statement), choices)
    first = _LEADING_LETTER.match(statement)
    if first is None or first[1].upper() not in choices:
        return by_text
    rest = statement[first.end() :]
    letter = first[1].upper()
    # In "a dog" the letter is an article, unless the dog is option A.
    if first[0].strip() == "a" and rest.strip() and by_text:
        return by_text
    more = {(bracketed or bare).upper() for bracketed, bare in _LETTER_ALONE.findall(rest)} - {"I"}
    return {letter} | (more & choices.keys()) | by_text


def _mentioned(text: str, choices: Mapping[str, str]) -> set[str]:
    """Options whose text occurs as whole words; one that only occurs inside a longer one does not count."""
    found: set[str] = set()
    for letter, option in sorted(choices.items(), key=lambda item: -len(item[1])):
        pattern = rf"(?<!\w){re.escape(option)}(?!\w)"
        if re.search(pattern, text):
            found.add(letter)
            text = re.sub(pattern, " ", text)
    return found


def _normal(text: str) -> str:
    return " ".join(text.split()).strip(" .").casefold()
