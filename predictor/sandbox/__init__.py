"""Untrusted programs under limits: every run ends by its deadline with one of six statuses and no process left.

What is limited: processor and wall time, memory (of each process, and of all together), number of processes, size of
each file, and how much output is kept. A new session, and where the kernel allows it a process namespace of its own,
dies as a whole. As root, programs run under an unprivileged user id that no other process has.

Three shields, the strongest that a canary proves on this machine:

- `bubblewrap` (where `bwrap` is installed): no network, no other processes in sight, the file system read-only except
  the run's own directory.
- `namespaces` (util-linux's `unshare`): no network, all processes die together. Files stay readable, and writable where
  the user may write.
- `bare`: limits and process groups only. **Not stopped:** network connections; reading and writing what the user may;
  a program that leaves its session and its parent within one census (0.1 s).

With any shield a program can use the kernel's whole system-call surface, fill the disk with many small files, and,
since tests written in Python run inside the tested process, a program written to cheat can forge a pass. Tests of style
`stdin` are compared outside and cannot be forged.
"""

from predictor.sandbox.limits import Limits, Program, Ran, Status
from predictor.sandbox.runner import Sandbox
from predictor.sandbox.unit_tests import SuiteResult, run_assert_tests, run_stdin_tests

__all__ = ["Limits", "Program", "Ran", "Sandbox", "Status", "SuiteResult", "run_assert_tests", "run_stdin_tests"]
