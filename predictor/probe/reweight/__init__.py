"""The consensus gap from rollouts that are stored already: scored under the consensus policy, then reweighted."""

from predictor.probe.reweight.collect import ScoreTask, collect_scores, proposal_arms, score_tasks
from predictor.probe.reweight.estimate import Reweighter

__all__ = ["Reweighter", "ScoreTask", "collect_scores", "proposal_arms", "score_tasks"]
