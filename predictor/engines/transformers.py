"""The transformers engine: plain and ensemble decoding, scoring, and live weights for the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from predictor.engines.base import (
    Completion,
    ConsensusRequest,
    OnDone,
    Panel,
    PanelMean,
    PanelScore,
    Request,
    ScoreRequest,
    TokenContrast,
    check_lengths,
    check_panels,
    check_scores,
)
from predictor.engines.batches import limits_for, plan_batches
from predictor.engines.canary import canary_request, plain_scores, prove_update
from predictor.engines.decoding import Policy, Row, decode_batch
from predictor.engines.loading import DtypeName, default_device, evaluating, load_model, resolve_dtype, within_memory
from predictor.engines.model_files import context_length, eos_ids, load_tokenizer
from predictor.engines.panels import contrast_panels, score_panels
from predictor.engines.scoring import score_all
from predictor.errors import EngineError
from predictor.records import Mean, SamplingConfig

# Mean absolute difference in nats between cached and uncached forward passes of the same weights. In bfloat16 SmolLM2
# shows 0.07 on the canary, whose random tokens have log-probabilities near -14.
CANARY_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.05}


class TransformersEngine:
    """Serves one Hugging Face causal model in this process; the only engine with ensemble decoding."""

    name = "transformers"

    def __init__(self, model: Any, tokenizer: Any, *, max_model_len: int | None = None, reason: str = "") -> None:
        self._model = model
        self._home: torch.device | None = None
        self.tokenizer = tokenizer
        self.version = version("transformers")
        self.reason = reason or "asked for"
        self.max_model_len = context_length(model.config, max_model_len, where="the model's config")
        self.stop_ids = eos_ids(model.generation_config, model.config, tokenizer)

    @classmethod
    def from_pretrained(
        cls, model_dir: Path, dtype: DtypeName = "auto", *, max_model_len: int | None = None, reason: str = ""
    ) -> TransformersEngine:
        """Load a local directory on the GPU where there is one; ModelError says what it lacks."""
        tokenizer = load_tokenizer(model_dir)
        device = default_device()
        model = load_model(model_dir, resolve_dtype(dtype, device), device)
        return cls(model, tokenizer, max_model_len=max_model_len, reason=reason)

    @classmethod
    def from_model(cls, model: Any, tokenizer: Any) -> TransformersEngine:
        """Serve a live model: every call sees its current weights, without gradients, and restores its mode."""
        return cls(model, tokenizer, reason="the trainer's live weights")

    @property
    def model(self) -> Any:
        """The model that is served; a released one goes back to its device first."""
        if self._home is not None:
            self._model.to(self._home)
            self._home = None
        return self._model

    def generate(
        self, requests: Sequence[Request], sampling: SamplingConfig, on_done: OnDone | None = None
    ) -> list[list[Completion]]:
        """n completions for each request, in order; a sample depends on its prompt, seed and index only."""
        check_lengths(requests, sampling, self.max_model_len)
        rows = [Row((request.prompt_ids,), request.seed, index) for request in requests for index in range(request.n)]
        owners = [number for number, request in enumerate(requests) for _ in range(request.n)]
        found = _Gathering(requests, on_done)
        self._decode(rows, owners, Policy(sampling, self.stop_ids), found)
        return found.completions

    def generate_consensus(
        self, requests: Sequence[ConsensusRequest], sampling: SamplingConfig, mean: Mean, *, alpha: float = 0.5
    ) -> list[list[Completion]]:
        """n completions of each request's mean policy; `alpha` weighs the teachers in the `jsd` mean."""
        check_lengths(requests, sampling, self.max_model_len)
        rows = [Row(request.prompts, request.seed, index) for request in requests for index in range(request.n)]
        owners = [number for number, request in enumerate(requests) for _ in range(request.n)]
        found = _Gathering(requests, None)
        self._decode(rows, owners, Policy(sampling, self.stop_ids, mean, alpha), found)
        return found.completions

    def _decode(self, rows: Sequence[Row], owners: Sequence[int], policy: Policy, found: _Gathering) -> None:
        sizes = [row.size(policy.sampling.max_tokens) for row in rows]
        with evaluating(self.model), within_memory():
            for batch in plan_batches(sizes, limits_for(self.model)):
                completions = decode_batch(self.model, [rows[index] for index in batch], policy)
                for index, completion in zip(batch, completions, strict=True):
                    found.add(owners[index], rows[index].index, completion)

    def score(self, requests: Sequence[ScoreRequest]) -> list[tuple[float, ...]]:
        """Raw log-probability of every completion token; logits are in memory for a bounded block only."""
        check_scores(requests, self.max_model_len)
        with evaluating(self.model), within_memory():
            return score_all(self.model, requests, limits_for(self.model))

    def score_panels(self, panels: Sequence[Panel], sampling: SamplingConfig, mean: PanelMean) -> list[PanelScore]:
        """Each completion under the mean policy of its hinted prompts and under its plain ones, in one pass."""
        check_panels(panels, self.max_model_len)
        with evaluating(self.model), within_memory():
            return score_panels(self.model, panels, limits_for(self.model), (sampling, mean))

    def contrast(self, panels: Sequence[Panel], temperature: float) -> list[TokenContrast]:
        """Student (first prompt) against teacher (second) at every token of each completion, in one pass."""
        check_panels(panels, self.max_model_len)
        with evaluating(self.model), within_memory():
            return contrast_panels(self.model, panels, limits_for(self.model), temperature)

    def update_weights(self, model_dir: Path) -> None:
        """Serve the weights in `model_dir`; on any doubt the old ones stay and EngineError or ModelError is raised."""
        served, dtype = self.model, self.model.dtype
        fresh = load_model(model_dir, dtype, served.device)
        old, new = served.state_dict(), fresh.state_dict()
        if {name: value.shape for name, value in old.items()} != {name: value.shape for name, value in new.items()}:
            raise EngineError(
                "the directory holds another model than the one served",
                where=str(model_dir),
                expected="the same weights by name and shape",
                fix="open a new engine on it",
            )
        canary = canary_request(served.config.vocab_size, self.max_model_len)
        before = self.score([canary])[0]
        must_change = any(not torch.equal(old[name], new[name]) for name in old)
        reference = plain_scores(fresh, canary)
        self._model = fresh
        try:
            after = self.score([canary])[0]
            prove_update(before, after, reference, tolerance=CANARY_TOLERANCE[dtype], must_change=must_change)
        except EngineError:
            self._model = served
            raise

    def release(self) -> None:
        """Keep the weights in main memory until the next call; on a CPU they are there already."""
        if self._model.device.type != "cuda":
            return
        self._home = self._model.device
        self._model.to("cpu")
        torch.cuda.empty_cache()

    def close(self) -> None:
        """Drop the model and give cached GPU memory back."""
        self._model = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


class _Gathering:
    """Puts completions in request order and calls `on_done` when the last sample of a request arrives."""

    def __init__(self, requests: Sequence[Request] | Sequence[ConsensusRequest], on_done: OnDone | None) -> None:
        self.requests = requests
        self.on_done = on_done
        self.completions: list[list[Completion]] = [[] for _ in requests]
        self.parts: list[dict[int, Completion]] = [{} for _ in requests]

    def add(self, number: int, index: int, completion: Completion) -> None:
        """Keep sample `index` of request `number`."""
        request, parts = self.requests[number], self.parts[number]
        parts[index] = completion
        if len(parts) < request.n:
            return
        self.completions[number] = [parts[position] for position in range(request.n)]
        if self.on_done is not None and isinstance(request, Request):
            self.on_done(request, self.completions[number])
