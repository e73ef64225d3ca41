"""The wide miniature study: 34 hint configs on five tasks under four settings, every run forecast before it starts.

`python benchmarks/wide_study.py studies/wide` (about an hour on one idle core; killed and started again, it goes on).

It writes one ordinary study for each setting and task (`studies/wide/forward-ema/hidden-4/study.yaml`), probes it, and
trains every hint config in a random order that is fixed by names. Before each run a forecast is frozen from everything
that the setting has shown until then: the published prior, the earlier tasks, the study's earlier runs. Every study can
be read, gone on with and reported by `gapcast` as if its commands had made it; the only difference is that training
happens in this process, because a process of its own costs a run of five seconds another ten for its imports.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from predictor.config import STUDY_FILE
from predictor.launch import RunRequest, find_record, run_config
from predictor.launch.process import LOG_FILE, mark_started, write_run
from predictor.loop.session import Session
from predictor.loop.stages import freeze_forecasts, launch, probe_study
from predictor.records import RunConfig, derive_seed
from predictor.store import write_text

FORWARD: Final = {"divergence": {"kind": "forward_kl"}}
EMA: Final = {"teacher": {"kind": "ema", "rate": 0.05}}
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "reverse-frozen": {},
    "forward-frozen": FORWARD,
    "reverse-ema": EMA,
    "forward-ema": FORWARD | EMA,
}
"""Training settings by name: what each overrides in the preset `miniature` (reverse KL, frozen teacher, 50 steps)."""

_DEMO: Final = "demo {{ question }} gives {{ hint }}"
_BOTH: Final = "metadata.coin_rule_copy == metadata.rule and metadata.coin_rule_random == metadata.rule"
_EITHER: Final = _BOTH.replace(" and ", " or ")


def _static(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "kind": "static", "template": text, "controls": []}


def _told(name: str, template: str) -> dict[str, Any]:
    return {"name": name, "kind": "messages", "template": template, "controls": ["other_example"]}


def _worked(name: str, kind: str, template: str, shown: str = "", **fields: Any) -> dict[str, Any]:
    """A hint that works out its question; `shown` is how it is written beside that question for another one."""
    parts = {"kind": kind, "template": template, "demonstration_template": shown or _DEMO}
    return {"name": name, **parts, "controls": ["other_example"], **fields}


def _demos(count: int) -> dict[str, Any]:
    fields = {"num_demonstrations": count, "demonstration_template": _DEMO, "separator": " "}
    return {"name": f"demo-{count}", "kind": "demonstrations", "controls": ["other_example"], **fields}


HALF_RANDOM: Final = _told("half-right-random", "rule {{ metadata.coin_rule_random }}")
HALF_COPY: Final = _told("half-right-copy", "rule {{ metadata.coin_rule_copy }}")
HALF_RIGHT_ANSWER: Final = _worked("half-right-answer", "answer", "answer {{ hint }}", source="metadata.coin_answer")
ANSWER: Final = _worked("answer", "answer", "answer {{ hint }}")
HALF_ANSWER: Final = _worked("half-answer", "partial", "half {{ hint }}", "demo {{ question }} gives half {{ hint }}")
OWN_FAILURE: Final = _worked("own-failure", "feedback", "tried {{ attempt }}", "tried {{ attempt }}")

TASKS: Final[dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]] = {
    "reverse": (
        {"rule": "reverse"},
        [
            _static("rule", "rule reverse"),
            _static("unsure-75", "maybe75 reverse"),
            _static("two-alternatives", "either reverse copy"),
            _demos(1),
            HALF_RANDOM,
            HALF_COPY,
            HALF_RIGHT_ANSWER,
            ANSWER,
        ],
    ),
    "next": (
        {"rule": "next"},
        [
            _static("alias", "rule advance"),
            _static("wrong-rule", "rule sort"),
            _static("unsure-50", "maybe50 next"),
            _demos(3),
            _told("random-alternatives", "either {{ metadata.alternatives }}"),
            _told("quarter-right-copy", f"rule {{{{ metadata.rule if {_BOTH} else 'copy' }}}}"),
            _told("mostly-right-copy", f"rule {{{{ metadata.rule if {_EITHER} else 'copy' }}}}"),
            HALF_ANSWER,
        ],
    ),
    "rotate-left": (
        {"rule": "rotate_left"},
        [
            _static("rule", "rule rotate_left"),
            _static("unsure-25", "maybe25 rotate_left"),
            _static("two-alternatives", "either rotate_left next"),
            _demos(1),
            HALF_RANDOM,
            HALF_COPY,
            HALF_RIGHT_ANSWER,
            OWN_FAILURE,
        ],
    ),
    "hidden-2": (
        {"hidden_rules": ["reverse", "next"]},
        [
            _told("told-rule", "rule {{ metadata.rule }}"),
            _told("told-unsure-75", "maybe75 {{ metadata.rule }}"),
            _static("both-rules", "either reverse next"),
            _demos(1),
            ANSWER,
        ],
    ),
    "hidden-4": (
        {"hidden_rules": ["reverse", "next", "rotate_left", "sort"]},
        [
            _told("told-alias", "rule {{ metadata.alias }}"),
            _told("told-half-right", "rule {{ metadata.coin_rule_random }}"),
            _static("one-rule", "rule next"),
            _demos(3),
            HALF_ANSWER,
        ],
    ),
}
"""Tasks by name: options of the string world, and the hint configs that are compared on it."""


def study_fields(setting: str, task: str) -> dict[str, Any]:
    """study.yaml of one setting and task; the law reads the setting's earlier tasks too."""
    options, hints = TASKS[task]
    earlier = list(TASKS)[: list(TASKS).index(task)]
    return {
        "model": {"path": "miniature/llama-s", "family": "llama", "engine": "transformers"},
        "task": {"source": "strings", "options": options, "eval_examples": 96, "train_examples": 256},
        "sampling": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 8},
        "probe": {"rollouts": 4, "consensus_hints": 16, "consensus_examples": 96, "consensus_rollouts": 2},
        "hints": hints,
        "training": {"preset": "miniature", "num_steps": 50, "seeds": [0], "overrides": SETTINGS[setting]},
        "law": {"predictor": "consensus_gap", "runs_from": [f"../{name}" for name in earlier], "allow_mixed": True},
        "plan": {"budget": {"seconds": 3600}, "threshold": 0.05},
    }


def run_order(task: str) -> list[str]:
    """The task's hint configs in the random order in which they are trained, the same under every setting."""
    names = [str(hint["name"]) for hint in TASKS[task][1]]
    return sorted(names, key=lambda name: derive_seed("wide study", task, name))


def main() -> None:
    """Make, probe and train every study that is not finished, one setting after the other."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "studies/wide")
    for setting in SETTINGS:
        for task in TASKS:
            path = root / setting / task
            if not (path / STUDY_FILE).exists():
                _share_rollouts(root, setting, task)
                write_text(path / STUDY_FILE, yaml.safe_dump(study_fields(setting, task), sort_keys=False))
            _finish(path, task)


def _share_rollouts(root: Path, setting: str, task: str) -> None:
    """Begin with the rollouts of the first setting: an arm's key says what it depends on, and these arms are equal."""
    first = root / next(iter(SETTINGS)) / task / "rollouts"
    if first.is_dir() and not (root / setting / task / "rollouts").exists():
        shutil.copytree(first, root / setting / task / "rollouts")


def _finish(path: Path, task: str) -> None:
    session = Session(path)
    try:
        probe_study(session)
        for name in run_order(task):
            with session.study.locked():
                _train(session, name)
            sys.stderr.write(f"{path}: {name} is done\n")
    finally:
        session.close()


def _train(session: Session, hint: str) -> None:
    training = session.config.training
    for seed in training.seeds:
        request = RunRequest(hint, seed, "full", training.num_steps)
        config = run_config(session.study, session.model_dir, request)
        known = find_record(session.study, config.spec.key)
        if known is None or known.state != "finished":
            freeze_forecasts(session, session.config.law)
            _train_here(session, config)
            launch(session, config, 3600.0)


def _train_here(session: Session, config: RunConfig) -> None:
    """Train the run in this process, so that `launch_run` finds it finished and records it."""
    from trainer.train import train

    run_dir = session.study.runs_dir / config.spec.key
    write_run(run_dir, config)
    mark_started(run_dir)
    with _log(run_dir / LOG_FILE):
        train(run_dir)


@contextlib.contextmanager
def _log(path: Path) -> Iterator[None]:
    with path.open("a", encoding="utf-8") as log, contextlib.redirect_stderr(log):
        yield


if __name__ == "__main__":
    main()
