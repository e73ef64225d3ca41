"""Tables of forecasts, plans, runs, fits and the whole loop."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from predictor.cli.show import brief, print_table, say, share, signed
from predictor.loop.whole import WholeResult
from predictor.records import ForecastScore, FrozenForecast, HeldOutErrors, LawFit, Plan, RunRecord

_BY_OWN_RUNS = (
    (0, 0, "from the prior alone"),
    (1, 2, "after 1 or 2 own runs"),
    (3, sys.maxsize, "after 3 or more own runs"),
)


def print_forecasts(frozen: FrozenForecast, fitted: LawFit) -> None:
    """One row for each hint config: gap, forecast improvement with its intervals, P(pays)."""
    rows = [
        [
            item.hint,
            signed(item.gap),
            f"{item.predictor} {item.predictor_value.value:+.3f}",
            f"{item.improvement.value:+.3f}",
            _interval(item.improvement.interval80),
            _interval(item.improvement.interval95),
            f"{item.p_pays:.2f}",
        ]
        for item in frozen.forecasts
    ]
    columns = ("hint config", "gap", "predictor", "forecast", "80 %", "95 %", "P(pays)")
    print_table("Forecast improvement of one new run", columns, rows)
    say(f"law: {fitted.spec.formula}, {fitted.spec.method}, {fitted.num_runs} own runs")
    say(f"frozen at {frozen.frozen_at}, content hash {frozen.frozen_hash}")


def print_plan(plan: Plan) -> None:
    """What is launched in which order and cost, and why the rest is not."""
    chosen = [
        [run.hint, str(run.spec.seed), f"{run.cost.gpu_hours * 3600:.0f} s", f"{run.gain:+.3f}", run.reason]
        for run in plan.chosen
    ]
    if chosen:
        print_table("Launch, in this order", ("hint config", "seed", "cost", "gain", "reason"), chosen)
    if plan.rejected:
        print_table("Not launched", ("hint config", "reason"), [[item.hint, item.reason] for item in plan.rejected])
    say(plan.reason)


def print_runs(records: Sequence[RunRecord]) -> None:
    """Measured outcomes of runs."""
    rows = [
        [
            record.spec.hint,
            record.spec.fidelity,
            str(record.spec.seed),
            record.state,
            share(record.before),
            share(record.after),
            signed(record.improvement),
            "–" if record.cost is None else f"{record.cost.train_seconds + record.cost.eval_seconds:.0f} s",
            record.spec.key,
        ]
        for record in records
    ]
    columns = ("hint config", "kind", "seed", "state", "before", "after", "improvement", "cost", "run")
    print_table("Runs", columns, rows)


def print_fit(fitted: LawFit, scored: ForecastScore) -> None:
    """The law's own summary, held-out families, the runs that move the slope, then frozen forecasts beside outcomes."""
    from predictor.law import leave_one_family_out
    from predictor.law.compare import influence

    say(str(fitted))
    families = leave_one_family_out(fitted.points, fitted.spec) if len(fitted.families) > 1 else None
    if families is not None:
        say(f"Leave-one-family-out over {families.num_folds} families: {_errors_text(families)}")
    moved = [f"{row.label} {row.shift:+.3f} ({row.shift_in_stderrs:+.1f} SE)" for row in influence(fitted)[:3]]
    if moved:
        say(f"Slope moved most by: {', '.join(moved)}")
    if scored.scored:
        print_scores(scored)
    for refused in scored.refused:
        say(f"not scored: {refused.hint} ({refused.key}): {refused.reason}")


def print_scores(scored: ForecastScore) -> None:
    """Frozen forecasts beside what happened."""
    rows = [
        [
            row.hint,
            f"{row.forecast:+.3f}",
            _interval(row.interval80),
            f"{row.outcome:+.3f}",
            "yes" if row.inside80 else "no",
        ]
        for row in scored.scored
    ]
    print_table("Frozen forecasts and outcomes", ("hint config", "forecast", "80 %", "outcome", "inside"), rows)
    if scored.errors is not None:
        say(f"{len(scored.scored)} frozen forecasts: {_errors_text(scored.errors)}")
    for least, most, words in _BY_OWN_RUNS:
        inside = [row.inside80 for row in scored.scored if least <= row.num_own_runs <= most]
        if inside:
            say(f"  {words}: {sum(inside)} of {len(inside)} outcomes inside their 80 % interval")


def print_whole(result: WholeResult) -> None:
    """The loop's final table: hint config, gaps, first forecast, launched or why not, outcome."""
    outcomes = {run.spec.hint: run for run in result.runs if run.spec.fidelity == "full"}
    reasons = {item.hint: item.reason for item in result.plan.rejected}
    rows = []
    for item in result.first_forecast.forecasts:
        run = outcomes.get(item.hint)
        gap = result.probe.hint(item.hint)
        rows.append(
            [
                item.hint,
                signed(gap.gap),
                signed(gap.consensus_gap),
                f"{item.improvement.value:+.3f} {_interval(item.improvement.interval80)}",
                f"launched ({run.state})" if run is not None else reasons.get(item.hint, "left for a larger budget"),
                signed(run.improvement) if run is not None else "–",
            ]
        )
    columns = ("hint config", "gap", "consensus gap", "forecast, 80 %", "launched?", "outcome")
    print_table("What was forecast, launched and measured", columns, rows)
    say(result.plan.reason)
    if result.score.scored:
        inside = sum(row.inside80 for row in result.score.scored)
        say(f"{inside} of {len(result.score.scored)} outcomes inside their frozen 80 % interval")


def _interval(bounds: tuple[float, float]) -> str:
    return f"[{brief(bounds[0])} {brief(bounds[1])}]"


def _errors_text(errors: HeldOutErrors) -> str:
    return (
        f"MAE {errors.mae:.3f}, RMSE {errors.rmse:.3f}, CRPS {errors.crps:.3f}, coverage 50/80/95 %: "
        f"{errors.coverage50:.2f} / {errors.coverage80:.2f} / {errors.coverage95:.2f}"
    )
