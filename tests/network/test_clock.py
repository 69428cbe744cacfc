"""The clock of a client runs while the machine sleeps."""

from __future__ import annotations

import time

import pytest

from kafka_share.network import clock


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_it_is_the_clock_that_includes_sleep_for_deadlines_and_the_timers_of_the_loop() -> None:
    before_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    loop = clock.ClockLoop()
    try:
        between = (clock.clock_ns(), loop.time() * 1e9, (clock.clock_ms() + 1) * 1e6)
    finally:
        loop.close()
    after_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert before_ns <= between[0] <= after_ns
    assert before_ns - 1_000 <= between[1] <= after_ns + 1_000, "a float has not all digits"
    assert before_ns <= between[2] <= after_ns + 1_000_000


def test_it_is_the_monotonic_clock_where_there_is_no_other() -> None:
    before_ns = time.monotonic_ns()
    assert before_ns <= clock._clock_of(None)() <= time.monotonic_ns()
