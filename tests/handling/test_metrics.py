"""The metrics of a worker: what the rules time, what `metrics()` returns, and what OpenTelemetry makes of it."""

from __future__ import annotations

from typing import Any

import attrs
from handling.conftest import GROUP, Running, until_ended
from handling.given import Driven, jobs, record
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from kafka_share.broker import ReferenceBroker
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.core.metrics.metric_table import WORKER, WORKER_METRICS, readings
from kafka_share.handling.counts import Counts
from kafka_share.opentelemetry import ShareConsumerInstruments
from kafka_share.worker import Lease, ShareWorker


def test_calls_are_timed_from_their_start_and_locks_from_the_receipt() -> None:
    """Records wait for their turn: the second one's lock is older than its call is long."""
    driven = Driven(jobs(concurrency=1))
    driven.arrive(record(0), record(1), now_ms=1_000)
    driven.finish(0, now_ms=1_030)
    driven.finish(1, ValueError(), now_ms=1_040)
    measured = driven.jobs.measured
    assert (measured.handler_times.sum, measured.handler_times.max(1_040)) == (30 + 10, 30)
    assert (measured.lock_ages.sum, measured.lock_ages.max(1_040)) == (30 + 40, 40)
    assert measured.handler_times.count == 2


def test_times_of_calls_and_ages_of_locks_are_counted_by_buckets() -> None:
    """A bound counts what it names and everything below, so that the difference of two neighbours is a bucket."""
    driven = Driven(jobs(concurrency=1))
    driven.arrive(record(0), record(1), record(2), now_ms=0)
    driven.finish(0, now_ms=10)
    driven.finish(1, now_ms=110)
    driven.finish(2, now_ms=1_000_110)
    measured = Measurements()
    measured.worker = driven.jobs.measured
    measured.worker.counts = Counts
    now = {reading.metric.name: reading.value for reading in readings(measured, 1_000_110)}

    def counts(histogram: str) -> list[float]:
        return [now[f"{histogram}-le-{bound_ms}-ms-total"] for bound_ms in (10, 30, 100, 300, 900_000)]

    assert counts("handler-time") == [1, 1, 2, 2, 2]
    assert counts("lock-age") == [1, 1, 1, 2, 2]
    assert now["handler-calls-total"] == 3


def test_every_count_of_a_worker_is_a_metric() -> None:
    totals = {metric.name.removesuffix("-total") for metric in WORKER_METRICS if metric.is_total}
    assert {field.name.replace("_", "-") for field in attrs.fields(Counts)} <= totals


def test_metrics_say_what_the_worker_does_and_has_done(form: str, broker: ReferenceBroker) -> None:
    """Two handlers hang, and one record waits behind them. The metrics of the consumer are there too."""
    broker.produce_batch("t", [b"0", b"1", b"2"])
    leases: list[Lease] = []

    def handle(record: Any, lease: Lease) -> Any:
        leases.append(lease)
        return until_ended(form, lease)

    with Running(form, broker, handle, concurrency=2, drain_timeout_ms=1) as running:
        worker = running.worker
        running.wait_for(lambda: len(leases) == 2 and worker.metrics()[WORKER]["records-ready"] == 1)
        running.wait_for(lambda: worker.metrics()[WORKER]["handler-running-max"] > 0)
        now = worker.metrics()[WORKER]
        assert (now["records-running"], now["records-waiting"], now["received-total"]) == (2, 0, 3)
        assert now["handler-calls-total"] == now["handler-time-max"] == 0
        assert set(now) == {metric.name for metric in WORKER_METRICS}
        assert worker.metrics()["consumer-share-fetch-manager-metrics"]["records-consumed-total"] == 3
    ended, counts = worker.metrics()[WORKER], worker.inspect().counts
    assert ended["handler-calls-total"] == 2
    assert ended["lock-age-max"] >= ended["handler-time-max"] > 0
    assert (ended["records-running"], ended["handler-running-max"]) == (0, 0)
    totals = {f"{name.replace('_', '-')}-total": count for name, count in attrs.asdict(counts).items()}
    assert {name: ended[name] for name in totals} == totals


def test_windows_of_a_workers_metrics_are_those_of_its_settings(broker: ReferenceBroker) -> None:
    """A worker forgets its maximum when its consumer would."""
    broker.produce("t", b"0")
    settings = {"metrics_num_samples": 1, "metrics_sample_window_ms": 1}
    with Running("threads", broker, lambda record, lease: None, **settings) as running:
        worker = running.worker
        running.wait_for(lambda: worker.inspect().counts.accepted == 1)
        running.wait_for(lambda: worker.metrics()[WORKER]["handler-calls-rate"] == 0)
        assert worker.metrics()[WORKER]["handler-calls-total"] == 1


def test_opentelemetry_gets_the_metrics_of_a_worker_from_its_start_on(broker: ReferenceBroker) -> None:
    broker.produce("t", b"0")
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    try:
        instruments = ShareConsumerInstruments(provider)
        running = Running("threads", broker, lambda record, lease: None)
        instruments.observe(running.worker)
        assert reader.get_metrics_data() is None
        with running:
            one = [({"client_id": "kafka-share", "group_id": GROUP}, 1)]  # readings are kept for a moment
            running.wait_for(lambda: values(reader, "org.apache.kafka.consumer.share.worker.accepted.total") == one)
        instruments.forget(running.worker)
    finally:
        provider.shutdown()


def test_a_worker_that_has_not_begun_has_no_metrics() -> None:
    worker: ShareWorker[Any, Any] = ShareWorker("t", print, bootstrap_servers="localhost:1", group_id="g")
    assert worker.metrics() == {}


def values(reader: InMemoryMetricReader, name: str) -> list[tuple[dict[str, Any], float]]:
    """What a reader finds under this name: attributes and value."""
    found: list[tuple[dict[str, Any], float]] = []
    data = reader.get_metrics_data()
    for resource in [] if data is None else data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name == name:
                    points: Any = metric.data.data_points
                    found += [(dict(point.attributes), point.value) for point in points]
    return found
