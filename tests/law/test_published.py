import csv
from pathlib import Path

import pytest

from predictor.law import LinearLaw
from predictor.law.simulate import PlantedLaw
from predictor.records import Estimate

TABLE = Path(__file__).parents[2] / "data" / "published" / "sdpo_table6.csv"


def table6():
    """SDPO's Table 6 as run records."""
    planted = PlantedLaw(student=0.279, family="qwen3", num_units=131)
    records = []
    for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()):
        record = planted.record(row["hint"].replace(" ", "-"), float(row["gap"]), float(row["improvement"]))
        records.append(
            record.model_copy(
                update={
                    "checkpoint_rule": row["checkpoint_rule"],
                    "improvement": Estimate(
                        value=float(row["improvement"]), stderr=float(row["improvement_stderr"]), num_units=131
                    ),
                }
            )
        )
    return records


def test_sdpo_table_6_has_the_published_slope_intercept_and_r_squared():
    line = LinearLaw(method="ols").fit(table6()).families[0]
    assert line.slope.value == pytest.approx(0.56, abs=0.005)
    assert line.intercept.value == pytest.approx(0.096, abs=0.0005)
    assert line.r2 == pytest.approx(0.56, abs=0.005)
    low, high = line.slope.interval()
    assert low < 0.0 < high, "four points do not even show that the slope is positive"


def test_s8_a_reader_of_sdpo_table_6_is_told_why_to_doubt_it():
    """S8: a published table of peak checkpoints."""
    fit = LinearLaw(method="ols").fit(table6())
    guards = {guard.name: guard.message for guard in fit.guards}
    assert {"few_configs", "weak_fit", "peak_checkpoint"} <= set(guards)
    assert "± 0.1" in guards["few_configs"]
    assert fit.exit_code == 3


def test_the_published_line_misses_two_of_four_contexts_of_sdpo():
    misses = {r.spec.hint: r.improvement.value - (1.492 * r.gap.gap.value - 0.003) for r in table6()}
    assert misses["env-output-only"] == pytest.approx(0.054, abs=0.001)
    assert misses["own-solution-only"] == pytest.approx(-0.066, abs=0.001)


def test_a_published_law_with_r_squared_near_0_95_leaves_nine_points_of_doubt():
    """Slope 1.492, R2 0.949, six hint configs, gap SD 8 points: ± 9.3 points at the mean gap."""
    import numpy as np
    from scipy import stats

    residual_sd = 1.492 * 0.08 * np.sqrt((1 - 0.949) / 0.949 * 5 / 4)
    half = stats.t.ppf(0.975, 4) * residual_sd * np.sqrt(1 + 1 / 6)
    assert half == pytest.approx(0.093, abs=0.001)
