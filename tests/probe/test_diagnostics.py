"""Token diagnostics against closed forms of a scripted model, and against loops over stored tokens."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from predictor.engines.scripted import ScriptedEngine, ScriptedRule, ScriptedTable
from predictor.probe import Probe
from predictor.probe.diagnostics.summarise import ScoredRollout, quarter_shares, summarise
from predictor.probe.diagnostics.tokens import CONTENT, FORMAT, MARKER, TokenKinds
from predictor.records.definitions import DEFINITIONS, explain
from predictor.records.diagnostics import HintDiagnostics, LeakAudit, TokenDiagnostics
from predictor.store import Study

EXAMPLES = 12
STUDENT, TEACHER = (0.3, 0.7), (0.8, 0.2)
COLUMNS = (
    "forward_kl",
    "reverse_kl",
    "disagrees",
    "student_logprob",
    "teacher_logprob",
    "student_entropy",
    "teacher_entropy",
)


def write_study(path: Path, *, rollouts: int = 6) -> Path:
    """Answers `yes` or `no`; under the hint HINT the teacher's law is TEACHER, without it STUDENT."""
    path.mkdir(parents=True)
    rules = (
        ScriptedRule(contains=("HINT",), completions=dict(zip(("yes", "no"), TEACHER, strict=True))),
        ScriptedRule(completions=dict(zip(("yes", "no"), STUDENT, strict=True))),
    )
    ScriptedTable(rules=rules).save(path / "model")
    rows = [
        {"example_id": f"{split}{n}", "prompt": f"question {n}?", "answer": "yes", "split": split}
        for split in ("train", "eval")
        for n in range(EXAMPLES)
    ]
    (path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "model": {"path": "model"},
        "task": {"source": "jsonl", "path": "examples.jsonl", "eval_examples": EXAMPLES, "train_examples": EXAMPLES},
        "sampling": {"max_tokens": 8},
        "probe": {"rollouts": rollouts},
        "hints": [
            {"name": "none", "kind": "none"},
            {"name": "hint", "kind": "static", "template": "HINT: yes", "irrelevant": "note"},
            {"name": "useless", "kind": "static", "template": "nothing", "irrelevant": "note"},
        ],
        "plan": {"budget": {"seconds": 60}},
    }
    (path / "study.yaml").write_text(yaml.safe_dump(config))
    return path


def quiet(_stage: str, _done: int, _total: int) -> None:
    """No progress."""


def opened(path: Path) -> Probe:
    engine = ScriptedEngine(ScriptedTable.load(path / "model"))
    return Probe(Study(path), engine, path / "model", lambda: engine)


def diagnosed(path: Path) -> dict[str, HintDiagnostics]:
    probe = opened(path)
    probe.run(quiet)
    return {item.hint: item for item in probe.diagnose(quiet)}


def kl(p: tuple[float, ...], q: tuple[float, ...]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def tokens_of(found: HintDiagnostics) -> TokenDiagnostics:
    assert found.tokens is not None
    return found.tokens


def test_a_planted_divergence_is_found_at_its_first_token_and_nowhere_else(tmp_path: Path) -> None:
    """F2: KL by position shows a spike at token 0."""
    found = diagnosed(write_study(tmp_path / "study"))
    assert set(found) == {"hint", "useless"}
    tokens = tokens_of(found["hint"])
    # Only the first byte is uncertain: `y` or `n`.
    assert tokens.profile.forward_kl[0] == pytest.approx(kl(TEACHER, STUDENT), abs=1e-6)
    assert tokens.profile.reverse_kl[0] == pytest.approx(kl(STUDENT, TEACHER), abs=1e-6)
    assert max(tokens.profile.forward_kl[1:]) < 1e-6
    assert tokens.quarter_shares[0] == pytest.approx(1.0, abs=1e-6)
    assert tokens.format_share.value == pytest.approx(0.0, abs=1e-6)
    assert tokens.profile.num_rollouts[0] == tokens.num_rollouts == 6 * EXAMPLES


def test_alignment_and_margin_are_those_of_the_planted_laws(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", rollouts=16)
    tokens = tokens_of(diagnosed(path)["hint"])
    up, down = math.log(TEACHER[0] / STUDENT[0]), math.log(TEACHER[1] / STUDENT[1])
    # `yes` has 4 tokens with its end, `no` has 3.
    assert tokens.correctness_alignment is not None
    assert tokens.correctness_alignment.value == pytest.approx(up / 4 - down / 3, abs=1e-5)
    frame = Study(path).rollouts.read({opened(path).factory.student().key})
    frame = frame[frame["split"] == "eval"]
    margins = np.where(frame["correct"].astype(bool), up / 4, -down / 3)
    assert tokens.privilege_margin.value == pytest.approx(float(margins.mean()), abs=1e-5)
    first = frame["completion_ids"].map(len).to_numpy()
    assert tokens.top1_disagreement.value == pytest.approx(float((1 / first).mean()), abs=1e-6)


def test_a_hint_without_effect_has_no_divergence_and_no_share_of_it(tmp_path: Path) -> None:
    tokens = tokens_of(diagnosed(write_study(tmp_path / "study"))["useless"])
    assert tokens.forward_kl.value == tokens.reverse_kl.value == 0.0
    assert math.isnan(tokens.format_share.value)
    assert math.isnan(tokens.quarter_shares[0])
    assert tokens.student_entropy == tokens.teacher_entropy


def test_the_leak_audit_reads_stored_texts(tmp_path: Path) -> None:
    leaks = diagnosed(write_study(tmp_path / "study"))["hint"].leaks
    assert leaks.answer_in_hint is not None
    assert leaks.ngram_overlap is not None
    assert leaks.student_ngram_overlap is not None
    assert leaks.answer_in_hint.value == 1.0
    assert leaks.ngram_overlap.value > leaks.student_ngram_overlap.value


def test_diagnosing_again_scores_nothing_and_follows_a_regrade(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    first = diagnosed(path)
    stored = (path / "diagnostics.parquet").read_bytes()
    again = diagnosed(path)
    assert (path / "diagnostics.parquet").read_bytes() == stored
    assert tokens_of(again["hint"]) == tokens_of(first["hint"])
    frame = Study(path).rollouts.read()
    Study(path).rollouts.replace_all(frame.assign(correct=frame["correct"].map(lambda right: not right)))
    turned = tokens_of({item.hint: item for item in opened(path).diagnose(quiet)}["hint"])
    assert turned.privilege_margin.value == pytest.approx(-tokens_of(first["hint"]).privilege_margin.value)


def test_more_rollouts_are_diagnosed_beside_the_first_ones(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", rollouts=2)
    diagnosed(path)
    text = (path / "study.yaml").read_text()
    (path / "study.yaml").write_text(text.replace("rollouts: 2", "rollouts: 5"))
    assert tokens_of(diagnosed(path)["hint"]).num_rollouts == 5 * EXAMPLES
    records = Study(path).records("diagnostics", HintDiagnostics)
    assert [item.hint for item in records] == ["hint", "useless"]


def rollout(rng: np.random.Generator, example: str, length: int, correct: bool | None) -> ScoredRollout:
    columns = {name: rng.uniform(0.0, 2.0, size=length) for name in COLUMNS}
    return ScoredRollout(example, example, correct, rng.integers(0, 3, size=length).astype(np.int8), columns)


@given(seed=st.integers(0, 10_000), lengths=st.lists(st.integers(1, 9), min_size=2, max_size=8))
def test_the_summary_equals_a_loop_over_tokens(seed: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    outcomes = (True, False, None)
    rollouts = [rollout(rng, f"e{n % 2}", length, outcomes[n % 3]) for n, length in enumerate(lengths)]
    found = summarise(rollouts)
    assert found is not None
    by_example: dict[str, list[ScoredRollout]] = {}
    for one in rollouts:
        by_example.setdefault(one.example_id, []).append(one)
    for name in ("forward_kl", "student_entropy"):
        means = [np.mean([one.columns[name].mean() for one in group]) for group in by_example.values()]
        assert getattr(found, name).value == pytest.approx(float(np.mean(means)))
    total = of_format = 0.0
    at_first: list[float] = []
    quarters = [0.0] * 4
    for one in rollouts:
        for place, kind in enumerate(one.kinds_T):
            jeffreys = float(one.columns["forward_kl"][place] + one.columns["reverse_kl"][place])
            total += jeffreys
            of_format += jeffreys * (kind == FORMAT)
            quarters[math.floor(4 * place / len(one.kinds_T))] += jeffreys
        at_first.append(float(one.columns["reverse_kl"][0]))
    assert found.format_share.value == pytest.approx(of_format / total)
    assert quarter_shares(rollouts) == pytest.approx([part / total for part in quarters])
    assert found.profile.reverse_kl[0] == pytest.approx(float(np.mean(at_first)))
    assert found.profile.num_rollouts == tuple(sum(n > place for n in lengths) for place in range(max(lengths)))


def test_no_rollouts_give_no_summary_and_one_sided_examples_no_alignment() -> None:
    rng = np.random.default_rng(0)
    assert summarise([]) is None
    found = summarise([rollout(rng, "a", 3, True), rollout(rng, "b", 3, False), rollout(rng, "b", 2, None)])
    assert found is not None
    assert found.correctness_alignment is None


class Vocabulary:
    """A tokenizer of whole words."""

    words = ("Wait", " however", "yes", ",\n", "**", "<|end|>", "\N{REPLACEMENT CHARACTER}", " 7")

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        text = self.words[ids[0]]
        return "" if skip_special_tokens and text.startswith("<|") else text


def test_tokens_are_content_form_or_words_of_correction() -> None:
    kinds = TokenKinds(Vocabulary())
    expected = (MARKER, MARKER, CONTENT, FORMAT, FORMAT, FORMAT, CONTENT, CONTENT)
    assert kinds.of(tuple(range(8))) == expected
    assert kinds.of((2, 0)) == (CONTENT, MARKER)


def numbers(record: type[Any]) -> set[str]:
    return set(record.model_fields) - {"num_rollouts", "num_tokens"}


def test_every_number_is_one_explain_away() -> None:
    assert numbers(TokenDiagnostics) | numbers(LeakAudit) <= set(DEFINITIONS)
    for name in DEFINITIONS:
        text = explain(name)
        assert text.startswith(f"{name} (")
        assert "Reads as: " in text
        assert "Source: " in text
