"""F26 and F27: whatever a program does, its run ends in time with a status, capped output and no process left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from predictor.sandbox import Limits, Program, Sandbox
from predictor.sandbox.census import Family, num_tasks
from predictor.sandbox.shield import FREE_USERS
from predictor.sandbox.supervise import explain_exit
from tests.sandbox.running import COUNT_CHILDREN, PATIENT, QUICK, python, run

FORK_LOOP = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"


def alive(marker: str) -> list[str]:
    """Command lines of processes that carry the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            found += [line] if marker in line and state not in "ZX" else []
    return found


def untrusted_tasks() -> int:
    """Tasks of whom programs run as; root's own are not counted, which other tests start by the dozen meanwhile."""
    if os.geteuid() != 0:
        return num_tasks(os.getuid())
    owners = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            owners.add(entry.stat().st_uid)
    return sum(num_tasks(user) for user in owners & set(FREE_USERS))


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs get a temporary directory that no other test uses meanwhile; any user may pass through it."""
    with tempfile.TemporaryDirectory(prefix="sandbox-test-") as own:
        Path(own).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", own)
        yield
        assert not [path for path in Path(own).glob("gapcast-*") if path.is_dir()]


def test_a_grandchild_that_holds_the_pipe_delays_nothing() -> None:
    """F26: the pipe outlives the killed child."""
    ran = run("sh", "-c", "sleep 34567 & wait")
    assert (ran.status, ran.attempts) == ("timeout", 1)
    assert "1 s" in ran.message
    assert not alive("sleep 34567")


def test_a_grandchild_that_outlives_its_parent_is_killed_and_the_result_kept() -> None:
    ran = run("sh", "-c", "echo said; sleep 34568 & exit 3", limits=PATIENT)
    assert (ran.status, ran.output) == ("wrong", "said\n")
    assert not alive("sleep 34568")


def test_a_process_that_leaves_its_session_is_killed_too() -> None:
    assert run("sh", "-c", "setsid sleep 34569 & sleep 34569").status == "timeout"
    assert not alive("sleep 34569")


def test_output_without_end_is_cut_and_timed_out() -> None:
    """F26: print forever."""
    ran = python("while True: print('x' * 1000)")
    assert ran.status == "timeout"
    assert len(ran.output) == QUICK.output_bytes
    assert set(ran.output) <= {"x", "\n"}


def test_much_output_is_cut_and_still_a_pass() -> None:
    ran = python("print('y' * 3_000_000)", PATIENT)
    assert ran.status == "pass"
    assert ran.output == "y" * PATIENT.output_bytes


def test_a_fork_loop_is_bounded_and_leaves_nothing() -> None:
    """F26: fork loop."""
    before = untrusted_tasks()
    ran = python(FORK_LOOP)
    assert ran.status in ("timeout", "crashed")
    assert not alive("os.fork()")
    assert untrusted_tasks() < before + QUICK.processes


def test_the_kernel_refuses_more_processes_than_allowed() -> None:
    ran = python(COUNT_CHILDREN, Limits(seconds=4.0, processes=16))
    assert 0 < int(ran.output) <= 16


@pytest.mark.parametrize("code", ["x = bytearray(8 << 30)", "x = []\nwhile True: x.append(bytearray(1 << 26))"])
def test_eight_gigabytes_are_out_of_memory(code: str) -> None:
    """F26: allocate 8 GB."""
    ran = python(code, PATIENT)
    assert ran.status == "memory"
    assert "512 MB" in ran.message


def test_memory_of_many_processes_counts_together() -> None:
    code = (
        "import os, time\nfor _ in range(4): os.fork()\n"
        "x = bytearray(100 << 20); x[::4096] = b'1' * 25600; time.sleep(30)"
    )
    ran = python(code, Limits(seconds=25.0, memory_mb=400, processes=32))
    assert (ran.status, ran.message) == ("memory", "used more than 400 MB")


def test_reading_standard_input_meets_its_end() -> None:
    """F26: read standard input."""
    ran = python("import sys; print(len(sys.stdin.read()))", PATIENT)
    assert (ran.status, ran.output) == ("pass", "0\n")
    assert python("input()", PATIENT).status == "wrong"


def test_a_long_input_is_read_whole_or_ignored() -> None:
    text = "a" * 2_000_000
    assert python("import sys; print(len(sys.stdin.read()))", PATIENT, stdin=text).output == "2000000\n"
    assert python("print('ignored')", PATIENT, stdin=text).status == "pass"


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(999)", "import signal; signal.pause()"])
def test_an_endless_loop_is_a_timeout_at_once(code: str) -> None:
    ran = python(code)
    assert ran.status == "timeout"
    assert ran.output in ("", "CPU time limit exceeded\n")


def test_signals_cannot_be_ignored_away() -> None:
    code = (
        "import signal\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n"
        "  except (OSError, ValueError): pass\nwhile True: pass"
    )
    assert python(code).status in ("timeout", "memory")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", "pass"),
        ("raise SystemExit(3)", "wrong"),
        ("1 / 0", "wrong"),
        ("import ctypes; ctypes.string_at(0)", "crashed"),
        ("import os; os.abort()", "crashed"),
        ("import os; os.kill(os.getpid(), 15)", "crashed"),
    ],
)
def test_the_end_of_a_program_has_one_status(code: str, status: str) -> None:
    assert python(code, PATIENT).status == status


def test_a_huge_file_is_refused() -> None:
    ran = python("open('big', 'wb').write(b'0' * (64 << 20))", PATIENT)
    assert ran.status in ("wrong", "crashed")


def test_a_command_that_is_not_there_is_no_pass() -> None:
    assert run("/nowhere/program", limits=PATIENT).status == "wrong"


@pytest.mark.parametrize("trick", ["ln -s /etc/passwd report", "mkfifo report", "mkdir report", "chmod 0 ."])
def test_a_report_that_is_no_plain_file_is_not_read(trick: str) -> None:
    ran = Sandbox().run(Program(command=("sh", "-c", trick), report="report"), PATIENT)
    assert ran.report == ""


def test_a_plain_report_is_read() -> None:
    ran = Sandbox().run(Program(command=("sh", "-c", "echo all well > report"), report="report"), PATIENT)
    assert (ran.status, ran.report) == ("pass", "all well\n")


def test_every_exit_code_has_a_status() -> None:
    statuses = {code: explain_exit(code)[0] for code in range(-64, 256)}
    assert [code for code, status in statuses.items() if status == "pass"] == [0]
    assert (statuses[-24], statuses[128 + 24]) == ("timeout", "timeout")
    assert (statuses[-9], statuses[137]) == ("memory", "memory")
    assert (statuses[-11], statuses[139]) == ("crashed", "crashed")
    assert {statuses[1], statuses[125], statuses[255]} == {"wrong"}


@pytest.mark.parametrize("num_busy", [4, 12])
def test_a_starved_program_runs_again_alone(num_busy: int) -> None:
    """Pinned to one processor at idle priority beside busy ones, the program is ready and never gets its turn.

    Killed, it would not get the time to end either, beside a dozen not within any patience.
    """
    busy = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", busy], start_new_session=True) for _ in range(num_busy)]
    try:
        code = f"import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); {busy}"
        ran = python(code, Limits(seconds=3.0, grace_s=5.0))
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert ran.status == "timeout"
    assert ran.attempts == 2


def test_killing_a_family_follows_children_that_moved_away() -> None:
    code = (
        "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(34570)\ntime.sleep(34570)"
    )
    root = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    family = Family(root.pid)
    while len(family.members()) < 3:
        time.sleep(0.02)
    assert family.kill(10.0)
    root.wait()
    assert not alive("time.sleep(34570)")


def test_two_runs_at_once_never_have_the_same_user() -> None:
    """A run kills whatever has its user id; neighbours in the process table used to end each other's programs."""
    shield = Sandbox().shield
    assert shield is not None
    with shield.leased_user() as first, shield.leased_user() as second:
        assert (first is None and second is None) if not shield.drops_user else first != second
    with shield.leased_user() as again:
        assert again == first
