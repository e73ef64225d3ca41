"""Rollouts per second of the probe against the same token-id prompts handed straight to the engine.

Both are measured in one process on one engine, in turns, so that a busy machine slows both:
`python benchmarks/probe_speed.py STUDY [EXAMPLES] [TURNS] [ROLLOUTS]` prints the medians and the median of each turn's
ratio. The probe renders its prompts, checks their lengths, decodes the ids to text, judges and stores; the engine alone
is `vllm.LLM.generate` on ready token ids (with the transformers engine, its adapter). Requests and seeds are the same.
Nothing is written into the study.
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
from predictor.engines.vllm import VLLMEngine, sampling_params
from predictor.loop.session import Session
from predictor.probe import Instrument
from predictor.probe.arms import ArmFactory, Job
from predictor.probe.instrument import preflight
from predictor.store import RolloutStore

TURNS = 5


def jobs_of(session: Session, examples: int, rollouts: int) -> list[Job]:
    """The student and the first hint config that is not `none`, all arms of an example adjacent as in a probe.

    The factory is a new one, as in a probe: it has rendered no prompt yet.
    """
    data = session.probe.data
    factory = ArmFactory(session.config, data.train, session.engine.tokenizer, data.eval)
    hint = next(hint for hint in session.config.hints if hint.kind != "none")
    arms = (factory.student(), factory.teacher(hint))
    shown = data.eval[:examples]
    jobs = [job for arm in arms for job in factory.jobs(arm, shown, rollouts, {})]
    order = {example.example_id: place for place, example in enumerate(shown)}
    return sorted(jobs, key=lambda job: order[job.example.example_id])


def raw_seconds(session: Session, jobs: list[Job]) -> float:
    """The engine alone."""
    requests = [Request(job.request_id, job.prompts[0].ids, job.n, job.seed) for job in jobs]
    engine, sampling = session.engine, session.config.sampling
    started = time.monotonic()
    if isinstance(engine, VLLMEngine):
        params = [sampling_params(request, sampling, engine.stop_ids) for request in requests]
        prompts = [{"prompt_token_ids": list(request.prompt_ids)} for request in requests]
        engine.llm.generate(prompts, params, use_tqdm=False)
    else:
        engine.generate(requests, sampling)
    return time.monotonic() - started


def probe_seconds(session: Session, examples: int, rollouts: int) -> float:
    """The instrument: the same requests, rendered, checked, decoded to text, judged and stored."""
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
        jobs = jobs_of(session, examples, rollouts)
        preflight(jobs, session.engine, session.config.sampling)
        instrument.collect(jobs, stage="bench", on_progress=lambda _stage, _done, _total: None)
        return time.monotonic() - started


def main(study: str, examples: str = "1000000", turns: str = str(TURNS), rollouts: str = "") -> None:
    """Print one JSON document with both medians and the ratio of throughputs."""
    session = Session(Path(study))
    wanted = int(examples), int(rollouts or session.config.probe.rollouts)
    jobs = jobs_of(session, *wanted)
    raw_seconds(session, jobs)
    raw, probed = [], []
    for turn in range(int(turns)):
        # Each goes first in every other turn: what the first one warms up helps the second.
        if turn % 2:
            probed.append(probe_seconds(session, *wanted))
            raw.append(raw_seconds(session, jobs))
        else:
            raw.append(raw_seconds(session, jobs))
            probed.append(probe_seconds(session, *wanted))
    count = sum(job.n for job in jobs)
    ratios = [alone / whole for alone, whole in zip(raw, probed, strict=True)]
    result = {
        "model": session.config.model.path,
        "engine": f"{session.engine.name} {session.engine.version}",
        "rollouts": count,
        "rollouts_per_request": wanted[1],
        "turns": int(turns),
        "raw_rollouts_per_second": round(count / statistics.median(raw), 1),
        "probe_rollouts_per_second": round(count / statistics.median(probed), 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
