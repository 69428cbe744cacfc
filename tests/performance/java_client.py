"""Apache's share consumer as a contestant: `ShareBench.java`, compiled against the jars of `conformance.kafka_jars`.

Where Java, its compiler or the jars are missing, `KafkaUnavailableError` says so in one line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from conformance.kafka_jars import KafkaUnavailableError, class_path
from performance.meter import Task

VERSION: Final = "4.3.1"
_SOURCE: Final = Path(__file__).with_name("ShareBench.java")
_OPTIONS: Final = ("-Xmx512m", "-Dlog4j2.level=OFF")
_WARMING: Final = 4
"""The first one of so many parts of a run is left out: what is measured is the slope behind it."""


class JavaClient:
    """The compiled program. `folder` is for its classes."""

    def __init__(self, folder: Path) -> None:
        jars = class_path(VERSION)
        if shutil.which("javac") is None:
            raise KafkaUnavailableError("the Java client needs a JDK: javac is not installed")
        self._class_path = f"{folder}{os.pathsep}{jars}"
        compiler = ["javac", "-nowarn", "-Xlint:none", "-d", str(folder), "-cp", jars, str(_SOURCE)]
        done = subprocess.run(compiler, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KafkaUnavailableError(f"{_SOURCE.name} cannot be compiled: {done.stdout}{done.stderr}")

    def command(self, task: Task) -> list[str]:
        left_out = 1 if task.stamped else task.records // _WARMING
        words = [task.bootstrap, task.topic, task.group, task.records, task.mode, task.max_poll_records, left_out]
        java = ["java", *_OPTIONS, "-cp", self._class_path, "ShareBench"]
        return [*java, *map(str, words), str(task.stamped).lower()]
