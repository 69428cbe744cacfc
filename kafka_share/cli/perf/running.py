"""One run of `kafka-share-perf`: a thread per consumer polls until enough has come, or nothing for too long.

The command makes the consumers, calls `run`, prints the rows, and closes the consumers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from kafka_share.cli.perf.measuring import Tally, tally_of
from kafka_share.cli.perf.rows import Row
from kafka_share.consumer import KafkaShareConsumer

_LONGEST_POLL_MS: Final = 100
"""How soon every thread sees that the run is over."""
_LONGEST_WAIT_MS: Final = 1_000
"""On Windows, Ctrl-C does not end a wait without end."""

Consumer = KafkaShareConsumer[bytes | None, bytes | None]


@attrs.frozen
class _Now:
    """One moment, by a clock that nobody sets, and what this process has used until then, on all its threads."""

    steady_ms: int = attrs.field(factory=lambda: time.monotonic_ns() // 1_000_000)
    cpu_s: float = attrs.field(factory=time.process_time)


@attrs.define
class _Share:
    """One consumer's part of the run; under the run's lock."""

    consumer: Consumer
    total: Tally = attrs.field(factory=Tally)
    since_report: Tally = attrs.field(factory=Tally)
    reported_at: _Now = attrs.field(factory=_Now)
    ended_at: _Now | None = None


@attrs.define
class Run:
    """From the first poll to the last; `run` may be called once."""

    consumers: Sequence[Consumer]
    wanted_records: int
    timeout_ms: int
    """End when no consumer has got a record for this long."""
    acknowledges_each: bool
    """Whether the consumers are in explicit mode."""
    report_every_ms: int | None
    on_interval: Callable[[int, Row], None]
    """Called with the number of a consumer, from 1, that got records since its last report."""

    timed_out: bool = attrs.field(default=False, init=False)
    _shares: list[_Share] = attrs.field(init=False, factory=list)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _over: threading.Event = attrs.field(init=False, factory=threading.Event)
    _records: int = attrs.field(init=False, default=0)
    _last_records_ms: int = attrs.field(init=False, default=0)
    _failure: BaseException | None = attrs.field(init=False, default=None)
    _start: _Now = attrs.field(init=False, factory=_Now)
    _started_at_ms: int = attrs.field(init=False, default=0)
    """Milliseconds since 1970."""

    def run(self) -> None:
        """Until it is over. Raises what a consumer raised, and KeyboardInterrupt, when all threads have ended."""
        self._start, self._started_at_ms = _Now(), _wall_ms()
        self._last_records_ms = self._start.steady_ms
        self._shares = [_Share(consumer, reported_at=self._start) for consumer in self.consumers]
        threads = [
            threading.Thread(target=self._consume, args=(share,), name=f"perf {number}", daemon=True)
            for number, share in enumerate(self._shares, 1)
        ]
        try:
            for thread in threads:
                thread.start()
            self._wait()
        finally:
            self._over.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        if self._failure is not None:
            raise self._failure

    def total(self) -> Row:
        """Of all consumers, when `run` has ended."""
        tally, end = Tally(), self._start
        for share in self._shares:
            tally.merge(share.total)
            if share.ended_at is not None and share.ended_at.steady_ms >= end.steady_ms:
                end = share.ended_at
        return self._row(self._start, end, tally, tally, with_cpu=True)

    def of_each(self) -> list[Row]:
        """A row per consumer, when `run` has ended. What it cost is known if there is only one."""
        return [
            self._row(
                self._start, share.ended_at or self._start, share.total, share.total, with_cpu=len(self._shares) == 1
            )
            for share in self._shares
        ]

    def _wait(self) -> None:
        every_ms = _LONGEST_WAIT_MS if self.report_every_ms is None else self.report_every_ms
        while not self._over.wait(every_ms / 1000):
            if self.report_every_ms is None:
                continue
            for number, share in enumerate(self._shares, 1):
                row = self._report(share)
                if row is not None:
                    self.on_interval(number, row)

    def _report(self, share: _Share) -> Row | None:
        with self._lock:
            if not share.since_report.records:
                return None
            start, share.reported_at = share.reported_at, _Now()
            tally, share.since_report = share.since_report, Tally()
            return self._row(start, share.reported_at, tally, share.total, with_cpu=len(self._shares) == 1)

    def _row(self, start: _Now, end: _Now, tally: Tally, so_far: Tally, *, with_cpu: bool) -> Row:
        """Times are those of the wall clock at the start, plus what has gone by since: they agree with the span."""
        return Row(
            started_at_ms=self._started_at_ms + start.steady_ms - self._start.steady_ms,
            ended_at_ms=self._started_at_ms + end.steady_ms - self._start.steady_ms,
            records=tally.records,
            bytes=tally.bytes,
            records_so_far=so_far.records,
            bytes_so_far=so_far.bytes,
            latencies=tally.latencies,
            cpu_s=end.cpu_s - start.cpu_s if with_cpu else None,
        )

    def _consume(self, share: _Share) -> None:
        """A thread's work."""
        try:
            while not self._over.is_set():
                records = share.consumer.poll(timeout_ms=_LONGEST_POLL_MS)
                if records:
                    self._add(share, tally_of(records, _wall_ms()))
                    if self.acknowledges_each:
                        for record in records:
                            share.consumer.acknowledge(record)
                self._look_whether_over()
        except BaseException as error:  # noqa: BLE001  # raised by the thread that called run
            with self._lock:
                self._failure = self._failure or error
            self._over.set()
        finally:
            share.ended_at = _Now()

    def _add(self, share: _Share, tally: Tally) -> None:
        with self._lock:
            self._records += tally.records
            self._last_records_ms = time.monotonic_ns() // 1_000_000
            share.total.merge(tally)
            if self.report_every_ms is not None:
                share.since_report.merge(tally)

    def _look_whether_over(self) -> None:
        with self._lock:
            waited_ms = time.monotonic_ns() // 1_000_000 - self._last_records_ms
            if self._records >= self.wanted_records:
                self._over.set()
            elif waited_ms >= self.timeout_ms and not self._over.is_set():
                self.timed_out = True
                self._over.set()


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
