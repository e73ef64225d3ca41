"""Everything a report is made of, read from the study directory and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from predictor.config import StudyConfig
from predictor.forecast import score
from predictor.records import (
    Forecast,
    ForecastScore,
    FrozenForecast,
    GapEstimate,
    LawFit,
    LedgerEntry,
    Provenance,
    RunRecord,
    ScoredForecast,
)
from predictor.records.diagnostics import HintDiagnostics
from predictor.records.plan import Plan
from predictor.store import Study


@dataclass(frozen=True)
class Evidence:
    """What a study holds; parts that do not exist yet are empty or None."""

    name: str
    config: StudyConfig
    gaps: tuple[GapEstimate, ...]
    frozen: tuple[FrozenForecast, ...]
    plan: Plan | None
    runs: tuple[RunRecord, ...]
    """The latest record of every run, full ones and pilots."""
    ledger: tuple[LedgerEntry, ...]
    law: LawFit | None
    score: ForecastScore
    """Frozen forecasts beside the runs that they may be scored against."""
    diagnostics: tuple[HintDiagnostics, ...] = ()

    @property
    def hints(self) -> list[GapEstimate]:
        """Measured hint configs without their controls."""
        return [gap for gap in self.gaps if not gap.is_control]

    @property
    def finished(self) -> list[RunRecord]:
        """Finished full runs with a measured improvement."""
        full = [run for run in self.runs if run.spec.fidelity == "full"]
        return [run for run in full if run.state == "finished" and run.improvement is not None]

    @property
    def charged(self) -> float:
        """Device-seconds of all ledger lines."""
        return sum(entry.seconds for entry in self.ledger)

    def scored(self, run: RunRecord) -> ScoredForecast | None:
        """The frozen forecast that a run was scored against."""
        return next((row for row in self.score.scored if row.key == run.spec.key), None)

    def runs_of(self, hint: str) -> list[RunRecord]:
        """Full runs of a hint config, in any state."""
        return [run for run in self.runs if run.spec.hint == hint and run.spec.fidelity == "full"]

    def shown_forecasts(self) -> list[tuple[FrozenForecast, Forecast]]:
        """One forecast of a full run for each hint config: the one its runs were scored against, else the latest."""
        chosen: dict[str, tuple[FrozenForecast, Forecast]] = {}
        # After the first score a hint config keeps that forecast: a later one may have seen the outcome.
        scored = {(row.hint, row.frozen_hash) for row in self.score.scored}
        settled: set[str] = set()
        for frozen in self.frozen:
            for item in frozen.forecasts:
                if item.fidelity == "full" and item.hint not in settled:
                    chosen[item.hint] = (frozen, item)
                    settled |= {item.hint} if (item.hint, frozen.frozen_hash) in scored else set()
        return list(chosen.values())

    def provenances(self) -> Iterator[Provenance]:
        """Where each gap, forecast and run comes from."""
        yield from (gap.provenance for gap in self.gaps)
        yield from (frozen.provenance for frozen in self.frozen)
        yield from (run.provenance for run in self.runs)


def read_evidence(study: Study) -> Evidence:
    """The study as it stands; StoreError for a damaged file, never an error for a missing one."""
    frozen = study.records("forecasts", FrozenForecast)
    # A run is written again when its state changes; the later line is the one that holds.
    runs = list({run.spec.key: run for run in study.records("runs", RunRecord)}.values())
    return Evidence(
        name=study.path.resolve().name,
        config=study.config,
        gaps=tuple(study.records("gaps", GapEstimate)),
        frozen=tuple(frozen),
        plan=study.read("plan", Plan),
        runs=tuple(runs),
        ledger=tuple(study.records("ledger", LedgerEntry)),
        law=study.read("law", LawFit),
        score=score(frozen, runs),
        diagnostics=tuple(study.records("diagnostics", HintDiagnostics)),
    )
