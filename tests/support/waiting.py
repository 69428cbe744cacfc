"""How tests wait: they look again and again until what they expect is there, and fail with what was missing.

For all tests. Nothing here measures: how long something took is no matter, and the limit is used up by failing tests
only. It is a little shorter than the time limit of the test that waits, so that the test ends with its own message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import pytest
from support.consumers import Consumer, Record

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

Story = str | Callable[[], str]
"""What to say when it did not happen."""

_MOST_S: Final = 120
_SHARE_OF_THE_LIMIT: Final = 0.8
_LOOK_EVERY_S: Final = 0.005
_REST_FOR_EACH_LOOK: Final = 4
"""A look that takes the processor long is not taken as often: what is waited for needs it, too."""
_POLL_MS: Final = 100


class _Patience:
    seconds = 24.0


def follow_time_limit(limit_s: float) -> None:
    """For tests/conftest.py: the test that begins has this time limit."""
    _Patience.seconds = min(_MOST_S, _SHARE_OF_THE_LIMIT * limit_s)


def patience_s() -> float:
    """How long this test waits for what another thread, process or broker does."""
    return _Patience.seconds


def pause(look_took_s: float = 0) -> None:
    """The time between two looks, of which the last one took the processor so long."""
    threading.Event().wait(max(_LOOK_EVERY_S, _REST_FOR_EACH_LOOK * look_took_s))


def rest(span_s: float) -> None:
    """Let others work for a while, where nothing tells that they are done.

    Only time in which this machine lets processes go on counts: on a busy one this lasts longer, in proportion.
    """
    rested_s = 0.0
    for _ in looks("the machine has no time for this test"):
        began_at_s = time.monotonic()
        pause()
        took_s = time.monotonic() - began_at_s
        if took_s < 2 * _LOOK_EVERY_S:
            rested_s += 2 * took_s  # this pause, and that of looks()
        if rested_s >= span_s:
            return


def happens_within(happened: Callable[[], object], limit_s: float) -> bool:
    """Look again and again; False: it has not happened within the limit."""
    end_at_s = time.monotonic() + limit_s
    began_at_s = time.thread_time()
    while not happened():
        if time.monotonic() >= end_at_s:
            return False
        pause(time.thread_time() - began_at_s)
        began_at_s = time.thread_time()
    return True


def looks(story: Story = "what the test waited for did not happen") -> Iterator[None]:
    """For a loop that looks, and that is left when it has found what it looked for; fails with the story if not."""
    end_at_s = time.monotonic() + patience_s()
    while True:
        began_at_s = time.thread_time()
        yield
        if time.monotonic() >= end_at_s:
            pytest.fail(story if isinstance(story, str) else story())
        pause(time.thread_time() - began_at_s)


def wait_until(look: Callable[[], T | None], story: Story = "what the test waited for did not happen") -> T:
    """Look until there is something, and return it; `look` may wait itself, by a poll. Fails with the story if not."""
    for _ in looks(story):
        if found := look():
            return found
    raise AssertionError("looks() ends by failing")


def gather(look: Callable[[], Iterable[T]], count: int, on_each: Callable[[T], None] | None = None) -> list[T]:
    """Look until `count` were found, and one look's more than that never; fails if they do not come.

    `look` waits itself for a while: it is a poll.
    """
    found: list[T] = []

    def enough() -> bool:
        for one in look():
            found.append(one)
            if on_each is not None:
                on_each(one)
        return len(found) >= count

    wait_until(enough, lambda: f"{len(found)} of {count} came: {found}")
    return found


# ---- consumers


def poll_until(consumer: Consumer, count: int, on_record: Callable[[Any], None] | None = None) -> list[Record]:
    """Poll until `count` records have come, and one poll's records more than that never; fails if they do not come."""
    return gather(lambda: consumer.poll(timeout_ms=_POLL_MS), count, on_record)


def poll_once_more(consumer: Consumer, timeout_ms: int = _POLL_MS) -> list[Record]:
    """What one more poll brings; used to show that nothing comes."""
    return list(consumer.poll(timeout_ms=timeout_ms))


def poll_while(consumer: Consumer, waiting: Callable[[], bool]) -> None:
    """Poll as long as `waiting()` holds; no record may come, and fails if it never ends."""

    def is_over() -> bool:
        if not waiting():
            return True
        _no_record(consumer.poll(timeout_ms=_POLL_MS))
        return False

    wait_until(is_over, "what the test polled for did not happen")


def poll_until_raises(consumer: Consumer, kind: type[E]) -> E:
    """Poll until a poll raises this error, and return it; no record may come before, and fails if none is raised."""

    def raised() -> E | None:
        try:
            _no_record(consumer.poll(timeout_ms=_POLL_MS))
        except kind as error:
            return error
        return None

    return wait_until(raised, f"no poll raised {kind.__name__}")


def _no_record(records: Iterable[Record]) -> None:
    found = list(records)
    assert not found, f"nothing was to be delivered, but these were: {found}"


def offsets(records: Iterable[Record]) -> list[int]:
    return [record.offset for record in records]
