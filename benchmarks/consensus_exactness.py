"""Both estimators of the consensus gap against its exact value, and that against hints redrawn for the same example.

`python -m benchmarks.consensus_exactness [REPORT]` writes the tables as Markdown (reports/consensus_exactness.md).
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from benchmarks.exact_consensus import REDRAWN, exact_accuracies, oracle
from benchmarks.exactness_hints import NOTE, SHARED, TASKS, Config, Task
from predictor.engines.models import embedded_models, resolve_model
from predictor.engines.transformers import TransformersEngine
from predictor.probe import Probe
from predictor.records import Mean, current_provenance
from predictor.store import Study, write_text

MODEL = "miniature/llama-s"
PRESETS: dict[Mean, dict[str, Any]] = {
    "geometric": {"preset": "miniature"},
    "arithmetic": {"preset": "miniature", "overrides": {"divergence": {"kind": "forward_kl"}}},
    "jsd": {"preset": "miniature", "overrides": {"divergence": {"kind": "jsd", "alpha": 0.5}}},
}
SCALE = {"examples": 64, "rollouts": 8, "hints": 8, "decoded": 8}


def study_yaml(
    rules: Sequence[str], hints: Sequence[Config], mean: Mean, scale: dict[str, int], model: str = MODEL
) -> str:
    """A study whose consensus policies are estimated both ways."""
    named = [{"name": c.name, "irrelevant": NOTE, "controls": ["other_example"], **c.fields} for c in hints]
    options = {"rule": rules[0]} if len(rules) == 1 else {"hidden_rules": list(rules)}
    return yaml.safe_dump(
        {
            "model": {"path": model, "engine": "transformers"},
            "task": {
                "source": "strings",
                "options": options,
                "eval_examples": scale["examples"],
                "train_examples": 256,
            },
            "sampling": {"max_tokens": 8},
            "probe": {
                "rollouts": scale["rollouts"],
                "consensus_hints": scale["hints"],
                "consensus_examples": scale["examples"],
                "consensus_rollouts": scale["decoded"],
                "consensus_estimator": "both",
            },
            "hints": named,
            "training": PRESETS[mean],
            "plan": {"budget": {"seconds": 1}},
        }
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One hint config under one mean: exact values and estimates as accuracies of the consensus policy."""

    task: str
    hint: str
    family: str
    mean: Mean
    exact: float
    decoded: float
    decoded_stderr: float
    reweighted: float
    reweighted_stderr: float
    effective: float
    covered: float
    refused: str
    oracle: float


def measure(mean: Mean, scale: dict[str, int]) -> Iterator[Line]:
    """Every task's hint configs under one mean."""
    engine = TransformersEngine.from_pretrained(resolve_model(MODEL, Path()))
    for task in TASKS:
        with tempfile.TemporaryDirectory() as directory:
            yield from measure_task(task, mean, scale, (engine, Path(directory)))


def measure_task(
    task: Task, mean: Mean, scale: dict[str, int], place: tuple[TransformersEngine, Path]
) -> Iterator[Line]:
    """One probe with both estimators, and the exact value of each of its consensus policies."""
    engine, path = place
    name, rules, hints = task
    (path / "study.yaml").write_text(study_yaml(rules, hints, mean, scale), encoding="utf-8")
    probe = Probe(Study(path), engine, resolve_model(MODEL, Path()), lambda: engine)
    result = probe.run(lambda _stage, _done, _total: None)
    for config, hint in zip(hints, probe.config.hints, strict=True):
        detail = result.hint(config.name).consensus_detail
        if detail is None or detail.reweighted is None:
            raise SystemExit(f"{config.name}: the probe gave no consensus gap")
        found = detail.reweighted
        count = config.fields.get("num_demonstrations", 1)
        yield Line(
            task=name,
            hint=config.name,
            family=config.family,
            mean=mean,
            exact=observable(probe, number=probe.config.hints.index(hint), mean=mean),
            decoded=detail.consensus.value,
            decoded_stderr=detail.consensus.stderr,
            reweighted=math.nan if found.consensus is None else found.consensus.value,
            reweighted_stderr=math.nan if found.consensus is None else found.consensus.stderr,
            effective=found.effective_rollouts / max(found.num_rollouts, 1),
            covered=found.covered.value,
            refused=found.refused,
            oracle=oracle(engine, (config.redraw, count), rules, probe.data.eval, mean),
        )


def observable(probe: Probe, *, number: int, mean: Mean) -> float:
    """Exact accuracy of a hint config's consensus policy: the very prompts that the estimators average."""
    arm = probe.factory.consensus(probe.config.hints[number], mean)
    jobs = probe.factory.consensus_jobs(arm, probe.data.eval, 1, {})
    prompts = [[prompt.ids for prompt in job.prompts] for job in jobs]
    return float(np.mean(exact_accuracies(probe.engine, prompts, [job.example for job in jobs], mean)))


def reading(model: str, scale: dict[str, int]) -> str:
    """How much a model's reading of demonstrations takes from the consensus of worked hints (geometric mean)."""
    engine = TransformersEngine.from_pretrained(resolve_model(model, Path()))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        names = ("demo-1", "answer", "half-answer", "half-right-answer")
        hints = [next(config for config in SHARED if config.name == name) for name in names]
        (path / "study.yaml").write_text(study_yaml(["reverse"], hints, "geometric", scale, model), encoding="utf-8")
        probe = Probe(Study(path), engine, resolve_model(model, Path()), lambda: engine)
        cells = [f"| {model} | {demonstration_accuracy(probe):.3f}"]
        for number, config in enumerate(hints[1:], start=1):
            seen = observable(probe, number=number, mean="geometric")
            again = oracle(engine, (config.redraw, 1), ["reverse"], probe.data.eval, "geometric")
            cells.append(f"{seen:.3f} | {again:.3f}")
    return " | ".join(cells) + " |"


def demonstration_accuracy(probe: Probe) -> float:
    """Exact accuracy under one demonstration, averaged over eight of them for each example."""
    arm = probe.factory.consensus(probe.config.hints[0], "arithmetic")
    jobs = probe.factory.consensus_jobs(arm, probe.data.eval, 1, {})
    rows = [([prompt.ids], job.example) for job in jobs for prompt in job.prompts]
    prompts, examples = zip(*rows, strict=True)
    return float(np.mean(exact_accuracies(probe.engine, prompts, examples, "arithmetic")))


def report(lines: Sequence[Line], readings: Sequence[str], scale: dict[str, int], seconds: float) -> str:
    """The table as Markdown, with its provenance first and the averages of each mean."""
    origin = current_provenance()
    dirty = ", with uncommitted changes" if origin.git_dirty else ""
    text = [
        "# Consensus gap on the miniature: two estimators against the exact value",
        "",
        f"Commit {origin.git_commit}{dirty}; {origin.time_utc[:10]}; made by",
        f"`python -m benchmarks.consensus_exactness` in {seconds:.0f} s.",
        "",
        f"Model `miniature/llama-s`, {scale['examples']} held-out questions, {scale['hints']} hints of other examples, "
        f"{scale['decoded']} decoded and {scale['rollouts']} stored rollouts per arm and question. All numbers are",
        "accuracies of the consensus policy (its gap is that minus the student's accuracy, the same in every column).",
        "`exact`: teacher-forced probability of the right answer under the mean of the same hints. `redrawn`: exact",
        f"under {REDRAWN} hints drawn again for the same example, which only a synthetic world can do.",
        "",
        "Mean absolute errors over hint configs:",
        "",
        "| mean | hint configs | decoded − exact | reweighted − exact | refused | redrawn − exact |",
        "|---|---|---|---|---|---|",
        *(
            _summary([line for line in lines if line.mean == mean], mean)
            for mean in dict.fromkeys(x.mean for x in lines)
        ),
        "",
        "| task | hint config | kind | mean | exact | decoded | reweighted | effective | covered | redrawn |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_row(line) for line in lines),
        "",
        "## Worked hints and a model that cannot read demonstrations",
        "",
        "Other examples' worked hints are shown with their question, as demonstrations. Exact accuracies of the",
        "consensus policy, geometric mean, target rule `reverse`: `seen` with other examples' hints, `redrawn` with",
        "the example's own drawn again. What `seen` falls short is the price of reading demonstrations badly.",
        "",
        "| model | one demonstration | answer, seen | redrawn | half, seen | redrawn | half-right, seen | redrawn |",
        "|---|---|---|---|---|---|---|---|",
        *readings,
        "",
    ]
    return "\n".join(text)


def _summary(lines: Sequence[Line], mean: str) -> str:
    decoded = statistics.fmean(abs(line.decoded - line.exact) for line in lines)
    kept = [line for line in lines if not line.refused]
    again = statistics.fmean(abs(line.reweighted - line.exact) for line in kept) if kept else math.nan
    apart = statistics.fmean(abs(line.oracle - line.exact) for line in lines)
    refused = len(lines) - len(kept)
    return f"| {mean} | {len(lines)} | {decoded:.4f} | {again:.4f} | {refused} | {apart:.3f} |"


def _row(line: Line) -> str:
    again = "refused" if line.refused else f"{line.reweighted:.3f} ± {line.reweighted_stderr:.3f}"
    return (
        f"| {line.task} | {line.hint} | {line.family} | {line.mean} | {line.exact:.3f} | {line.decoded:.3f} ± "
        f"{line.decoded_stderr:.3f} | {again} | {line.effective:.2f} | {line.covered:.2f} | {line.oracle:.3f} |"
    )


def main(output: str = "reports/consensus_exactness.md", examples: str = str(SCALE["examples"])) -> None:
    """Measure everything on so many held-out questions and write the report."""
    started = time.monotonic()
    scale = SCALE | {"examples": int(examples)}
    lines = []
    for mean in PRESETS:
        for line in measure(mean, scale):
            lines.append(line)
            sys.stderr.write(_row(line) + "\n")
    readings = [reading(name, scale) for name in embedded_models() if name.startswith("miniature/")]
    write_text(Path(output), report(lines, readings, scale, time.monotonic() - started))
    sys.stdout.write(f"{output}: {len(lines)} rows\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
