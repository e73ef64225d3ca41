"""Engines behind one protocol; importing this package loads neither torch nor transformers nor vllm."""

from predictor.engines.base import (
    Completion,
    ConsensusEngine,
    ConsensusRequest,
    Engine,
    Ids,
    OnDone,
    Panel,
    PanelMean,
    PanelScore,
    Request,
    ScoreRequest,
    TokenContrast,
    check_lengths,
    check_scores,
)
from predictor.engines.choose import open_consensus_engine, open_engine
from predictor.engines.model_files import load_tokenizer
from predictor.engines.models import embedded_models, resolve_model

__all__ = [
    "Completion",
    "ConsensusEngine",
    "ConsensusRequest",
    "Engine",
    "Ids",
    "OnDone",
    "Panel",
    "PanelMean",
    "PanelScore",
    "Request",
    "ScoreRequest",
    "TokenContrast",
    "check_lengths",
    "check_scores",
    "embedded_models",
    "load_tokenizer",
    "open_consensus_engine",
    "open_engine",
    "resolve_model",
]
