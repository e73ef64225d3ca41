"""What runs inside an actor: one engine, whose results leave it as they come."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

from predictor.engines.base import Completion, Engine, Request
from predictor.records import SamplingConfig


@dataclass(frozen=True, slots=True)
class Description:
    """What an engine says about itself."""

    name: str
    version: str
    reason: str
    max_model_len: int
    process: int
    """Id of the process that holds it."""


@dataclass(frozen=True, slots=True)
class Work:
    """A call that can be dealt out item by item."""

    kind: Literal["generate", "score"]
    items: tuple[Any, ...]
    sampling: SamplingConfig | None = None

    def share(self, places: tuple[int, ...]) -> Work:
        """The same call on some of the items."""
        return Work(self.kind, tuple(self.items[place] for place in places), self.sampling)


class Replica:
    """An engine behind an actor's methods; `stop` is answered while `work` runs."""

    def __init__(self, opener: Callable[[], Engine]) -> None:
        self._opener = opener
        self._engine: Engine | None = None
        self._stopped = threading.Event()

    @property
    def engine(self) -> Engine:
        """The engine, opened by the first call so that its errors reach the caller as they are."""
        if self._engine is None:
            self._engine = self._opener()
        return self._engine

    def describe(self) -> Description:
        """Name, version, reason and context of the engine."""
        engine = self.engine
        return Description(engine.name, engine.version, engine.reason, engine.max_model_len, os.getpid())

    def work(self, work: Work) -> Iterator[tuple[int, Any]]:
        """(position in the share, result) as each item finishes."""
        self._stopped.clear()
        if work.kind == "score":
            # A generator of its own: Ray sends into what it iterates over.
            yield from (found for found in enumerate(self.engine.score(work.items)))
            return
        done: SimpleQueue[tuple[int, list[Completion]] | BaseException | None] = SimpleQueue()
        threading.Thread(target=self._generate, args=(work, done), daemon=True).start()
        while (found := done.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found

    def _generate(self, work: Work, done: SimpleQueue[Any]) -> None:
        """Run the engine beside `work`, which hands over what its callback puts into the queue."""
        places = {request.request_id: place for place, request in enumerate(work.items)}

        def finished(request: Request, completions: list[Completion]) -> None:
            if self._stopped.is_set():
                raise _Stopped
            done.put((places[request.request_id], completions))

        try:
            self.engine.generate(work.items, work.sampling or SamplingConfig(), finished)
        except _Stopped:
            done.put(None)
        except BaseException as error:  # noqa: BLE001  # supervised: whatever the engine raises is the call's result
            done.put(error)
        else:
            done.put(None)

    def stop(self) -> None:
        """End the work that runs now at its next finished request."""
        self._stopped.set()

    def update_weights(self, model_dir: Path) -> None:
        """Serve other weights, proven by the engine's canary."""
        self.engine.update_weights(model_dir)

    def release(self) -> None:
        """Give memory back until the next call."""
        self.engine.release()


class _Stopped(Exception):
    """The caller wants no more of this call."""
