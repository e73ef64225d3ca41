"""Runs inside a shield to see what it really stops; prints one JSON object."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path


def main() -> int:
    """Whether this process can write outside its directory, see a network, and may have a directory of its own."""
    interfaces = {name for _, name in socket.if_nameindex()}
    seen = {"network": bool(interfaces - {"lo"}), "writes": _can_write("/var/tmp"), "own_directory": _can_write(".")}
    sys.stdout.write(json.dumps(seen) + "\n")
    return 0


def _can_write(directory: str) -> bool:
    path = Path(directory) / f".canary-{os.getpid()}"
    try:
        path.touch(0o600, exist_ok=False)
        path.unlink()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
