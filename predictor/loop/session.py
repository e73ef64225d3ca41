"""One command's view of a study: configuration, examples, engine and store, each opened when first needed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from predictor.engines import open_consensus_engine, open_engine, resolve_model
from predictor.engines.base import Engine
from predictor.launch import charged_seconds
from predictor.probe import ConsensusEngine, OnProgress, Probe
from predictor.records import GapEstimate, RunRecord
from predictor.store import Study

_ENGINES = ("consensus_engine", "engine")


class Session:
    """A study with its engines; engines are loaded once and serve every stage of a command."""

    def __init__(self, path: Path, on_progress: OnProgress | None = None) -> None:
        self.study = Study(path)
        self.config = self.study.config
        self.on_progress: OnProgress = on_progress or _silent

    @cached_property
    def model_dir(self) -> Path:
        """Directory of the model's weights; ModelError when there is none."""
        return resolve_model(self.config.model.path, self.study.path)

    @cached_property
    def engine(self) -> Engine:
        """The probing engine that the study names, or that `auto` chose."""
        return open_engine(self.config.model, self.study.path)

    @cached_property
    def consensus_engine(self) -> ConsensusEngine:
        """The engine that decodes consensus policies; the probing engine itself where it can."""
        return open_consensus_engine(self.config.model, self.study.path, self.engine)

    @cached_property
    def probe(self) -> Probe:
        """The study's probe on its engine."""
        return Probe(self.study, self.engine, self.model_dir, lambda: self.consensus_engine)

    def release(self) -> None:
        """Give the accelerator's memory back before a training process starts; the next stage takes it again."""
        for opened in self._opened():
            opened.release()

    def close(self) -> None:
        """Give back the engines' memory."""
        for opened in self._opened():
            opened.close()
        for name in _ENGINES:
            self.__dict__.pop(name, None)

    def _opened(self) -> list[Engine]:
        """The engines that a stage has needed so far."""
        return [self.__dict__[name] for name in _ENGINES if name in self.__dict__]

    @property
    def gaps(self) -> list[GapEstimate]:
        """Measured hint configs without their controls; empty before the first probe."""
        return [gap for gap in self.study.records("gaps", GapEstimate) if not gap.is_control]

    @property
    def runs(self) -> list[RunRecord]:
        """The latest record of every run, finished or not."""
        return latest_runs(self.study)

    @property
    def paths_elsewhere(self) -> tuple[Path, ...]:
        """The studies that law.runs_from names."""
        return tuple(self.study.path / name for name in self.config.law.runs_from)

    @cached_property
    def runs_elsewhere(self) -> tuple[RunRecord, ...]:
        """Runs of the studies that law.runs_from names; StudyError for one that is not there."""
        return tuple(run for path in self.paths_elsewhere for run in latest_runs(Study(path)))

    @property
    def charged(self) -> float:
        """Device-seconds charged to the budget so far."""
        return charged_seconds(self.study)


def latest_runs(study: Study) -> list[RunRecord]:
    """The latest record of every run of a study, in the order in which they first appeared."""
    latest = {record.spec.key: record for record in study.records("runs", RunRecord)}
    return list(latest.values())


def _silent(_stage: str, _done: int, _total: int) -> None:
    """No progress."""
