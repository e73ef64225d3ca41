"""Exported configs set documented fields only, mean what the study trains, and say what they cannot."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from predictor.errors import HintError
from predictor.launch import RunRequest, run_config
from predictor.launch.process import write_run
from predictor.loop.outside import export_run, export_training_rows
from predictor.store import Study
from tests.planted_study import planted_study

# Names in TRL's experimental SDFTConfig, its base, ModelConfig and the transformers TrainingArguments (TRL f2cd57710).
SDFT_FIELDS = {
    "teacher_prompt_template",
    "max_prompt_length",
    "chat_template_kwargs",
    "num_generations",
    "num_iterations",
    "max_completion_length",
    "temperature",
    "top_p",
    "distillation_alpha",
    "distillation_mode",
    "distillation_topk",
    "distillation_add_tail",
    "distillation_is_clip",
    "generate_from_teacher",
    "teacher_model_kind",
    "teacher_update_rate",
    "teacher_sync_steps",
    "model_name_or_path",
}
# Names below actor_rollout_ref.actor.self_distillation in lasgroup/SDPO's actor.yaml.
SDPO_FIELDS = {
    "full_logit_distillation",
    "distillation_topk",
    "distillation_add_tail",
    "alpha",
    "teacher_regularization",
    "teacher_update_rate",
    "include_environment_feedback",
    "environment_feedback_only_without_solution",
    "is_clip",
    "reprompt_template",
    "remove_thinking_from_demonstration",
    "dont_reprompt_on_self_success",
}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return planted_study(tmp_path / "study", "new")


def training_argument_names() -> set[str]:
    """Fields of transformers' TrainingArguments, read from its source: importing it would take seconds."""
    spec = find_spec("transformers")
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse((Path(spec.origin).parent / "training_args.py").read_text(encoding="utf-8"))
    (found,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "TrainingArguments")
    return {n.target.id for n in found.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}


def with_training(study: Study, training: str, **replace: str) -> Study:
    path = study.path / "study.yaml"
    text = path.read_text(encoding="utf-8")
    text = text.replace("training: {preset: miniature, num_steps: 50, seeds: [0, 1]}", f"training: {training}")
    for old, new in replace.items():
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return Study(study.path)


def exported(study: Study, name: str) -> dict[str, Any]:
    content = yaml.safe_load(export_run(study, name))
    assert isinstance(content, dict)
    return content


def test_trl_fields_are_documented_ones(study: Study) -> None:
    generic = training_argument_names()
    for preset in ("miniature", "sdpo_lcb", "sdpo_science", "opsd_math", "smollm"):
        config = exported(with_training(study, f"{{preset: {preset}, num_steps: 50, seeds: [0, 1]}}"), "rule")
        assert set(config) <= SDFT_FIELDS | generic
        planted_study(study.path, "new")


def test_the_divergence_support_and_teacher_of_a_preset_are_kept(study: Study) -> None:
    mini = exported(study, "rule")
    assert (mini["distillation_alpha"], mini["distillation_mode"], mini["teacher_model_kind"]) == (
        1.0,
        "full_logits",
        "base",
    )
    science = exported(with_training(study, "{preset: sdpo_science, num_steps: 40, seeds: [7]}"), "rule")
    assert (science["distillation_alpha"], science["distillation_topk"]) == (0.5, 100)
    assert science["distillation_add_tail"] is True
    assert (science["teacher_model_kind"], science["teacher_update_rate"]) == ("ema", 0.05)
    assert (science["max_steps"], science["seed"], science["warmup_steps"]) == (40, 7, 10)
    planted_study(study.path, "new")
    math_preset = exported(with_training(study, "{preset: opsd_math, num_steps: 40, seeds: [7]}"), "rule")
    assert math_preset["distillation_alpha"] == 0.0
    assert math_preset["max_grad_norm"] == 0.1


def test_one_step_holds_exactly_the_studys_rollouts(study: Study) -> None:
    config = exported(with_training(study, "{preset: sdpo_lcb, num_steps: 9, overrides: {micro_batch: 96}}"), "rule")
    assert config["per_device_train_batch_size"] * config["gradient_accumulation_steps"] == 32 * 8
    assert config["num_generations"] == 8


def test_what_cannot_be_expressed_stands_as_a_comment(study: Study) -> None:
    text = export_run(study, "rule")
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert any("as the system message" in line for line in comments)
    assert any("falls linearly to 0" in line for line in comments)
    text = export_run(with_training(study, "{preset: miniature}", **{"max_tokens: 8": THINKING}), "rule")
    assert "thinking modes differ (student False, teacher True)" in text
    assert "chat_template_kwargs" not in text


THINKING = "max_tokens: 8, thinking: {student: false, teacher: true}"


def test_equal_thinking_modes_and_the_place_after_the_question_are_kept(study: Study) -> None:
    changed = with_training(
        study,
        "{preset: miniature}",
        **{
            "max_tokens: 8": "max_tokens: 8, thinking: {student: false, teacher: false}",
            'template: "rule reverse"': 'template: "rule reverse", placement: after_question',
        },
    )
    config = exported(changed, "rule")
    assert config["chat_template_kwargs"] == {"enable_thinking": False}
    assert config["teacher_prompt_template"] == "{prompt}\n\n{privileged_context}"
    assert "Not expressed: the gap" not in export_run(changed, "rule")


def test_feedback_goes_to_sdpo_with_documented_fields(study: Study) -> None:
    config = exported(study, "own-failure")
    actor = config["actor_rollout_ref"]["actor"]
    assert set(actor["self_distillation"]) <= SDPO_FIELDS
    assert actor["policy_loss"] == {"loss_mode": "sdpo"}
    assert actor["self_distillation"]["alpha"] == 1.0
    assert actor["self_distillation"]["teacher_update_rate"] == 0.0
    assert config["trainer"] == {"total_training_steps": 50}
    science = export_run(with_training(study, "{preset: sdpo_science}"), "own-failure")
    assert "Rényi" in science
    assert yaml.safe_load(science)["actor_rollout_ref"]["actor"]["self_distillation"]["distillation_topk"] == 100


def with_hints(study: Study, *hints: dict[str, Any]) -> Study:
    content = yaml.safe_load((study.path / "study.yaml").read_text())
    content["hints"] += hints
    (study.path / "study.yaml").write_text(yaml.safe_dump(content))
    return Study(study.path)


def test_peers_fill_sdpos_solution_slot(study: Study) -> None:
    changed = with_hints(study, {"preset": "all"}, {"name": "peer", "kind": "peer_solution", "self_success": "own"})
    for name, slots, feedback in (("all", "{solution}{feedback}", True), ("peer", "{solution}", False)):
        text = export_run(changed, name)
        found = yaml.safe_load(text)["actor_rollout_ref"]["actor"]["self_distillation"]
        assert set(found) <= SDPO_FIELDS
        assert found["reprompt_template"].startswith("{prompt}" + slots + "\n")
        assert found["include_environment_feedback"] is feedback
        assert found["dont_reprompt_on_self_success"] is (name == "all")
        assert "first correct rollout" in text


def test_hints_that_neither_trainer_can_show_say_so(study: Study) -> None:
    gated = {"name": "gated", "kind": "static", "template": "t", "gating": "failed"}
    changed = with_hints(study, gated, {"name": "keys", "kind": "key_hints"}, {"name": "own", "kind": "own_attempt"})
    for name in ("gated", "keys", "own"):
        with pytest.raises(HintError, match="neither trainer"):
            export_run(changed, name)


def test_a_launched_run_is_exported_with_its_own_seed_and_steps(study: Study, tmp_path: Path) -> None:
    run = run_config(study, tmp_path, RunRequest("alias", 1, "pilot", 12))
    write_run(study.runs_dir / run.spec.key, run)
    config = exported(study, run.spec.key)
    assert (config["seed"], config["max_steps"]) == (1, 12)


@pytest.mark.parametrize(("name", "target"), [("none", None), ("own-failure", "trl"), ("rule", "verl"), ("nope", None)])
def test_what_cannot_be_exported_at_all_is_refused(study: Study, name: str, target: Any) -> None:
    with pytest.raises(HintError):
        export_run(study, name, target)


def test_training_rows_carry_the_hint_that_the_probe_shows(study: Study) -> None:
    rows = export_training_rows(study, "answer")
    assert len(rows) == 24
    for row in rows:
        assert row["privileged_context"] == f"answer {row['answer']}"
        assert row["prompt"][-1]["role"] == "user"
    with pytest.raises(HintError):
        export_training_rows(study, "own-failure")
