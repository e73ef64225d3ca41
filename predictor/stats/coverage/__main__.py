"""`python -m predictor.stats.coverage [--draws 2000] [--studies 200] [--out reports]`: both pages."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from predictor.records import current_provenance
from predictor.stats.coverage.designs import compare_designs
from predictor.stats.coverage.intervals import cells, measure_cell
from predictor.stats.coverage.report import design_page, interval_page
from predictor.stats.stopping import StoppingRule


def main(arguments: list[str] | None = None) -> int:
    """Write probe_coverage.md and adaptive.md; the number of draws and studies sets the time (minutes)."""
    parser = argparse.ArgumentParser(prog="python -m predictor.stats.coverage", description=main.__doc__)
    parser.add_argument("--draws", type=int, default=2000, help="planted studies in each cell of the coverage table")
    parser.add_argument("--studies", type=int, default=200, help="planted studies for each adaptive design")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="directory of both pages")
    chosen = parser.parse_args(arguments)
    command = f"python -m predictor.stats.coverage --draws {chosen.draws} --studies {chosen.studies}"
    provenance = current_provenance(config_key="")
    chosen.out.mkdir(parents=True, exist_ok=True)
    designs = []
    for examples, first in ((128, 2), (128, 4), (256, 2)):
        rule = StoppingRule(threshold=0.05, level=0.95, first_rollouts=first, rollouts=8, stage_examples=16)
        found = compare_designs(rule, num_examples=examples, studies=chosen.studies, configs=8)
        designs.append((rule, examples, found))
    (chosen.out / "adaptive.md").write_text(design_page(designs, provenance, command), encoding="utf-8")
    measured = [measure_cell(cell, chosen.draws) for cell in cells()]
    (chosen.out / "probe_coverage.md").write_text(interval_page(measured, provenance, command), encoding="utf-8")
    sys.stdout.write(f"{chosen.out / 'adaptive.md'}\n{chosen.out / 'probe_coverage.md'}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
