"""Stand-ins for what a checker's worker process loads or calls: two libraries, a user's module, a reward server."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

# The two libraries' interfaces (math-verify 0.9, reasoning-gym 0.1.25), with behaviour that a test can provoke.
MATH_VERIFY = """
import time

def parse(text, parsing_timeout=5):
    assert parsing_timeout is None
    print("noise on standard output")
    if "hang" in text:
        time.sleep(3600)
    if "raise" in text:
        raise RuntimeError("cannot parse this")
    if "die" in text:
        import os
        os._exit(1)
    return [] if "?" in text else ["".join(sorted(text.replace(" ", "")))]

def verify(gold, target, timeout_seconds=5):
    assert timeout_seconds is None
    return bool(target) and gold[0] == target[0]
"""
REASONING_GYM = """
def get_score_answer_fn(name):
    if name != "spell_backward":
        raise ValueError(f"Dataset '{name}' not registered")
    def score(answer, entry):
        if answer == "raise":
            raise KeyError("metadata")
        if answer == entry["answer"]:
            return 1.0
        return 0.2 if sorted(answer) == sorted(entry["answer"]) else 0.01
    return score
"""
REWARDS = """
import time

def score(prompts, completions, answer, **columns):
    text = completions[0]
    if isinstance(text, list):
        text = text[0]["content"]
    if text == "raise":
        raise ValueError("a bug")
    if text == "exit":
        raise SystemExit(0)
    if text == "hang":
        time.sleep(3600)
    if text == "flood":
        print("x" * 10_000_000)
    if text == "nothing":
        return [None]
    if text == "half":
        return [0.5]
    return {"text": ["high"], "nan": [float("nan")], "two": [1, 1]}.get(text, [1.0 if answer[0] in text else 0.0])

not_callable = 3
"""


@pytest.fixture(scope="session", autouse=True)
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory on the workers' path with the stand-in modules."""
    directory = tmp_path_factory.mktemp("stand-ins")
    for name, text in (("math_verify", MATH_VERIFY), ("reasoning_gym", REASONING_GYM), ("rewards", REWARDS)):
        (directory / f"{name}.py").write_text(text)
    (directory / "broken_rewards.py").write_text("raise RuntimeError('at import')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH")])))
        yield directory


class RewardHandler(BaseHTTPRequestHandler):
    """Answers by path: right or wrong, and every way to fail."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        getattr(self, f"answer_{self.path[1:]}")(body)

    def answer_right(self, body: dict[str, str]) -> None:
        self.reply({"correct": body["answer"] in body["completion"]})

    def answer_reward(self, body: dict[str, str]) -> None:
        self.reply({"reward": 0.9 if body["answer"] in body["completion"] else 0.1})

    def answer_unsure(self, _body: object) -> None:
        self.reply({"correct": None})

    def answer_error(self, _body: object) -> None:
        self.reply({"correct": True}, 500)

    def answer_elsewhere(self, _body: object) -> None:
        self.send_response(302)
        self.send_header("Location", "/right")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer_nonsense(self, _body: object) -> None:
        self.reply({"verdict": "yes"})

    def answer_text(self, _body: object) -> None:
        self.reply({"reward": "high"})

    def answer_drip(self, _body: object) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        for _ in range(200):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.1)

    def reply(self, value: object, status: int = 200) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments: object) -> None:
        """Quiet."""


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_arguments: object) -> None:
        """A client that gave up is what some tests want."""


@pytest.fixture(scope="session")
def reward_server() -> Iterator[str]:
    """Address of a reward server on this machine."""
    server = QuietServer(("127.0.0.1", 0), RewardHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
