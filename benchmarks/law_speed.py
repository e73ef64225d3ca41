"""Seconds that the law takes on 10,000 run records: fit, forecast and 2,000 bootstrap draws.

`python benchmarks/law_speed.py`
The aim is under two seconds on one core. Making the records is not counted; a user has them.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from predictor.forecast import forecast
from predictor.law import LinearLaw
from predictor.law.bootstrap import bootstrap_line
from predictor.law.simulate import PlantedLaw

NUM_RECORDS = 10_000
DRAWS = 2_000


def main() -> None:
    """Print the seconds of each step and their sum, for `ols` and for `bayes`."""
    planted = PlantedLaw(slope=1.0, student=0.15, probe_stderr=0.02, eval_stderr=0.03)
    gaps = np.random.default_rng(0).uniform(0.0, 0.7, NUM_RECORDS)
    records = planted.records(gaps.tolist())
    for method in ("ols", "bayes"):
        started = time.perf_counter()
        fit = LinearLaw(method=method).fit(records)
        fitted = time.perf_counter()
        forecast(fit, [planted.gap(f"new{index}", 0.1 * index) for index in range(8)], threshold=0.02)
        forecasted = time.perf_counter()
        bootstrap_line(fit, draws=DRAWS)
        ended = time.perf_counter()
        sys.stdout.write(
            f"{method}: fit {fitted - started:.2f} s, forecast {forecasted - fitted:.2f} s, "
            f"bootstrap {ended - forecasted:.2f} s, together {ended - started:.2f} s\n"
        )


if __name__ == "__main__":
    main()
