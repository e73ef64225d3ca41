"""Templates and data are hostile: an attack is one HintError, at once, and data stays data."""

from __future__ import annotations

import gc
import re
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.errors import HintError
from predictor.fields import (
    available_fields,
    compile_template,
    cpu_deadline,
    lookup_field,
    render_template,
    template_names,
)
from predictor.records import Example

EXAMPLE = Example(
    example_id="e1",
    prompt="What is 2 + 2?",
    answer="4",
    metadata={
        "values": "the field, not the method",
        "items": ["a", "b", "c"],
        "trace": {"first": "step one"},
        "count": 3,
        "nothing": None,
        "blank": " ",
        "many": list(range(400)),
    },
)
ATTACKS = [
    "{{ ''.__class__.__mro__ }}",
    "{{ example_id.__init__.__globals__ }}",
    "{{ metadata.__class__ }}",
    "{{ metadata['__class__'] }}",
    "{{ question['upper'] }}",
    "{{ question.upper }}",
    "{{ question.upper() }}",
    "{{ metadata.items.pop() }}",
    "{{ '{0.__class__}'.format(question) }}",
    "{{ question|attr('__class__') }}",
    "{{ [question]|map('upper')|list }}",
    "{{ self.__init__ }}",
    "{{ self }}",
    "{{ cycler }}",
    "{{ lipsum() }}",
    "{{ namespace(a=1) }}",
    "{{ range(10**9)|list }}",
    "{{ 'a' * 10**9 }}",
    "{{ 'a' * 10**10 }}",
    "{{ [0] * 10**9 }}",
    "{{ 10**10**10 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:1000000000d}'.format(1) }}",
    "{{ 'a'|center(1000000000) }}",
    "{{ 'a'|indent(1000000000) }}",
    "{{ 'aaaaaaaaaa'" + "|replace('a', 'aaaaaaaaaa')" * 8 + " }}",
    "{{ 'aaaaaaaaaa'" + "|join('aaaaaaaaaa')" * 8 + " }}",
    "{% set a = question ~ question %}{{ a }}",
    "{% set ns = namespace(s='a') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for x in metadata.items recursive %}{{ loop(metadata.items) }}{% endfor %}",
    "{% include 'study.yaml' %}",
    "{% import 'os' as os %}",
    "{% extends 'x' %}",
    "{% call question() %}{% endcall %}",
    "{% filter upper %}x{% endfilter %}",
    "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "{% if 1 %}" * 120 + "{% endif %}" * 120,
    "{{ question",
    "{% if %}",
    "{{ question|nonsense }}",
    "{{ question is nonsense }}",
]


@pytest.fixture
def _little_memory() -> Iterator[None]:
    """At most 2 GiB more than now, so that an attack on memory fails instead of hurting the machine."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("template", ATTACKS, ids=lambda text: text[:50])
def test_an_attack_on_a_template_is_one_hint_error_at_once(template: str) -> None:
    started = time.process_time()
    with pytest.raises(HintError) as caught:
        render_template(template, EXAMPLE)
    assert time.process_time() - started < 2.0
    assert not isinstance(caught.value.__cause__, HintError)
    assert str(caught.value).count("where:") == 1
    assert len(str(caught.value)) < 800


def test_a_loop_without_end_is_stopped_after_seconds_of_computing() -> None:
    nested = "{% for a in metadata.many %}" * 6 + "{% endfor %}" * 6
    started = time.process_time()
    with pytest.raises(HintError, match="failed on example `e1`") as caught:
        render_template(nested, EXAMPLE)
    assert "processor time" in caught.value.found
    assert time.process_time() - started < 4.0


def test_a_hint_that_grows_without_end_is_stopped_by_its_length() -> None:
    with pytest.raises(HintError) as caught:
        render_template(
            "{% for a in metadata.many %}{% for b in metadata.many %}{{ question }}" + "{% endfor %}" * 2, EXAMPLE
        )
    assert "1,000,000 characters" in caught.value.found


@given(st.text(max_size=60))
def test_templates_inside_data_stay_data(text: str) -> None:
    for payload in (text, "{{ 7 * 7 }}" + text, text + "{% for x in y %}", "{# " + text):
        example = Example(example_id="e", prompt="q" + payload, answer=payload, metadata={"x": payload})
        assert render_template("{{ question }}|{{ metadata.x }}", example) == f"q{payload}|{payload}"


@given(st.text(alphabet=st.characters(exclude_characters="{}%#", exclude_categories=("Cs",)), max_size=60))
def test_a_text_without_braces_renders_to_itself_control_characters_and_all(text: str) -> None:
    assert render_template(text, EXAMPLE) == re.sub("\r\n?", "\n", text)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ question }} is {{ answer }}", "What is 2 + 2? is 4"),
        ("{{ metadata.values }}", "the field, not the method"),
        ("{{ metadata['trace']['first'] }}", "step one"),
        ("{{ metadata.items[0] }}{{ metadata.items[-1] }}", "ac"),
        ("{% for x in metadata.items %}{{ loop.index }}{{ x }}{{ ' ' if not loop.last }}{% endfor %}", "1a 2b 3c"),
        ("{{ metadata.items|join(', ')|upper }}", "A, B, C"),
        ("{{ question|replace('2', 'two')|trim }}", "What is two + two?"),
        ("{{ question[:4] ~ '…' }}", "What…"),
        ("{% if metadata.count > 2 and answer is defined %}many{% else %}few{% endif %}", "many"),
        ("{{ solution|default('none given') }}", "none given"),
        ("{{ metadata.nothing or 'unknown' }}", "unknown"),
        ("{{ metadata.count + 1 }}", "4"),
        ("two lines\n", "two lines\n"),
        ("{# a comment #}", ""),
    ],
)
def test_what_hints_need_of_a_template_works(template: str, expected: str) -> None:
    assert render_template(template, EXAMPLE) == expected


@pytest.mark.parametrize("template", ["{{ solution }}", "{{ metadata.rule }}", "{{ metadata.nothing }}", "{{ none }}"])
def test_a_field_that_is_missing_or_null_is_named_with_the_example_and_its_fields(template: str) -> None:
    with pytest.raises(HintError) as caught:
        render_template(template, EXAMPLE, hint="h")
    assert "example `e1` lacks" in caught.value.what
    assert "metadata.values" in caught.value.found
    assert "hint" in caught.value.found


@pytest.mark.parametrize(
    "template", ["{{ metadata.count|join }}", "{{ question|truncate(1) }}", "{{ 5|first }}", "{{ question - 1 }}"]
)
def test_a_filter_on_the_wrong_kind_of_value_is_one_hint_error(template: str) -> None:
    with pytest.raises(HintError, match="failed on example"):
        render_template(template, EXAMPLE)


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(HintError, match="not valid Jinja") as caught:
        compile_template("fine\n{{ broken")
    assert caught.value.where.startswith("line 2")


def test_the_names_a_template_reads_are_known_without_rendering() -> None:
    assert template_names("{{ a }}{% for b in c %}{{ b.d }}{% endfor %}") == {"a", "c"}
    assert template_names("plain") == set()


@pytest.mark.parametrize(
    "field",
    ["solution", "metadata.rule", "metadata.nothing", "metadata.blank", "answer.x", "metadata.trace.second", ""],
)
def test_a_lookup_of_a_missing_or_empty_field_names_the_fields_there_are(field: str) -> None:
    with pytest.raises(HintError, match="has no field") as caught:
        lookup_field(EXAMPLE, field)
    assert "metadata.trace" in caught.value.found


def test_a_lookup_follows_dots_into_metadata() -> None:
    assert lookup_field(EXAMPLE, "answer") == "4"
    assert lookup_field(EXAMPLE, "metadata.trace.first") == "step one"
    assert lookup_field(EXAMPLE, "metadata.count") == 3
    assert "solution" not in available_fields(EXAMPLE)


def test_a_deadline_stops_a_pattern_that_backtracks_and_restores_the_signal() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(TimeoutError), cpu_deadline(0.1):
        re.search("(a+)+$", "a" * 40 + "b")
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def make_garbage(seconds: float) -> None:
    """Lists that hold themselves, which only the garbage collector frees, for so much processor time."""
    started = time.process_time()
    while time.process_time() - started < seconds:
        for cycle in [list[object]() for _ in range(2_000)]:
            cycle.append(cycle)


def test_a_deadline_is_not_lost_in_the_callback_of_a_garbage_collection() -> None:
    def slow_callback(_phase: str, _info: dict[str, int]) -> None:
        # Nearly all processor time passes here whenever garbage is collected, so the signal would come here.
        started = time.process_time()
        while time.process_time() - started < 0.02:
            pass

    gc.callbacks.append(slow_callback)
    try:
        started = time.process_time()
        with pytest.raises(TimeoutError), cpu_deadline(0.1):
            make_garbage(5.0)
        assert time.process_time() - started < 2.0
    finally:
        gc.callbacks.remove(slow_callback)
    assert gc.isenabled()


def test_a_deadline_that_is_kept_changes_nothing() -> None:
    with cpu_deadline(60.0):
        assert re.search("a+$", "aaa") is not None
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_outside_the_main_thread_there_is_no_deadline_but_the_work_is_done() -> None:
    results: list[Any] = []

    def work() -> None:
        with cpu_deadline(0.001):
            results.append(render_template("{{ question }}", EXAMPLE))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=10)
    assert results == ["What is 2 + 2?"]


@settings(max_examples=60, deadline=None)
@given(st.text("{}%#|.()[]'\"a1 *+~-=,\nforendifquestionmetadata", max_size=50))
def test_no_template_whatever_raises_anything_but_a_hint_error(template: str) -> None:
    try:
        rendered = render_template(template, EXAMPLE)
    except HintError:
        rendered = ""
    assert len(rendered) <= 1_000_000
