"""Runs one row under py-spy, if that is installed, and reads where each thread of our client spends its time.

Used by `bench --profile`. Samples are taken of threads that run, not of those that wait.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from performance.rows import OURS, Row
from performance.runs import Runner
from performance.targets import Target

_SAMPLES_PER_SECOND: Final = 500
_SHOWN: Final = 25


class NoProfilerError(Exception):
    """py-spy is not there."""


def profile(row: Row, runner: Runner, target: Target, file: Path) -> Iterator[str]:
    """Lines to print; the raw samples (a stack and its count in each line) are kept in the file."""
    beside = Path(sys.executable).with_name("py-spy")
    spy = str(beside) if beside.exists() else shutil.which("py-spy")
    if spy is None:
        raise NoProfilerError("py-spy is not installed: python -m pip install py-spy")
    words = ["record", "--rate", str(_SAMPLES_PER_SECOND), "--threads", "--function", "--format", "raw"]
    result = runner.run(row, target, OURS, before=[spy, *words, "--output", str(file), "--"])
    own, everything = result["application_cpu"], result["cpu"]
    yield f"{row.id}: {everything:.2f} CPU s/M under py-spy, {own:.2f} by the thread that polls; raw file: {file}"
    yield from top(file.read_text(encoding="utf-8"))


def top(raw: str) -> Iterator[str]:
    """For each thread the functions by their own samples, without what they call."""
    own: dict[str, Counter[str]] = {}
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        if any("importlib" in frame for frame in frames):
            continue  # before the first record
        thread = thread.partition(": ")[0]
        own.setdefault(thread, Counter())[frames[-1] if frames else "?"] += int(count)  # the last frame is what runs
    total = sum(sum(counts.values()) for counts in own.values())
    for thread, counts in sorted(own.items(), key=lambda item: -sum(item[1].values())):
        of_thread = sum(counts.values())
        yield f"\n{thread}: {100 * of_thread / total:.1f} % of the samples"
        for name, samples in counts.most_common(_SHOWN):
            yield f"  {100 * samples / of_thread:5.1f} %  {name}"
