"""An engine whose next-token law is known in closed form: planted truths for tests, and dry runs without a model.

Its "weights" are a table in `scripted.json`: the first rule whose texts all stand in the prompt says with what
probability each whole completion is given. Every accuracy of a study on it is therefore known exactly.
"""

from predictor.engines.scripted.engine import ScriptedEngine
from predictor.engines.scripted.laws import Law, mean_probs
from predictor.engines.scripted.table import TABLE_FILE, ScriptedRule, ScriptedTable, TableLaw, plant

__all__ = ["TABLE_FILE", "Law", "ScriptedEngine", "ScriptedRule", "ScriptedTable", "TableLaw", "mean_probs", "plant"]
