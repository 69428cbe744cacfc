"""How the façade's tests wait: by polling until what they expect has come, never by sleeping.

Imported by name from the tests of this directory; a module of its own because several directories have a conftest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

from kafka_share import KafkaShareConsumer, ShareRecord

PATIENCE_POLLS = 100
"""How many polls of 100 ms a test gives an expected record: only a failing test ever uses them up."""
PATIENCE_S = 30
"""How long a test waits for something that another thread or process does: only a failing test ever uses it up."""

E = TypeVar("E", bound=Exception)

Consumer = KafkaShareConsumer[Any, Any]
Record = ShareRecord[Any, Any]


def poll_until(consumer: Consumer, count: int, on_record: Callable[[Any], None] | None = None) -> list[Record]:
    """Poll until `count` records have come, and one poll's records more than that never; fails if they do not come."""
    found: list[Record] = []
    for _ in range(PATIENCE_POLLS):
        for record in consumer.poll(timeout_ms=100):
            found.append(record)
            if on_record is not None:
                on_record(record)
        if len(found) >= count:
            return found
    pytest.fail(f"{len(found)} of {count} records came: {found}")


def poll_once_more(consumer: Consumer, timeout_ms: int = 100) -> list[Record]:
    """What one more poll brings; used to show that nothing comes."""
    return list(consumer.poll(timeout_ms=timeout_ms))


def poll_while(consumer: Consumer, waiting: Callable[[], bool]) -> None:
    """Poll as long as `waiting()` holds; no record may come, and fails if it never ends."""
    for _ in range(PATIENCE_POLLS):
        if not waiting():
            return
        found = list(consumer.poll(timeout_ms=100))
        assert not found, f"nothing was to be delivered, but these were: {found}"
    pytest.fail("what the test polled for did not happen")


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for something that another thread does, looking again and again."""
    pause = threading.Event()
    for _ in range(PATIENCE_S * 200):
        if happened():
            return
        pause.wait(0.005)
    pytest.fail("what the test waited for did not happen")


def offsets(records: Iterable[Record]) -> list[int]:
    return [record.offset for record in records]


def poll_until_raises(consumer: Consumer, kind: type[E]) -> E:
    """Poll until a poll raises this error, and answer it; no record may come before, and fails if none is raised."""
    for _ in range(PATIENCE_POLLS):
        try:
            found = list(consumer.poll(timeout_ms=100))
        except kind as error:
            return error
        assert not found, f"nothing was to be delivered, but these were: {found}"
    pytest.fail(f"no poll raised {kind.__name__}")
