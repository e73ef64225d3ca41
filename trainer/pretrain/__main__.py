"""Command line of the pre-training: `python -m trainer.pretrain --out data/miniature`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

from trainer.pretrain.checkpoint import Training, save_checkpoint
from trainer.pretrain.loop import pretrain
from trainer.pretrain.shapes import SHAPES

PROGRESS_EVERY_STEPS = 100


def main(arguments: list[str] | None = None) -> None:
    """Pre-train the chosen miniatures one after the other and print each one's card."""
    parser = argparse.ArgumentParser(prog="python -m trainer.pretrain", description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder that gets one folder per model")
    parser.add_argument("--only", nargs="+", choices=SHAPES, default=list(SHAPES), help="models to train")
    parser.add_argument("--steps", type=int, help="steps instead of each shape's own number")
    parser.add_argument("--seed", type=int, default=0, help="fixes initial weights and documents")
    options = parser.parse_args(arguments)
    # One thread makes the sums, and so the weights, repeatable; such small matrices gain nothing from a second.
    torch.set_num_threads(1)
    for name in options.only:
        card = _train_one(name, options.out, steps=options.steps, seed=options.seed)
        sys.stdout.write(card + "\n")
        sys.stdout.flush()


def _train_one(name: str, out: Path, *, steps: int | None, seed: int) -> str:
    shape = SHAPES[name]
    num_steps = steps or shape.num_steps
    started, cpu_started = time.monotonic(), time.process_time()

    def report(step: int, loss: float) -> None:
        if (step + 1) % PROGRESS_EVERY_STEPS == 0:
            seconds = time.monotonic() - started
            sys.stderr.write(f"{name} step {step + 1}/{num_steps} loss {loss:.3f} {seconds:.0f} s\n")

    model, losses = pretrain(shape, seed=seed, num_steps=num_steps, on_step=report)
    steps_option = f" --steps {steps}" if steps else ""
    training = Training(
        shape=shape,
        seed=seed,
        num_steps=num_steps,
        seconds=time.monotonic() - started,
        cpu_seconds=time.process_time() - cpu_started,
        last_loss=losses[-1],
        command=f"python -m trainer.pretrain --out data/miniature --only {name}{steps_option} --seed {seed}",
    )
    return save_checkpoint(model, out / name, training)


if __name__ == "__main__":
    main()
