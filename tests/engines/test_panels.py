"""Completions scored under several prompts at once, against one plain forward pass for each prompt and a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from predictor.engines import ConsensusRequest, Panel, PanelMean
from predictor.engines.batches import Limits
from predictor.engines.panels import score_panels
from predictor.engines.scripted import ScriptedEngine, ScriptedRule, ScriptedTable, mean_probs
from predictor.engines.transformers import TransformersEngine
from predictor.errors import PromptError
from predictor.prompts import render_prompt
from predictor.records import Mean, Message, SamplingConfig

Floats = npt.NDArray[np.float64]
MEANS: tuple[Mean, ...] = ("geometric", "arithmetic", "jsd")
SYSTEMS = ("rule reverse", "rule copy", "demo a b c d gives d c b a", "")


@pytest.fixture(scope="module")
def engine(miniature: Path) -> TransformersEngine:
    return TransformersEngine.from_pretrained(miniature)


@pytest.fixture(scope="module")
def panels(engine: TransformersEngine) -> list[Panel]:
    """Three hinted prompts and the plain one, for completions of several lengths."""
    found = []
    for question in ("e f g h", "h c b f"):
        prompts = []
        for system in SYSTEMS:
            turns = [Message(role="system", content=system)] if system else []
            prompts.append(
                render_prompt([*turns, Message(role="user", content=question)], engine.tokenizer, thinking=None).ids
            )
        for text in ("h g f e", "e f", "a"):
            ids = (*engine.tokenizer(text, add_special_tokens=False)["input_ids"], engine.tokenizer.eos_token_id)
            found.append(Panel(tuple(prompts), ids))
    return found


def next_probs(engine: TransformersEngine, prompt: tuple[int, ...], completion: tuple[int, ...]) -> Floats:
    """Next-token probabilities (T, V) before each token of the completion, from one uncached pass."""
    ids = torch.tensor([prompt + completion])
    with torch.no_grad():
        logits = engine.model(input_ids=ids, use_cache=False).logits[0].double()
    return logits.softmax(dim=-1)[len(prompt) - 1 : -1].numpy()


def as_decoded(probs_V: Floats, top_p: float) -> Floats:
    kept = np.zeros_like(probs_V)
    for token in np.argsort(-probs_V, kind="stable"):
        if kept.sum() >= top_p:
            break
        kept[token] = probs_V[token]
    return kept / kept.sum()


def naive_policy(
    engine: TransformersEngine, panel: Panel, hints: list[int], mean: Mean, sampling: SamplingConfig
) -> float:
    rows = [next_probs(engine, panel.prompts[m], panel.completion_ids) for m in hints]
    total = 0.0
    for place, token in enumerate(panel.completion_ids):
        powers = np.stack([row[place] for row in rows]) ** (1.0 / sampling.temperature)
        mixed = mean_probs(powers / powers.sum(axis=1, keepdims=True), mean, alpha=0.3)
        total += np.log(as_decoded(mixed, sampling.top_p)[token])
    return float(total)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("sampling", [SamplingConfig(), SamplingConfig(temperature=0.7, top_p=0.999)])
def test_a_panel_scores_what_a_loop_over_prompts_and_tokens_gives(
    engine: TransformersEngine, panels: list[Panel], mean: Mean, sampling: SamplingConfig
) -> None:
    """F16: with top_p the scored law is the filtered one, renormalised, so a ratio of two is exact."""
    scores = engine.score_panels(panels, sampling, PanelMean(3, mean, 0.3, left_out=((1,), (0, 2))))
    with np.errstate(divide="ignore"):
        for panel, score in zip(panels, scores, strict=True):
            assert score.policy == pytest.approx(naive_policy(engine, panel, [0, 1, 2], mean, sampling), abs=2e-3)
            left = [naive_policy(engine, panel, kept, mean, sampling) for kept in ([0, 2], [1])]
            assert score.without == pytest.approx(left, abs=2e-3)
            assert score.plain == pytest.approx([naive_policy(engine, panel, [3], mean, sampling)], abs=2e-3)
            raw = naive_policy(engine, panel, [3], mean, SamplingConfig())
            assert score.raw == pytest.approx([raw], abs=2e-3)


def test_neither_company_nor_the_size_of_a_block_changes_a_score(
    engine: TransformersEngine, panels: list[Panel]
) -> None:
    mean = PanelMean(3, "geometric")
    together = engine.score_panels(panels, SamplingConfig(), mean)
    small = score_panels(engine.model, panels, Limits(tokens=200, logit_rows=4), (SamplingConfig(), mean))
    alone = [engine.score_panels([panel], SamplingConfig(), mean)[0] for panel in panels]
    for other in (small, alone):
        assert [s.policy for s in other] == pytest.approx([s.policy for s in together], abs=1e-4)
        assert [s.plain for s in other] == [pytest.approx(s.plain, abs=1e-4) for s in together]


@pytest.mark.parametrize("mean", MEANS)
def test_completions_decoded_from_the_mean_are_scored_at_their_own_logprob(
    engine: TransformersEngine, panels: list[Panel], mean: Mean
) -> None:
    hints = panels[0].prompts[:3]
    samples = engine.generate_consensus(
        [ConsensusRequest("r", hints, 6, 3)], SamplingConfig(max_tokens=6), mean, alpha=0.2
    )[0]
    again = [Panel(hints, sample.ids) for sample in samples]
    scores = engine.score_panels(again, SamplingConfig(max_tokens=6), PanelMean(3, mean, 0.2))
    assert [s.policy for s in scores] == pytest.approx([sum(c.logprobs) for c in samples], abs=1e-3)


def test_a_contrast_is_what_a_loop_over_tokens_gives(engine: TransformersEngine, panels: list[Panel]) -> None:
    """F16: logits over T on both sides, before the softmax."""
    pairs = [Panel((panel.prompts[3], panel.prompts[0]), panel.completion_ids) for panel in panels]
    for pair, found in zip(pairs, engine.contrast(pairs, 0.8), strict=True):
        cooled = [next_probs(engine, prompt, pair.completion_ids) ** (1 / 0.8) for prompt in pair.prompts]
        student, teacher = (powers / powers.sum(axis=1, keepdims=True) for powers in cooled)
        for place, token in enumerate(pair.completion_ids):
            s, t = student[place], teacher[place]
            assert found.forward_kl[place] == pytest.approx(np.sum(t * np.log(t / s)), abs=1e-4)
            assert found.reverse_kl[place] == pytest.approx(np.sum(s * np.log(s / t)), abs=1e-4)
            assert found.disagrees[place] == float(s.argmax() != t.argmax())
            assert found.student_logprob[place] == pytest.approx(np.log(s[token]), abs=1e-3)
            assert found.teacher_logprob[place] == pytest.approx(np.log(t[token]), abs=1e-3)
            assert found.student_entropy[place] == pytest.approx(-np.sum(s * np.log(s)), abs=1e-4)
            assert found.teacher_entropy[place] == pytest.approx(-np.sum(t * np.log(t)), abs=1e-4)


def test_identical_prompts_have_no_contrast(engine: TransformersEngine, panels: list[Panel]) -> None:
    same = [Panel((panel.prompts[0],) * 2, panel.completion_ids) for panel in panels]
    for found in engine.contrast(same, 1.0):
        assert set(found.forward_kl) == set(found.reverse_kl) == set(found.disagrees) == {0.0}
        assert found.student_logprob == found.teacher_logprob


def test_scripted_panels_have_closed_form_scores() -> None:
    engine = ScriptedEngine(
        ScriptedTable(
            rules=(
                ScriptedRule(contains=("A",), completions={"x": 0.8, "y": 0.2}),
                ScriptedRule(contains=("B",), completions={"x": 0.2, "y": 0.8}),
                ScriptedRule(completions={"x": 0.5, "y": 0.25, "z": 0.25}),
            )
        )
    )
    prompts = tuple(tuple(engine.tokenizer.encode(text)) for text in ("A?", "B?", "?"))
    end = engine.tokenizer.eos_token_id
    panel = [Panel(prompts, (*engine.tokenizer.encode(text), end)) for text in ("x", "z")]
    mean = PanelMean(2, "geometric", left_out=((0,),))
    x, z = engine.score_panels(panel, SamplingConfig(), mean)
    assert np.exp([x.policy, *x.without, *x.plain, *x.raw]) == pytest.approx([0.5, 0.2, 0.5, 0.5])
    assert np.exp([z.policy, *z.without, *z.plain]) == pytest.approx([0.0, 0.0, 0.25])
    nucleus = engine.score_panels(panel, SamplingConfig(top_p=0.6), mean)
    assert np.exp([s.plain[0] for s in nucleus]) == pytest.approx([2 / 3, 0.0])
    found = engine.contrast([Panel((prompts[0], prompts[1]), panel[0].completion_ids)], 1.0)[0]
    assert found.forward_kl == pytest.approx((0.6 * np.log(4), 0.0), abs=1e-6)
    assert found.disagrees == (1.0, 0.0)
    assert np.exp(found.teacher_logprob) == pytest.approx([0.2, 1.0])


def test_point_masses_and_completions_that_do_not_fit_are_refused(
    engine: TransformersEngine, panels: list[Panel]
) -> None:
    scripted = ScriptedEngine(ScriptedTable(rules=(ScriptedRule(completions={"x": 1.0}),)), max_model_len=4)
    for served in (engine, scripted):
        with pytest.raises(ValueError, match="point masses"):
            served.score_panels(panels, SamplingConfig(temperature=0.0), PanelMean(3, "jsd"))
        long = Panel(panels[0].prompts, (1,) * served.max_model_len)
        with pytest.raises(PromptError, match="cannot be scored"):
            served.contrast([long], 1.0)
