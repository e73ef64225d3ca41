import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from predictor.records import Predictive
from predictor.records.distributions import normal_quantile, t_cdf, t_quantile


def test_crps_of_a_normal_has_its_closed_form():
    predictive = Predictive(location=0.1, scale=0.05, df=math.inf, low=-9, high=9)
    z = (0.17 - 0.1) / 0.05
    closed = 0.05 * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi))
    assert predictive.crps(0.17) == pytest.approx(closed, rel=2e-3)


def test_mean_of_the_clipped_distribution_equals_numerical_integration():
    predictive = Predictive(location=0.7, scale=0.2, df=4.0, low=-0.15, high=0.85)
    inner = integrate.quad(lambda v: v * stats.t.pdf((v - 0.7) / 0.2, 4) / 0.2, -0.15, 0.85)[0]
    expected = inner - 0.15 * predictive.clipped_below + 0.85 * predictive.clipped_above
    assert predictive.mean == pytest.approx(expected, abs=1e-3)


def test_clipped_mass_sits_on_the_bounds():
    predictive = Predictive(location=0.9, scale=0.1, df=5.0, low=-0.2, high=0.8)
    assert predictive.clipped_above == pytest.approx(stats.t.sf(-1.0, 5))
    assert predictive.probability_of_at_least(0.8) == pytest.approx(predictive.clipped_above)
    assert predictive.probability_of_at_least(0.81) == 0.0
    assert predictive.probability_of_at_least(-0.2) == 1.0


def test_an_unknown_scale_gives_no_interval_and_no_probability():
    predictive = Predictive(location=0.3, scale=math.nan, df=2.0)
    assert all(math.isnan(bound) for bound in predictive.interval(0.8))
    assert math.isnan(predictive.probability_of_at_least(0.1))
    assert math.isnan(predictive.crps(0.1))
    assert predictive.mean == 0.3


def test_a_certain_forecast_is_a_step():
    predictive = Predictive(location=0.3, scale=0.0, df=math.inf)
    assert predictive.interval(0.95) == (0.3, 0.3)
    assert predictive.probability_of_at_least(0.2) == 1.0
    assert predictive.probability_of_at_least(0.4) == 0.0


@settings(deadline=None)
@given(st.floats(-2, 2), st.floats(0.001, 2), st.floats(1, 50), st.floats(0, 1), st.floats(-1, 1))
def test_bounds_are_never_left_and_probabilities_fall_with_the_threshold(location, scale, df, student, threshold):
    predictive = Predictive(location=location, scale=scale, df=df, low=-student, high=1 - student)
    low, high = predictive.interval(0.95)
    assert -student <= low <= high <= 1 - student
    assert -student <= predictive.mean <= 1 - student
    assert predictive.probability_of_at_least(threshold) >= predictive.probability_of_at_least(threshold + 0.1)
    assert predictive.crps(np.clip(threshold, -student, 1 - student)) >= -1e-6


def test_importing_records_and_law_loads_no_scipy_and_its_quantiles_are_scipys():
    code = "import sys, predictor.law; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert t_quantile(3.5, 0.9) == pytest.approx(stats.t.ppf(0.9, 3.5))
    assert t_cdf(3.5, 0.4) == pytest.approx(stats.t.cdf(0.4, 3.5))
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975))
    assert t_quantile(math.inf, 0.9) == pytest.approx(stats.norm.ppf(0.9))
