"""The page itself: one file, nothing from elsewhere, nothing hostile, readable without sight of it."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.errors import StoreError
from predictor.records import RunRecord
from predictor.report import build_report, write_figures
from predictor.report.page import Cell, Page, Row, Sample, Section, plain, render, table, visible
from predictor.store import Study
from tests.planted_study import Stage, planted_study

ROOT = Path(__file__).parents[2]
ATTACK = (
    "\"><script>alert(1)</script><img src=x onerror=alert(2)>' onmouseover=alert(3) {{ 7*7 }} \x1b[31m\u202e\x00$x^2$"
)
VOID = {"meta", "img", "br", "link", "input", "hr"}


@dataclass
class Parsed(HTMLParser):
    """Every tag with its attributes, the visible text, and whether tags are closed in order."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""
    open: list[str] = field(default_factory=list)
    scope_of_rows: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def parsed(html: str) -> Parsed:
    page = Parsed()
    page.feed(html)
    page.close()
    assert page.open == []
    return page


def page_of(study: Study) -> str:
    return build_report(study, study.path / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def finished_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a finished study."""
    return page_of(planted_study(tmp_path_factory.mktemp("finished") / "study"))


@pytest.mark.parametrize("stage", ["new", "finished"])
def test_the_page_is_one_file_without_scripts_and_without_outside_references(
    tmp_path: Path, finished_page: str, stage: Stage
) -> None:
    html = finished_page if stage == "finished" else page_of(planted_study(tmp_path / "study", stage))
    page = parsed(html)
    assert "http:" not in html
    assert "https:" not in html
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "iframe", "object", "embed", "base", "form", "svg"}
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href"):
                assert (value or "").startswith(("data:image/svg+xml;base64,", "data:text/csv;base64,", "#"))
    policy = next(a for a in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert (policy["content"] or "").startswith("default-src 'none'")


def test_hostile_names_and_rollouts_are_printed_and_never_run(tmp_path: Path, finished_page: str) -> None:
    study = planted_study(tmp_path / "study", family="evil <b onclick=x>$y$</b>", text=ATTACK)
    runs = study.records("runs", RunRecord)
    study.replace("runs", [run.model_copy(update={"reason": ATTACK}) for run in runs])
    html = page_of(study)
    page = parsed(html)
    tame = parsed(finished_page)
    assert sorted(tag for tag, _ in page.tags if tag != "code") == sorted(tag for tag, _ in tame.tags if tag != "code")
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7*7 }}" in page.text
    assert "\\x1b[31m\\u202e\\x00" in page.text
    assert not set(html) & {"\x1b", "\u202e", "\x00"}


def test_figures_have_alternative_texts_and_hold_no_script(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", family="</text><script>alert(1)</script>")
    images = parsed(page_of(study)).named("img")
    assert len(images) == 3
    for image in images:
        assert len(image["alt"] or "") > 40
        svg = base64.b64decode((image["src"] or "").partition("base64,")[2]).decode("utf-8")
        assert svg.lstrip().startswith("<?xml")
        assert "<script" not in svg


def test_tables_have_captions_and_headers_and_the_page_has_a_language(finished_page: str) -> None:
    page = parsed(finished_page)
    assert page.named("html") == [{"lang": "en"}]
    assert any(meta.get("name") == "viewport" for meta in page.named("meta"))
    assert len(page.named("table")) == len(page.named("caption")) > 5
    assert {header.get("scope") for header in page.named("th")} == {"col", "row"}
    assert len(page.named("h1")) == 1
    regions = [attributes for attributes in page.named("div") if attributes.get("role") == "region"]
    assert all(region["aria-label"] for region in regions)
    targets = {attributes["href"] for attributes in page.named("a") if "download" not in attributes}
    assert targets == {f"#{section['id']}" for section in page.named("section")}


def test_equal_studies_give_equal_pages(tmp_path: Path, finished_page: str) -> None:
    assert page_of(planted_study(tmp_path / "study")) == finished_page


def test_sections_stand_in_the_promised_order_after_one_sentence(finished_page: str) -> None:
    order = ["forecast", "figures", "gaps", "diagnostics", "plan", "runs", "costs", "honesty", "origin", "samples"]
    assert re.findall(r'<section id="(\w+)"', finished_page) == order
    assert finished_page.index('class="verdict"') < finished_page.index("<section")
    # Token diagnostics are measured on request only.
    without = re.sub(r'<section id="diagnostics".*?</section>', "", finished_page, flags=re.DOTALL)
    assert 'class="missing"' not in without


def test_a_dirty_tree_is_said_in_the_first_line(tmp_path: Path, finished_page: str) -> None:
    dirty = page_of(planted_study(tmp_path / "study", "probed", dirty=True))
    assert dirty.index('class="warning"') < dirty.index("<h1>")
    assert 'class="warning"' not in finished_page


def test_a_damaged_record_file_is_a_clear_error_and_leaves_the_old_page(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "new")
    before = page_of(study)
    with (study.path / "gaps.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"hint": "torn"}\n')
    with pytest.raises(StoreError, match="damaged"):
        build_report(study, study.path / "report.html")
    assert (study.path / "report.html").read_text(encoding="utf-8") == before


def test_reports_and_plots_load_no_deep_learning_library() -> None:
    code = (
        "import sys, predictor.report, predictor.plots.gaps, predictor.plots.law, predictor.plots.plan;"
        "print([name for name in ('torch', 'transformers', 'vllm') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_row_that_does_not_fit_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        table("pairs", ("a", "b"), [Row((Cell("1"),))])


_HARMLESS = Section(
    "s",
    "Title",
    text=("x",),
    tables=(table("x", ("column",), [Row((plain("x"),))]),),
    samples=(Sample("x", (("x", "x"),)),),
    missing=("x",),
)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_any_text_at_all_comes_out_as_text(text: str) -> None:
    section = Section(
        "s",
        "Title",
        text=(text,),
        tables=(table(text, ("column",), [Row((plain(text),))]),),
        samples=(Sample(text, ((text, text),)),),
        missing=(text,),
    )
    html = render(Page("t", text, text, (section,)))
    html.encode("utf-8")
    page, other = parsed(html), parsed(render(Page("t", "x", "x", (_HARMLESS,))))
    assert [tag for tag, _ in page.tags if tag not in ("p", "code")] == [
        tag for tag, _ in other.tags if tag not in ("p", "code")
    ]
    assert all(c.isprintable() or c in "\n\t" for c in html)


@given(st.text(max_size=30))
def test_visible_text_has_no_control_characters_and_keeps_printable_text(text: str) -> None:
    shown = visible(text)
    assert all(c.isprintable() or c in "\n\t" for c in shown)
    if all(c.isprintable() for c in text):
        assert shown == text


def test_figures_are_written_as_files_and_those_that_cannot_exist_are_left_out(tmp_path: Path) -> None:
    study = planted_study(tmp_path / "study", "probed")
    written = write_figures(study, tmp_path / "figures")
    assert [path.name for path in written] == ["gaps.svg"]
    assert written[0].read_text(encoding="utf-8").startswith("<?xml")
