"""Keeps coverage from looking at code that a test runs thousands of times, or that is not the product as it stands."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final

TAKE_NO_OTHER_BRANCHES: Final = (
    "tests/conformance/",
    "tests/fuzz/",
    "tests/performance/",
    "tests/simulation/",
    "tests/soak/",
    "tests/test_architecture.py",
    "tests/test_docs.py",
    "tests/test_examples.py",
    "tests/test_imports.py",
    "tests/test_packaging.py",
    "tests/test_workflows.py",
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
NOR_DO_THESE: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/broker/durability/test_kills.py": ("what_was_answered",),
    "tests/broker/share/test_share_state_log.py": ("a_reloaded_coordinator", "pruning_loses"),
    "tests/broker/storage/test_produced_batch.py": ("many_records", "nothing_is_written", "only_one_large_batch"),
    "tests/broker/test_command.py": ("it_has_what_it_had", "it_logs_requests", "it_says_where_it_is"),
    "tests/broker/test_group_state.py": ("reading_the_log", "the_log_of_offsets"),
    "tests/broker/test_limits.py": ("the_one_with_most_unread_answers", "who_does_not_read"),
    "tests/cli/test_worker_command.py": ("a_probe", "a_second_signal", "records_that_cannot_be_handled"),
    "tests/core/fetching/test_empty_answers.py": ("",),
    "tests/facade/test_bad_records.py": ("a_batch_that_others_may_read", "a_crash_loop"),
    "tests/facade/test_broken_broker.py": ("records_arrive_all_the_same",),
    "tests/facade/test_columns.py": ("rows_may_be_named",),
    "tests/facade/test_commit.py": ("acknowledgements_persist", "each_commit_names", "every_offset", "nothing_is_l"),
    "tests/facade/test_delivery_count.py": ("every_offset_is_delivered", "only_the_poisonous_record"),
    "tests/facade/test_interrupts.py": ("close_gives_back",),
    "tests/facade/test_metrics.py": ("",),
    "tests/facade/test_payloads.py": ("records_come_whole",),
    "tests/facade/test_process_end.py": (
        "a_daemon_thread",
        "records_that_were_not_acknowledged",
        "the_parent_keeps",
        "the_process_ends",
        "what_was_acknowledged",
    ),
    "tests/facade/test_window.py": ("each_record_is_settled_once_when_eight_threads",),
    "tests/handling/test_dead_letters.py": ("one_per_cent", "producers_of_other_clients"),
    "tests/handling/test_processes.py": ("a_handler_whose_lock", "a_signal", "records_are_handled", "the_records_of"),
    "tests/handling/test_worker.py": (
        "a_second_stop",
        "a_thousand_records",
        "every_record_is_handled",
        "no_result_waits",
        "results_are_told",
        "sigterm_under_load",
        "the_records_of",
    ),
    "tests/spark/test_agent.py": (
        "a_later_runner",
        "a_lease_has_no_more",
        "a_lease_that_was_replayed",
        "connections_that_prove_nothing",
        "draining_waits",
        "locks_are_renewed",
        "others_cannot_enter",
        "records_are_accepted",
        "records_are_released",
        "records_come_again",
        "sigterm_releases",
        "the_query_hears_that",
    ),
    "tests/spark/test_fleet.py": ("a_batch_is", "agents_", "nothing_of_a_batch"),
}
"""By file, how the names of more such tests begin. A run with a context of coverage for each test has shown it: at most
ten branches were its own. Most of them start processes, or do the same a hundred times.
"""
_PROCESSES_ARE_LIKE_OTHERS: Final = (
    "tests/cli/test_late_imports.py",
    "tests/spark/test_agent_status.py",
)
"""Of these, the processes that they start are not measured."""
_TWIN: Final = re.compile(
    r"tests/facade/test_(bad_records|broken_broker|cluster_changes|commit|commit_faults|delivery_count|explicit"
    r"|fetch_answers|groups|implicit|locks|membership|payloads|polling|release|renew|topic_changes|window)\.py"
    r".*\[(.*-)?asyncio[]-]"
)
"""A test on the asyncio façade that runs on the blocking one as well: below the façade both go the same way."""
_OF_SUBPROCESSES: Final = "COVERAGE_PROCESS_CONFIG"
"""With this variable each Python measures itself."""


def measured_as_needed(nodeid: str) -> AbstractContextManager[None]:
    """Around a test: keeps coverage away as far as the test goes where others have been."""
    file, _, name = nodeid.partition("::test_")
    if nodeid.startswith(TAKE_NO_OTHER_BRANCHES) or name.startswith(NOR_DO_THESE.get(file, ())) or _TWIN.match(nodeid):
        return unmeasured()
    return processes_unmeasured() if nodeid.startswith(_PROCESSES_ARE_LIKE_OTHERS) else contextlib.nullcontext()


@contextlib.contextmanager
def unmeasured() -> Iterator[None]:
    """Around a block, or as the decorator of a whole test: about half the time.

    Threads and processes that are started there are not measured either.
    """
    before, before_in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        with processes_unmeasured():
            yield
    finally:
        threading.settrace(before_in_threads)
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
