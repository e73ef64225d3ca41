"""Rollouts per second of the probe against the same token-id prompts handed straight to the engine.

Both are measured in one process on one engine, in turns, so that a busy machine slows both:
`python benchmarks/probe_speed.py STUDY` prints the medians and their ratio. Nothing is written into the study.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from predictor.checkers import build_checker
from predictor.engines.base import Request
from predictor.loop.session import Session
from predictor.probe import Instrument
from predictor.probe.arms import Job
from predictor.store import RolloutStore

TURNS = 5


def raw_seconds(session: Session, jobs: list[Job], turn: int) -> float:
    """The engine alone."""
    requests = [Request(f"raw/{turn}/{job.request_id}", job.prompts[0].ids, job.n, job.seed + turn) for job in jobs]
    started = time.monotonic()
    session.engine.generate(requests, session.config.sampling)
    return time.monotonic() - started


def probe_seconds(session: Session, jobs: list[Job]) -> float:
    """The instrument: the same requests, decoded to text, judged and stored."""
    with tempfile.TemporaryDirectory() as directory:
        store = RolloutStore(Path(directory))
        instrument = Instrument(
            session.engine,
            build_checker(session.config.task.checker),
            session.config.sampling,
            store,
            shard_rollouts=session.config.probe.shard_rollouts,
        )
        started = time.monotonic()
        instrument.collect(jobs, stage="bench", on_progress=lambda _stage, _done, _total: None)
        return time.monotonic() - started


def main(study: str) -> None:
    """Print one JSON document with both medians and the ratio of throughputs."""
    session = Session(Path(study))
    probe = session.probe
    student = probe.factory.student()
    teacher = probe.factory.teacher(session.config.hints[1])
    jobs = [
        job
        for arm in (student, teacher)
        for job in probe.factory.jobs(arm, probe.data.eval, session.config.probe.rollouts, {})
    ]
    raw_seconds(session, jobs, -1)
    raw, probed = [], []
    for turn in range(TURNS):
        raw.append(raw_seconds(session, jobs, turn))
        probed.append(probe_seconds(session, jobs))
    rollouts = sum(job.n for job in jobs)
    result = {
        "model": session.config.model.path,
        "engine": f"{session.engine.name} {session.engine.version}",
        "rollouts": rollouts,
        "raw_rollouts_per_second": round(rollouts / statistics.median(raw), 1),
        "probe_rollouts_per_second": round(rollouts / statistics.median(probed), 1),
        "ratio": round(statistics.median(raw) / statistics.median(probed), 3),
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    session.close()


if __name__ == "__main__":
    main(sys.argv[1])
