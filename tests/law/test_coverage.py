import subprocess
import sys

import numpy as np
import pytest

from predictor.law import covers
from predictor.law.coverage import Cell, cell_coverage, cells, coverage_report, csv_rows, slope_coverage
from predictor.law.coverage.simulate import SPECS, _hit, simulate
from predictor.law.methods import lines_of
from predictor.records import Estimate, Provenance
from predictor.records.law.predict import predict_run

CELLS = [Cell(4, 0.08, 0.03, True, 1), Cell(12, 0.03, 0.016, False, 2)]


@pytest.mark.parametrize("cell", CELLS)
def test_intervals_for_new_runs_keep_their_level(cell):
    results = {result.method: result for result in cell_coverage(cell, draws=250)}
    assert 0.75 <= results["ols"].coverage80 <= 0.85
    assert 0.92 <= results["ols"].coverage95 <= 0.98
    assert results["bayes"].coverage80 >= 0.77, "a prior spread wider than the truth may only widen"
    assert results["bayes"].half_width80 < 1.1 * results["ols"].half_width80


def test_families_pooled_into_one_line_pay_with_the_width():
    cell = Cell(6, 0.08, 0.016, False, 4)
    results = {result.method: result for result in cell_coverage(cell, draws=60)}
    assert results["pooled ols"].half_width80 > 1.5 * results["ols"].half_width80


def test_york_finds_a_slope_of_zero_at_the_stated_rate_where_ols_does_not():
    ols, york = slope_coverage(Cell(24, 0.03, 0.03, True, 1), draws=80)
    assert york.coverage95 >= 0.9
    assert ols.coverage95 < 0.9
    assert abs(york.median_slope) < 0.12 < ols.median_slope


def test_the_simulated_interval_is_the_one_that_users_get():
    table, _ = simulate(CELLS[0], np.random.default_rng(0))
    law = lines_of(table.take(np.arange(4)), SPECS["ols"]).families[0]
    gap = Estimate(value=0.3, stderr=0.03, num_units=131)
    predictive = predict_run(law, gap, (), student=None, num_eval_units=131).predictive
    for outcome in (0.1, 0.3, 0.35, 0.5):
        inside80, inside95, _ = _hit(law, 0.3, outcome, 0.03**2)
        assert inside80 == covers(predictive, outcome, 0.80)
        assert inside95 == covers(predictive, outcome, 0.95)


def test_the_report_has_a_row_for_every_cell_and_names_its_commit():
    results = [result for cell in CELLS for result in cell_coverage(cell, draws=5)]
    slopes = slope_coverage(CELLS[0], draws=5)
    text = coverage_report(results, slopes, draws=5, provenance=Provenance(time_utc="2026-01-01T00", git_commit="abc"))
    assert "Commit abc" in text
    assert text.count("\n| 12 |") == 3
    rows = list(csv_rows(results, slopes))
    assert len(rows) == len(results) + len(slopes)
    assert {row["table"] for row in rows} == {"new_run", "slope"}
    assert len(list(cells())) == 120


def test_importing_the_law_loads_no_torch_and_no_statsmodels():
    heavy = "('torch', 'transformers', 'vllm', 'statsmodels', 'matplotlib', 'pandas')"
    code = f"import sys, predictor.law, predictor.forecast; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
