"""A probe killed at random instants and started again ends with the rollouts of an undisturbed one."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from predictor.cli import run
from predictor.loop.init import init_study
from predictor.store import Study

KILLS = int(os.environ.get("GAPCAST_KILLS", "10"))
# What a probe imports before its first rollout: loaded once, so that a start costs a fork and not ten seconds.
IMPORTED = ("predictor.cli.commands", "predictor.loop.stages", "predictor.engines.transformers")
MODEL = ("transformers.models.llama.modeling_llama", "transformers.models.auto.modeling_auto")
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*IMPORTED, *MODEL])


def small_study(path: Path) -> Path:
    """The miniature's study with four hint configs, few examples and small shards."""
    init_study(path, "miniature")
    content = yaml.safe_load((path / "study.yaml").read_text())
    content["model"]["engine"] = "transformers"
    content["task"] |= {"eval_examples": 48, "train_examples": 96}
    content["probe"] |= {"rollouts": 4, "shard_rollouts": 96, "consensus_examples": 32, "consensus_rollouts": 2}
    keep = {"none", "rule", "half-right-copy", "own-failure"}
    content["hints"] = [hint for hint in content["hints"] if hint["name"] in keep]
    (path / "study.yaml").write_text(yaml.safe_dump(content))
    return path


def start(study: Path) -> ForkServerProcess:
    """`gapcast probe` as a process of its own."""
    process = FORKS.Process(target=probe, args=(str(study),))
    process.start()
    return process


def probe(study: str) -> None:
    """What the process does; its exit code is the command's."""
    raise SystemExit(run(["probe", study, "--json"]))


def shards(study: Path) -> int:
    """How many shards of rollouts lie whole on disk."""
    return len(list(study.rglob("*.parquet")))


def wait_for_shards(study: Path, process: ForkServerProcess, more: int) -> None:
    """Return once `more` further shards have been written, or the probe has ended."""
    wanted = shards(study) + more
    while shards(study) < wanted and process.is_alive():
        time.sleep(0.005)


def finish(study: Path) -> None:
    """Let a probe run to its end."""
    process = start(study)
    process.join(timeout=300)
    assert process.exitcode == 0


def rollouts(study: Path) -> pd.DataFrame:
    """What was sampled and how it was judged, in a fixed order."""
    columns = ["arm", "example_id", "index", "text", "finish_reason", "correct", "seed", "prompt_hash"]
    frame = Study(study).rollouts.read()[columns]
    return frame.sort_values(columns[:3]).reset_index(drop=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_probe_killed_at_random_instants_ends_with_the_same_rollouts(tmp_path: Path) -> None:
    calm, disturbed = small_study(tmp_path / "calm"), small_study(tmp_path / "disturbed")
    finish(calm)
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(KILLS):
        process = start(disturbed)
        wait_for_shards(disturbed, process, int(rng.integers(0, 3)))
        time.sleep(float(rng.uniform(0.0, 0.2)))
        process.kill()
        process.join()
        seen.append(len(rollouts(disturbed)))
    finish(disturbed)
    assert seen == sorted(seen)
    assert len(set(seen)) > 2, "the kills must land while rollouts are being stored"
    pd.testing.assert_frame_equal(rollouts(disturbed), rollouts(calm))
    gaps = [(tmp_path / name / "gaps.jsonl").read_text() for name in ("calm", "disturbed")]
    assert gap_numbers(gaps[0]) == gap_numbers(gaps[1])


def gap_numbers(text: str) -> list[str]:
    """The estimates without their time stamps, as text, in which an unknown value equals itself."""
    rows = [json.loads(line) for line in text.splitlines()]
    return [json.dumps({key: row[key] for key in row if key not in ("provenance", "checksum")}) for row in rows]
