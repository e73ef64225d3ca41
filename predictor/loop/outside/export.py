"""A chosen hint config as a config of another trainer: TRL's SDFT, or SDPO on verl (lasgroup/SDPO).

Only fields that those trainers document are set. What they cannot express stands as a comment, never as a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from predictor.contexts import ContextBuilder
from predictor.errors import HintError
from predictor.launch import hint_config, read_run
from predictor.launch.process import RUN_FILE
from predictor.records import (
    EmaTeacher,
    HintConfig,
    JensenShannon,
    ModelConfig,
    SamplingConfig,
    StudentTopK,
    TrainingConfig,
)
from predictor.store import Study
from predictor.tasks import load_examples

Target = Literal["trl", "verl"]


_IN_SLOTS = frozenset({"feedback", "peer_solution", "all"})
"""Kinds that SDPO's slots for solution and feedback can show."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One run to be trained elsewhere."""

    name: str
    hint: HintConfig
    model: ModelConfig
    sampling: SamplingConfig
    training: TrainingConfig
    num_steps: int
    seed: int

    @property
    def max_tokens(self) -> int:
        return self.training.max_tokens or self.sampling.max_tokens

    @property
    def alpha(self) -> float:
        """0 forward KL, 1 reverse KL, between a Jensen-Shannon divergence: the convention of both trainers."""
        divergence = self.training.divergence
        if isinstance(divergence, JensenShannon):
            return divergence.alpha
        return 0.0 if divergence.kind == "forward_kl" else 1.0


def export_run(study: Study, run_or_hint: str, target: Target | None = None) -> str:
    """YAML for training a run (by its key) or a hint config (by its name) elsewhere.

    Without a target, what is made from the student's own attempts goes to `verl` and everything else to `trl`.
    HintError where the target cannot show such a hint at all.
    """
    wanted = _wanted(study, run_or_hint)
    # TRL takes one context for each row of the data; what is made from attempts exists only during the run.
    from_attempts = wanted.hint.kind in _IN_SLOTS
    chosen = target or ("verl" if from_attempts else "trl")
    if wanted.hint.kind == "none":
        raise HintError("there is nothing to train without a hint", where=f"hint `{wanted.hint.name}`")
    if not from_attempts and (wanted.hint.reads_attempts or wanted.hint.gating == "failed"):
        raise HintError(
            "neither trainer can show this hint",
            where=f"hint `{wanted.hint.name}`",
            found=f"kind `{wanted.hint.kind}`, gating `{wanted.hint.gating}`",
            fix="train it with gapcast's own trainer",
        )
    if from_attempts != (chosen == "verl"):
        raise HintError(
            f"`{chosen}` cannot show a hint of kind `{wanted.hint.kind}`",
            where=f"hint `{wanted.hint.name}`",
            expected="verl for what is made from the student's own attempts, trl for everything else",
        )
    lines = _trl(wanted) if chosen == "trl" else _verl(wanted)
    return "\n".join(lines) + "\n"


def export_training_rows(study: Study, hint: str) -> list[dict[str, Any]]:
    """The training examples as rows for TRL: `prompt` (messages), `privileged_context` (the hint's text), `answer`.

    HintError for hints that depend on the student's own attempt, or that are shown as turns instead of text.
    """
    config = hint_config(study, hint)
    # The probe's own builder, so that training elsewhere shows the very texts that were measured.
    data = load_examples(study.config.task, study.path)
    builder = ContextBuilder(config, data.train, study.config.task.seed)
    if builder.needs_attempt or config.kind == "none" or config.placement == "turns":
        raise HintError("this hint is not one text for each example", where=f"hint `{hint}`", found=config.kind)
    rows = []
    for example in data.train:
        context = builder.build(example)
        if context is not None:
            prompt = [message.model_dump() for message in example.conversation]
            row = {"prompt": prompt, "privileged_context": context.content, "answer": example.answer}
            rows.append(row | {"example_id": example.example_id})
    return rows


def _wanted(study: Study, name: str) -> _Wanted:
    """The run of that key, else the study's full run of the hint config of that name (its first seed)."""
    if (study.runs_dir / name / RUN_FILE).exists():
        run = read_run(study, name)
        parts = (run.hint, run.model, run.sampling, run.training)
        return _Wanted(name, *parts, num_steps=run.spec.num_steps, seed=run.spec.seed)
    known = [hint.name for hint in study.config.hints]
    if name not in known:
        raise HintError(f"there is no run and no hint config `{name}`", expected=", ".join(known))
    config, plan = study.config, study.config.training
    parts = (hint_config(study, name), config.model, config.sampling, plan.resolved)
    return _Wanted(name, *parts, num_steps=plan.num_steps, seed=plan.seeds[0])


def _trl(wanted: _Wanted) -> Iterator[str]:
    """TRL experimental SDFT: SDFTConfig and the transformers TrainingArguments below it."""
    training, hint = wanted.training, wanted.hint
    yield f"# TRL SDFT (trl.experimental.sdft) for `{wanted.name}`: hint config `{hint.name}`, kind {hint.kind}."
    yield "# Data: the training examples of this study as rows with `prompt` and `privileged_context`."
    yield from _cannot(wanted, "trl")
    yield from _field("model_name_or_path", wanted.model.path)
    yield "# The teacher's prompt. The default limit would cut long ones from the left, hint and question first."
    yield from _field("teacher_prompt_template", _template(hint))
    yield from _field("max_prompt_length", None)
    yield from _thinking(wanted)
    batch = training.prompts_per_step * training.rollouts_per_prompt
    # The largest pass that divides the step evenly: TRL has no uneven last pass.
    micro = math.gcd(batch, training.micro_batch)
    yield "# One device: completions in a pass, times passes, are the completions of one optimiser step."
    yield from _field("num_generations", training.rollouts_per_prompt)
    yield from _field("per_device_train_batch_size", micro)
    yield from _field("gradient_accumulation_steps", batch // micro)
    yield from _field("num_iterations", 1)
    yield from _field("max_completion_length", wanted.max_tokens)
    yield from _field("temperature", wanted.sampling.temperature)
    yield from _field("top_p", wanted.sampling.top_p)
    yield "# Divergence: 0 is forward KL, 1 reverse KL, between them Jensen-Shannon."
    yield from _field("distillation_alpha", wanted.alpha)
    yield from _support(training)
    yield "# Strictly on-policy: no importance weights."
    yield from _field("distillation_is_clip", None)
    yield from _field("generate_from_teacher", value=False)
    yield from _trl_teacher(training)
    yield from _optimizer(wanted)


def _support(training: TrainingConfig) -> Iterator[str]:
    if isinstance(training.support, StudentTopK):
        yield from _field("distillation_mode", "topk_logits")
        yield from _field("distillation_topk", training.support.k)
        yield from _field("distillation_add_tail", value=True)
    else:
        yield from _field("distillation_mode", "full_logits")
        yield from _field("distillation_topk", None)


def _trl_teacher(training: TrainingConfig) -> Iterator[str]:
    if isinstance(training.teacher, EmaTeacher):
        yield from _field("teacher_model_kind", "ema")
        yield from _field("teacher_update_rate", training.teacher.rate)
        yield from _field("teacher_sync_steps", 1)
    else:
        yield from _field("teacher_model_kind", "base")


def _optimizer(wanted: _Wanted) -> Iterator[str]:
    optimizer = wanted.training.optimizer
    yield from _field("learning_rate", optimizer.lr)
    yield from _field("weight_decay", optimizer.weight_decay)
    yield from _field("adam_beta1", optimizer.betas[0])
    yield from _field("adam_beta2", optimizer.betas[1])
    yield from _field("warmup_steps", optimizer.warmup_steps)
    yield from _field("max_grad_norm", optimizer.clip_norm)
    if optimizer.decay_from < 1.0:
        yield f"# Not expressed: from {optimizer.decay_from:.0%} of the steps on, the rate falls linearly to 0."
    yield from _field("lr_scheduler_type", "constant_with_warmup" if optimizer.warmup_steps else "constant")
    yield from _field("max_steps", wanted.num_steps)
    yield from _field("seed", wanted.seed)


def _thinking(wanted: _Wanted) -> Iterator[str]:
    thinking = wanted.sampling.thinking
    # TRL renders both prompts with the same options.
    if thinking.student is not None and thinking.student == thinking.teacher:
        yield from _field("chat_template_kwargs", {"enable_thinking": thinking.student})


def _template(hint: HintConfig) -> str:
    """The text template nearest to where the hint was shown."""
    return (
        "{prompt}\n\n{privileged_context}" if hint.placement == "after_question" else "{privileged_context}\n\n{prompt}"
    )


def _verl(wanted: _Wanted) -> Iterator[str]:
    """SDPO on verl: overrides of its Hydra config, as one YAML tree."""
    training = wanted.training
    hint = wanted.hint
    yield f"# SDPO on verl (lasgroup/SDPO) for `{wanted.name}`: hint config `{hint.name}`, kind {hint.kind}."
    yield "# Merge it over the trainer's own config; data files, reward function and devices are yours to add."
    yield from _cannot(wanted, "verl")
    slots = {"feedback": "{feedback}", "peer_solution": "{solution}"}.get(hint.kind, "{solution}{feedback}")
    distillation: dict[str, Any] = {
        "full_logit_distillation": True,
        "distillation_topk": training.support.k if isinstance(training.support, StudentTopK) else None,
        "distillation_add_tail": isinstance(training.support, StudentTopK),
        # Same convention as ours: 0 forward, 1 reverse KL.
        "alpha": wanted.alpha,
        "teacher_regularization": "ema",
        "teacher_update_rate": training.teacher.rate if isinstance(training.teacher, EmaTeacher) else 0.0,
        "include_environment_feedback": hint.kind != "peer_solution",
        "environment_feedback_only_without_solution": hint.feedback_only_without_solution,
        # One step for each batch is strictly on-policy, and importance weights would all be 1.
        "is_clip": None,
        "reprompt_template": f"{{prompt}}{slots}\n\nCorrectly solve the original question.\n",
    }
    if hint.kind != "feedback":
        distillation["remove_thinking_from_demonstration"] = hint.remove_thinking
        distillation["dont_reprompt_on_self_success"] = hint.self_success != "own"
    optimizer = training.optimizer
    actor = {
        "ppo_mini_batch_size": training.prompts_per_step,
        "grad_clip": optimizer.clip_norm,
        "policy_loss": {"loss_mode": "sdpo"},
        "self_distillation": distillation,
        "optim": {
            "lr": optimizer.lr,
            "lr_warmup_steps": optimizer.warmup_steps,
            "weight_decay": optimizer.weight_decay,
        },
    }
    rollout = {
        "n": training.rollouts_per_prompt,
        "temperature": wanted.sampling.temperature,
        "top_p": wanted.sampling.top_p,
    }
    data: dict[str, Any] = {"train_batch_size": training.prompts_per_step, "max_response_length": wanted.max_tokens}
    if wanted.sampling.thinking.student is not None:
        data["apply_chat_template_kwargs"] = {"enable_thinking": wanted.sampling.thinking.student}
    yield from _field("data", data)
    yield from _field("actor_rollout_ref", {"model": {"path": wanted.model.path}, "actor": actor, "rollout": rollout})
    yield from _field("trainer", {"total_training_steps": wanted.num_steps})


def _cannot(wanted: _Wanted, target: Target) -> Iterator[str]:
    """One comment for everything that the target does otherwise than the measured gap assumed."""
    hint, thinking = wanted.hint, wanted.sampling.thinking
    if target == "trl" and hint.placement in ("system", "turns"):
        where = "as the system message" if hint.placement == "system" else "as earlier turns"
        yield f"# Not expressed: the gap was measured with the hint {where}; here it stands before the question."
        yield "#   Probe it with `placement: before_question` before trusting the forecast for this run."
    if thinking.student != thinking.teacher:
        yield f"# Not expressed: thinking modes differ (student {thinking.student}, teacher {thinking.teacher})."
    if target == "verl":
        yield from _cannot_in_slots(hint)
        if wanted.training.teacher.kind == "frozen":
            yield "# A frozen teacher is an average with rate 0."
        if isinstance(wanted.training.divergence, JensenShannon):
            yield "# Check your revision: some read an alpha of 0.25 or 0.5 as a Rényi divergence."


def _cannot_in_slots(hint: HintConfig) -> Iterator[str]:
    yield "# Not expressed: the attempt itself is not shown, and the wording is that of `feedback_template`."
    if hint.kind == "feedback":
        yield "# Peer solutions are taken out of `reprompt_template`, because this hint config shows feedback only."
    else:
        yield "# The first correct rollout of the group is the solution; the gap was measured with a random one."
    if hint.gating == "all" and hint.kind != "feedback":
        yield "# Check your revision: some show a context to failed rollouts only (here `gating: failed`)."


def _field(name: str, value: Any) -> Iterator[str]:
    yield yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True, width=1000).rstrip()
