"""SparkDriver: a driver program with its own JVM, which runs one query after the other on command.

For tests/spark. The program is `spark_program`; commands and results are lines of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from spark.spark_home import spark_home

LOCAL: Final[Mapping[str, str]] = MappingProxyType({"spark.master": "local[2,4]"})


class DriverDiedError(Exception):
    """The program has ended before its result."""


class SparkDriver:
    """Started when it is first used. `folder` gets the log of Spark; `registers`: the session calls `register`.

    `settings` are Spark's; they name the master.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] = LOCAL, *, registers: bool = True) -> None:
        self._folder = folder
        self._plan = json.dumps({"settings": dict(settings), "registers": registers})
        self._process: subprocess.Popen[str] | None = None
        self._temporary = tempfile.TemporaryDirectory(prefix="ks-", ignore_cleanup_errors=True)

    def run(self, **command: Any) -> dict[str, Any]:
        """Run a query; returns what the program tells of it. Raises `DriverDiedError`."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(command) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("RESULT "):
                result: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
                return result
        process.wait()
        raise DriverDiedError(f"exit status {process.returncode}; {self._log_tail()}")

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            program = str(Path(__file__).with_name("spark_program.py"))
            environment = {
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_HOME": str(spark_home()),
                "PYTHONPATH": str(Path(__file__).parents[1]),  # for what the program imports of the tests
                "SPARK_LOCAL_IP": "127.0.0.1",
                "TMPDIR": self._temporary.name,  # the default agentDir is below it
            }
            with (self._folder / "spark.log").open("a") as log:
                self._process = subprocess.Popen(
                    [sys.executable, program, self._plan],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env={**os.environ, **environment},
                )
        return self._process

    def _log_tail(self) -> str:
        return (self._folder / "spark.log").read_text(errors="replace")[-3_000:]

    def close(self) -> None:
        """End it, if it runs."""
        self._end()
        self._temporary.cleanup()

    def _end(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it was killed
        self._process.wait()
        self._process.stdout.close()
        self._process = None
