"""What a shield stops is proven before it is used, for root and for an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import predictor.sandbox
from predictor.sandbox import Program, Sandbox
from predictor.sandbox.shield import Shield, find_shield
from tests.sandbox.running import COUNT_CHILDREN, PATIENT, QUICK, python, run

FAKE_BWRAP = '#!/bin/sh\n{behaviour}\nwhile [ "$1" != --chdir ]; do shift; done\nshift 2\n{run}\n'


def test_a_program_sees_its_own_directory_a_bare_environment_and_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    code = "import os; print(sorted(os.listdir('.')), 'SECRET_TOKEN' in os.environ, os.environ['HOME'] == os.getcwd())"
    ran = Sandbox().run(Program(command=("python", "-c", code), files={"data.txt": "1"}), PATIENT)
    assert ran.output == "['data.txt'] False True\n"


def test_there_is_no_network_where_the_shield_says_so() -> None:
    shield = find_shield(None)
    assert shield is not None
    code = "import socket; print({name for _, name in socket.if_nameindex()} - {'lo'})"
    if shield.name != "bare":
        assert python(code, PATIENT).output == "set()\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a program another user id")
def test_as_root_programs_are_nobody_we_know() -> None:
    ran = run("sh", "-c", "cat /proc/self/status | grep CapEff; cat /etc/shadow", limits=PATIENT)
    assert ran.status == "wrong"
    assert "root:" not in ran.output


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs all the other tests as one")
def test_an_ordinary_user_has_a_sandbox_too(tmp_path: Path) -> None:
    code = (
        "from predictor.sandbox import Limits, Program, Sandbox\n"
        f"limits = Limits(seconds=4.0, processes=16)\nprogram = {COUNT_CHILDREN!r}\n"
        "ran = Sandbox().run(Program(command=('python', '-I', '-c', program)), limits)\n"
        "print(Sandbox().shield.drops_user, ran.status, int(ran.output))"
    )
    package = tmp_path / "predictor"
    shutil.copytree(Path(predictor.sandbox.__file__).parent, package / "sandbox")
    (package / "__init__.py").touch()
    for path in (tmp_path, *tmp_path.parents[:-1], *tmp_path.rglob("*")):
        if path.owner() == "root" and path.is_relative_to(tmp_path.parents[1]):
            path.chmod(0o755)
    ran = subprocess.run(
        ["/usr/bin/python3", "-c", code],
        user=61_000,
        group=61_000,
        extra_groups=[],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    if "Permission denied" in ran.stderr or "No module named" in ran.stderr:
        pytest.skip("another user cannot read the test's directory")
    drops_user, status, children = ran.stdout.split()
    assert (drops_user, status) == ("False", "pass")
    assert 0 < int(children) <= 16


def test_without_an_interpreter_everything_is_infra() -> None:
    ran = Sandbox("/nowhere/python").run(Program(command=("python", "-c", "pass")), QUICK)
    assert ran.status == "infra"
    assert "/nowhere/python" in ran.message


@pytest.fixture
def fake_bwrap(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Puts a script named bwrap first on the sandbox's path, where every user may run it."""
    from predictor.sandbox import shield as shields

    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)

        def write(behaviour: str, run_it: str) -> None:
            fake = Path(directory) / "bwrap"
            fake.write_text(FAKE_BWRAP.format(behaviour=behaviour, run=run_it))
            fake.chmod(0o755)

        monkeypatch.setitem(shields.ENVIRONMENT, "PATH", f"{directory}:{shields.ENVIRONMENT['PATH']}")
        find_shield.cache_clear()
        yield write
        find_shield.cache_clear()


@pytest.mark.parametrize(
    ("behaviour", "run_it"),
    [
        ("", 'exec unshare --user --net --pid --fork --kill-child=KILL "$@"'),
        ("echo cannot create a namespace >&2; exit 1", ""),
    ],
)
def test_a_bubblewrap_that_does_not_stop_what_it_should_is_not_used(
    behaviour: str, run_it: str, fake_bwrap: Callable[[str, str], None]
) -> None:
    fake_bwrap(behaviour, run_it)
    found = find_shield(None)
    assert found is not None
    assert found.name != "bubblewrap"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_behind_bubblewrap_nothing_outside_its_directory_can_be_written() -> None:
    assert Sandbox().shield is not None
    if Sandbox().shield.name != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    code = (
        "import os\n"
        "for path in ('/etc/x', '/var/tmp/x', '/dev/shm/x', '/root/x'):\n"
        "    try:\n        open(path, 'w').write('x')\n"
        "    except OSError as error:\n        print(type(error).__name__)\n"
        "open('own', 'w').write('x')\n"
        "print(sorted(os.listdir('.')), len([n for n in os.listdir('/proc') if n.isdigit()]))"
    )
    lines = python(code, PATIENT).output.splitlines()
    assert lines[-1].startswith("['own'] ")
    assert int(lines[-1].split()[-1]) <= 3, "it sees its own processes only"
    assert not Path("/dev/shm/x").exists()
    assert not Path("/var/tmp/x").exists()


def test_bubblewrap_is_asked_for_all_that_the_docstring_promises() -> None:
    command = Shield("bubblewrap", "/usr/bin/python3", drops_user=False).wrap(["true"], Path("/tmp/gapcast-x"))
    assert Path(command[0]).name == "bwrap"
    assert command[1] == "--unshare-all"
    assert {"--die-with-parent", "--new-session", "--ro-bind"} <= set(command)
    own = command.index("--bind")
    assert command[own : own + 3] == ["--bind", "/tmp/gapcast-x", "/tmp/gapcast-x"]
    assert own > command.index("--tmpfs")
    assert command[-1] == "true"
