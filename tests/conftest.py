"""What holds for every test: quiet, single-threaded libraries, and no network beyond this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Before any library is loaded, and inherited by every process that a test starts.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # vLLM would otherwise look up its own address by way of a public one.
    "VLLM_HOST_IP": "127.0.0.1",
}
for _name, _value in _ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)

# A busy machine makes a first example slow; that says nothing about the code.
settings.register_profile("gapcast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gapcast")

_attempts: list[str] = []


class NetworkForbidden(RuntimeError):
    """A test reached for an address that is not this machine's."""


def is_local(host: object) -> bool:
    """Whether a host is this machine: loopback, unspecified, `localhost`, or a path (a Unix socket)."""
    if host is None or isinstance(host, bytes):
        return True
    text = str(host).split("%")[0]
    if text in ("", "localhost", "<broadcast>", socket.gethostname()) or text.startswith("/"):
        return True
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _refuse_unless_local(host: object) -> None:
    if not is_local(host):
        _attempts.append(str(host))
        raise NetworkForbidden(f"tests use no network, but something asked for {host!r}")


def _guarded(original: Any) -> Any:
    def call(self: socket.socket, address: Any, *rest: Any) -> Any:
        _refuse_unless_local(address[0] if isinstance(address, tuple) else address)
        return original(self, address, *rest)

    return call


@pytest.fixture(scope="session", autouse=True)
def _network_guard() -> Iterator[None]:
    """Refuse connections and name look-ups beyond this machine for the whole session."""
    look_up = socket.getaddrinfo

    def guarded_look_up(host: Any, *rest: Any, **named: Any) -> Any:
        _refuse_unless_local(host)
        return look_up(host, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _guarded(socket.socket.connect))
        patch.setattr(socket.socket, "connect_ex", _guarded(socket.socket.connect_ex))
        patch.setattr(socket, "getaddrinfo", guarded_look_up)
        yield


@pytest.fixture(autouse=True)
def no_network(_network_guard: None) -> Iterator[list[str]]:
    """Fail a test whose attempts were swallowed by an `except`; yields the attempts so far."""
    yield _attempts
    seen, _attempts[:] = list(_attempts), []
    assert not seen, f"this test reached for {', '.join(seen)}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where there is no NVIDIA driver."""
    if Path("/dev/nvidiactl").exists():
        return
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU")
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            item.add_marker(skip)
