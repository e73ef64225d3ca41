"""What a run would do, before it does it: its prompts, and with calibration its speed and memory."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

from predictor.checkers import Checker, build_checker
from predictor.contexts import Attempt, ContextBuilder
from predictor.engines.model_files import load_tokenizer
from predictor.prompts import render_pair
from predictor.records import Example, RunConfig, Verdict
from predictor.tasks import load_examples
from trainer.config import load_run

_NUM_PROMPTS = 2
_NUM_STEPS = 2


def check_run(root: Path, *, started: float, calibrate: bool) -> dict[str, Any]:
    """Key and prompts of a valid run; with `calibrate` also seconds_per_step, start_seconds, peak_memory_bytes.

    `started` is the monotonic time at which the process began. A GapcastError says why a run cannot be trained.
    """
    config = load_run(root)
    report: dict[str, Any] = {"key": config.spec.key, "prompts": _prompts(config, root)}
    return report | _calibration(config, root, started) if calibrate else report


def _prompts(config: RunConfig, root: Path) -> list[dict[str, Any]]:
    train = load_examples(config.task, root / config.task_dir).train
    tokenizer = load_tokenizer(root / config.model_dir)
    contexts = ContextBuilder(config.hint, train, config.task.seed)
    checker = build_checker(config.task.checker)
    return [_prompt(example, contexts, checker, tokenizer, config) for example in train[:_NUM_PROMPTS]]


def _prompt(
    example: Example, contexts: ContextBuilder, checker: Checker, tokenizer: Any, config: RunConfig
) -> dict[str, Any]:
    # A hint about the student's attempt is shown for an empty one: no model is loaded for a look at prompts.
    attempt = Attempt("", checker.check("", example)) if contexts.needs_attempt else None
    group = () if attempt is None else (attempt, _correct_peer(example))
    pair = render_pair(example, contexts.build(example, attempt, group), tokenizer, config.sampling.thinking)
    return {
        "example_id": example.example_id,
        "student": pair.student.text,
        "teacher": pair.teacher.text,
        "student_tokens": len(pair.student.ids),
        "teacher_tokens": len(pair.teacher.ids),
    }


def _correct_peer(example: Example) -> Attempt:
    """A correct rollout of the group, as far as it can be known without a model: the reference answer."""
    verdict = Verdict(correct=True, checker="preview", checker_version="0")
    return Attempt(example.answer or "(a correct rollout)", verdict, 1, "(key hints extracted from it)")


def _calibration(config: RunConfig, root: Path, started: float) -> dict[str, float | int]:
    """Two steps on weights that are thrown away; the second one's time counts, the first one warms up."""
    import torch

    from trainer.train import load_learner, take_step

    learner = load_learner(config, root)
    start_seconds = time.monotonic() - started
    steps = [take_step(learner, step, []) for step in range(_NUM_STEPS)]
    on_gpu = learner.student.device.type == "cuda"
    # Linux reports the peak resident size in KiB.
    peak = torch.cuda.max_memory_allocated() if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "seconds_per_step": steps[-1].seconds,
        "start_seconds": start_seconds,
        "peak_memory_bytes": peak,
    }
