"""What CONTRIBUTING.md asks of the code, as far as it can be counted."""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Modules whose job is to speak to a person or to another process.
SPEAKING = {"cli", "__main__", "telemetry", "progress"}
DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma:|supervised:|ruff:|mypy:)")
SPEECH = re.compile(r"print|pprint(\.pprint)?|rich\.print|(sys\.)?(stdout|stderr)\.write")
# Split, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(TO" + "DO|FIX" + "ME|X" + "XX)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef
OWNERS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def span(node: ast.stmt) -> range:
    """Line numbers from a statement's first line to its last."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


@dataclass(frozen=True)
class Source:
    """One file, with what the rules ask about it."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text)))

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, Function)]

    @cached_property
    def mains(self) -> set[int]:
        """Lines of `main`, the one function of a library module that may speak."""
        return {line for f in self.functions if f.name == "main" for line in span(f)}

    @cached_property
    def documentation(self) -> set[int]:
        """Lines of docstrings, and of the explanations below fields."""
        texts = [n for n in self.nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
        return {line for n in texts if isinstance(n.value.value, str) for line in span(n)}

    @cached_property
    def docstrings(self) -> set[int]:
        """Lines of docstrings of modules, classes and functions."""
        owners = [n for n in self.nodes if isinstance(n, OWNERS) and ast.get_docstring(n) is not None]
        return {line for owner in owners for line in span(owner.body[0])}

    @cached_property
    def comments(self) -> set[int]:
        """Lines with a comment, or with an explanation below a field; directives for tools are none."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        written = {t.start[0] for t in tokens if t.type == tokenize.COMMENT and not DIRECTIVE.match(t.string)}
        return written | (self.documentation - self.docstrings)

    @cached_property
    def num_code_lines(self) -> int:
        """Lines that are neither blank nor documentation nor a comment alone."""
        written = {n for n, line in enumerate(self.lines, 1) if line.strip() and line.lstrip()[0] != "#"}
        return len(written - self.documentation)

    def num_lines(self, function: Function) -> int:
        """Lines of a function, without documentation."""
        return len(set(span(function)) - self.documentation)

    def at(self, line: int, what: str = "") -> str:
        return f"{self.path.relative_to(ROOT)}:{line} {what}".strip()


LIBRARY = [Source(path) for package in ("predictor", "trainer") for path in (ROOT / package).rglob("*.py")]
TESTS = [Source(path) for path in (ROOT / "tests").rglob("*.py")]


def untyped(function: Function) -> list[str]:
    """Arguments without annotation (`self` and `cls` apart), and `return` when that has none."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    names = [a.arg for a in every if a is not None and a.annotation is None and a.arg not in ("self", "cls")]
    return names + ["return"] * (function.returns is None)


def undocumented(body: Iterable[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Public classes, functions and methods (not those inside functions) that lack a docstring."""
    for node in body:
        if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node) and "overload" not in map(ast.unparse, node.decorator_list):
            yield node.lineno, node.name
        if isinstance(node, ast.ClassDef):
            yield from undocumented(node.body)


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches everything: no type, or `Exception` or `BaseException`, alone or in a tuple."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind) in ("Exception", "BaseException") for kind in caught)


def test_a_file_is_read_in_one_sitting() -> None:
    sizes = {source.at(len(source.lines)) for source in LIBRARY + TESTS if len(source.lines) > 300}
    assert not sizes, "split the module into a package of the same name"


def test_functions_fit_on_a_screen() -> None:
    sizes = {source.at(f.lineno, f.name): source.num_lines(f) for source in LIBRARY for f in source.functions}
    ordered = sorted(sizes.values())
    assert not {place: size for place, size in sizes.items() if size > 80}
    assert ordered[int(0.95 * len(ordered))] <= 40
    assert statistics.median(ordered) <= 12


def test_everything_is_typed() -> None:
    missing = [(s.at(f.lineno, f.name), untyped(f)) for s in LIBRARY for f in s.functions if untyped(f)]
    assert not missing


def test_everything_public_says_what_it_does() -> None:
    modules = [s.at(1) for s in LIBRARY if not ast.get_docstring(ast.parse(s.text))]
    assert not modules
    silent = [s.at(*found) for s in LIBRARY for found in undocumented(ast.parse(s.text).body)]
    assert not silent


def test_no_except_swallows_everything() -> None:
    handlers = [(s, node) for s in LIBRARY for node in s.nodes if isinstance(node, ast.ExceptHandler)]
    broad = [s.at(n.lineno) for s, n in handlers if is_broad(n) and "# supervised:" not in s.lines[n.lineno - 1]]
    assert not broad, "name the exceptions, or mark the supervised boundary with `# supervised: <reason>`"


def test_nothing_is_left_unfinished() -> None:
    notes = [s.at(n) for s in LIBRARY + TESTS for n, line in enumerate(s.lines, 1) if UNFINISHED.search(line)]
    assert not notes, "an unfinished thing is an issue, not a comment"


def test_library_modules_do_not_print() -> None:
    quiet = [s for s in LIBRARY if not SPEAKING & {*s.path.relative_to(ROOT).parts, s.path.stem}]
    calls = [(s, node) for s in quiet for node in s.nodes if isinstance(node, ast.Call) and node.lineno not in s.mains]
    assert not [s.at(call.lineno) for s, call in calls if SPEECH.fullmatch(ast.unparse(call.func))]


def test_a_module_is_named_after_what_it_holds() -> None:
    empty_names = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert not [source.at(1) for source in LIBRARY if source.path.stem in empty_names]


def test_comments_are_neither_missing_nor_noise() -> None:
    ratio = sum(len(s.comments) for s in LIBRARY) / sum(s.num_code_lines for s in LIBRARY)
    assert 0.04 <= ratio <= 0.12, f"{ratio:.3f} comment lines for each line of code"


def test_there_is_much_test_beside_the_code() -> None:
    # Without docstrings on either side: a third of the library's lines are explanations, which need no test.
    code, tests = (sum(source.num_code_lines for source in group) for group in (LIBRARY, TESTS))
    assert tests >= 0.6 * code, f"{tests} lines of tests for {code} lines of code"
