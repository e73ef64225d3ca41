"""Records: nothing is lost through JSON, equal content has one hash, and seeds come from names alone."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import predictor.config
from predictor import errors
from predictor.records import (
    ConstraintChecker,
    ConstraintRule,
    Cost,
    Example,
    HintConfig,
    Message,
    Record,
    RunSpec,
    content_hash,
    current_provenance,
    derive_seed,
    resolve_training,
    utc_now,
)
from tests.core.record_strategies import JSON_VALUES, every_record_class, records

assert predictor.config.StudyConfig in every_record_class()

RELAXED = [
    HealthCheck.too_slow,
    HealthCheck.filter_too_much,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
]
QUICK = settings(max_examples=5, deadline=None, suppress_health_check=RELAXED)


@pytest.mark.parametrize("kind", every_record_class(), ids=lambda kind: kind.__name__)
def test_every_record_survives_json_with_nan_and_infinity(kind: type[Record]) -> None:
    @QUICK
    @given(records(kind))
    def survives(record: Record) -> None:
        line = record.to_json()
        assert "\n" not in line
        again = kind.model_validate_json(line)
        assert again.to_json() == line
        assert again.content_hash() == record.content_hash()
        # The way records are stored: through the standard library's JSON.
        assert kind.model_validate_json(json.dumps(json.loads(line), ensure_ascii=False)).to_json() == line

    survives()


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4), st.randoms(use_true_random=False))
def test_the_content_hash_does_not_depend_on_the_order_of_keys(fields: dict[str, Any], order: Any) -> None:
    shuffled = list(fields.items())
    order.shuffle(shuffled)
    assert content_hash(dict(shuffled)) == content_hash(fields)
    assert re.fullmatch("[0-9a-f]{32}", content_hash(fields))


@given(st.lists(st.text() | st.integers(), max_size=4), st.lists(st.text() | st.integers(), max_size=4))
def test_different_names_have_different_seeds_of_63_bits(first: list[str | int], second: list[str | int]) -> None:
    assert 0 <= derive_seed(*first) < 2**63
    assert (derive_seed(*first) == derive_seed(*second)) == (first == second)


def test_a_seed_tells_a_number_from_its_digits_and_a_joint_from_its_parts() -> None:
    assert len({derive_seed(1, "a"), derive_seed("1", "a"), derive_seed("1a"), derive_seed("a", 1)}) == 4


def test_seeds_and_hashes_are_the_same_on_every_machine() -> None:
    assert derive_seed("draw", 0) == 8130209025166264448
    assert content_hash({"b": [1, math.nan], "a": "é"}) == content_hash({"a": "é", "b": [1, math.nan]})
    assert content_hash({"a": 1}) == "2c6b113b8dd15ffbded9860b43eb0c6c"


def test_a_record_cannot_be_changed_and_refuses_unknown_fields() -> None:
    message = Message(role="user", content="hello")
    with pytest.raises(ValidationError, match="frozen"):
        message.content = "bye"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        Message.model_validate({"role": "user", "content": "hello", "name": "x"})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"prompt": "q", "messages": [{"role": "user", "content": "q"}]},
        {"messages": []},
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]},
        {"prompt": " \n"},
        {"prompt": "q", "example_id": ""},
        {"prompt": "q", "metadata": {"x": {1, 2}}},
        {"prompt": "q", "metadata": {"x": b"\xff"}},
        {"prompt": "q", "metadata": {"x": "\ud800"}},
    ],
)
def test_an_example_without_exactly_one_question_or_with_values_json_cannot_say_is_refused(fields: Any) -> None:
    with pytest.raises(ValidationError):
        Example.model_validate({"example_id": "e", **fields})


def test_an_example_knows_its_conversation_question_and_independent_unit() -> None:
    turns = (Message(role="system", content="s"), Message(role="user", content="q"))
    assert Example(example_id="e", messages=turns).question == "q"
    assert Example(example_id="e", messages=turns).conversation == turns
    assert Example(example_id="e", prompt="q").conversation == (Message(role="user", content="q"),)
    assert Example(example_id="e", prompt="q").unit == "e"
    assert Example(example_id="e", prompt="q", cluster_id="passage").unit == "passage"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"kind": "static"}, "needs a `template`"),
        ({"kind": "messages", "template": " "}, "needs a `template`"),
        ({"kind": "none", "template": "x"}, "does not read `template`"),
        ({"kind": "static", "template": "x", "source": "answer"}, "does not read `source`"),
        ({"kind": "answer", "fraction": 0.25}, "does not read `fraction`"),
        ({"kind": "answer", "num_demonstrations": 3}, "does not read `num_demonstrations`"),
        ({"kind": "answer", "placement": "turns"}, "placement `turns`"),
        ({"kind": "demonstrations", "placement": "turns", "template": "{{ hint }}"}, "placement `turns`"),
        ({"kind": "none", "name": "../etc"}, "pattern"),
        ({"kind": "answer", "controls": ["irrelevant", "irrelevant"]}, "names a control twice"),
        ({"kind": "answer", "controls": ["placebo"]}, "there is no control `placebo`"),
        ({"kind": "answer", "controls": ["shuffled"]}, "control `shuffled` is for hints of kind all, feedback"),
        ({"kind": "answer", "control_templates": {"none": "x"}}, "may not redefine none"),
        ({"kind": "answer", "self_success": "own"}, "does not read `self_success`"),
        ({"kind": "none", "gating": "failed"}, "shows nothing that could be gated"),
    ],
)
def test_a_hint_refuses_what_its_kind_would_ignore(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(complaint)):
        HintConfig.model_validate({"name": "h", **fields})


def test_controls_that_make_sense_depend_on_the_kind_of_hint() -> None:
    assert HintConfig(name="h", kind="none").control_kinds == ()
    assert HintConfig(name="h", kind="static", template="t").control_kinds == ("irrelevant",)
    assert HintConfig(name="h", kind="answer").control_kinds == ("other_example", "corrupted", "irrelevant")
    assert HintConfig(name="h", kind="feedback").control_kinds == ("other_example", "shuffled", "irrelevant")
    assert HintConfig(name="h", kind="demonstrations").control_kinds == ("other_example", "irrelevant")
    assert HintConfig(name="h", kind="answer", controls=()).control_kinds == ()
    own = HintConfig(name="h", kind="static", template="t", control_templates={"again": "Try again."})
    assert own.control_kinds == ("irrelevant", "again")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"min_words": 3, "max_words": 2},
        {"min_words": 0},
        {"min_words": None, "forbidden": []},
        {"one_of": ["yes", "."]},
        {"forbidden": [""]},
        {"prefix": ""},
    ],
)
def test_a_rule_that_every_or_no_completion_keeps_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ConstraintRule.model_validate(fields)


@pytest.mark.parametrize("fields", [{}, {"by": "metadata.rule"}, {"rules": {"a": {"max_words": 1}}}])
def test_a_constraint_checker_has_one_source_of_rules(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="either one `rule`"):
        ConstraintChecker.model_validate(fields)


def test_a_run_key_changes_with_every_part_of_its_identity() -> None:
    base = {"model": "m", "family": "f", "task": "t", "hint": "h", "preset": "p", "config_key": "c"}
    spec = RunSpec(**base, num_steps=60, seed=0)
    changed = [spec.model_copy(update={name: value + "x"}) for name, value in base.items()]
    changed += [spec.model_copy(update=part) for part in ({"seed": 1}, {"num_steps": 61}, {"fidelity": "pilot"})]
    assert len({spec.key, *(other.key for other in changed)}) == 10
    assert re.fullmatch("[0-9a-f]{12}", spec.key)


def test_the_cost_of_a_run_is_in_device_hours() -> None:
    assert Cost(train_seconds=1800.0, eval_seconds=900.0, num_devices=4).gpu_hours == pytest.approx(3.0)


def test_an_override_changes_only_what_it_names_and_a_new_kind_replaces_its_section() -> None:
    base = resolve_training("sdpo_science", {})
    assert resolve_training("sdpo_science", {"optimizer": {"lr": "1e-4"}}).optimizer == base.optimizer.model_copy(
        update={"lr": 1e-4}
    )
    assert resolve_training("sdpo_science", {"divergence": {"kind": "forward_kl"}}).divergence.kind == "forward_kl"
    assert resolve_training("sdpo_science", {"support": {"k": 7}}).support.model_dump() == {
        **base.support.model_dump(),
        "k": 7,
    }


def test_each_divergence_names_the_mean_its_student_converges_to() -> None:
    means = {
        kind: resolve_training("miniature", {"divergence": {"kind": kind}}).consensus_mean
        for kind in ("forward_kl", "reverse_kl", "jsd")
    }
    assert means == {"forward_kl": "arithmetic", "reverse_kl": "geometric", "jsd": "jsd"}


def test_provenance_tells_time_versions_and_commit() -> None:
    before = utc_now()
    provenance = current_provenance(config_key="k", engine="e", engine_version="1")
    assert before <= provenance.time_utc <= utc_now()
    assert {"numpy", "scipy"} <= set(provenance.versions)
    assert re.fullmatch("[0-9a-f]{40}|unknown", provenance.git_commit)
    assert (provenance.config_key, provenance.engine, provenance.engine_version) == ("k", "e", "1")


ERRORS = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_says_its_parts_and_crosses_processes(kind: type[errors.GapcastError]) -> None:
    error = kind("it broke", where="here", found="this", expected="that", fix="mend it")
    text = "it broke\n  where: here\n  found: this\n  expected: that\n  do: mend it"
    assert str(error) == text
    assert str(kind("it broke")) == "it broke"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(again), str(again), again.exit_code) == (kind, text, error.exit_code)


def test_exit_codes_tell_wrong_input_from_failure_and_a_spent_budget() -> None:
    codes = {kind.__name__: kind.exit_code for kind in ERRORS}
    assert {name for name, code in codes.items() if code == 4} == {"BudgetError"}
    assert {name for name, code in codes.items() if code == 1} == {
        "GapcastError",
        "EngineError",
        "StoreError",
        "RunError",
    }
    assert set(codes.values()) == {1, 2, 4}
