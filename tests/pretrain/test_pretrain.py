"""Pre-training repeats itself, and the stored checkpoints do what their cards say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from predictor.tasks.strings import RULE_PRIOR
from trainer.pretrain.documents import (
    HINT_KINDS,
    RULE_NAMES,
    Source,
    document_ids,
    draw_document,
    draw_documents,
    first_half,
    learned_positions,
    question_pool,
)
from trainer.pretrain.evaluate import hint_accuracies
from trainer.pretrain.loop import batch_loss, learning_rate_factor, pretrain
from trainer.pretrain.muon import orthogonalise
from trainer.pretrain.shapes import SHAPES, build_model

MINIATURE = Path(__file__).parents[2] / "data" / "miniature"
CARD_ROW = re.compile(r"^\| (\w+) \| ([\d.]+) \(([\d.]+)\) \|", re.MULTILINE)


def test_the_same_seed_gives_the_same_losses_and_another_seed_does_not() -> None:
    torch.set_num_threads(1)
    shape = SHAPES["llama-s"]
    first, again = (pretrain(shape, seed=0, num_steps=20)[1] for _ in range(2))
    assert first == again
    assert first[:1] != pretrain(shape, seed=1, num_steps=1)[1]
    assert np.mean(first[-5:]) < first[0] - 0.5


def test_building_a_model_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    build_model(SHAPES["llama-s"], seed=0)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("name", list(SHAPES))
def test_every_shape_fits_a_small_file_and_the_served_head_size(name: str) -> None:
    model = build_model(SHAPES[name], seed=0)
    assert model.num_parameters() < 1_020_000
    assert model.config.head_dim == 32
    assert model.config.max_position_embeddings == 128


def test_grouping_and_padding_leave_the_loss_as_it_is() -> None:
    source = Source(np.random.default_rng(1), question_pool(held_out=False))
    documents = [document_ids(document) for document in draw_documents(source, 24, early=False)]
    model = build_model(SHAPES["qwen3-s"], seed=0).eval()
    with torch.no_grad():
        together = float(batch_loss(model, documents))
        apart = [float(batch_loss(model, [ids])) for ids in documents]
    weights = [sum(learned_positions(ids)) for ids in documents]
    assert together == pytest.approx(np.average(apart, weights=weights), rel=1e-5)


def test_the_learning_rate_rises_stays_and_falls_to_almost_nothing() -> None:
    factors = [learning_rate_factor(step, 1000) for step in range(1000)]
    assert factors[0] == pytest.approx(1 / 50)
    assert factors[49] == factors[599] == 1.0
    assert 0 < factors[-1] < 0.01


def test_orthogonalising_brings_singular_values_near_one() -> None:
    matrices = torch.randn(3, 40, 24, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert ((values > 0.6) & (values < 1.3)).all()


def test_without_a_naming_hint_rules_follow_the_prior() -> None:
    source = Source(np.random.default_rng(2), question_pool(held_out=False))
    drawn = [source.rule(follows_prior=True) for _ in range(20_000)]
    for rule, probability in RULE_PRIOR.items():
        # Five standard deviations of a share out of 20,000.
        allowed = 5 * np.sqrt(probability * (1 - probability) / 20_000)
        assert abs(drawn.count(rule) / 20_000 - probability) < allowed


@pytest.mark.parametrize(("percent", "kind"), [(25, "maybe25"), (50, "maybe50"), (75, "maybe75")])
def test_a_doubtful_hint_is_right_as_often_as_it_says(percent: int, kind: str) -> None:
    source = Source(np.random.default_rng(3), question_pool(held_out=True))
    hints = [draw_document(source, kind, rule="reverse").hint for _ in range(4000)]
    share = sum(hint == f"{kind} reverse" for hint in hints) / 4000
    assert abs(share - percent / 100) < 0.03


@pytest.mark.parametrize(("answer", "half"), [("d c b a", "d c"), ("a b c", "a b"), ("a a b c d", "a a b")])
def test_half_an_answer_is_rounded_up(answer: str, half: str) -> None:
    assert first_half(answer) == half


@pytest.mark.parametrize("name", list(SHAPES))
def test_a_stored_checkpoint_is_complete_small_and_marks_its_special_tokens(name: str) -> None:
    folder = MINIATURE / name
    assert (folder / "model.safetensors").stat().st_size < 2 * 1024**2
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.dtype == torch.float16
    assert model.generation_config.eos_token_id == model.config.eos_token_id == tokenizer.eos_token_id == 2
    assert (model.config.pad_token_id, model.config.bos_token_id) == (0, 1)
    assert tokenizer.chat_template


@pytest.mark.parametrize("name", list(SHAPES))
def test_every_model_reads_rules_and_demonstrations(name: str) -> None:
    card = dict(_card_accuracies(name))
    assert card["rule"] >= 0.93
    assert card["demo1"] >= 0.60
    assert card["none"] < 0.15


@pytest.mark.parametrize("name", list(SHAPES))
def test_no_model_reads_a_hint_better_than_it_can_be_read(name: str) -> None:
    # Over all rules: chance without a hint, one of two, and a named rule that is right with probability p, where the
    # other eleven share the rest: p * p + (1 - p) * (1 - p) / 11.
    doubtful = {f"maybe{percent}": (percent**2 + (100 - percent) ** 2 / 11) / 100**2 for percent in (25, 50, 75)}
    card = dict(_card_accuracies(name))
    for kind, best in {"none": 1 / 12, "either": 1 / 2, **doubtful}.items():
        # Three standard errors of a card's number, whose largest one is 0.015.
        assert card[kind] <= best + 0.045, kind


def test_the_card_of_llama_s_is_measured_again_on_other_strings() -> None:
    card = dict(_card_accuracies("llama-s"))
    assert set(card) == set(HINT_KINDS)
    model = AutoModelForCausalLM.from_pretrained(MINIATURE / "llama-s", dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(MINIATURE / "llama-s")
    again = hint_accuracies(model, tokenizer, rules=RULE_NAMES, count=120, seed=1)
    for kind, accuracy in again.items():
        # The card's own error is at most 0.02; together four standard errors.
        assert (
            abs(accuracy.value - card[kind])
            < 4 * np.hypot(accuracy.stderr, accuracy.stderr * np.sqrt(120 / 600)) + 0.002
        )


def _card_accuracies(name: str) -> list[tuple[str, float]]:
    text = (MINIATURE / name / "README.md").read_text(encoding="utf-8")
    return [(kind, float(value)) for kind, value, _ in CARD_ROW.findall(text)]
