"""Progress on standard error: one bar per stage in a terminal, one line per stage elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from predictor.probe import OnProgress


@contextmanager
def progress_bars() -> Iterator[OnProgress]:
    """A callback that shows stages as they go on; bars stay readable after they finish."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console)
        return
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield show


def _lines(console: Console) -> OnProgress:
    """First and last word of every stage, for logs."""
    said: dict[str, int] = {}

    def show(stage: str, done: int, total: int) -> None:
        if stage not in said or (done >= total and said[stage] < total):
            console.print(f"{stage}: {done} of {total}", highlight=False, markup=False)
            said[stage] = done

    return show
