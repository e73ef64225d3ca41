"""Quantiles of the t, normal and Beta laws, with scipy loaded at the first use: most commands never need it."""

from __future__ import annotations

from typing import Any


def t_quantile(df: float, probability: Any) -> Any:
    """Quantile of t with `df` degrees of freedom (infinity: normal) for a number or an array; NaN for a NaN df."""
    from scipy.special import stdtrit

    return stdtrit(df, probability)


def t_cdf(df: float, value: Any) -> Any:
    """P(t ≤ value) with `df` degrees of freedom for a number or an array."""
    from scipy.special import stdtr

    return stdtr(df, value)


def normal_quantile(probability: float) -> float:
    """Quantile of the standard normal."""
    from scipy.special import ndtri

    return float(ndtri(probability))


def beta_quantile(a: float, b: float, probability: float) -> float:
    """Quantile of Beta(a, b)."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, probability))
