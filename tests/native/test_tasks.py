"""Who is inside of an asyncio consumer: the same from both implementations."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from types import ModuleType


def test_it_is_busy_where_no_event_loop_runs(native: ModuleType) -> None:
    one = native.OneTask(get_ident)
    assert (one.inside, one.is_wanted) == (None, False)
    assert one.is_busy_here()
    assert not one.is_elsewhere()


def test_the_thread_of_the_event_loop_finds_it_free(native: ModuleType) -> None:
    one = native.OneTask(get_ident)
    one.belong_to_this_thread()
    assert not one.is_busy_here()
    assert not one.is_elsewhere()
    with ThreadPoolExecutor(1) as other:
        assert other.submit(one.is_busy_here).result()
        assert other.submit(one.is_elsewhere).result()


def test_it_is_busy_while_a_task_is_inside_or_somebody_waits_to_close(native: ModuleType) -> None:
    one = native.OneTask(get_ident)
    one.belong_to_this_thread()
    one.inside = "poll"
    assert one.is_busy_here()
    one.inside, one.is_wanted = None, True
    assert one.is_busy_here()
    one.is_wanted = False
    assert not one.is_busy_here()
