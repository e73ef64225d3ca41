"""Positions come from lengths: the right tokens are predicted, whatever the ids, the padding or the neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

from predictor.engines.base import Ids
from trainer.batching import Padded, Row, micro_batches, pad
from trainer.model import LanguageModel, load_model

CPU = torch.device("cpu")
IDS = st.lists(st.integers(0, 9), min_size=1, max_size=6).map(tuple)


def logprobs(model: LanguageModel, batch: Padded, completions: list[Ids]) -> torch.Tensor:
    """Log-probability of every completion token, packed in row order."""
    targets_N = torch.tensor([token for ids in completions for token in ids])
    with torch.no_grad():
        logits_NV = model.logits(model.hidden(batch))
    return logits_NV.log_softmax(-1).gather(-1, targets_N[:, None])[:, 0]


def test_slices_of_two_prompts_with_different_lengths_predict_the_same_tokens() -> None:
    completions = [(1, 2), (3,), ()]
    student = pad([(7, 8, 9), (5,), (4, 4)], completions, CPU)
    teacher = pad([(6, 6, 7, 8, 9), (5, 5), (4,)], completions, CPU)
    assert student.ids_BT.tolist() == [[7, 8, 9, 1], [5, 0, 0, 0], [4, 4, 0, 0]]
    assert student.live_N.tolist() == [2, 3, 4]
    assert teacher.ids_BT.tolist() == [[6, 6, 7, 8, 9, 1], [5, 5, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0]]
    assert teacher.live_N.tolist() == [4, 5, 7]


@settings(deadline=None)
@given(st.lists(st.tuples(IDS, st.lists(st.integers(0, 9), max_size=5).map(tuple)), min_size=1, max_size=6))
def test_every_completion_token_is_live_exactly_once(rows: list[tuple[Ids, Ids]]) -> None:
    prompts, completions = [p for p, _ in rows], [c for _, c in rows]
    batch = pad(prompts, completions, CPU)
    width = batch.ids_BT.shape[1]
    expected = [(b, len(p) + i - 1) for b, (p, c) in enumerate(rows) for i in range(len(c))]
    assert [divmod(flat, width) for flat in batch.live_N.tolist()] == expected
    for b, (prompt, completion) in enumerate(rows):
        read = (*prompt, *completion)[: len(prompt) + max(0, len(completion) - 1)]
        assert tuple(batch.ids_BT[b, : len(read)].tolist()) == read


def test_a_stop_token_that_is_also_the_padding_keeps_its_loss() -> None:
    """F5: pad id = stop id = 0; completion [5, 6, stop] has three live tokens."""
    batch = pad([(1, 2), (1, 2, 3, 4, 5, 6)], [(5, 6, 0), (7,)], CPU)
    assert (batch.live_N < batch.ids_BT.shape[1]).sum() == 3


@pytest.mark.parametrize("absolute", [False, True])
def test_a_row_scores_the_same_alone_and_in_a_padded_batch(tiny_model_dir: Path, *, absolute: bool) -> None:
    """F10: with rotary and with learned absolute positions."""
    if absolute:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            config = GPT2Config(vocab_size=61, n_positions=64, n_embd=16, n_layer=2, n_head=2, initializer_range=0.5)
            model = LanguageModel(GPT2LMHeadModel(config).eval())
            model.check_split()
    else:
        model = load_model(tiny_model_dir)
    prompts, completions = [(1, 5, 9), (1, 4, 20, 7, 8, 30, 41, 5), (2,)], [(6, 7, 2), (9, 2), (11, 12, 13, 14, 2)]
    together_N = logprobs(model, pad(prompts, completions, CPU), completions)
    alone_N = torch.cat([logprobs(model, pad([p], [c], CPU), [c]) for p, c in zip(prompts, completions, strict=True)])
    torch.testing.assert_close(together_N, alone_N, atol=1e-5, rtol=1e-5)


def test_packed_scores_are_the_models_own(tiny_model_dir: Path) -> None:
    model = load_model(tiny_model_dir)
    prompts, completions = [(1, 5, 9, 12), (1, 4)], [(6, 7, 2), (9, 20, 30, 2)]
    ours_N = logprobs(model, pad(prompts, completions, CPU), completions)
    theirs = []
    for prompt, completion in zip(prompts, completions, strict=True):
        for i, token in enumerate(completion):
            prefix = torch.tensor([[*prompt, *completion[:i]]])
            theirs.append(model.network(prefix).logits[0, -1].log_softmax(-1)[token].detach())
    torch.testing.assert_close(ours_N, torch.stack(theirs), atol=1e-5, rtol=1e-5)


@settings(deadline=None)
@given(
    st.lists(st.tuples(IDS, IDS, st.lists(st.integers(0, 9), max_size=4).map(tuple)), max_size=30), st.integers(1, 8)
)
def test_micro_batches_keep_every_live_row_once(parts: list[tuple[Ids, Ids, Ids]], size: int) -> None:
    rows = [Row(*part) for part in parts]
    batches = micro_batches(rows, size)
    live = [row for row in rows if row.completion_ids]
    assert sorted(map(hash, (row for batch in batches for row in batch))) == sorted(map(hash, live))
    assert len(batches) == -(-len(live) // size)
    sizes = [len(batch) for batch in batches]
    assert not sizes or max(sizes) - min(sizes) <= 1
    lengths = [row.work for batch in batches for row in batch]
    assert lengths == sorted(lengths, reverse=True)


def test_no_rows_make_no_batches() -> None:
    assert micro_batches([], 4) == []
    assert micro_batches([Row((1,), (1, 2), ())], 4) == []
