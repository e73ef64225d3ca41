"""`python -m predictor.law.coverage [--draws 400] [--out reports]`: the whole table, written twice."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from predictor.law.coverage.report import coverage_report, csv_rows
from predictor.law.coverage.simulate import cell_coverage, cells, slope_cells, slope_coverage
from predictor.records import current_provenance


def main() -> None:
    """Simulate every cell and write law_coverage.md and law_coverage.csv; progress goes to stderr."""
    parser = argparse.ArgumentParser(prog="python -m predictor.law.coverage", description=main.__doc__)
    parser.add_argument("--draws", type=int, default=400, help="simulated laws for each row (default: 400)")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="directory to write to (default: reports)")
    given = parser.parse_args()
    results, slopes = [], []
    for number, cell in enumerate(cells(), start=1):
        results += cell_coverage(cell, draws=given.draws)
        sys.stderr.write(f"\rnew runs: {number} cells")
    for number, cell in enumerate(slope_cells(), start=1):
        slopes += slope_coverage(cell, draws=given.draws)
        sys.stderr.write(f"\rslopes: {number} cells  ")
    sys.stderr.write("\n")
    rows = list(csv_rows(results, slopes))
    given.out.mkdir(parents=True, exist_ok=True)
    text = coverage_report(results, slopes, draws=given.draws, provenance=current_provenance())
    (given.out / "law_coverage.md").write_text(text, encoding="utf-8")
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (given.out / "law_coverage.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
