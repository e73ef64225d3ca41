"""What the plan launches, and why it does not launch the rest."""

from __future__ import annotations

from predictor.records.plan import Plan
from predictor.report.evidence import Evidence
from predictor.report.page import Cell, Row, Section, Table, plain, table
from predictor.report.wording import number, seconds, signed


def plan_section(evidence: Evidence) -> Section:
    """The chosen runs with their reasons, then one row for every hint config that is not launched."""
    plan = evidence.plan
    if plan is None:
        missing = (
            "There is no plan yet: `gapcast plan` chooses runs under the budget and gives a reason for the others."
        )
        return Section("plan", "Plan", missing=(missing,))
    tables = (_chosen(plan), _rejected(plan))
    text = (
        f"{_sentence(plan.reason)} Objective `{plan.objective}`; "
        f"the objective's expected value is {number(plan.expected)}.",
    )
    return Section("plan", "Plan", text=text, tables=tuple(found for found in tables if found.rows))


def _chosen(plan: Plan) -> Table:
    rows = [
        Row(
            (
                plain(run.hint),
                Cell(str(run.spec.seed)),
                Cell(run.spec.fidelity),
                Cell(seconds(3600.0 * run.cost.gpu_hours)),
                Cell(signed(run.gain)),
                plain(run.reason),
            )
        )
        for run in plan.chosen
    ]
    return table("Runs to launch, in this order", ("hint config", "seed", "kind", "cost", "gain", "why"), rows)


def _rejected(plan: Plan) -> Table:
    # A rejection holds its reason alone; what a run of it would have cost stands in the plan's rows.
    by_name = {row.hint: row for row in plan.rows}
    rows = []
    for item in plan.rejected:
        row = by_name.get(item.hint)
        cost = "–" if row is None else seconds(3600.0 * row.cost_gpu_hours)
        rows.append(Row((plain(item.hint), plain(item.code.replace("_", " ")), Cell(cost), plain(item.reason))))
    return table("Not launched, and why", ("hint config", "because", "cost of a run", "in full"), rows)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
