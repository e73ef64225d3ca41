"""The guard of conftest.py: the tests' network is this machine and nothing else."""

from __future__ import annotations

import socket
import threading

import pytest

# 192.0.2.0/24 is reserved for documentation: nothing is ever there.
OUTSIDE = "192.0.2.1"


def test_a_connection_to_another_machine_is_refused(no_network: list[str]) -> None:
    with socket.socket() as client, pytest.raises(RuntimeError, match=OUTSIDE):
        client.connect((OUTSIDE, 80))
    assert no_network == [OUTSIDE]
    no_network.clear()


def test_a_name_look_up_is_refused(no_network: list[str]) -> None:
    with pytest.raises(RuntimeError, match=r"models\.invalid"):
        socket.create_connection(("models.invalid", 443), timeout=1)
    assert no_network == ["models.invalid"]
    no_network.clear()


def test_a_swallowed_attempt_is_still_remembered(no_network: list[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, pytest.raises(RuntimeError):
        client.connect_ex((OUTSIDE, 53))
    assert len(no_network) == 1
    no_network.clear()


def test_loopback_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answer = threading.Thread(target=lambda: server.accept()[0].close())
        answer.start()
        with socket.create_connection(("localhost", port), timeout=5) as client:
            assert client.recv(1) == b""
        answer.join(timeout=5)
        assert not answer.is_alive()
