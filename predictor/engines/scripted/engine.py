"""The scripted engine: samples exactly from a next-token law, and scores under it."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from pathlib import Path

from predictor.engines.base import (
    Completion,
    ConsensusRequest,
    Ids,
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
from predictor.engines.byte_tokenizer import ByteTokenizer
from predictor.engines.noise import uniforms
from predictor.engines.scripted.laws import Law, Node, contrast_panel, log, node, score_panel
from predictor.engines.scripted.table import MASS_TOLERANCE, ScriptedTable, TableLaw
from predictor.errors import EngineError
from predictor.records import Mean, SamplingConfig

_MOST_NODES = 100_000


class ScriptedEngine:
    """Samples exactly from a next-token law; log-probabilities are the law's own."""

    name = "scripted"
    version = "1"

    def __init__(self, law: Law | ScriptedTable, *, max_model_len: int = 65536) -> None:
        self.tokenizer = ByteTokenizer()
        self.law: Law = TableLaw(law, self.tokenizer) if isinstance(law, ScriptedTable) else law
        self.reason = "a scripted law, for tests and dry runs"
        self.max_model_len = max_model_len
        self._nodes: dict[tuple[object, ...], Node] = {}

    def generate(
        self, requests: Sequence[Request], sampling: SamplingConfig, on_done: OnDone | None = None
    ) -> list[list[Completion]]:
        """n completions for each request, in order, reproducible from seed and index."""
        check_lengths(requests, sampling, self.max_model_len)
        completions = []
        for request in requests:
            completions.append(self._samples(request, (request.prompt_ids,), sampling, ("arithmetic", 0.5)))
            if on_done is not None:
                on_done(request, completions[-1])
        return completions

    def generate_consensus(
        self, requests: Sequence[ConsensusRequest], sampling: SamplingConfig, mean: Mean, *, alpha: float = 0.5
    ) -> list[list[Completion]]:
        """n completions of each request's mean policy, as in the transformers engine."""
        check_lengths(requests, sampling, self.max_model_len)
        return [self._samples(request, request.prompts, sampling, (mean, alpha)) for request in requests]

    def score(self, requests: Sequence[ScoreRequest]) -> list[tuple[float, ...]]:
        """The law's log-probability of every completion token; minus infinity for an impossible one."""
        check_scores(requests, self.max_model_len)
        return [
            tuple(
                log(self.law(request.prompt_ids, request.completion_ids[:position]).get(token, 0.0))
                for position, token in enumerate(request.completion_ids)
            )
            for request in requests
        ]

    def score_panels(self, panels: Sequence[Panel], sampling: SamplingConfig, mean: PanelMean) -> list[PanelScore]:
        """Each completion under the closed-form mean policy and plain laws; ValueError at temperature 0."""
        if sampling.temperature == 0.0:
            raise ValueError("at temperature 0 the laws are point masses")
        check_panels(panels, self.max_model_len)
        return [score_panel(self.law, panel, sampling, mean) for panel in panels]

    def contrast(self, panels: Sequence[Panel], temperature: float) -> list[TokenContrast]:
        """Student against teacher at every token; tokens that a law never gives count with probability 1e-9."""
        check_panels(panels, self.max_model_len)
        return [contrast_panel(self.law, panel, temperature) for panel in panels]

    def update_weights(self, model_dir: Path) -> None:
        """Serve the table in `model_dir`; ModelError when there is none, EngineError when it is not served."""
        table = ScriptedTable.load(model_dir)
        served = TableLaw(table, self.tokenizer)
        rule = table.rules[0]
        prompt = tuple(self.tokenizer.encode("".join(rule.contains) or "?"))
        before, self.law = self.law, served
        self._nodes.clear()
        for text, probability in rule.completions.items():
            ids = (*self.tokenizer.encode(text), self.tokenizer.eos_token_id)
            found = math.exp(math.fsum(self.score([ScoreRequest(prompt, ids)])[0]))
            if abs(found - probability) > MASS_TOLERANCE:
                self.law = before
                raise EngineError("the engine does not serve the table", where=str(model_dir), found=f"{found:g}")

    def release(self) -> None:
        """Nothing to give back."""

    def close(self) -> None:
        """Nothing to give back."""

    def _samples(
        self,
        request: Request | ConsensusRequest,
        prompts: tuple[Ids, ...],
        sampling: SamplingConfig,
        mean: tuple[Mean, float],
    ) -> list[Completion]:
        return [self._sample(prompts, (request.seed, index), sampling, mean) for index in range(request.n)]

    def _sample(
        self, prompts: tuple[Ids, ...], seed: tuple[int, int], sampling: SamplingConfig, mean: tuple[Mean, float]
    ) -> Completion:
        ids: Ids = ()
        logprobs: list[float] = []
        for uniform in uniforms(*seed, sampling.max_tokens).tolist():
            node = self._node(prompts, ids, sampling, mean)
            choice = bisect.bisect_right(node.cumulative, uniform * node.cumulative[-1])
            choice = min(choice, len(node.support) - 1)
            ids = (*ids, node.support[choice])
            logprobs.append(node.logprobs[choice])
            if ids[-1] == self.tokenizer.eos_token_id:
                return Completion(ids, tuple(logprobs), "stop")
        return Completion(ids, tuple(logprobs), "length")

    def _node(self, prompts: tuple[Ids, ...], prefix: Ids, sampling: SamplingConfig, mean: tuple[Mean, float]) -> Node:
        """The mean policy after a prefix; remembered, because thousands of samples share their first tokens."""
        key = (prompts, prefix, sampling.temperature, sampling.top_p, *mean)
        if key not in self._nodes:
            if len(self._nodes) >= _MOST_NODES:
                self._nodes.clear()
            self._nodes[key] = node([self.law(prompt, prefix) for prompt in prompts], sampling, *mean)
        return self._nodes[key]
