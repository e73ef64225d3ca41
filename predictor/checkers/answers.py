r"""Where a mathematical answer stands in a completion, and what is taken off before it is compared.

Policy, the same for every study:

- The last complete \boxed{…} (or \fbox{…}) is the answer, unless a later one is broken: then there is no answer.
- Without a box: what follows the last "####", else the last "answer is" or "Answer:", else the last number.
- Thousands separators go: 1,234 and 1{,}234 and 1\,234 are 1234; 1,2 is a pair.
- Units go when only one side names one; two different units are different answers.
- A percent sign is a unit: 50% equals 50\% and 50, and never 0.5.
- A leading "x =" goes when the reference has none; currency signs go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_MARKER = re.compile(r"####[ \t]*([^\n]+)")
_SAID = re.compile(r"\banswer\b(?:[ \t]+is|[ \t]*[:=])[ \t:*]*([^\n]+)", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?:(?<![\w)\]])[-+\N{MINUS SIGN}])?(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:[./]\d+)?|\.\d+)%?"
)
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\[,!]|\\ )(?=\d{3}(?!\d))")
_WHOLE_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:(?:,|\{,\}|\\[,!]|\\ )\d{3})+(?!\d)")
_WRAPPERS = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mbox)\s*\{([^{}]*)\}")
_UNIT = re.compile(r"^(.*?[\d)}])(\s*)([A-Za-zµΩ°%][A-Za-zµΩ°/%]*(?:\s*\^?\s*[23])?(?: [A-Za-z/]+){0,2})$")
_ATTACHED = frozenset(
    [
        "%",
        "°",
        "°C",
        "°F",
        "m",
        "cm",
        "mm",
        "km",
        "kg",
        "g",
        "mg",
        "s",
        "ms",
        "h",
        "hr",
        "min",
        "L",
        "l",
        "ml",
        "in",
        "ft",
        "mi",
        "N",
        "J",
        "W",
        "V",
        "A",
        "Hz",
        "cm^2",
        "m^2",
        "km^2",
        "cm^3",
        "m^3",
    ]
)
"""Units that may follow a number without a space; in 2ab the letters are factors."""
_NO_UNITS = frozenset(
    [
        "e",
        "i",
        "pi",
        "x",
        "y",
        "z",
        "n",
        "k",
        "t",
        "a",
        "b",
        "c",
        "or",
        "and",
        "mod",
        "sin",
        "cos",
        "tan",
        "log",
        "ln",
        "exp",
        "sqrt",
    ]
)
"""What stands after a number as a part of the mathematics."""
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, ready to be compared."""

    text: str
    unit: str = ""


def find_answer(text: str, *, boxed_only: bool) -> tuple[str | None, str]:
    """The answer as written, or None and why there is none."""
    boxes, broken = _boxes(text)
    if broken:
        return None, "the last box is not closed"
    if boxes:
        return boxes[-1], ""
    if boxed_only:
        return None, "no boxed answer"
    for pattern in (_MARKER, _SAID):
        found = pattern.findall(text)
        if found:
            return _sentence(found[-1]), ""
    numbers = _NUMBER.findall(text)
    return (numbers[-1], "") if numbers else (None, "no answer")


def plain_answer(written: str) -> Answer:
    """The answer without wrappers, thousands separators and unit."""
    text = written.strip().strip("$").strip()
    text = _WRAPPERS.sub(r" \1 ", text).replace("\\$", "").replace("$", "").replace("\\%", "%")
    text = re.sub(r"\^\s*\{?\\circ\}?|\\degree", "°", text).replace("€", "").replace("£", "")
    text = _WHOLE_THOUSANDS.sub(lambda found: _THOUSANDS.sub("", found[0]), text)
    text = " ".join(text.split()).rstrip(".").strip()
    found = _UNIT.match(text) if len(text) <= _LONGEST else None
    if found is None or not _is_unit(found[3], spaced=bool(found[2])):
        return Answer(text)
    return Answer(found[1].strip(), _singular(found[3]))


def _is_unit(word: str, *, spaced: bool) -> bool:
    return word in _ATTACHED or (spaced and word.split()[0].casefold() not in _NO_UNITS)


def without_name(text: str, reference: str) -> str:
    """The text without a leading "x =" that the reference does not have either."""
    name, sign, value = text.partition("=")
    is_name = re.fullmatch(r"\s*[A-Za-z](?:_\w)?\s*", name) is not None
    return value.strip() if sign and is_name and "=" not in reference and "=" not in value else text


def _boxes(text: str) -> tuple[list[str], bool]:
    """Contents of the outermost boxes in order, and whether the last one is never closed."""
    contents: list[str] = []
    place = 0
    while (start := _BOX.search(text, place)) is not None:
        end = _closing(text, start.end())
        if end is None:
            return contents, True
        contents.append(text[start.end() : end])
        place = end
    return contents, False


def _closing(text: str, start: int) -> int | None:
    """Place of the brace that closes the one before `start`; escaped braces do not count."""
    depth = 1
    for found in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return found.start()
    return None


def _sentence(text: str) -> str:
    """The text up to the end of its sentence, without emphasis."""
    return re.split(r"\.(?:\s|$)", text, maxsplit=1)[0].strip(" *_`:")


def _singular(unit: str) -> str:
    folded = " ".join(unit.split()).casefold()
    return folded[:-1] if len(folded) > 3 and folded.endswith("s") and not folded.endswith("ss") else folded
