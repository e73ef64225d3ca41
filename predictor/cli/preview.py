"""--dry-run: the resolved study, both rendered prompts with the hint marked, and what a probe would cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from predictor.cli.show import say
from predictor.config import StudyConfig
from predictor.contexts import Attempt, ContextBuilder, HintContext
from predictor.engines import load_tokenizer, resolve_model
from predictor.probe.arms import ArmFactory
from predictor.prompts import hinted_conversation, render_pair, render_prompt
from predictor.records import Example, HintConfig, Message, Verdict
from predictor.store import Study
from predictor.tasks import load_examples

_OPEN, _CLOSE = "⟦", "⟧"


def preview(path: Path) -> dict[str, Any]:
    """Resolved configuration, one prompt pair for each hint config, and token and rollout counts; loads no weights."""
    study = Study(path)
    tokenizer = load_tokenizer(resolve_model(study.config.model.path, path))
    data = load_examples(study.config.task, path)
    factory = ArmFactory(study.config, data.train, tokenizer)
    example = data.eval[0]
    prompts = [_pair(factory.builder(hint), hint, example, tokenizer, study) for hint in study.config.hints]
    return {
        "config": study.config.model_dump(mode="json"),
        "training": study.config.training.resolved.model_dump(mode="json"),
        "prompts": prompts,
        "estimate": _estimate(study, factory, len(data.eval)),
    }


def mark_hint(context: HintContext) -> HintContext:
    """The same context with ⟦ and ⟧ around what only the teacher is shown; rendered, it marks exactly the hint."""
    if context.placement != "turns":
        return replace(context, content=f"{_OPEN}{context.content}{_CLOSE}")
    first, *middle, last = context.turns
    opening = Message(role=first.role, content=f"{_OPEN}{first.content}")
    closing = Message(role=last.role, content=f"{last.content}{_CLOSE}")
    return replace(context, turns=(opening, *middle, closing))


def _pair(builder: ContextBuilder, hint: HintConfig, example: Example, tokenizer: Any, study: Study) -> dict[str, Any]:
    context = builder.build(example, *_stand_ins()) if builder.needs_attempt else builder.build(example)
    thinking = study.config.sampling.thinking
    pair = render_pair(example, context, tokenizer, thinking)
    shown = example.conversation if context is None else hinted_conversation(example, mark_hint(context))
    return {
        "hint": hint.name,
        "kind": hint.kind,
        "example_id": example.example_id,
        "student": pair.student.text,
        "teacher": render_prompt(shown, tokenizer, thinking=thinking.teacher).text,
        "student_tokens": len(pair.student.ids),
        "teacher_tokens": len(pair.teacher.ids),
    }


def _stand_ins() -> tuple[Attempt, tuple[Attempt, ...]]:
    """A failed attempt and a correct one of the same group, named for what will stand there."""
    failed = Verdict(correct=False, reason="(the checker's message)", checker="preview", checker_version="0")
    own = Attempt("(the student's attempt)", failed)
    right = Verdict(correct=True, checker="preview", checker_version="0")
    peer = Attempt("(a correct rollout)", right, 1, "(key hints extracted from it)")
    return own, (own, peer)


def _estimate(study: Study, factory: ArmFactory, num_eval: int) -> dict[str, Any]:
    """Rollouts and completion tokens that a whole probe and one run need, at most."""
    config = study.config
    arms = {factory.control(config.hints[0], "none").key}
    for hint in config.hints:
        arms.add(factory.teacher(hint).key)
        arms |= {factory.control(hint, control).key for control in hint.control_kinds}
    probe = num_eval * config.probe.rollouts * (2 + len(arms))
    decoded = config.probe.consensus_estimator != "reweight"
    ensembles = [hint for hint in config.hints if decoded and hint.kind not in ("none", "static")]
    consensus = min(num_eval, config.probe.consensus_examples) * config.probe.consensus_rollouts * len(ensembles)
    training = config.training.resolved
    return {
        "arms": len(arms) + 1,
        "probe_rollouts": probe,
        "probe_tokens_at_most": probe * config.sampling.max_tokens,
        "consensus_rollouts": consensus,
        "consensus_tokens_at_most": consensus * config.sampling.max_tokens * config.probe.consensus_hints,
        "reweight_scored_tokens_at_most": _reweight_tokens(config, num_eval),
        "training_rollouts_per_run": config.training.num_steps
        * training.prompts_per_step
        * training.rollouts_per_prompt,
        "record_rollouts_per_run": 2 * num_eval * config.probe.rollouts,
        "budget_seconds": config.plan.budget.total_seconds,
        "runs_if_all_were_trained": len(config.hints) * len(config.training.seeds),
    }


def _reweight_tokens(config: StudyConfig, num_eval: int) -> int:
    """Completion tokens that reweighting scores: every stored rollout under M hinted prompts and those it answered."""
    if config.probe.consensus_estimator == "ensemble":
        return 0
    tokens = 0
    for hint in config.hints:
        if hint.kind not in ("none", "static"):
            arms = 3 + ("other_example" in hint.control_kinds)
            # Student and bare resample share one prompt.
            tokens += arms * config.probe.rollouts * (config.probe.consensus_hints + arms - 1)
    return tokens * min(num_eval, config.probe.consensus_examples) * config.sampling.max_tokens


def print_preview(content: dict[str, Any]) -> None:
    """The preview for a person: resolved configuration, prompts, and what it would take."""
    say(yaml.safe_dump({"config": content["config"], "training": content["training"]}, sort_keys=False))
    for pair in content["prompts"]:
        say(f"--- {pair['hint']} ({pair['kind']}), example {pair['example_id']}")
        say(f"student ({pair['student_tokens']} tokens):\n{pair['student']}")
        say(f"teacher ({pair['teacher_tokens']} tokens), hint between {_OPEN} and {_CLOSE}:\n{pair['teacher']}")
    say(yaml.safe_dump({"estimate": content["estimate"]}, sort_keys=False))
