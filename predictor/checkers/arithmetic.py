"""Exact arithmetic on short expressions, plain or LaTeX: what needs no computer algebra is decided without it."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*|\.\d+)|(.))", re.DOTALL)
_LATEX = (
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"((\1)/(\2))"),
    (re.compile(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"((\1)/(\2))"),
    (re.compile(r"\\(?:cdot|times)(?![a-zA-Z])|[×·∗]"), "*"),
    (re.compile(r"\\div(?![a-zA-Z])|÷"), "/"),
    (re.compile(r"\\(?:left|right)(?![a-zA-Z])"), ""),
    (re.compile(r"\^\s*\{([^{}]*)\}"), r"^(\1)"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"[\N{MINUS SIGN}\N{EN DASH}]"), "-"),
)
_MOST_CHARACTERS = 200
_MOST_BITS = 20_000
_MOST_DEPTH = 50


def exact_value(expression: str) -> Fraction | None:
    r"""The value of numbers, + - * / ^ ! and parentheses; None for anything else, division by zero, or huge results.

    >>> exact_value(r"2^{5} \cdot 3!"), exact_value("1/2") == exact_value(r"\dfrac{2}{4}"), exact_value("x + 1")
    (Fraction(192, 1), True, None)
    """
    if len(expression) > _MOST_CHARACTERS:
        return None
    for pattern, plain in _LATEX:
        expression = pattern.sub(plain, expression)
    try:
        return _Parser(expression).value()
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


class _Parser:
    """Recursive descent; ValueError for what it does not know."""

    def __init__(self, expression: str) -> None:
        self._tokens = [number or sign for number, sign in _TOKEN.findall(expression) if (number or sign).strip()]
        self._place = 0
        self._depth = 0

    def value(self) -> Fraction:
        result = self._sum()
        if self._place < len(self._tokens):
            raise ValueError("something is left over")
        return result

    def _next(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _take(self, wanted: str) -> bool:
        found = self._next() != "" and self._next() in wanted
        self._place += found
        return found

    def _sum(self) -> Fraction:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError("nested too deeply")
        result = self._product()
        while self._next() in ("+", "-"):
            sign = 1 if self._take("+") else -1
            self._place += sign < 0
            result = _small(result + sign * self._product())
        self._depth -= 1
        return result

    def _product(self) -> Fraction:
        result = self._signed()
        while self._next() in ("*", "/"):
            if self._take("*"):
                result = _small(result * self._signed())
            else:
                self._place += 1
                result = _small(result / self._signed())
        return result

    def _signed(self) -> Fraction:
        if self._take("-"):
            return -self._power()
        self._take("+")
        return self._power()

    def _power(self) -> Fraction:
        base = self._factorial()
        if not self._take("^"):
            return base
        exponent = self._exponent()
        if exponent.denominator != 1 or abs(exponent) * max(1, _bits(base)) > _MOST_BITS:
            raise ValueError("not a small whole power")
        return _small(base ** int(exponent))

    def _exponent(self) -> Fraction:
        """Binds to the right: 2^3^2 is 2^9."""
        return self._signed()

    def _factorial(self) -> Fraction:
        result = self._atom()
        while self._take("!"):
            if result.denominator != 1 or not 0 <= result <= 1000:
                raise ValueError("not a small whole factorial")
            result = Fraction(math.factorial(int(result)))
        return result

    def _atom(self) -> Fraction:
        if self._take("("):
            result = self._sum()
            if not self._take(")"):
                raise ValueError("a parenthesis is open")
            return result
        token = self._next()
        self._place += 1
        return Fraction(token.removesuffix(".")) if token[:1].isdecimal() or token[:1] == "." else _refuse(token)


def _small(value: Fraction) -> Fraction:
    return value if _bits(value) <= _MOST_BITS else _refuse("a huge number")


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _refuse(found: str) -> Fraction:
    raise ValueError(f"cannot compute with {found!r}")
