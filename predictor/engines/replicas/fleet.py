"""The actors: started, replaced when they die, told to serve other weights, and ended with nothing left behind."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from predictor.engines.base import Engine
from predictor.engines.replicas.actor import Replica
from predictor.errors import EngineError, ModelError

_STORE_BYTES = 100 * 2**20
"""Ray's object store: requests and completions are small."""
_MOST_REPLACEMENTS = 3
"""Replicas that may die during the life of a fleet; then something is wrong that a restart does not mend."""
_MOST_STARTS = 3
"""Ray gives itself 30 seconds to start, which a busy machine can exceed."""
# No report to anyone; no second attempt at a task, because what a dead actor leaves is dealt anew.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class Fleet:
    """Handles of the actors by place; a dead one's place is taken by a new actor on the same weights."""

    def __init__(self, opener: Callable[[], Engine], model_dir: Path, size: int) -> None:
        if importlib.util.find_spec("ray") is None:
            raise ModelError(
                "several replicas need Ray, which is not installed",
                where="model.engine.replicas",
                fix='pip install "gapcast[ray]", or set replicas: 1',
            )
        self._opener = opener
        self._opened_on = self._served = model_dir
        self._replaced = 0
        self._directory = _start_ray(size)
        self.gpus = _gpus(size)
        self.actors: list[Any] = [self._new(size) for _ in range(size)]

    def _new(self, size: int) -> Any:
        ray = loaded_ray()
        cores = max(1, (os.cpu_count() or 1) // size)
        variables = {} if self.gpus else {"OMP_NUM_THREADS": str(cores)}
        # No core is reserved: a second fleet in this process would wait for those of the first for ever.
        options = {"num_cpus": 0, "num_gpus": 1 if self.gpus else 0, "max_concurrency": 2, "max_restarts": 0}
        kind = ray.remote(**options, runtime_env={"env_vars": variables})(Replica)
        return kind.remote(self._opener)

    def everywhere(self, method: str, *arguments: Any) -> list[Any]:
        """The method's result from every replica, in order; a replica that died is replaced and asked again."""
        ray = loaded_ray()
        calls = [getattr(actor, method).remote(*arguments) for actor in self.actors]
        results = []
        for place, call in enumerate(calls):
            try:
                results.append(unwrapped(ray.get, call))
            except ray.exceptions.RayActorError as error:
                self.replace(place, error)
                results.append(unwrapped(ray.get, getattr(self.actors[place], method).remote(*arguments)))
        return results

    def replace(self, place: int, error: BaseException) -> None:
        """A new actor in the place of a dead one, on the weights served now; EngineError when too many died."""
        self._replaced += 1
        if self._replaced > _MOST_REPLACEMENTS:
            raise EngineError(
                "replicas of the engine keep dying",
                where="model.engine.replicas",
                found=str(error).strip().splitlines()[0],
                expected=f"at most {_MOST_REPLACEMENTS} deaths in one command",
                fix="look for what kills them (memory?), or use fewer replicas; finished rollouts are kept",
            )
        self.actors[place] = self._new(len(self.actors))
        if self._served != self._opened_on:
            self.actors[place].update_weights.remote(self._served)

    def serve(self, model_dir: Path) -> None:
        """Other weights on all replicas; where one refuses them, all serve the old ones and its error is raised."""
        try:
            self.everywhere("update_weights", model_dir)
        except (EngineError, ModelError):
            self.everywhere("update_weights", self._served)
            raise
        self._served = model_dir

    def close(self) -> None:
        """End every actor; Ray ends too where this fleet started it, with its files."""
        ray = loaded_ray()
        for actor in self.actors if ray.is_initialized() else []:
            ray.kill(actor)
        self.actors = []
        if self._directory is not None:
            ray.shutdown()
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None


def loaded_ray() -> Any:
    """The module `ray`, imported when replicas are asked for."""
    return importlib.import_module("ray")


def unwrapped(get: Callable[[Any], Any], reference: Any) -> Any:
    """What the reference holds; an error raised inside an actor comes out as itself, not in Ray's wrapping."""
    ray = loaded_ray()
    try:
        return get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise


def _start_ray(size: int) -> Path | None:
    """Ray on this machine alone, and the directory of its files; None when the process has a Ray already."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    ray = loaded_ray()
    if ray.is_initialized():
        return None
    for trial in range(_MOST_STARTS):
        # A short name: Ray puts sockets below it, whose paths may have 107 bytes.
        directory = Path(tempfile.mkdtemp(prefix="gapcast-"))
        try:
            ray.init(
                address="local",
                num_cpus=max(size, os.cpu_count() or 1),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                object_store_memory=_STORE_BYTES,
                _temp_dir=str(directory),
                _node_ip_address="127.0.0.1",
            )
        except Exception as error:  # supervised: Ray raises a bare Exception when it starts too slowly
            ray.shutdown()
            shutil.rmtree(directory, ignore_errors=True)
            if trial == _MOST_STARTS - 1:
                raise EngineError(
                    "Ray does not start",
                    where="model.engine.replicas",
                    found=str(error).strip().splitlines()[0],
                    fix="try again when the machine is less busy, or set replicas: 1",
                ) from error
        else:
            return directory
    raise AssertionError("the last trial returns or raises")


def _gpus(size: int) -> bool:
    """Whether each replica gets a GPU of its own; ModelError where there are some, but too few."""
    ray = loaded_ray()
    found = int(ray.cluster_resources().get("GPU", 0))
    if 0 < found < size:
        raise ModelError(
            "there are fewer GPUs than replicas", where="model.engine.replicas", found=f"{found} GPUs for {size}"
        )
    return found > 0
