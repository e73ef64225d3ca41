"""Token ids travel end to end: the template's reach the engine, and the sampled ones are stored and scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from predictor.engines.base import Completion, OnDone, Request, check_aligned
from predictor.engines.byte_tokenizer import ByteTokenizer
from predictor.engines.scripted import ScriptedEngine, ScriptedTable
from predictor.errors import EngineError
from predictor.probe import Probe
from predictor.records import SamplingConfig
from predictor.store import Study
from tests.probe.test_reweight import change, opened, quiet, reweighted, write_study

MERGED = 260


class Remembering(ScriptedEngine):
    """A scripted engine that keeps what it was asked."""

    asked: list[Request]

    def generate(
        self, requests: Sequence[Request], sampling: SamplingConfig, on_done: OnDone | None = None
    ) -> list[list[Completion]]:
        """The requests are kept in order."""
        self.asked = [*getattr(self, "asked", []), *requests]
        return super().generate(requests, sampling, on_done)


class Merging(ByteTokenizer):
    """`ab` is one token when text is encoded, though a model may sample `a` and then `b`."""

    def encode(self, text: str, **_: Any) -> list[int]:
        """Every `ab` becomes id 260."""
        ids: list[int] = []
        for token in super().encode(text):
            ids = [*ids[:-1], MERGED] if ids and (ids[-1], token) == (97, 98) else [*ids, token]
        return ids


def served(path: Path) -> tuple[Probe, Remembering]:
    engine = Remembering(ScriptedTable.load(path / "model"))
    return Probe(Study(path), engine, path / "model", lambda: engine), engine


def test_the_engine_is_given_the_templates_own_ids(tmp_path: Path) -> None:
    """F1: two messages through the rollout path; role tokens and all, on both sides."""
    path = write_study(tmp_path / "study", rollouts=1, consensus_examples=2, consensus_rollouts=1)
    lines = (path / "examples.jsonl").read_text()
    talk = '"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "question 0?"}]'
    (path / "examples.jsonl").write_text(lines.replace('"prompt": "question 0?"', talk))
    probe, engine = served(path)
    probe.run(quiet)
    asked = {request.request_id: request.prompt_ids for request in engine.asked}
    jobs = probe.hint_jobs(probe.config.hints, probe.data.eval, 1)
    jobs += probe.factory.jobs(probe.factory.student(), probe.data.eval, 1, {})
    hinted = 0
    for job in jobs:
        turns = [turn.model_dump(include={"role", "content"}) for turn in job.example.conversation]
        plain = tuple(engine.tokenizer.apply_chat_template(turns, add_generation_prompt=True))
        assert asked[job.request_id][-1] == plain[-1]
        assert asked[job.request_id] == (job.prompts[0].ids if job.shown else plain)
        hinted += bool(job.shown)
    assert hinted
    assert any(len(job.example.conversation) == 2 for job in jobs)


def test_every_request_of_a_probe_has_a_seed_of_its_own(tmp_path: Path) -> None:
    """F20: one request with n = K for each arm and example, and no seed is used twice."""
    probe, engine = served(write_study(tmp_path / "study", rollouts=3))
    probe.run(quiet)
    assert len(engine.asked) > 4 * len(probe.data.eval)
    assert {request.n for request in engine.asked} == {3}
    assert max(Counter(request.seed for request in engine.asked).values()) == 1


def test_numbers_that_do_not_belong_to_their_tokens_are_an_error() -> None:
    """F9: one log-probability too many is refused, never cut to the shorter side."""
    with pytest.raises(EngineError, match="do not belong to its tokens") as caught:
        Completion((5, 6), (-0.1, -0.2, -0.3), "stop")
    assert caught.value.found == "3 numbers for 2 token ids"
    with pytest.raises(EngineError):
        check_aligned((5, 6, 7), (-0.1,), where="here")
    assert Completion((5, 6), (-0.1, -0.2), "stop").ids == (5, 6)


def test_half_a_character_is_stored_and_scored_as_the_ids_that_were_sampled(tmp_path: Path) -> None:
    """F9: a completion cut inside a two-byte character decodes to a mark that other ids stand for."""
    path = change(write_study(tmp_path / "study", consensus_estimator="reweight"), sampling={"max_tokens": 1})
    table = {"rules": [{"completions": {"é": 0.6, "è": 0.2, "z": 0.2}}]}
    (path / "model" / "scripted.json").write_text(ScriptedTable.model_validate(table).model_dump_json())
    probe = opened(path)
    result = probe.run(quiet)
    frame = Study(path).rollouts.read()
    halves = frame[frame["text"] == "\N{REPLACEMENT CHARACTER}"]
    first = "é".encode()[0]
    assert set(map(tuple, halves["completion_ids"])) == {(first,)}
    assert tuple(probe.engine.tokenizer.encode("\N{REPLACEMENT CHARACTER}")) != (first,)
    assert halves["logprob_sum"].to_numpy() == pytest.approx(np.log(0.8))
    assert reweighted(result).engine_difference == pytest.approx(0.0, abs=1e-12)


def test_two_tokens_that_text_would_merge_stay_two(tmp_path: Path) -> None:
    """F9: `ab` sampled as `a` and `b` is stored, weighted and scored as two tokens."""
    path = write_study(tmp_path / "study", consensus_estimator="reweight")
    table = {"rules": [{"completions": {"ab": 0.6, "a": 0.4}}]}
    (path / "model" / "scripted.json").write_text(ScriptedTable.model_validate(table).model_dump_json())
    probe, engine = served(path)
    engine.tokenizer = Merging()
    result = probe.run(quiet)
    frame = Study(path).rollouts.read()
    both = frame[frame["text"] == "ab"]
    assert set(map(tuple, both["completion_ids"])) == {(97, 98, engine.tokenizer.eos_token_id)}
    assert engine.tokenizer.encode("ab") == [MERGED]
    assert reweighted(result).engine_difference == pytest.approx(0.0, abs=1e-12)
    assert reweighted(result).covered.value == pytest.approx(1.0, abs=1e-6)
