"""Fake brokers that others have: kfake, of franz-go, and librdkafka's mock, each as a process.

Used by `targets` for the rows that put the reference broker beside them. `BrokerMissingError` says in one line why one
of them cannot be had here.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from support.documentation import environment

KFAKE: Final = "kfake"
MOCK: Final = "mock"
"""librdkafka's."""
NAMES: Final = {KFAKE: "franz-go's kfake", MOCK: "librdkafka's mock"}

_SOURCE: Final = Path(__file__).with_name("kfake")
_BUILD_TIMEOUT_S: Final = 300


class BrokerMissingError(Exception):
    """It cannot be had on this machine."""


@contextlib.contextmanager
def _listening(command: Sequence[str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Where the process listens, which it says first, and the process."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            if not line.startswith("bootstrap: "):
                raise BrokerMissingError(process.stderr.read().strip().rpartition("\n")[2])
            yield line.removeprefix("bootstrap: ").strip(), process
        finally:
            process.terminate()


@contextlib.contextmanager
def kfake() -> Iterator[tuple[str, int]]:
    """Where it listens, and its process id. Building it fetches its modules once."""
    if shutil.which("go") is None:
        raise BrokerMissingError("kfake needs go, which is not installed")
    with tempfile.TemporaryDirectory(prefix="kfake-") as folder:
        program = str(Path(folder) / "kfake")
        command = ["go", "build", "-buildvcs=false", "-mod=readonly", "-o", program, "."]
        try:
            built = subprocess.run(
                command, cwd=_SOURCE, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise BrokerMissingError(f"go did not build kfake within {_BUILD_TIMEOUT_S} s") from None
        if built.returncode:
            raise BrokerMissingError(f"go did not build kfake: {built.stderr.strip().rpartition(chr(10))[2]}")
        with _listening([program]) as (bootstrap, process):
            yield bootstrap, process.pid


class Mock:
    """librdkafka's mock while it runs. It has no admin: its process makes topics."""

    def __init__(self, bootstrap: str, process: subprocess.Popen[str]) -> None:
        self.bootstrap = bootstrap
        self.pid: int = process.pid
        self._process = process

    def create_topic(self, topic: str, partitions: int) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{topic} {partitions}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer == f"{topic}: 0\n", f"the mock made no topic: {answer!r}"


@contextlib.contextmanager
def mock() -> Iterator[Mock]:
    with _listening([sys.executable, "-P", "-m", "performance.librdkafka_mock"]) as (bootstrap, process):
        yield Mock(bootstrap, process)
