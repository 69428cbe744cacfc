"""What a client counts and times: windows of samples, and one `Measurements` that everything records into.

The core, the network thread and the façade record, each with the time that it knows; `metrics.metric_table` gives the
numbers Kafka's names and reads them. Recording is a few additions and never fails. A number is recorded by one thread
and may be read by any: reading changes nothing, and at worst misses what is being recorded at that moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

if TYPE_CHECKING:
    from kafka_share.core.events import Tally

MAX_NODES: Final = 1_000
"""Nodes whose numbers are told apart; what further ones do is in the sums only."""


class _Sample:
    __slots__ = ("began_at_ms", "count", "ends_at_ms", "highest", "sum")

    def __init__(self, began_at_ms: int, ends_at_ms: int) -> None:
        self.began_at_ms = began_at_ms
        self.ends_at_ms = ends_at_ms
        self.sum: float = 0.0
        self.count: int = 0
        self.highest = 0.0


_BEFORE_THE_FIRST: Final = _Sample(-1, -1)
"""Has ended before any time, so that nothing is ever added to it."""


class Sampled:
    """A series of values that are not negative: average, maximum and rates of the latest windows, totals of all time.

    As Kafka's clients do, it keeps `num_samples` samples of `window_ms` each and forgets a sample as a whole. A rate
    counts windows that have not been lived through yet as if nothing had happened in them, so that the first event is
    not a burst. Without values every answer is 0.
    """

    __slots__ = ("_kept", "_num_samples", "_sample", "_window_ms")

    def __init__(self, num_samples: int, window_ms: int) -> None:
        self._num_samples = num_samples
        self._window_ms = window_ms
        self._sample = _BEFORE_THE_FIRST
        self._kept: tuple[float, int, tuple[_Sample, ...]] = (0.0, 0, ())
        """Sum and count of the forgotten samples, and the others: in one piece, for who reads meanwhile."""

    def record(self, value: float, now_ms: int) -> None:
        sample = self._sample
        if now_ms >= sample.ends_at_ms:
            sample = self._next(now_ms)
        sample.count += 1
        if value:  # most spans are shorter than a millisecond
            sample.sum += value
            if value > sample.highest:
                sample.highest = value

    def record_many(self, total: float, highest: float, count: int, now_ms: int) -> None:
        """The same for so many values at once."""
        if not count:
            return
        sample = self._sample
        if now_ms >= sample.ends_at_ms:
            sample = self._next(now_ms)
        sample.sum += total
        sample.count += count
        sample.highest = max(sample.highest, highest)

    def _next(self, now_ms: int) -> _Sample:
        total, count, samples = self._kept
        if len(samples) == self._num_samples:
            total += samples[0].sum
            count += samples[0].count
            samples = samples[1:]
        sample = _Sample(now_ms, now_ms + self._window_ms)
        self._kept = (total, count, (*samples, sample))
        self._sample = sample
        return sample

    @property
    def sum(self) -> float:
        """Of all values ever."""
        total, _, samples = self._kept
        return sum((s.sum for s in samples), total)

    @property
    def count(self) -> int:
        """Of all values ever."""
        _, count, samples = self._kept
        return sum((s.count for s in samples), count)

    def living(self, now_ms: int) -> list[_Sample]:
        """The samples that are not forgotten yet."""
        span_ms = self._num_samples * self._window_ms
        return [s for s in self._kept[2] if now_ms - s.began_at_ms < span_ms]

    def avg(self, now_ms: int) -> float:
        """The average of the latest values."""
        return _average(self.living(now_ms))

    def max(self, now_ms: int) -> float:
        """The highest of the latest values."""
        return max((s.highest for s in self.living(now_ms)), default=0.0)

    def sum_rate(self, now_ms: int) -> float:
        """The latest values added up, per second."""
        living = self.living(now_ms)
        return sum(s.sum for s in living) * 1_000 / self._elapsed_ms(living, now_ms)

    def count_rate(self, now_ms: int) -> float:
        """How many of the latest values there are per second."""
        living = self.living(now_ms)
        return sum(s.count for s in living) * 1_000 / self._elapsed_ms(living, now_ms)

    def _elapsed_ms(self, living: list[_Sample], now_ms: int) -> int:
        elapsed_ms = max(0, now_ms - min((s.began_at_ms for s in living), default=now_ms))
        missing = self._num_samples - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(0, missing) * self._window_ms, self._window_ms)


def _average(samples: Iterable[_Sample]) -> float:
    samples = tuple(samples)
    count = sum(s.count for s in samples)
    return sum(s.sum for s in samples) / count if count else 0.0


Many: TypeAlias = "tuple[float, float, int]"
"""Values in one: their sum, the highest, how many they are."""


class SampledTogether:
    """Several series read as one, whose values are recorded once."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Iterable[Sampled]) -> None:
        self._parts = tuple(parts)

    @property
    def sum(self) -> float:
        return sum((part.sum for part in self._parts), 0.0)

    @property
    def count(self) -> int:
        return sum(part.count for part in self._parts)

    def avg(self, now_ms: int) -> float:
        return _average(sample for part in self._parts for sample in part.living(now_ms))

    def max(self, now_ms: int) -> float:
        return max((part.max(now_ms) for part in self._parts), default=0.0)

    def sum_rate(self, now_ms: int) -> float:
        return sum((part.sum_rate(now_ms) for part in self._parts), 0.0)

    def count_rate(self, now_ms: int) -> float:
        return sum((part.count_rate(now_ms) for part in self._parts), 0.0)


class Traffic:
    """Requests to and answers from one node."""

    __slots__ = ("latency", "requests", "responses")

    def __init__(self, new: Callable[[], Sampled]) -> None:
        self.requests: Sampled = new()
        """Bytes of each request."""
        self.responses: Sampled = new()
        """Bytes of each answer."""
        self.latency: Sampled = new()
        """Milliseconds from a request to its answer."""


@attrs.frozen
class AllTraffic:
    """Requests to and answers from all nodes."""

    requests: SampledTogether
    responses: SampledTogether


BUCKETS_MS: Final = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 900_000)
"""The upper bounds of a worker's histograms, those in them included. The last is the default of `max_lease_ms`."""


class Histogram:
    """How many values were at most as high as each of `BUCKETS_MS`, of all values ever."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS_MS) + 1)

    def record(self, value_ms: int) -> None:
        self._counts[bisect_left(BUCKETS_MS, value_ms)] += 1

    def up_to(self, bound_ms: int) -> int:
        """Values that were not above this bound."""
        return sum(self._counts[: BUCKETS_MS.index(bound_ms) + 1])


class WorkerMeasurements:
    """What a worker on a consumer counts and times. The worker records, and sets where the numbers are found."""

    def __init__(self, num_samples: int = 2, window_ms: int = 30_000) -> None:
        self.handler_times: Sampled = Sampled(num_samples, window_ms)
        """Milliseconds of each call of the handler."""
        self.lock_ages: Sampled = Sampled(num_samples, window_ms)
        """Milliseconds from the receipt of a record to the end of a call with it."""
        self.handler_time_buckets: Histogram = Histogram()
        self.lock_age_buckets: Histogram = Histogram()
        self.ready: Callable[[], int] = int
        self.running: Callable[[], int] = int
        self.waiting: Callable[[], int] = int
        self.producing: Callable[[], int] = int
        self.running_since_ms: Callable[[], int | None] = _never
        """When the call that has taken longest began; None if there is none."""
        self.counts: Callable[[], object] = object
        """Records by what happened to them, as attributes."""

    def handled(self, took_ms: int, age_ms: int, now_ms: int) -> None:
        """A call of the handler has ended, in whatever way."""
        took_ms, age_ms = max(0, took_ms), max(0, age_ms)
        self.handler_times.record(took_ms, now_ms)
        self.lock_ages.record(age_ms, now_ms)
        self.handler_time_buckets.record(took_ms)
        self.lock_age_buckets.record(age_ms)


def _never() -> None:
    """No call takes long where there is none."""


def _nothing_kept_back(_: int) -> None:
    """Each poll is recorded when it ends."""


class Measurements:
    """All numbers of one client. Spans are milliseconds.

    `num_samples` and `window_ms` are Kafka's metrics.num.samples and metrics.sample.window.ms.
    """

    def __init__(self, num_samples: int = 2, window_ms: int = 30_000) -> None:
        def new() -> Sampled:
            return Sampled(num_samples, window_ms)

        self._new = new
        self.labels: dict[str, str | int] = {}
        """Whose numbers and log records these are: `client_id` and, of a consumer, `group_id` and `member_id`."""
        self.unix_offset_ms = 0
        """What to add to a time of the client's clock to get milliseconds since 1970; set by the driver."""
        self.application_metrics: dict[str, Callable[[], float]] = {}
        """Metrics of the application that it registered for brokers' subscriptions, by their full names."""
        # recorded by the façade
        self.polls: Sampled = new()
        """Milliseconds between the beginnings of two polls."""
        self.poll_idle_ratio: Sampled = new()
        self.consumed: Sampled = new()
        """Records that a poll returned."""
        self.settle: Callable[[int], None] = _nothing_kept_back
        """To be called, with the time, before the numbers of polls are read: they may be counted elsewhere for a while.
        To be set by who does."""
        self.last_poll_at_ms: int | None = None
        self.poll_ended_at_ms: int | None = None
        # recorded by the machines of the core
        self.heartbeats: Sampled = new()
        """Milliseconds until the answer to a heartbeat."""
        self.last_heartbeat_at_ms: int | None = None
        self.rebalances: Sampled = new()
        self.fetch_latency: Sampled = new()
        self.fetch_bytes: Sampled = new()
        self.fetch_records: Sampled = new()
        self.fetch_throttle: Sampled = new()
        self.acknowledgements_sent: Sampled = new()
        self.acknowledgements_failed: Sampled = new()
        self.lost: Sampled = new()
        self.events_expired: int = 0
        # recorded by the network thread
        self.nodes: dict[int, Traffic] = {}
        self._further_nodes: Traffic = Traffic(new)
        self.connections_made: Sampled = new()
        self.connections_closed: Sampled = new()
        self.connection_count: int = 0
        self.authentications: Sampled = new()
        self.failed_authentications: Sampled = new()
        self.reauthentications: Sampled = new()
        """Milliseconds that each took."""
        self.failed_reauthentications: Sampled = new()
        self.steps: Sampled = new()
        """Milliseconds between two turns of the network thread."""
        self.event_waits: Sampled = new()
        self.event_processing: Sampled = new()
        self.events_waiting: Callable[[], int] = int
        self.unsent_waits: Sampled = new()
        self.unsent_count = 0
        # recorded by the mailbox, as the application takes
        self.mail_waits: Sampled = new()
        self.mail_waiting: Callable[[], int] = int
        self.window_records: Callable[[], int] = int
        self.held_records: Callable[[], int] = int
        # recorded by a worker, if one uses the client
        self.worker: WorkerMeasurements | None = None

    # ---- the façade

    def poll_started(self, now_ms: int) -> None:
        if self.last_poll_at_ms is not None:
            self.polls.record(now_ms - self.last_poll_at_ms, now_ms)
        self.last_poll_at_ms = now_ms

    def poll_ended(self, records: int, now_ms: int) -> None:
        """The poll that started last has ended with so many records, or raised."""
        assert self.last_poll_at_ms is not None, "the end of a poll that never began"
        began_at_ms = self.last_poll_at_ms
        span_ms = now_ms - (began_at_ms if self.poll_ended_at_ms is None else self.poll_ended_at_ms)
        self.poll_ended_at_ms = now_ms
        if span_ms > 0:  # two polls in one millisecond say nothing
            self.poll_idle_ratio.record((now_ms - began_at_ms) / span_ms, now_ms)
        if records:
            self.consumed.record(records, now_ms)

    def polled(self, spans: Many, idle_ratios: Many, records: Many, now_ms: int) -> None:
        """Polls that have begun and ended: milliseconds between their beginnings, idle ratios, records."""
        self.polls.record_many(*spans, now_ms)
        self.poll_idle_ratio.record_many(*idle_ratios, now_ms)
        self.consumed.record_many(*records, now_ms)

    # ---- the core

    def fetch_answered(self, latency_ms: int, throttle_ms: int, now_ms: int) -> None:
        self.fetch_latency.record(latency_ms, now_ms)
        self.fetch_throttle.record(throttle_ms if throttle_ms > 0 else 0, now_ms)

    def acquired(self, size: int, records: int, now_ms: int) -> None:
        """An answer brought records: the bytes of their partitions, and how many there are."""
        self.fetch_bytes.record(size, now_ms)
        self.fetch_records.record(records, now_ms)

    def acknowledged(self, records: int, now_ms: int) -> None:
        """A request left that acknowledges this many records."""
        if records:
            self.acknowledgements_sent.record(records, now_ms)

    def acknowledging_failed(self, records: int, now_ms: int) -> None:
        self.acknowledgements_failed.record(records, now_ms)

    def records_lost(self, records: int, now_ms: int) -> None:
        self.lost.record(records, now_ms)

    def commit_expired(self) -> None:
        self.events_expired += 1

    def heartbeat_sent(self, now_ms: int) -> None:
        self.last_heartbeat_at_ms = now_ms

    def heartbeat_answered(self, latency_ms: int, now_ms: int) -> None:
        self.heartbeats.record(latency_ms, now_ms)

    def assignment_changed(self, now_ms: int) -> None:
        self.rebalances.record(1, now_ms)

    def fetched_directly(self, node_id: int, tally: Tally, now_ms: int) -> None:
        """The application's thread has fetched and committed by itself, and counted."""
        traffic = self.nodes.get(node_id) or self._node(node_id)
        if requests := tally.requests:
            traffic.requests.record_many(tally.request_bytes, tally.request_bytes / requests, requests, now_ms)
        if count := tally.acknowledging:
            self.acknowledgements_sent.record_many(tally.acknowledged, tally.acknowledged / count, count, now_ms)
        if fetches := tally.fetches:
            self.fetch_latency.record_many(tally.latency_ms, tally.highest_latency_ms, fetches, now_ms)
            self.fetch_throttle.record_many(0, 0, fetches, now_ms)
            self.fetch_bytes.record_many(tally.record_bytes, tally.record_bytes / fetches, fetches, now_ms)
            self.fetch_records.record_many(tally.records, tally.records / fetches, fetches, now_ms)
        if answers := fetches + tally.commits:
            highest_ms = max(tally.highest_latency_ms, tally.highest_commit_latency_ms)
            traffic.responses.record_many(tally.response_bytes, tally.response_bytes / answers, answers, now_ms)
            traffic.latency.record_many(tally.latency_ms + tally.commit_latency_ms, highest_ms, answers, now_ms)

    # ---- the network thread

    def request_sent(self, node_id: int, size: int, now_ms: int) -> None:
        node = self.nodes.get(node_id) or self._node(node_id)
        node.requests.record(size, now_ms)

    def response_received(self, node_id: int, size: int, latency_ms: float, now_ms: int) -> None:
        node = self.nodes.get(node_id) or self._node(node_id)
        node.responses.record(size, now_ms)
        node.latency.record(latency_ms, now_ms)

    def _node(self, node_id: int) -> Traffic:
        if len(self.nodes) >= MAX_NODES:
            return self._further_nodes
        return self.nodes.setdefault(node_id, Traffic(self._new))

    @property
    def traffic(self) -> AllTraffic:
        """Of all nodes together."""
        every = (*self.nodes.values(), self._further_nodes)
        return AllTraffic(SampledTogether(n.requests for n in every), SampledTogether(n.responses for n in every))

    def connection_opened(self, now_ms: int) -> None:
        self.connections_made.record(1, now_ms)
        self.connection_count += 1

    def connection_ended(self, now_ms: int) -> None:
        self.connections_closed.record(1, now_ms)
        self.connection_count -= 1
