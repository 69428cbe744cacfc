"""Starts the stub broker as a process, and talks to it.

Used by the benchmarks and by the stub's test. Leaving the `with` block ends the process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Final, Self

import attrs
from performance.stub_broker import Settings
from support.documentation import environment

NOT_ON_WINDOWS: Final = "the stub broker waits for commands and for sockets at once, which Windows cannot"
_STOP_TIMEOUT_S: Final = 30


class StubProcess:
    """A running stub broker. `bootstrap` and `topic`: for clients."""

    def __init__(self, settings: Settings) -> None:
        command = [sys.executable, "-P", "-m", "performance.stub_broker", json.dumps(attrs.asdict(settings))]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment())
        greeting = self._line()
        self.bootstrap: str = greeting["bootstrap"]
        self.topic: str = greeting["topic"]

    def open_group(self, group: str, records: int, members: int = 1) -> None:
        """A group of which nobody has consumed anything; the first record comes when so many members are there."""
        self._ask({"open": group, "records": records, "members": members})

    def account(self, group: str) -> dict[str, Any]:
        """What `ReplayedGroup.account` says, and `cpu_s`, the CPU seconds of the broker so far."""
        return self._ask({"account": group})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(command)}\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the stub broker has ended with exit code {self._process.wait(_STOP_TIMEOUT_S)}")
        said: dict[str, Any] = json.loads(line)
        return said
