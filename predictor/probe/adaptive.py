"""Adaptive probing: stages of examples, all arms of an example adjacent, until each hint config is decided.

Nothing is remembered but the rollouts: which configs are still open after a stage is worked out anew from the store, so
a killed probe goes on where it stopped, and a stored study says the same when it is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from predictor.config import StudyConfig
from predictor.errors import DataError
from predictor.probe.arms import Arm, ArmFactory
from predictor.probe.measured import Measured, Window, frame_accuracies
from predictor.records import ControlKind, Example, HintConfig, Stopping
from predictor.stats import Accuracies, StoppingRule, difference, in_unit_order, unit_ends
from predictor.stats.accuracy import Floats


@dataclass(frozen=True)
class Standing:
    """How far one hint config has come."""

    window: Window
    """What it took part in so far."""
    stopping: Stopping | None
    """None while it is open and more can be measured."""

    first_rollouts: int | None = None
    """Rollouts of the stages before, where the last one added some."""

    @property
    def control_window(self) -> Window:
        """What its controls took part in: they stop with it, and get no more rollouts in the last stage."""
        return self.window if self.first_rollouts is None else Window(self.window.examples, self.first_rollouts)


def rule_of(config: StudyConfig) -> StoppingRule:
    """The study's stopping rule."""
    probe = config.probe
    return StoppingRule(
        threshold=config.plan.threshold,
        level=probe.confidence,
        first_rollouts=min(probe.first_rollouts, probe.rollouts),
        rollouts=probe.rollouts,
        stage_examples=probe.stage_examples,
    )


def in_stage_order(examples: Sequence[Example]) -> list[Example]:
    """The held-out examples as they are added: their own order, clusters kept together."""
    return [examples[place] for place in in_unit_order([example.unit for example in examples])]


class Stages:
    """Replays the stages of an adaptive probe on stored rollouts."""

    def __init__(self, config: StudyConfig, factory: ArmFactory, examples: Sequence[Example]) -> None:
        self._config = config
        self._factory = factory
        self.examples = in_stage_order(examples)
        self.rule = rule_of(config)
        self.ends = list(self.rule.stages(unit_ends([example.unit for example in self.examples])))

    def window(self, end: int, *, last: bool = False) -> Window:
        """The first `end` examples with the first rollouts; all examples and rollouts when `last`."""
        if last:
            return Window(frozenset(e.example_id for e in self.examples), self.rule.rollouts)
        return Window(frozenset(e.example_id for e in self.examples[:end]), self.rule.first_rollouts)

    def standing(self, hint: HintConfig, measured: Measured) -> Standing:
        """The hint config's state by what is stored: its last complete stage, and whether that decided it."""
        known = Standing(Window(frozenset(), 0), None)
        for looks, end in enumerate(self.ends, start=1):
            window = self.window(end)
            if not self._is_complete(hint, measured, window, hint.control_kinds):
                return known
            teacher, base = self._arms(hint, measured, window)
            values, units = _paired(teacher, base, [e.example_id for e in self.examples[:end]])
            decision, bounds = self.rule.look(values, units)
            done = None if decision == "open" else self._stopping(decision, bounds, (end, window.rollouts, looks))
            known = Standing(window, done)
            if done is not None:
                return known
        window = self.window(len(self.examples), last=True)
        if not self._is_complete(hint, measured, window, ()):
            return known
        decision, bounds = self.rule.final(difference(*self._arms(hint, measured, window)))
        shape = (len(self.examples), window.rollouts, len(self.ends) + 1)
        return Standing(window, self._stopping(decision, bounds, shape), self.rule.first_rollouts)

    def _stopping(self, decision: str, bounds: tuple[float, float], shape: tuple[int, int | None, int]) -> Stopping:
        return Stopping.model_validate(
            {
                "rule": str(self.rule),
                "decided": decision,
                "threshold": self.rule.threshold,
                "examples": shape[0],
                "rollouts": shape[1],
                "looks": shape[2],
                "low": bounds[0],
                "high": bounds[1],
                "level": self.rule.look_level,
            }
        )

    def _arms(self, hint: HintConfig, measured: Measured, window: Window) -> tuple[Accuracies, Accuracies]:
        """The teacher, and what it is compared with: the student, or behind a gate the bare resample."""
        arm, bare, student = self._factory.teacher(hint), self._factory.bare(), self._factory.student()
        if arm.is_gated:
            rows = measured.gated(arm, bare, student, window)
            return frame_accuracies(rows), frame_accuracies(window.of(measured.frame(bare)))
        rows = window.of(measured.frame(arm))
        return frame_accuracies(rows), measured.accuracies(student)

    def _is_complete(
        self, hint: HintConfig, measured: Measured, window: Window, controls: Sequence[ControlKind]
    ) -> bool:
        arms = [self._factory.teacher(hint), self._factory.bare()]
        arms += [self._factory.control(hint, control) for control in controls]
        return all(self._is_filled(arm, measured, window) for arm in arms)

    def _is_filled(self, arm: Arm, measured: Measured, window: Window) -> bool:
        if arm.is_gated:
            try:
                measured.gated(arm, self._factory.bare(), self._factory.student(), window)
            except DataError:
                return False
            return True
        wanted = len(window.examples or ()) * (window.rollouts or 0)
        return measured.has(arm) and len(window.of(measured.frame(arm))) >= wanted


def still_open(stages: Stages, hints: Sequence[HintConfig], frame: pd.DataFrame) -> list[HintConfig]:
    """The hint configs that need more; those of kind `none` go along while any other does."""
    measured = Measured.from_frame(frame)
    waiting = [h for h in hints if h.kind != "none" and stages.standing(h, measured).stopping is None]
    return [h for h in hints if h in waiting or h.kind == "none"] if waiting else []


def _paired(teacher: Accuracies, base: Accuracies, names: Sequence[str]) -> tuple[Floats, list[str]]:
    """Differences of the examples that both arms could judge, in the order they were added."""
    both = [name for name in names if name in teacher.by_example and name in base.by_example]
    values = np.array([teacher.by_example[name] - base.by_example[name] for name in both], dtype=np.float64)
    return values, [teacher.units[name] for name in both]
