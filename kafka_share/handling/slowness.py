"""Which calls of the handler take longer than expected, and when to say so: a machine that `Jobs` asks.

It is said of a call when it has taken as long as expected, and again each time that this span has doubled.
"""

from __future__ import annotations

from collections import OrderedDict

from kafka_share.handling.job import Call


class Slowness:
    """The calls that run, as far as their time is concerned. Without an expected time it knows none."""

    def __init__(self, expected_ms: int | None = None) -> None:
        self._expected_ms = expected_ms
        self._in_time: OrderedDict[Call, None] = OrderedDict()
        """In the order of their begin."""
        self._slow: dict[Call, int] = {}
        """When to say so the next time."""

    def begun(self, call: Call) -> None:
        """The handler is called."""
        if self._expected_ms is not None:
            self._in_time[call] = None

    def ended(self, call: Call) -> None:
        """It has returned, or raised."""
        if self._expected_ms is not None:
            self._in_time.pop(call, None)
            self._slow.pop(call, None)

    def poll(self, now_ms: int) -> list[Call]:
        """The calls of which to say now that they are slow."""
        if self._expected_ms is None:
            return []
        while self._in_time and (first := next(iter(self._in_time))).since_ms + self._expected_ms <= now_ms:
            del self._in_time[first]
            self._slow[first] = now_ms
        due = [call for call, at_ms in self._slow.items() if at_ms <= now_ms]
        for call in due:
            self._slow[call] = call.since_ms + self._next_span_ms(now_ms - call.since_ms)
        return due

    def _next_span_ms(self, taken_ms: int) -> int:
        assert self._expected_ms is not None
        span_ms = self._expected_ms
        while span_ms <= taken_ms:
            span_ms *= 2
        return span_ms

    def wake_at_ms(self) -> int | None:
        """When `poll` has something to say, if the calls go on."""
        if self._expected_ms is None:
            return None
        times = list(self._slow.values())
        if self._in_time:
            times.append(next(iter(self._in_time)).since_ms + self._expected_ms)
        return min(times, default=None)
