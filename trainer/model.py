"""A causal language model split at its head, so that logits exist only for the positions that carry loss."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from predictor.engines import loading
from predictor.errors import ModelError
from trainer.batching import Padded

_PROBE_LENGTH = 5


@dataclass(frozen=True)
class LanguageModel:
    """Body and head of one Hugging Face causal model; both sides of the loss go through the same two calls."""

    network: PreTrainedModel

    def hidden(self, batch: Padded) -> Tensor:
        """Hidden states from which the completion tokens of all rows are predicted, packed. Shape (N, H).

        Rows are padded on the right, where causal attention never looks, so no mask is needed and every token has
        the position that it has when the row stands alone.
        """
        # Without position_ids transformers counts from 0 itself; given ones it would search for packed sequences.
        hidden_BTH = self.network.base_model(input_ids=batch.ids_BT, use_cache=False).last_hidden_state
        hidden_NH: Tensor = hidden_BTH.flatten(0, 1).index_select(0, batch.live_N)
        return hidden_NH

    def logits(self, hidden_NH: Tensor) -> Tensor:
        """The model's own logits, with the scaling or soft cap that its configuration asks for. Shape (N, V)."""
        logits_NV: Tensor = self._head(hidden_NH)
        config = self.network.config
        scale = getattr(config, "logit_scale", None) or 1.0
        divisor = getattr(config, "logits_scaling", None) or 1.0
        cap = getattr(config, "final_logit_softcapping", None)
        if scale != divisor:
            logits_NV = logits_NV * (scale / divisor)
        return logits_NV if cap is None else torch.tanh(logits_NV / cap) * cap

    @property
    def head_parameters(self) -> tuple[nn.Parameter, ...]:
        """Weights that the head reads; with tied embeddings its weight is the embedding's."""
        return tuple(self._head.parameters())

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """Every weight once, by name; a tied weight appears under its first name."""
        return dict(self.network.named_parameters())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.network.parameters()).device
        return device

    @property
    def _head(self) -> nn.Module:
        head: nn.Module | None = self.network.get_output_embeddings()
        if head is None:
            raise ModelError("the model has no output head", found=type(self.network).__name__)
        return head

    @torch.no_grad()
    def check_split(self) -> None:
        """Raise ModelError unless head(body(x)) equals the model's own logits: else another loss would be trained."""
        ids_BT = torch.arange(_PROBE_LENGTH, device=self.device)[None] % self.network.config.vocab_size
        batch = Padded(ids_BT, torch.arange(_PROBE_LENGTH, device=self.device))
        ours_NV, theirs_NV = self.logits(self.hidden(batch)), self.network(input_ids=ids_BT).logits[0]
        scale = float(theirs_NV.abs().max()) + 1.0
        if ours_NV.shape != theirs_NV.shape or float((ours_NV - theirs_NV).abs().max()) > 1e-3 * scale:
            raise ModelError(
                "this architecture changes its logits after the head in a way the trainer does not know",
                found=type(self.network).__name__,
                expected="logits = head(hidden), possibly scaled or soft-capped by its configuration",
                fix="train another model; the probe can still measure this one",
            )


def load_model(model_dir: Path) -> LanguageModel:
    """The model in float32 on the GPU where there is one, dropout off; ModelError when it cannot be trained here."""
    model = LanguageModel(loading.load_model(model_dir, torch.float32, loading.default_device()))
    model.check_split()
    return model


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device computes in bfloat16; an x86 CPU below AVX-512 emulates it, at a fifth of float32's speed."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "NO AVX", "AVX2")
