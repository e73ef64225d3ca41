"""The page as values: sections of sentences, tables, pictures and samples, and the one template that escapes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined, Template


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its main text, and a second, quieter line (an interval, say)."""

    text: str
    detail: str = ""
    tone: str = ""
    """`good`, `bad`, `muted` or nothing; never the only carrier of a meaning."""
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One table row; the first cell is its header."""

    cells: tuple[Cell, ...]
    is_control: bool = False
    """Controls are set back below their hint config."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a caption, column headers, and one line for each column that needs explaining."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure inside the page: a data URI, the text that stands for it, and its caption."""

    uri: str
    alt: str
    caption: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One question with what was shown and answered: labelled texts, printed as they are."""

    title: str
    parts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Download:
    """A file that the page carries in itself."""

    name: str
    uri: str


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page; `missing` says why it has no content and what would make it."""

    ident: str
    title: str
    text: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    samples: tuple[Sample, ...] = ()
    downloads: tuple[Download, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page."""

    title: str
    warning: str
    """First line of the page: the code had uncommitted changes; empty when it had none."""
    verdict: str
    sections: tuple[Section, ...]


def render(page: Page) -> str:
    """One HTML document without scripts or outside references; every text is escaped and shows control characters."""
    return _template().render(page=page, style=_resource("page.css"))


def plain(text: str, *, tone: str = "") -> Cell:
    """A cell of words, set left."""
    return Cell(text, tone=tone, numeric=False)


def table(caption: str, columns: Sequence[str], rows: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """A table whose rows all have one cell for each column; ValueError otherwise."""
    if any(len(row.cells) != len(columns) for row in rows):
        raise ValueError(f"table `{caption}` has rows that do not fit its {len(columns)} columns")
    return Table(caption, tuple(columns), tuple(rows), tuple(notes))


def visible(text: str) -> str:
    """The text with control, format and other unprintable characters as escapes; line breaks and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in text)


def _escape(character: str) -> str:
    # Printed like Python writes them, which is how people search for them.
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _shown(value: Any) -> Any:
    """What every expression of the template passes through before it is escaped."""
    # Texts marked safe are the style sheet alone.
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@lru_cache(maxsize=1)
def _template() -> Template:
    # Escaping is on for every expression, and an unknown name is an error instead of an empty place.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_resource("page.html.jinja"))


def _resource(name: str) -> str:
    return resources.files("predictor.report").joinpath(name).read_text(encoding="utf-8")
