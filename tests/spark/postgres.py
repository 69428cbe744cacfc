"""A PostgreSQL of a test's own, from the programs of the machine: for tests/spark/test_sinks.py."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_DEBIAN: Final = Path("/usr/lib/postgresql")
_NOT_ROOT: Final = "postgres"
"""PostgreSQL refuses to run as root; this is the user that its packages make."""


class PostgresMissingError(Exception):
    """There is none that could run here; the text says why."""


def _program(name: str) -> str:
    folders = [os.environ.get("PATH", ""), *sorted(map(str, _DEBIAN.glob("*/bin")), reverse=True)]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        raise PostgresMissingError(f"PostgreSQL is not installed: there is no {name}")
    return found


def _as_nobody_special() -> Sequence[str]:
    if os.geteuid() != 0:
        return ()
    if shutil.which("runuser") is None:
        raise PostgresMissingError("PostgreSQL does not run as root, and there is no runuser")
    return ("runuser", "-u", _NOT_ROOT, "--")


@contextlib.contextmanager
def a_database() -> Iterator[str]:
    """Its address, as libpq writes it. Raises `PostgresMissingError`."""
    initdb, pg_ctl, user = _program("initdb"), _program("pg_ctl"), _as_nobody_special()
    with tempfile.TemporaryDirectory(prefix="ks-pg-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        folder.chmod(0o777)  # another user's files go in, and the socket's path has to be short
        data = str(folder / "data")
        _run(*user, initdb, "-D", data, "-A", "trust", "-U", "tester", "--no-sync", cwd=folder)
        options = f"-k {folder} -c listen_addresses= -c fsync=off"
        _run(*user, pg_ctl, "-D", data, "-l", str(folder / "log"), "-w", "-o", options, "start", cwd=folder)
        try:
            yield f"host={folder} user=tester dbname=postgres"
        finally:
            _run(*user, pg_ctl, "-D", data, "-m", "immediate", "-w", "stop", cwd=folder)


def _run(*command: str, cwd: Path) -> None:
    done = subprocess.run(
        command, cwd=cwd, check=False, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=None
    )
    if done.returncode != 0:
        raise PostgresMissingError(f"{Path(command[-1]).name} of PostgreSQL ended with {done.returncode}")
