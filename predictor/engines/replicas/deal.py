"""Deal a call's items out to replicas in slices, and deal again what a dead one leaves undone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from predictor.engines.replicas.actor import Work
from predictor.engines.replicas.fleet import Fleet, loaded_ray, unwrapped

_SLICES = 4
"""Slices for each replica: large enough to fill an engine's batches, small enough that all end at about one time."""


def deal(fleet: Fleet, work: Work, on_result: Callable[[int, Any], None]) -> None:
    """Every item's result once, by its position, in the order in which they finish; errors of an engine come through.

    When `on_result` raises (Ctrl-C, a full disk), the replicas stop at their next finished item and stay usable.
    """
    waiting = deque(_slices(len(work.items), len(fleet.actors)))
    running: dict[int, _Share] = {}
    try:
        while waiting or running:
            for place in range(len(fleet.actors)):
                if place not in running and waiting:
                    running[place] = _Share(fleet.actors[place], work, waiting.popleft())
            place = _ready(running)
            _take(fleet, running, place, waiting, on_result)
    finally:
        for share in running.values():
            share.stop()


def _take(
    fleet: Fleet,
    running: dict[int, _Share],
    place: int,
    waiting: deque[tuple[int, ...]],
    on_result: Callable[[int, Any], None],
) -> None:
    """One step of the share at `place`: a result, its end, or the death of its replica."""
    ray = loaded_ray()
    share = running[place]
    try:
        found = share.next()
    except StopIteration:
        del running[place]
    except ray.exceptions.RayActorError as error:
        del running[place]
        waiting.append(share.left)
        fleet.replace(place, error)
    else:
        on_result(*found)


class _Share:
    """A slice on its way through one actor."""

    def __init__(self, actor: Any, work: Work, places: tuple[int, ...]) -> None:
        self._actor, self._places, self._done = actor, places, set[int]()
        self.results = actor.work.options(num_returns="streaming").remote(work.share(places))

    @property
    def left(self) -> tuple[int, ...]:
        """Positions without a result."""
        return tuple(place for place in self._places if place not in self._done)

    def next(self) -> tuple[int, Any]:
        """Position and result of the item that finished next; StopIteration at the end."""
        ray = loaded_ray()
        position, result = unwrapped(ray.get, next(self.results))
        place = self._places[position]
        self._done.add(place)
        return place, result

    def stop(self) -> None:
        """Ask the actor to end the slice, and wait until it has (or has died)."""
        ray = loaded_ray()
        try:
            ray.get(self._actor.stop.remote())
            for reference in self.results:
                ray.get(reference)
        except (ray.exceptions.RayActorError, ray.exceptions.RayTaskError):
            return


def _ready(running: dict[int, _Share]) -> int:
    """A place whose share has something to tell."""
    ray = loaded_ray()
    ready, _ = ray.wait([share.results for share in running.values()], num_returns=1)
    return next(place for place, share in running.items() if share.results is ready[0])


def _slices(count: int, replicas: int) -> Iterator[tuple[int, ...]]:
    """Neighbouring items stay together: all arms of an example share a prompt's beginning."""
    size = max(1, -(-count // (replicas * _SLICES)))
    for start in range(0, count, size):
        yield tuple(range(start, min(start + size, count)))
