"""Keeps coverage from looking at code that a test runs thousands of times, or that is not the product as it stands."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

_TAKE_NO_OTHER_BRANCHES: Final = (
    "tests/conformance/",
    "tests/fuzz/",
    "tests/performance/",
    "tests/simulation/",
    "tests/soak/",
    "tests/test_docs.py",
    "tests/test_examples.py",
    # the same few steps in thousands of random orders
    "tests/core/test_every_event.py",
    "tests/core/test_random.py",
    "tests/facade/test_explicit.py::test_each_record_ends_once_when_words_are_random",
    "tests/network/test_wire.py::test_no_frame_breaks_it",
    "tests/protocol/test_hostile_frames.py",
    "tests/protocol/test_message_round_trips.py",
    "tests/protocol/test_record_batches.py::test_nothing_but_a_record_batch_error_is_raised",
    "tests/protocol/test_record_batches_foreign.py",
    "tests/spark/test_lease_book.py::TestLeaseStory",
    # large numbers
    "tests/broker/storage/test_produced_batch.py::test_headers_by_the_million",
    "tests/core/fetching/test_offsets.py::test_a_hundred_thousand_ranges",
    "tests/core/test_hostile_heartbeats.py::test_an_assignment_is_cut_off",
    "tests/facade/test_payloads.py::test_every_record_comes_once_when_there_are_thousands",
    "tests/facade/test_polling.py::test_every_record_comes_whole_and_in_order",
)
"""Folders, files and tests: where they go, the other tests go, too."""
_PROCESSES_ARE_LIKE_OTHERS: Final = (
    "tests/cli/test_late_imports.py",
    "tests/spark/test_agent_status.py",
)
"""Of these, the processes that they start are not measured."""
_TWIN: Final = re.compile(
    r"tests/facade/test_(broken_broker|cluster_changes|delivery_count|explicit|fetch_answers|groups|locks|membership"
    r"|payloads|polling|window)\.py.*\[(.*-)?asyncio[]-]"
)
"""A test on the asyncio façade that runs on the blocking one as well: below the façade both go the same way."""
_OF_SUBPROCESSES: Final = "COVERAGE_PROCESS_CONFIG"
"""With this variable each Python measures itself."""


def measured_as_needed(nodeid: str) -> AbstractContextManager[None]:
    """Around a test: keeps coverage away as far as the test goes where others have been."""
    if nodeid.startswith(_TAKE_NO_OTHER_BRANCHES) or _TWIN.match(nodeid) is not None:
        return unmeasured()
    return processes_unmeasured() if nodeid.startswith(_PROCESSES_ARE_LIKE_OTHERS) else contextlib.nullcontext()


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Around a block, or as the decorator of a whole test: about half the time.

    Threads and processes that are started there are not measured either.
    """
    before, before_in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        with processes_unmeasured():
            yield
    finally:
        threading.settrace(before_in_threads)  # type: ignore[arg-type]
        sys.settrace(before)


@contextlib.contextmanager
def processes_unmeasured() -> Iterator[None]:
    """The same for the processes that are started there, and nothing else: coverage doubles an interpreter's start."""
    of_processes = os.environ.pop(_OF_SUBPROCESSES, None)
    try:
        yield
    finally:
        if of_processes is not None:
            os.environ[_OF_SUBPROCESSES] = of_processes
