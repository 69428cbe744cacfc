"""For `test_seed_worker`: seeds that end in all ways, in a module that the worker's process can import."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.durability.seed_worker import Outcome, RunSeed

HANGS, DIES, RAISES, COMPLAINS, IS_GOOD = range(5)
LIFELINE: Final = "lifeline"
"""A named pipe beside the folders of the seeds."""


@contextlib.contextmanager
def planted_runs() -> Iterator[RunSeed]:
    yield _run


def _run(seed: int, folder: Path) -> Outcome:
    """Leaves a process behind, which holds the lifeline."""
    lifeline = os.open(folder.parent / LIFELINE, os.O_WRONLY)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1_000)"], pass_fds=[lifeline])
    os.write(lifeline, b"+")
    if seed == HANGS:
        time.sleep(1_000)
    if seed == DIES:
        os._exit(1)
    if seed == RAISES:
        raise ValueError("planted")
    return Outcome(["planted"] if seed == COMPLAINS else [], Counter(done=1))
