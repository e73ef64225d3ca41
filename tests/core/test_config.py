"""study.yaml: every mistake is one clear error that names the key, and nothing is guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.config import STUDY_FILE, StudyConfig, load_study_config, parse_study_config
from predictor.errors import InputError, StudyError

BASE: dict[str, Any] = {
    "model": {"path": "m"},
    "task": {"source": "jsonl", "path": "e.jsonl"},
    "hints": [{"name": "none", "kind": "none"}, {"name": "rule", "kind": "static", "template": "Be brief."}],
    "plan": {"budget": {"seconds": 60}},
}


def study(**sections: Any) -> str:
    """YAML of a good study with some sections replaced; `task__checker` reaches one level down."""
    content = {**BASE}
    for name, value in sections.items():
        outer, _, inner = name.partition("__")
        content[outer] = {**content.get(outer, {}), inner: value} if inner else value
    return yaml.safe_dump(content, sort_keys=False)


def parsed(text: str) -> StudyConfig:
    return parse_study_config(text, where="study.yaml")


def refusal(text: str) -> StudyError:
    with pytest.raises(StudyError) as caught:
        parsed(text)
    assert caught.value.exit_code == 2
    assert caught.value.where
    return caught.value


def test_a_small_study_takes_the_documented_defaults() -> None:
    config = parsed(study())
    assert config.probe.rollouts == 8
    assert config.sampling.temperature == 1.0
    assert config.training.preset == "sdpo_lcb"
    assert config.plan.budget.total_seconds == 60
    assert parsed(study(plan={"budget": {"gpu_hours": 2}})).plan.budget.total_seconds == 7200


@pytest.mark.parametrize(
    ("text", "where", "nearest"),
    [
        (study(modle={"path": "m"}), "modle", "model"),
        (study(model={"path": "m", "famly": "x"}), "model.famly", "family"),
        (study(task__chekcer={"kind": "exact"}), "task.chekcer", "checker"),
        (study(task__checker={"kind": "exact", "case_sensitiv": True}), "task.checker.case_sensitiv", "case_sensitive"),
        (study(task__checker={"kind": "regex", "patern": "x"}), "task.checker.patern", "pattern"),
        (study(task__checker={"kind": "numeric", "tolerence": 1}), "task.checker.tolerence", "tolerance"),
        (
            study(task__checker={"kind": "constraint", "rule": {"max_word": 1}}),
            "task.checker.rule.max_word",
            "max_words",
        ),
        (
            study(task__checker={"kind": "constraint", "by": "metadata.r", "rules": {"exact": {"prefx": "a"}}}),
            "task.checker.rules.exact.prefx",
            "prefix",
        ),
        (study(sampling={"temprature": 1}), "sampling.temprature", "temperature"),
        (study(sampling={"thinking": {"studnet": True}}), "sampling.thinking.studnet", "student"),
        (study(probe={"rolouts": 8}), "probe.rolouts", "rollouts"),
        (study(hints=[{"name": "a", "kind": "none"}, {"name": "b", "knd": "none"}]), "hints.1.knd", "kind"),
        (study(training={"num_step": 1}), "training.num_step", "num_steps"),
        (study(law={"predicter": "gap"}), "law.predicter", "predictor"),
        (study(plan__objectiv="best"), "plan.objectiv", "objective"),
        (study(plan={"budget": {"gpu_hour": 1}}), "plan.budget.gpu_hour", "gpu_hours"),
        (
            study(training={"overrides": {"optimizer": {"weight_decy": 0.1}}}),
            "training.overrides.optimizer.weight_decy",
            "weight_decay",
        ),
        (
            study(training={"overrides": {"divergence": {"kind": "jsd", "alfa": 0.5}}}),
            "training.overrides.divergence.alfa",
            "alpha",
        ),
        (study(training={"overrides": {"teachr": {"kind": "ema"}}}), "training.overrides.teachr", "teacher"),
    ],
)
def test_an_unknown_key_names_the_nearest_valid_one(text: str, where: str, nearest: str) -> None:
    """S6: an unknown key is an error, never ignored."""
    found = refusal(text).found
    assert found.startswith(f"{where}: unknown key; did you mean `{nearest}`?"), found


def test_a_key_like_no_other_lists_the_valid_ones() -> None:
    assert "zzz: unknown key; valid keys: gpu_hours, seconds" in refusal(study(plan={"budget": {"zzz": 1}})).found


def test_several_errors_are_told_at_once_unknown_keys_first_and_without_their_consequences() -> None:
    text = study(probe={"rollouts": 0}, hints=[{"name": "a", "knd": "none"}], sampling={"top_p": 2, "topp": 1})
    error = refusal(text)
    told = error.found.split("; ")
    places = [sentence.split(":")[0] for sentence in told if ":" in sentence]
    assert places == ["sampling.topp", "hints.0.knd", "sampling.top_p", "probe.rollouts", "hints.0.kind"]
    assert "5 error(s)" in error.what


def test_a_bad_hint_is_one_error_and_not_also_a_list_that_is_too_short() -> None:
    error = refusal(study(hints=[{"name": "a", "kind": "sttic"}]))
    assert "hints.0.kind" in error.found
    assert "at least 1 item" not in str(error)
    assert "at least 1 item" in str(refusal(study(hints=[])))


def test_more_errors_than_fit_are_counted() -> None:
    assert "(and 14 more)" in refusal(study(**{f"unknown{i}": 1 for i in range(20)})).found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (study(probe={"rollouts": "many"}), "probe.rollouts"),
        (study(probe={"rollouts": True}), "probe.rollouts: should be a number (found true)"),
        (study(sampling={"temperature": False}), "sampling.temperature: should be a number (found false)"),
        (study(training={"seeds": [0, True]}), "training.seeds.1: should be a number (found true)"),
        (study(training={"overrides": {"optimizer": {"lr": True}}}), "training.overrides.optimizer.lr: should be"),
        (study(training={"seeds": [1, 1]}), "training: `seeds` holds a seed twice"),
        (study(training={"seeds": []}), "training.seeds"),
        (study(training={"overrides": {"optimizer": {"lr": -1}}}), "training.overrides.optimizer.lr"),
        (study(training={"overrides": {"optimizer": 3}}), "training.overrides.optimizer: should be a mapping"),
        (study(sampling={"temperature": float("nan")}), "sampling.temperature"),
        (study(plan={"budget": {"seconds": float("inf")}}), "plan.budget.seconds"),
        (study(plan={"budget": {"seconds": 1, "gpu_hours": 1}}), "exactly one of `gpu_hours` and `seconds`"),
        (study(plan={"budget": {}}), "exactly one of `gpu_hours` and `seconds`"),
        (study(task__checker={"kind": "numeric", "tolerance": float("inf")}), "task.checker.tolerance"),
        (study(task__checker={"kind": "exakt"}), "task.checker: Input tag 'exakt'"),
        (study(task__checker={}), "task.checker: `kind` is missing"),
        (study(task__checker="exact"), "task.checker: should be a mapping (found 'exact')"),
        (study(task__checker={"kind": "constraint", "rule": {}}), "task.checker.rule: a rule without parts"),
        (study(hints=[BASE["hints"][0], BASE["hints"][0]]), "hint names occur more than once: none"),
        (
            study(
                hints=[{"name": "mine", "kind": "own_attempt"}], probe={"consensus_hints": 8, "consensus_examples": 8}
            ),
            "hint `mine` is made from rollouts",
        ),
        (study(hints={"a": 1}), "hints: should be a list"),
        (study(model=None), "model: should be a mapping (found None)"),
        ("model: {path: m}\n", "task: is missing"),
        ("5: x\n" + study(), "5: Keys should be strings"),
        ("", "found: nothing"),
        ("- a\n- b\n", "found: list"),
        ("just words", "found: str"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_found(text: str, told: str) -> None:
    assert told in str(refusal(text))


def test_an_unknown_preset_names_the_known_ones() -> None:
    assert "miniature, opsd_math" in refusal(study(training={"preset": "miniture"})).expected


@pytest.mark.parametrize(
    "text",
    [
        study() + "plan: {budget: {seconds: 2}}\n",
        study().replace("path: m\n", "path: m\n  path: n\n"),
        study() + "probe: {rollouts: 1, 'rollouts': 2}\n",
    ],
)
def test_a_key_given_twice_is_refused_at_every_level(text: str) -> None:
    assert "key given twice" in refusal(text).found


def test_a_key_that_overrides_a_merged_one_is_not_given_twice() -> None:
    text = study(hints=[]).replace(
        "hints: []",
        "hints:\n- &a {name: a, kind: static, template: t}\n- &b {<<: *a, name: b}\n- {<<: *b, name: c, template: u}",
    )
    assert [(hint.name, hint.template) for hint in parsed(text).hints] == [("a", "t"), ("b", "t"), ("c", "u")]


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['exit 3']",
        "!!python/name:os.system",
        "!!binary gIGCgw==",
        "!!set {a, b}",
        "!!timestamp 2024-01-01",
        "&a [*a]",
        "&a {x: *a}",
        "1" * 5000,
        "[" * 600 + "]" * 600,
        '"\\ud800"',
        "[a, b",
        "\t- x",
        "? [a, b]\n    : c",
        "\x00",
    ],
    ids=lambda value: value[:24].encode("unicode_escape").decode(),
)
def test_yaml_that_is_unsafe_endless_or_broken_is_one_error(value: str) -> None:
    error = refusal(study(task__options={"rule": "VALUE"}).replace("VALUE", value))
    assert len(str(error)) < 600


def test_aliases_that_blow_up_are_refused_before_they_are_written_out() -> None:
    levels = ["  l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"  l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 12)]
    text = study(task__options="OPTIONS").replace("options: OPTIONS", "options:\n  " + "\n  ".join(levels))
    assert "aliases make the file too large" in refusal(text).found


def test_half_a_surrogate_pair_is_refused_wherever_it_stands() -> None:
    text = study(hints=[{"name": "a", "kind": "static", "template": "HALF"}]).replace("HALF", '"\\ud83d"')
    assert "JSON cannot say" in refusal(text).found


def test_a_date_is_text_because_json_has_no_dates() -> None:
    assert parsed(study().replace("path: m", "path: 2024-13-01")).model.path == "2024-13-01"


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=80) | st.text("{}[]&*!|>-:#,? \n\t'\"ab<~1", max_size=80))
def test_no_text_whatever_ends_in_anything_but_one_input_error(text: str) -> None:
    where = "study.yaml"
    try:
        parsed(text)
    except InputError as error:
        where = error.where
    assert where == "study.yaml"


def test_the_key_follows_the_content_and_the_measurement_key_only_what_rollouts_depend_on() -> None:
    base = parsed(study())
    cheaper = parsed(study(plan={"budget": {"seconds": 61}}))
    longer = parsed(study(sampling={"max_tokens": 65}))
    assert parsed("# a comment\n" + study()).key == base.key
    assert len({base.key, cheaper.key, longer.key}) == 3
    assert base.measurement_key == cheaper.measurement_key != longer.measurement_key


def test_a_directory_that_is_no_study_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="not a study directory") as caught:
        load_study_config(tmp_path / "absent")
    assert "gapcast init" in caught.value.fix


def test_a_study_file_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    (tmp_path / STUDY_FILE).write_bytes(b"model: \xff\xfe")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study_config(tmp_path)
    (tmp_path / "a file").write_text("x")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study_config(tmp_path / "a file")


def test_a_study_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / STUDY_FILE).write_text(study(), encoding="utf-8-sig")
    assert load_study_config(tmp_path).key == parsed(study()).key
