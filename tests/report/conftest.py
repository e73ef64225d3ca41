"""A finished study and what its report is made of, built once for a module."""

from __future__ import annotations

import pytest

from predictor.report import Evidence, read_evidence
from predictor.store import Study
from tests.planted_study import planted_study


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return planted_study(tmp_path_factory.mktemp("finished") / "study")


@pytest.fixture(scope="module")
def evidence(finished: Study) -> Evidence:
    return read_evidence(finished)
