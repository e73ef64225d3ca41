"""The pre-training loop: next-token loss on answers, documents drawn afresh at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from predictor.records import derive_seed
from trainer.pretrain.documents import (
    EARLY_REARRANGING_SHARE,
    Source,
    document_ids,
    draw_documents,
    learned_positions,
    question_pool,
)
from trainer.pretrain.muon import Muon
from trainer.pretrain.shapes import Shape, build_model

BATCH_SIZE: Final = 64
WARMUP_STEPS: Final = 50
EARLY_SHARE: Final = 0.55
DECAY_SHARE: Final = 0.4
MAX_GRADIENT_NORM: Final = 1.0
MATRIX_LEARNING_RATE: Final = 3e-3
EMBEDDING_LEARNING_RATE: Final = 4e-3
# A short memory of squared gradients follows the change from early to later documents.
ADAM_BETAS: Final = (0.9, 0.98)
# Documents without demonstrations are shorter than this; padding them to the longest would double the work.
SHORT_DOCUMENT_TOKENS: Final = 20
NOT_LEARNED: Final = -100


def learning_rate_factor(step: int, num_steps: int) -> float:
    """Linear warm-up, a plateau, and a linear decay to zero over the last two fifths."""
    warmup = min(1.0, (step + 1) / WARMUP_STEPS)
    decay = min(1.0, (num_steps - step) / (DECAY_SHARE * num_steps))
    return warmup * decay


def pretrain(
    shape: Shape,
    *,
    seed: int,
    num_steps: int,
    on_step: Callable[[int, float], None] = lambda _step, _loss: None,
) -> tuple[PreTrainedModel, list[float]]:
    """A trained model and its loss at every step; shape, seed and number of steps fix both."""
    model = build_model(shape, seed=seed).train()
    optimizers = _optimizers(model)
    losses = []
    for step in range(num_steps):
        loss = batch_loss(model, _draw_batch(seed, step, num_steps))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        factor = learning_rate_factor(step, num_steps)
        for optimizer, learning_rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * factor
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        on_step(step, losses[-1])
    return model.eval(), losses


def _optimizers(model: PreTrainedModel) -> list[tuple[torch.optim.Optimizer, float]]:
    """Muon for the matrices inside the layers, AdamW for embeddings and norms, each with its peak learning rate."""
    matrices: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and "embed" not in name
        (matrices if is_matrix else others).append(parameter)
    return [
        (Muon(matrices, lr=MATRIX_LEARNING_RATE), MATRIX_LEARNING_RATE),
        (torch.optim.AdamW(others, betas=ADAM_BETAS, weight_decay=0.0, fused=True), EMBEDDING_LEARNING_RATE),
    ]


def _draw_batch(seed: int, step: int, num_steps: int) -> list[list[int]]:
    rng = np.random.default_rng(derive_seed("pretraining batch", seed, step))
    early = step < EARLY_SHARE * num_steps
    rearranging_share = EARLY_REARRANGING_SHARE if early else 0.0
    source = Source(rng, question_pool(held_out=False), rearranging_share=rearranging_share)
    documents = draw_documents(source, BATCH_SIZE, early=early)
    return [document_ids(document) for document in documents]


def batch_loss(model: PreTrainedModel, documents: Sequence[list[int]]) -> Tensor:
    """Mean loss in nats over the learned tokens of all documents; padding and grouping do not change it."""
    short = [ids for ids in documents if len(ids) <= SHORT_DOCUMENT_TOKENS]
    long = [ids for ids in documents if len(ids) > SHORT_DOCUMENT_TOKENS]
    groups = [_padded(group) for group in (short, long) if group]
    num_learned = sum(int((targets_BT != NOT_LEARNED).sum()) for _, targets_BT in groups)
    total = sum(_summed_loss(model, ids_BT, targets_BT) for ids_BT, targets_BT in groups)
    return torch.as_tensor(total / num_learned)


def _padded(documents: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """Inputs and the tokens they should predict, padded to the right, where causal attention never looks."""
    width = max(len(ids) for ids in documents)
    ids_BT = torch.zeros(len(documents), width, dtype=torch.long)
    targets_BT = torch.full((len(documents), width), NOT_LEARNED)
    for row, ids in enumerate(documents):
        tokens = torch.tensor(ids)
        learned = torch.tensor(learned_positions(ids))
        ids_BT[row, : len(ids)] = tokens
        targets_BT[row, : len(ids)] = torch.where(learned, tokens, NOT_LEARNED)
    return ids_BT[:, :-1], targets_BT[:, 1:]


def _summed_loss(model: PreTrainedModel, ids_BT: Tensor, targets_BT: Tensor) -> Tensor:
    logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
    return functional.cross_entropy(
        logits_BTV.flatten(0, 1), targets_BT.flatten(), ignore_index=NOT_LEARNED, reduction="sum"
    )
