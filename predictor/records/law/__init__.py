"""Records of the law: specification, points, lines, held-out errors and the fit itself."""

from predictor.records.law.fit import LawFit
from predictor.records.law.line import Coefficient, FamilyLaw, HeldOutErrors, Prediction, VarianceShares
from predictor.records.law.spec import (
    ExtraName,
    GapName,
    GuardName,
    LawForm,
    LawGuard,
    LawMethod,
    LawPoint,
    LawSpec,
    LeftOut,
    Response,
    Severity,
)

__all__ = [
    "Coefficient",
    "ExtraName",
    "FamilyLaw",
    "GapName",
    "GuardName",
    "HeldOutErrors",
    "LawFit",
    "LawForm",
    "LawGuard",
    "LawMethod",
    "LawPoint",
    "LawSpec",
    "LeftOut",
    "Prediction",
    "Response",
    "Severity",
    "VarianceShares",
]
