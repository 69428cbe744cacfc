"""Where and with what a run was made: what a figure means nothing without."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from kafka_share._version import VERSION

_USER_TIME: Final = 11
"""The index in /proc/PID/stat, behind the name of the process; the system time is the next one."""


@cache
def machine() -> dict[str, str]:
    """Facts by name, for JSON and for the page."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": f"{os.cpu_count()} of {_processor()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kafka_share": VERSION,
        "confluent-kafka": _version("confluent-kafka"),
        "cramjam": _version("cramjam"),
        "java": _java(),
    }


def load() -> float:
    """How many processes wanted a processor in the last minute; 0 where nobody knows."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def cpu_s(pid: int) -> float | None:
    """CPU seconds that a process has used so far, None where nobody knows."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[_USER_TIME]) + int(fields[_USER_TIME + 1])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float | None:
    """The memory that a process has now, None where nobody knows."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    except OSError:
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _java() -> str:
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "not installed"
    return done.stderr.partition('"')[2].partition('"')[0] or "unknown"
