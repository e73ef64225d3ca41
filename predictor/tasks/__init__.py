"""Task sources: where examples come from, split into training and held-out ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from predictor.errors import DataError
from predictor.records import Example, TaskConfig, derive_seed
from predictor.tasks.rows import parse_examples, read_jsonl

__all__ = ["TaskData", "load_examples"]


@dataclass(frozen=True, slots=True)
class TaskData:
    """The examples that a study uses, in a fixed order."""

    train: tuple[Example, ...]
    eval: tuple[Example, ...]


def load_examples(task: TaskConfig, base_dir: Path) -> TaskData:
    """The task's examples; DataError for missing files, bad rows, repeated ids, or fewer rows than asked for."""
    examples = _all_examples(task, base_dir)
    repeated = [name for name, count in Counter(e.example_id for e in examples).items() if count > 1]
    if repeated:
        raise DataError(
            f"{len(repeated)} example ids occur more than once",
            where=task.path or task.source,
            found=", ".join(repeated[:5]),
            expected="every example_id once",
            fix="give each row its own example_id",
        )
    return TaskData(
        train=_draw(examples, "train", task.train_examples, task),
        eval=_draw(examples, "eval", task.eval_examples, task),
    )


def _all_examples(task: TaskConfig, base_dir: Path) -> list[Example]:
    if task.source == "strings":
        return _string_world(task)
    if task.path is None:
        raise DataError("a jsonl task needs a path", where="task.path", expected="a file relative to the study")
    return read_jsonl(base_dir / task.path)


def _string_world(task: TaskConfig) -> list[Example]:
    from predictor.tasks.strings import RULES, string_examples

    rule, hidden_rules = task.options.get("rule"), task.options.get("hidden_rules", [])
    hidden = hidden_rules if isinstance(hidden_rules, list) else [hidden_rules]
    named = [*hidden, *([] if rule is None else [rule])]
    unknown = [name for name in named if not isinstance(name, str) or name not in RULES]
    if unknown or set(task.options) - {"rule", "hidden_rules"} or (rule is None) == (not hidden):
        raise DataError(
            "the string world's options are not valid",
            where="task.options",
            found=repr(task.options),
            expected=f"`rule`, or `hidden_rules` (a list), from {', '.join(RULES)}",
        )
    try:
        rows = string_examples(
            rule=rule,
            hidden_rules=tuple(hidden),
            num_train=task.train_examples,
            num_eval=task.eval_examples,
            seed=task.seed,
        )
    except ValueError as error:
        raise DataError("the string world cannot give these examples", where="task", found=str(error)) from None
    return parse_examples(enumerate(rows, start=1), where="string world")


def _draw(examples: Sequence[Example], split: str, count: int, task: TaskConfig) -> tuple[Example, ...]:
    """`count` examples of a split in the order of their ids' hashes, which further rows do not change."""
    rows = [example for example in examples if example.split == split]
    if len(rows) < count:
        raise DataError(
            f"the task has too few {split} examples",
            where=task.path or task.source,
            found=f"{len(rows)} with split `{split}`",
            expected=f"at least task.{split}_examples = {count}",
            fix=f"lower task.{split}_examples, or add rows with split `{split}`",
        )
    rows.sort(key=lambda example: derive_seed(task.seed, "draw", example.example_id))
    return tuple(rows[:count])
