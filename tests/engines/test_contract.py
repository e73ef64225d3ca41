"""What every engine promises, checked on all three; vLLM's CPU build really runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from predictor.engines import Completion, Request, ScoreRequest
from predictor.errors import EngineError, ModelError, PromptError
from predictor.records import SamplingConfig, derive_seed

SAMPLING = SamplingConfig(temperature=1.0, max_tokens=6)


def requests(served: Any, *, n: int = 3, label: str = "a") -> list[Request]:
    return [
        Request(f"{label}{index}", prompt, n, derive_seed(label, index)) for index, prompt in enumerate(served.prompts)
    ]


def flat(completions: Sequence[Sequence[Completion]]) -> list[Completion]:
    return [sample for samples in completions for sample in samples]


def scores(served: Any, completions: Sequence[Sequence[Completion]]) -> list[tuple[float, ...]]:
    pairs = [ScoreRequest(p, c.ids) for p, samples in zip(served.prompts, completions, strict=True) for c in samples]
    return served.engine.score(pairs)


def largest_difference(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    return max(float(np.max(np.abs(np.subtract(a, b)))) for a, b in zip(first, second, strict=True))


def test_every_request_gets_n_completions_of_ids_with_one_logprob_each(served: Any) -> None:
    """F9: one log-probability for each sampled id."""
    completions = served.engine.generate(requests(served), SAMPLING)
    assert [len(samples) for samples in completions] == [3] * len(served.prompts)
    for sample in flat(completions):
        assert 1 <= len(sample.ids) == len(sample.logprobs) <= SAMPLING.max_tokens
        assert all(isinstance(token, int) and 0 <= token < len(served.engine.tokenizer) for token in sample.ids)
        assert all(logprob <= 0.0 for logprob in sample.logprobs)


def test_a_stop_token_is_kept_and_ends_the_completion_and_nothing_else_does(served: Any) -> None:
    for max_tokens in (2, 24):
        completions = flat(
            served.engine.generate(requests(served), SamplingConfig(temperature=1.0, max_tokens=max_tokens))
        )
        for sample in completions:
            stopped = sample.ids[-1] in served.stop_ids
            assert sample.finish_reason == ("stop" if stopped else "length")
            assert stopped or len(sample.ids) == max_tokens
            assert not served.stop_ids & set(sample.ids[:-1])
    assert {sample.finish_reason for sample in completions} >= {"stop"}


def test_the_samples_of_one_request_differ(served: Any) -> None:
    """F20: n samples of one request are not n copies."""
    completions = served.engine.generate(requests(served, n=8), SAMPLING)
    assert sum(len({sample.ids for sample in samples}) > 1 for samples in completions) >= len(completions) // 2


def test_equal_seeds_repeat_a_run_and_other_seeds_do_not(served: Any) -> None:
    """F20: the seed is the request's own."""
    first = served.engine.generate(requests(served), SAMPLING)
    assert [c.ids for c in flat(served.engine.generate(requests(served), SAMPLING))] == [c.ids for c in flat(first)]
    other = served.engine.generate(requests(served, label="b"), SAMPLING)
    assert [c.ids for c in flat(other)] != [c.ids for c in flat(first)]


def test_a_request_alone_gives_what_it_gives_in_a_batch(served: Any) -> None:
    batch = requests(served)
    together = served.engine.generate(batch, SAMPLING)
    for index in (0, len(batch) - 1):
        alone = served.engine.generate([batch[index]], SAMPLING)[0]
        assert [c.ids for c in alone] == [c.ids for c in together[index]]
        assert largest_difference([c.logprobs for c in alone], [c.logprobs for c in together[index]]) <= 1e-5


@pytest.mark.parametrize("sampling", [SAMPLING, SamplingConfig(temperature=0.6, top_p=0.9, max_tokens=6)])
def test_recorded_logprobs_are_raw_and_equal_the_scores(served: Any, sampling: SamplingConfig) -> None:
    """F16: raw at every temperature and top_p, as the engine protocol says."""
    completions = served.engine.generate(requests(served), sampling)
    found = scores(served, completions)
    assert largest_difference(found, [c.logprobs for c in flat(completions)]) <= served.tolerance


def test_scores_of_several_requests_do_not_depend_on_their_company(served: Any) -> None:
    """F18: the same prompt twice in one call, with the prefix cache warm."""
    completions = served.engine.generate(requests(served, n=1), SAMPLING)
    pairs = [ScoreRequest(p, c[0].ids) for p, c in zip(served.prompts, completions, strict=True)]
    pairs.insert(1, ScoreRequest(served.prompts[0], ()))
    together = served.engine.score([*pairs, *pairs])
    assert together[1] == ()
    alone = [served.engine.score([pair])[0] for pair in pairs]
    assert largest_difference([s for s in together if s], [s for s in alone * 2 if s]) <= 1e-5


def test_vllm_and_transformers_are_told_apart_in_mean_and_99th_percentile(
    vllm_served: Any, transformers_served: Any
) -> None:
    """F17, F18: the same ids on both engines; one has a prefix cache and the other none. In float32 they agree."""
    completions = transformers_served.engine.generate(requests(transformers_served), SAMPLING)
    pairs = [
        ScoreRequest(p, c.ids) for p, found in zip(transformers_served.prompts, completions, strict=True) for c in found
    ]
    here, there = (np.concatenate(s.engine.score(pairs)) for s in (transformers_served, vllm_served))
    again = np.concatenate(vllm_served.engine.score(pairs))
    apart = np.abs(here - there)
    assert float(np.mean(apart)) < 1e-5
    assert float(np.quantile(apart, 0.99)) < 1e-4
    assert np.allclose(there, again, atol=1e-6)


def test_temperature_zero_takes_the_most_likely_token_every_time(served: Any) -> None:
    greedy = SamplingConfig(temperature=0.0, max_tokens=4)
    for samples in served.engine.generate(requests(served), greedy):
        assert len(samples) == 3
        assert len({sample.ids for sample in samples}) == 1
    best = served.engine.generate(requests(served, n=1), greedy)[0][0]
    for token in range(len(served.engine.tokenizer)):
        other = served.engine.score([ScoreRequest(served.prompts[0], (token,))])[0][0]
        assert other <= best.logprobs[0] + 1e-6


def test_on_done_is_called_once_for_each_request_with_its_completions(served: Any) -> None:
    seen: dict[str, list[Completion]] = {}
    batch = requests(served)

    def on_done(request: Request, samples: list[Completion]) -> None:
        assert request.request_id not in seen
        seen[request.request_id] = samples

    completions = served.engine.generate(batch, SAMPLING, on_done)
    assert seen == {request.request_id: samples for request, samples in zip(batch, completions, strict=True)}


def test_an_interrupted_call_leaves_the_engine_usable(served: Any) -> None:
    def interrupt(_request: Request, _samples: list[Completion]) -> None:
        raise KeyboardInterrupt

    before = served.engine.generate(requests(served), SAMPLING)
    with pytest.raises(KeyboardInterrupt):
        served.engine.generate(requests(served), SAMPLING, interrupt)
    after = served.engine.generate(requests(served), SAMPLING)
    assert [c.ids for c in flat(after)] == [c.ids for c in flat(before)]


def test_no_requests_give_no_completions(served: Any) -> None:
    assert served.engine.generate([], SAMPLING) == []
    assert served.engine.score([]) == []


def test_a_prompt_without_room_for_its_completion_is_refused_before_any_work(served: Any) -> None:
    """F6: a prompt that is too long is refused, never cut, so the generation header cannot get lost."""
    done: list[Request] = []
    limit = served.engine.max_model_len
    long = Request("too-long", served.prompts[0][:1] * (limit - SAMPLING.max_tokens + 1), 1, 0)
    with pytest.raises(PromptError, match="too-long"):
        served.engine.generate([*requests(served), long], SAMPLING, lambda request, _: done.append(request))
    assert done == []


def test_a_completion_may_fill_the_context_but_not_exceed_it(served: Any) -> None:
    prompt = served.prompts[0]
    token = served.engine.generate([Request("r", prompt, 1, 0)], SAMPLING)[0][0].ids[0]
    full = (token,) * (served.engine.max_model_len - len(prompt))
    assert len(served.engine.score([ScoreRequest(prompt, full)])[0]) == len(full)
    with pytest.raises(PromptError, match="score request 1"):
        served.engine.score([ScoreRequest(prompt, full), ScoreRequest(prompt, (*full, token))])


def test_an_update_serves_the_other_weights_and_an_update_back_the_old_ones(served: Any) -> None:
    """F21: other weights, other log-probabilities."""
    completions = served.engine.generate(requests(served), SAMPLING)
    before = scores(served, completions)
    served.engine.update_weights(served.other_dir)
    moved = scores(served, completions)
    served.engine.update_weights(served.model_dir)
    after = scores(served, completions)
    assert largest_difference(before, moved) > 0.01
    assert largest_difference(before, after) <= 1e-6


def test_a_released_engine_takes_up_where_it_stopped(served: Any) -> None:
    before = served.engine.generate(requests(served), SAMPLING)
    known = scores(served, before)
    served.engine.release()
    served.engine.release()
    assert [c.ids for c in flat(served.engine.generate(requests(served), SAMPLING))] == [c.ids for c in flat(before)]
    served.engine.release()
    served.engine.update_weights(served.other_dir)
    assert largest_difference(known, scores(served, before)) > 0.01
    served.engine.release()
    assert largest_difference(known, scores(served, before)) > 0.01
    served.engine.update_weights(served.model_dir)
    assert largest_difference(known, scores(served, before)) <= 1e-6


def test_broken_weights_are_refused_and_the_old_ones_stay(served: Any, tmp_path: Path) -> None:
    completions = served.engine.generate(requests(served), SAMPLING)
    before = scores(served, completions)
    for directory in (*served.broken_dirs, tmp_path):
        with pytest.raises((EngineError, ModelError)):
            served.engine.update_weights(directory)
    assert largest_difference(before, scores(served, completions)) <= 1e-6


def test_an_engine_says_what_it_is_and_why_it_was_chosen(served: Any) -> None:
    assert served.engine.name in ("scripted", "transformers", "vllm")
    assert served.engine.version
    assert served.engine.reason
    assert served.engine.max_model_len == 128
