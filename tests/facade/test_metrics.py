"""metrics() of a consumer that works on a real socket, and what OpenTelemetry makes of it."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import threading
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum
from support.consumers import MakeConsumer
from support.waiting import poll_until, wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.core.metrics.metric_table import METRICS, NODE_METRICS
from kafka_share.opentelemetry import ShareConsumerInstruments

FETCH = "consumer-share-fetch-manager-metrics"
COORDINATOR = "consumer-share-coordinator-metrics"
SHARE = "consumer-share-metrics"
GENERAL = "consumer-metrics"

JAVA_NAMES = {
    SHARE: "last-poll-seconds-ago time-between-poll-avg time-between-poll-max poll-idle-ratio-avg",
    COORDINATOR: "heartbeat-response-time-max heartbeat-rate heartbeat-total last-heartbeat-seconds-ago "
    "rebalance-total rebalance-rate-per-hour",
    FETCH: "fetch-size-avg fetch-size-max bytes-consumed-rate bytes-consumed-total records-per-request-avg "
    "records-per-request-max records-consumed-rate records-consumed-total acknowledgements-send-rate "
    "acknowledgements-send-total acknowledgements-error-rate acknowledgements-error-total fetch-latency-avg "
    "fetch-latency-max fetch-rate fetch-total fetch-throttle-time-avg fetch-throttle-time-max",
}


def consumed(broker: ReferenceBroker, make_consumer: MakeConsumer, count: int = 10) -> KafkaShareConsumer[Any, Any]:
    """A consumer that has polled and committed so many records."""
    broker.create_topic("t")
    broker.produce_batch("t", [b"payload %d" % i for i in range(count)])
    consumer = make_consumer("t")
    assert len(poll_until(consumer, count)) == count
    consumer.commit_sync()
    return consumer


@pytest.mark.behaviour("metrics")
def test_names_are_those_of_java(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """The metrics of a share consumer have the names and the groups of Apache's client."""
    found = consumed(broker, make_consumer).metrics()
    for group, names in JAVA_NAMES.items():
        assert set(found[group]) >= set(names.split())
    assert "last-rebalance-seconds-ago" not in found[COORDINATOR]
    assert set(found["consumer-node-metrics.node-1"]) == {metric.name for metric in NODE_METRICS}


@pytest.mark.behaviour("metrics")
def test_numbers_are_those_of_what_was_done(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """The metrics count what was done: records consumed and acknowledged, joins, requests and connections."""
    consumer = consumed(broker, make_consumer)
    # What the commit has sent by itself is counted when the core hears of it.
    wait_until(lambda: consumer.metrics()[FETCH]["acknowledgements-send-total"] == 10)
    found = consumer.metrics()
    fetch, general = found[FETCH], found[GENERAL]
    assert fetch["records-consumed-total"] == fetch["acknowledgements-send-total"] == 10
    assert fetch["acknowledgements-error-total"] == 0
    assert fetch["records-per-request-max"] == 10
    assert fetch["fetch-total"] >= 1
    assert fetch["bytes-consumed-total"] == fetch["fetch-size-max"] > 100
    assert found[COORDINATOR]["heartbeat-total"] >= 2
    assert found[COORDINATOR]["rebalance-total"] == 1
    assert found[SHARE]["time-between-poll-max"] >= found[SHARE]["time-between-poll-avg"]
    assert 0 <= found[SHARE]["poll-idle-ratio-avg"] <= 1
    assert 0 <= found[SHARE]["last-poll-seconds-ago"] < 120
    assert general["connection-creation-total"] - general["connection-close-total"] == general["connection-count"] == 2
    nodes = [values for group, values in found.items() if group.startswith("consumer-node-metrics.")]
    for name in ("request-total", "response-total", "incoming-byte-total", "outgoing-byte-total"):
        assert general[name] == sum(values[name] for values in nodes) > 0
    assert general["response-total"] <= general["request-total"]
    sent = len(broker.requests())
    assert abs(general["request-total"] - sent) <= 1, "a fetch may be on its way"


def test_nothing_is_nan_when_a_consumer_has_only_been_made(make_consumer: MakeConsumer) -> None:
    """A consumer that never polled answers every metric with a finite number."""
    found = make_consumer("t").metrics()
    numbers = [value for values in found.values() for value in values.values()]
    assert len(numbers) == len(METRICS) + 1
    assert all(math.isfinite(value) for value in numbers)
    assert found[SHARE]["last-poll-seconds-ago"] == -1
    assert found[GENERAL]["connection-count"] == 0


def test_metrics_can_be_read_by_other_threads_and_after_close(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """metrics() waits for nobody: one thread reads while another polls, the callback may, and anyone after close."""
    consumer = consumed(broker, make_consumer)
    from_callback: list[dict[str, dict[str, float]]] = []
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: from_callback.append(consumer.metrics()))
    polling = threading.Thread(target=consumer.poll, args=(60_000,))
    polling.start()
    for _ in range(100):
        assert consumer.metrics()[FETCH]["records-consumed-total"] == 10
    broker.produce("t", b"the last one")
    polling.join()
    consumer.commit_sync()
    assert from_callback[0][FETCH]["records-consumed-total"] == 11
    consumer.close()
    found = consumer.metrics()
    assert found[FETCH]["records-consumed-total"] == 11
    assert found[GENERAL]["connection-count"] == 0


def test_unauthenticated_connections_are_not_counted_as_authentications(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Without SASL nothing is authenticated, and nothing fails at it."""
    general = consumed(broker, make_consumer).metrics()[GENERAL]
    assert [general[f"{kind}-authentication-total"] for kind in ("successful", "failed")] == [0, 0]


def test_windows_are_as_long_as_the_settings_say(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """metrics_num_samples and metrics_sample_window_ms decide how long averages remember."""
    consumer = make_consumer("t", metrics_num_samples=1, metrics_sample_window_ms=1)
    broker.create_topic("t")
    broker.produce("t", b"x")
    poll_until(consumer, 1)
    consumer.commit_sync()
    forgotten = "fetch-latency-max"
    wait_until(lambda: consumer.metrics()[FETCH][forgotten] == 0, "the latency of the fetches is remembered for ever")
    assert consumer.metrics()[FETCH]["fetch-total"] >= 1


# ---- OpenTelemetry


def collected(reader: InMemoryMetricReader) -> dict[str, Any]:
    data = reader.get_metrics_data()
    assert data is not None
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "kafka_share"
    return {metric.name: metric for metric in scope.metrics}


def test_opentelemetry_gets_what_metrics_says(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """Each metric is an instrument; totals are counters; client, group and node are attributes."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    try:
        instruments = ShareConsumerInstruments(provider)
        consumer = consumed(broker, make_consumer)
        instruments.observe(consumer)
        found = collected(reader)
        assert len(found) == len(METRICS) + len(NODE_METRICS)
        total = found["org.apache.kafka.consumer.share.fetch.manager.records.consumed.total"]
        assert isinstance(total.data, Sum)
        assert total.data.is_monotonic
        (point,) = total.data.data_points
        assert point.value == 10
        assert dict(point.attributes or {}) == {"client_id": "kafka-share", "group_id": "g"}
        per_node = found["org.apache.kafka.consumer.node.request.total"].data.data_points
        assert {"node-1"} <= {point.attributes["node_id"] for point in per_node}
        instruments.forget(consumer)
    finally:
        provider.shutdown()


def test_opentelemetry_does_not_keep_a_consumer_alive(broker: ReferenceBroker) -> None:
    """A consumer that nobody holds any more is not held by its instruments."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    try:
        instruments = ShareConsumerInstruments(provider)
        consumer: Any = KafkaShareConsumer("t", bootstrap_servers=broker.bootstrap_servers, group_id="g")
        instruments.observe(consumer)
        consumer.close()
        del consumer
        gc.collect()
        assert reader.get_metrics_data() is None
    finally:
        provider.shutdown()


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_package_does_not_import_opentelemetry() -> None:
    """Importing kafka_share, and making a consumer, loads no module of OpenTelemetry or protobuf."""
    code = (
        "import sys, kafka_share, kafka_share.broker\n"
        "kafka_share.KafkaShareConsumer('t', bootstrap_servers='localhost:1', group_id='g').close(timeout_ms=0)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('opentelemetry', 'google')])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
