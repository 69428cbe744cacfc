"""Keeps coverage from looking at code that a test runs thousands of times, or that is not the product as it stands."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Final

_TAKE_NO_OTHER_BRANCHES: Final = (
    "tests/conformance/",
    "tests/fuzz/",
    "tests/performance/",
    "tests/simulation/",
    "tests/soak/",
    "tests/test_docs.py",
    "tests/test_examples.py",
)
"""Folders and files: what they do from outside, the other tests do, too."""
_TWIN: Final = re.compile(r"tests/facade/.*\[(.*-)?asyncio[]-]")
"""A test on the asyncio façade that runs on the blocking one as well: below the façade both go the same way."""
_OF_SUBPROCESSES: Final = "COVERAGE_PROCESS_CONFIG"
"""With this variable each Python measures itself."""


def takes_no_other_branches(nodeid: str) -> bool:
    """Whether a test goes where others have been, as far as coverage sees."""
    return nodeid.startswith(_TAKE_NO_OTHER_BRANCHES) or _TWIN.match(nodeid) is not None


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Around a block, or as the decorator of a whole test: about half the time.

    Threads and processes that are started there are not measured either.
    """
    before, before_in_threads = sys.gettrace(), threading.gettrace()
    of_processes = os.environ.pop(_OF_SUBPROCESSES, None)
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        if of_processes is not None:
            os.environ[_OF_SUBPROCESSES] = of_processes
        threading.settrace(before_in_threads)  # type: ignore[arg-type]
        sys.settrace(before)
