"""The `corrupted` control: a hint made wrong by a rule that depends on the text and a seed alone."""

from __future__ import annotations

import re

import numpy as np

from predictor.records import derive_seed

_NUMBER = re.compile(r"[0-9]{1,18}")
_CHOICE = re.compile(r"\b([A-J])\b")
_OPPOSITES = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
_OPPOSITE = re.compile(r"\b(yes|no|true|false)\b", re.IGNORECASE)
_WORD = re.compile(r"\S+")


def corrupt(text: str, seed: int) -> str | None:
    """The text made wrong, layout kept; None when nothing in it can be changed (one symbol repeated).

    The first rule that finds something applies to the whole text: (1) every whole number n becomes n + s, with one s
    from 1 to 9 for the text; (2) yes, no, true and false become their opposites; (3) a single capital A to J that
    stands alone last in the text becomes the next of A to D (E to J become A) wherever it stands alone; (4) the words
    move round by one place or more, until the text differs; (5) so do the characters of a single word.

    >>> corrupt("3 + 4 = 7, so 7", 0) != "3 + 4 = 7, so 7"
    True
    >>> corrupt("The answer is yes.", 0)
    'The answer is no.'
    """
    if _NUMBER.search(text):
        shift = 1 + derive_seed("corrupt", seed) % 9
        return _NUMBER.sub(lambda number: str(int(number.group()) + shift).zfill(len(number.group())), text)
    if _OPPOSITE.search(text):
        return _OPPOSITE.sub(lambda word: _like(word.group(), _OPPOSITES[word.group().lower()]), text)
    last = _CHOICE.findall(text)
    if last and text.rstrip(" .)*\n").endswith(last[-1]):
        letter = last[-1]
        wrong = "BCDA"["ABCD".index(letter)] if letter in "ABCD" else "A"
        return re.sub(rf"\b{letter}\b", wrong, text)
    return _moved_words(text, seed) or _moved_characters(text)


def _moved_words(text: str, seed: int) -> str | None:
    words = _WORD.findall(text)
    if len(set(words)) < 2:
        return None
    first = int(np.random.default_rng(derive_seed("corrupt", seed)).integers(1, len(words)))
    for step in range(len(words)):
        by = 1 + (first - 1 + step) % (len(words) - 1)
        changed = _with_words(text, words[by:] + words[:by])
        if changed != text:
            return changed
    return None


def _with_words(text: str, words: list[str]) -> str:
    """The text with its words replaced in order, white space kept."""
    left = iter(words)
    return _WORD.sub(lambda _: next(left), text)


def _moved_characters(text: str) -> str | None:
    word = text.strip()
    if len(word.split()) != 1:
        return None
    for by in range(1, len(word)):
        if word[by:] + word[:by] != word:
            return text.replace(word, word[by:] + word[:by])
    return None


def _like(pattern: str, word: str) -> str:
    """The word in the pattern's case."""
    if pattern.isupper():
        return word.upper()
    return word.capitalize() if pattern[0].isupper() else word
