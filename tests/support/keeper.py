"""Keeper: processes that a test starts, and a folder of theirs, neither of which outlives the test run.

For clusters of Kafka and of Spark. The keeper is a process (`keeper_process`), in a session of its own so that Ctrl-C
does not reach it. When its owner closes it or ends in any way, it kills what still runs, what those have started
included, and removes the folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_PROCESS: Final = Path(__file__).with_name("keeper_process.py")
_STOP_TIMEOUT_S: Final = 60


class Keeper:
    """The near end of a keeper process."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_PROCESS), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(self, name: str, command: Sequence[str], output: Path) -> None:
        """Start a process, or one that has ended again; what it says is added to the file."""
        self._ask({"start": name, "command": list(command), "output": str(output)})

    def signal(self, name: str, number: int) -> None:
        self._ask({"signal": name, "number": int(number)})

    def exit_code(self, name: str) -> int | None:
        """None while it runs."""
        code: int | None = self._ask({"poll": name})
        return code

    def close(self) -> None:
        """Calling it again does nothing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(_STOP_TIMEOUT_S)

    def _ask(self, order: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())
