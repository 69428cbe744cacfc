"""Keeps coverage from looking at code that a test runs thousands of times, or that is not the product as it stands."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Around a block, or as the decorator of a whole test: about half the time. Threads started there are not seen."""
    before, before_in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        threading.settrace(before_in_threads)  # type: ignore[arg-type]
        sys.settrace(before)
