"""`gapcast probe --plan`: examples and rollouts for a wanted half-width, with their cost."""

from __future__ import annotations

import math
from pathlib import Path

from predictor.cli import show

DONE = 0


def plan_probe(study: Path, half_width: float, *, as_json: bool) -> int:
    """Print the sizes that reach the half-width, cheapest first; loads no weights and measures nothing."""
    from predictor.errors import InputError
    from predictor.probe import Pace
    from predictor.probe.arms import ArmFactory
    from predictor.probe.sizing import Pricing, measured_components, sizes
    from predictor.probe.summary import arm_keys, hint_arms
    from predictor.store import Study
    from predictor.tasks import load_examples

    if not 0.0 < half_width < 1.0:
        raise InputError("--half-width is a share", found=f"{half_width:g}", expected="between 0 and 1")
    opened = Study(study)
    config = opened.config
    factory = ArmFactory(config, load_examples(config.task, study).train, None)
    frame = opened.rollouts.read(arm_keys(config, factory))
    pace = opened.read("pace", Pace)
    arms = 1 + len({arm.key for arm in hint_arms(config.hints, factory)})
    tokens = float(frame["completion_ids"].map(len).mean()) if len(frame) else float(config.sampling.max_tokens)
    pricing = Pricing(arms, tokens, math.nan if pace is None else pace.seconds_per_rollout)
    components = measured_components(factory, config.hints, frame)
    found = sizes(components, half_width, pricing, level=config.probe.confidence)
    if as_json:
        content = {
            "half_width": half_width,
            "level": config.probe.confidence,
            "arms": arms,
            "components": components.model_dump(),
            "sizes": [size.model_dump() for size in found],
        }
        show.print_json(show.nulls(content))
        return DONE
    rows = [
        [
            f"{size.examples} x {size.rollouts}",
            f"{size.total_rollouts:,}",
            f"{size.total_tokens:,.0f}",
            "–" if math.isnan(size.seconds) else f"{size.seconds:,.0f} s",
            f"{size.minimal_detectable_gap:.3f}",
        ]
        for size in found
    ]
    columns = ("examples x rollouts", "rollouts in all", "completion tokens", "time", "detectable gap")
    show.print_table(f"Half-width {half_width:g} of every gap, {arms} arms, cheapest first", columns, rows)
    show.say(
        f"variance: {components.between_var:.4f} between examples, {components.within_var:.4f} within "
        f"({components.source}); design effect {components.deff:.2f}"
    )
    have = config.task.eval_examples
    show.say(f"this study has task.eval_examples {have} and probe.rollouts {config.probe.rollouts}")
    return DONE
