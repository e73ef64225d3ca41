"""The notebooks run from top to bottom on a stored study, show their figures, and are kept in git without outputs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from tests.planted_study import planted_study

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXAMPLE = ROOT / "data" / "example_study"
FIGURES = {"01_gap": 1, "02_law": 2, "03_plan": 1, "04_validate": 1}


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def kernel(study: Path) -> Iterator[KernelManager]:
    """One kernel for all notebooks, because its imports take longer than any of them; it knows where the study is."""
    environment = os.environ | {"GAPCAST_STUDY": str(study), "PYTHONPATH": str(ROOT)}
    environment.pop("MPLBACKEND", None)
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment, cwd=str(ROOT / "notebooks"))
    yield manager
    manager.shutdown_kernel(now=True)


def executed(path: Path, kernel: KernelManager) -> Any:
    """The notebook after a run without any name that another notebook left behind."""
    notebook = read(path)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    client = NotebookClient(notebook, km=kernel, timeout=300)
    client.execute()
    client.kc.stop_channels()
    return notebook


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped study where there is one, else a planted one."""
    if (EXAMPLE / "study.yaml").exists():
        return EXAMPLE
    return planted_study(tmp_path_factory.mktemp("notebooks") / "study").path


def test_the_four_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(FIGURES)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom_and_shows_its_figures(path: Path, kernel: KernelManager) -> None:
    outputs = [output for cell in executed(path, kernel).cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == FIGURES[path.stem]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code_cells(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_first_cell_says_where_the_study_is_and_cells_hold_almost_no_logic(path: Path) -> None:
    first, *rest = code_cells(path)
    assert 'os.environ.get("GAPCAST_STUDY", "../data/example_study")' in first.source
    for cell in rest:
        assert len(cell.source.splitlines()) <= 12
        assert not {"def", "class", "while", "try:"} & set(cell.source.split())
