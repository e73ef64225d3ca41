"""What an adaptive probe would have done on a study that was probed in full: `python -m predictor.probe.replay STUDY…`.

Nothing is generated: the fixed design's stored rollouts are handed to the stopping rule in the order in which an
adaptive probe would have sampled them, so decisions and costs are those of real rollouts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from predictor.probe.adaptive import Stages, Standing
from predictor.probe.arms import Arm, ArmFactory
from predictor.probe.measured import Measured, Window
from predictor.probe.summary import arm_keys
from predictor.records import HintConfig, current_provenance
from predictor.stats import difference
from predictor.store import Study
from predictor.tasks import load_examples


@dataclass(frozen=True, slots=True)
class Replayed:
    """One hint config under both designs."""

    hint: str
    gap: float
    """With all rollouts."""
    fixed: str
    adaptive: str
    examples: int
    rollouts: int


@dataclass(frozen=True, slots=True)
class Replay:
    """One study under both designs."""

    study: str
    configs: tuple[Replayed, ...]
    tokens_share: float
    """Completion tokens of the adaptive design over the fixed one's, student and bare resample included."""
    hint_tokens_share: float
    """The same without the student, which is the baseline of every training and measured in full by both."""


def replay(path: Path, *, first_rollouts: int | None = None) -> Replay:
    """Both designs on a study's stored rollouts; hint configs of kind `none` decide nothing and are left out."""
    study = Study(path)
    config = study.config
    if first_rollouts is not None:
        probe = config.probe.model_copy(update={"first_rollouts": first_rollouts})
        config = config.model_copy(update={"probe": probe})
    data = load_examples(config.task, path)
    factory = ArmFactory(config, data.train, None)
    frame = study.rollouts.read(arm_keys(config, factory))
    measured = Measured.from_frame(frame)
    stages = Stages(config, factory, data.eval)
    hints = [_as_measured(hint, factory, measured) for hint in config.hints if hint.kind != "none"]
    hints = [hint for hint in hints if measured.has(factory.teacher(hint))]
    standings = {hint.name: stages.standing(hint, measured) for hint in hints}
    student = measured.accuracies(factory.student())
    configs = []
    for hint in hints:
        estimate = difference(measured.accuracies(factory.teacher(hint)), student)
        stopping = standings[hint.name].stopping
        shape = (0, 0) if stopping is None else (stopping.examples, stopping.rollouts)
        decided = "open" if stopping is None else stopping.decided
        fixed = stages.rule.decided(estimate.interval(stages.rule.level))
        configs.append(Replayed(hint.name, estimate.value, fixed, decided, *shape))
    paid = _tokens(hints, standings, factory, measured)
    whole = _tokens(hints, {hint.name: Standing(Window(), None) for hint in hints}, factory, measured)
    base = float(measured.frame(factory.student())["completion_ids"].map(len).sum())
    return Replay(path.name, tuple(configs), (base + paid) / (base + whole), paid / whole)


def _as_measured(hint: HintConfig, factory: ArmFactory, measured: Measured) -> HintConfig:
    """The hint config with those controls that the study has rollouts of."""
    kept = tuple(c for c in hint.control_kinds if measured.has(factory.control(hint, c)))
    return hint.model_copy(update={"controls": kept})


def _tokens(
    hints: Sequence[HintConfig], standings: Mapping[str, Standing], factory: ArmFactory, measured: Measured
) -> float:
    """Completion tokens of teachers, controls and the bare resample within the windows; shared arms count once."""
    used: dict[str, pd.Index] = {}

    def use(arm: Arm, window: Window) -> None:
        if measured.has(arm):
            rows = window.of(measured.frame(arm)).index
            used[arm.key] = rows.union(used[arm.key]) if arm.key in used else rows

    for hint in hints:
        for arm in (factory.bare(), factory.teacher(hint)):
            use(arm, standings[hint.name].window)
        for control in hint.control_kinds:
            use(factory.control(hint, control), standings[hint.name].control_window)
    return float(sum(measured.frames[key].loc[rows, "completion_ids"].map(len).sum() for key, rows in used.items()))


def replay_page(found: Sequence[Replay], command: str) -> str:
    """Decisions and token shares of every replayed study."""
    provenance = current_provenance(config_key="")
    dirty = ", uncommitted changes" if provenance.git_dirty else ""
    lines = [
        "# Adaptive probing on real rollouts",
        "",
        f"Commit {provenance.git_commit}{dirty}; {provenance.time_utc[:10]}; made by `{command}`. The stopping rule is "
        "replayed on the rollouts that fixed designs stored.",
        "",
        "| study | hint configs | same decision | left open | opposite | tokens, all | tokens, without the student |",
        "|---|---|---|---|---|---|---|",
    ]
    for item in found:
        decided = [c for c in item.configs if c.fixed != "open"]
        same = sum(c.fixed == c.adaptive for c in decided)
        opposite = sum({c.fixed, c.adaptive} == {"above", "below"} for c in item.configs)
        left = sum(c.adaptive == "open" for c in decided)
        lines.append(
            f"| {item.study} | {len(item.configs)} | {same} of {len(decided)} | {left} | {opposite} "
            f"| {item.tokens_share:.0%} | {item.hint_tokens_share:.0%} |"
        )
    lines += ["", "| study | hint config | gap | fixed | adaptive | examples x rollouts |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {item.study} | {c.hint} | {c.gap:+.3f} | {c.fixed} | {c.adaptive} | {c.examples} x {c.rollouts} |"
        for item in found
        for c in item.configs
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the page of the replayed studies."""
    parser = argparse.ArgumentParser(prog="python -m predictor.probe.replay", description=main.__doc__)
    parser.add_argument("study", type=Path, nargs="+", help="studies that were probed in full")
    parser.add_argument("--first-rollouts", type=int, default=None, help="probe.first_rollouts instead of the study's")
    parser.add_argument("--out", type=Path, default=Path("reports/adaptive_real.md"), help="the page")
    chosen = parser.parse_args(arguments)
    found = [replay(path, first_rollouts=chosen.first_rollouts) for path in chosen.study]
    names = " ".join(path.name for path in chosen.study)
    chosen.out.write_text(replay_page(found, f"python -m predictor.probe.replay {names}"), encoding="utf-8")
    sys.stdout.write(f"{chosen.out}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
