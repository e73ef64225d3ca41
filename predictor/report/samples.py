"""A few stored rollouts beside the question and the hint they were made from; all of it is shown as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from predictor.contexts import Attempt, ContextBuilder
from predictor.errors import GapcastError, StoreError
from predictor.probe.arms import Arm, ArmFactory
from predictor.records import PEER_KINDS, Example, HintConfig, RunRecord, Verdict
from predictor.report.evidence import Evidence
from predictor.report.page import Sample, Section
from predictor.report.wording import count
from predictor.store import Study, judged
from predictor.tasks import TaskData, load_examples

NUM_EXAMPLES = 2
MAX_CHARACTERS = 2000
"""Longest text of a sample; a longer one is cut, and the cut is said."""
_COLUMNS = [
    "arm_key",
    "example_id",
    "has_context",
    "text",
    "finish_reason",
    "correct",
    "reason",
    "checker",
    "checker_version",
]


@dataclass(frozen=True)
class _Source:
    """What samples are made from: the study's examples (none when they cannot be read) and the stored rows."""

    evidence: Evidence
    data: TaskData
    rows: pd.DataFrame

    @property
    def factory(self) -> ArmFactory:
        return ArmFactory(self.evidence.config, self.data.train, None)

    def row(self, arm: Arm, example_id: str) -> pd.Series | None:
        """The first stored rollout of an example in an arm."""
        found = self.rows[(self.rows["arm_key"] == arm.key) & (self.rows["example_id"] == example_id)]
        return None if found.empty else found.iloc[0]


def samples_section(evidence: Evidence, study: Study) -> Section:
    """The first rollout of each arm for the first held-out examples that the student answered."""
    source = _Source(evidence, _examples(study), _first_rollouts(study))
    student = source.factory.student()
    # In stored order: choosing telling examples would be a selection that nobody could check.
    names = source.rows.loc[source.rows["arm_key"] == student.key, "example_id"]
    chosen = list(dict.fromkeys(names))[:NUM_EXAMPLES]
    if not chosen:
        missing = "There are no rollouts of the student to show yet."
        return Section("samples", "Samples", missing=(missing,))
    text = (
        f"The first {count(len(chosen), 'held-out example')} of the store and the first rollout of each arm, not a "
        "selection. Control characters are written as escapes.",
    )
    return Section("samples", "Samples", text=text, samples=tuple(_sample(source, name) for name in chosen))


def _examples(study: Study) -> TaskData:
    """The study's examples; none where their file is gone, because rollouts are worth showing without them."""
    try:
        return load_examples(study.config.task, study.path)
    except GapcastError:
        return TaskData((), ())


def _first_rollouts(study: Study) -> pd.DataFrame:
    """Rollout 0 of every held-out example and arm; token ids are not read."""
    # Pushed down to the files: a study holds hundreds of thousands of rollouts, and two are shown.
    filters = [("index", "==", 0), ("split", "==", "eval")]
    frames = []
    for shard in study.rollouts.shards():
        try:
            frames.append(pq.read_table(shard, columns=_COLUMNS, filters=filters).to_pandas())
        except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise StoreError("a rollout shard cannot be read", where=str(shard), found=str(error)[:200]) from None
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=_COLUMNS)


def _sample(source: _Source, example_id: str) -> Sample:
    # The text of a question can be gone while its rollouts are kept; they are shown without it.
    example = next((e for e in (*source.data.eval, *source.data.train) if e.example_id == example_id), None)
    return Sample(f"Example {example_id}", tuple(_parts(source, example_id, example)))


def _parts(source: _Source, example_id: str, example: Example | None) -> Iterator[tuple[str, str]]:
    if example is not None:
        for message in example.conversation:
            yield ("question" if message.role == "user" else message.role, _cut(message.content))
        if example.answer is not None:
            yield "reference answer", _cut(example.answer)
    student = source.row(source.factory.student(), example_id)
    if student is not None:
        yield f"student, no hint: {_judged(student)}", _cut(student["text"])
    for hint in source.evidence.config.hints:
        yield from _hinted(source, hint, example, (example_id, student))
    yield from _trained(source, example_id, source.evidence.runs)


def _hinted(
    source: _Source, hint: HintConfig, example: Example | None, asked: tuple[str, pd.Series | None]
) -> Iterator[tuple[str, str]]:
    """What the teacher was shown in addition, and what it answered."""
    example_id, student = asked
    row = source.row(source.factory.teacher(hint), example_id)
    if row is None:
        return
    if row["has_context"] and example is not None:
        yield f"hint `{hint.name}` ({hint.placement.replace('_', ' ')})", _cut(_shown(source, hint, example, student))
    # Feedback has nothing to say about a correct attempt; the row is then the student's own prompt.
    without = "" if row["has_context"] or hint.kind == "none" else ", no hint to be had for this rollout"
    yield f"with `{hint.name}`{without}: {_judged(row)}", _cut(row["text"])


def _shown(source: _Source, hint: HintConfig, example: Example, student: pd.Series | None) -> str:
    """The hint's text, built again by the probe's own builder."""
    if hint.kind in PEER_KINDS:
        return "(made from another rollout of the same example, which is not shown here)"
    try:
        builder = ContextBuilder(hint, source.data.train, source.evidence.config.task.seed)
        context = builder.build(example, None if student is None else _attempt(student))
    except GapcastError as error:
        return f"(cannot be built again: {error.what})"
    if context is None:
        return "(nothing)"
    return context.content or "\n".join(f"{turn.role}: {turn.content}" for turn in context.turns)


def _attempt(student: pd.Series) -> Attempt:
    verdict = Verdict(
        correct=judged(student["correct"]),
        reason=student["reason"],
        checker=student["checker"],
        checker_version=student["checker_version"],
    )
    return Attempt(student["text"], verdict)


def _trained(source: _Source, example_id: str, runs: Sequence[RunRecord]) -> Iterator[tuple[str, str]]:
    for run in runs:
        row = source.row(source.factory.after(run.spec.key), example_id)
        if row is not None:
            name = f"`{run.spec.hint}`, seed {run.spec.seed}, {run.spec.num_steps} steps"
            yield f"after training with {name}, no hint: {_judged(row)}", _cut(row["text"])


def _judged(row: pd.Series) -> str:
    verdict = "undecided" if pd.isna(row["correct"]) else ("right" if row["correct"] else "wrong")
    return verdict + (", cut at the token limit" if row["finish_reason"] == "length" else "")


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n(cut here; {len(text):,} characters in all)"
