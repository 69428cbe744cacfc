"""The broker's metrics: what they count, in comparison with Kafka 4.3.1, and how Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.waiting import poll_until, wait_until

from kafka_share import AcknowledgeType, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.broker.metrics import METRICS
from kafka_share.cli.broker_metrics import exposition
from kafka_share.errors import InvalidArgumentError

GROUP, TOPIC, OTHER = "g", "jobs", "other"


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker() as running:
        for topic in (TOPIC, OTHER):
            running.create_topic(topic)
        running.set_group_config(GROUP, share_auto_offset_reset="earliest")
        yield running


@pytest.fixture
def consumer(broker: ReferenceBroker) -> Iterator[KafkaShareConsumer[Any, Any]]:
    with KafkaShareConsumer(
        TOPIC,
        OTHER,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=GROUP,
        share_acknowledgement_mode="explicit",
        max_poll_records=500,
    ) as made:
        yield made


def test_counts_are_those_of_kafka_when_records_meet_every_end(
    broker: ReferenceBroker, consumer: KafkaShareConsumer[Any, Any]
) -> None:
    """The same steps on Kafka 4.3.1 gave the same numbers over JMX."""
    for _ in range(3):
        broker.produce_batch(TOPIC, [b"work"] * 5)
    records = poll_until(consumer, 15)
    for record in records[:5]:
        consumer.acknowledge(record)
    for record, kind in zip(
        records[5:9],
        (AcknowledgeType.RELEASE, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW),
        strict=True,
    ):
        consumer.acknowledge(record, kind)
    assert list(consumer.commit_sync().values()) == [None]
    held = broker.metrics()
    assert [held.value("RecordAcknowledgementsPerSec", ackType=kind) for kind in ("Accept", "Release", "Reject")] == [
        5,
        2,
        1,
    ]
    assert held.value("RecordAcknowledgementsPerSec", ackType="Renew") == 1
    where: dict[str, Any] = {"group": GROUP, "topic": TOPIC, "partition": 0}
    assert held.value("AcquisitionLockTimeoutPerSec", **where) == 0
    broker.advance(30_000)
    ended = broker.metrics()
    assert ended.value("AcquisitionLockTimeoutPerSec", **where) == 7  # six that were held, and the renewed one
    assert ended.value("InFlightMessageCount", **where) == 10  # with the rejected one, which lies in the middle
    assert ended.value("InFlightBatchCount", **where) == 1
    (sizes,) = ended.samples("InFlightBatchMessageCount", **where)
    assert (sizes.count, sizes.value, sizes.largest) == (1, 15, 15)
    assert ended.value("InFlightMessageCount", group=GROUP, topic=OTHER) == 0
    assert held.value("AcquisitionLockTimeoutPerSec", **where) == 0, "a snapshot does not change"


def test_sessions_and_waiting_fetches_are_there_while_the_consumer_polls(
    broker: ReferenceBroker, consumer: KafkaShareConsumer[Any, Any]
) -> None:
    broker.produce(TOPIC, b"work")
    (record,) = poll_until(consumer, 1)
    during = broker.metrics()
    assert during.value("ShareSessionsCount", node_id=1) == 1
    assert during.value("SharePartitionsCount") == 2
    assert during.value("share-group-count", state="Stable") == during.value("group-count", protocol="share") == 1
    assert during.value("RequestsPerSec", request="ShareFetch") >= 1
    assert during.value("TotalShareFetchRequestsPerSec", topic=TOPIC) >= 1
    assert during.value("TotalShareFetchRequestsPerSec") == sum(
        during.value("TotalShareFetchRequestsPerSec", topic=topic) for topic in (TOPIC, OTHER)
    )
    consumer.acknowledge(record)
    consumer.commit_sync()
    consumer.close()
    after = broker.metrics()
    assert after.value("TotalShareAcknowledgementRequestsPerSec", topic=TOPIC) == 1
    assert after.value("FailedShareAcknowledgementRequestsPerSec") == 0
    assert after.value("ShareSessionsCount") == after.value("ShareSessionEvictionsPerSec") == 0
    assert after.value("share-group-count", state="Empty") == 1
    broker.delete_topic(TOPIC)
    assert broker.metrics().samples("TotalShareFetchRequestsPerSec", topic=TOPIC) == []


def test_an_acknowledgement_counts_as_failed_when_the_lock_has_ended(
    broker: ReferenceBroker, consumer: KafkaShareConsumer[Any, Any]
) -> None:
    broker.produce(TOPIC, b"work")
    (record,) = poll_until(consumer, 1)
    consumer.acknowledge(record)
    broker.advance(30_000)
    (error,) = consumer.commit_sync().values()
    assert error is not None
    found = broker.metrics()
    assert found.value("FailedShareAcknowledgementRequestsPerSec", topic=TOPIC) == 1
    assert found.value("RecordAcknowledgementsPerSec") == 0


def test_a_session_is_evicted_when_its_connection_breaks(
    broker: ReferenceBroker, consumer: KafkaShareConsumer[Any, Any]
) -> None:
    broker.produce(TOPIC, b"work")
    poll_until(consumer, 1)
    broker.drop_connections()
    wait_until(lambda: broker.metrics().value("ShareSessionEvictionsPerSec") == 1, "no session was evicted")


def test_it_says_which_metrics_there_are_when_a_name_is_wrong(broker: ReferenceBroker) -> None:
    with pytest.raises(InvalidArgumentError, match="no metric 'InFlight'; it has RecordAcknowledgementsPerSec, "):
        broker.metrics().value("InFlight")


def test_samples_have_the_tags_that_their_metric_names(
    broker: ReferenceBroker, consumer: KafkaShareConsumer[Any, Any]
) -> None:
    broker.produce(TOPIC, b"work")
    poll_until(consumer, 1)
    found = broker.metrics()
    assert {sample.metric.name for sample in found} == set(METRICS)
    for sample in found:
        assert tuple(sample.tags) in (sample.metric.tags, ()), sample


def test_prometheus_reads_the_names_that_its_exporter_would_give(
    broker: ReferenceBroker, consumer: KafkaShareConsumer[Any, Any]
) -> None:
    broker.produce_batch(TOPIC, [b"a", b"b"])
    poll_until(consumer, 2)
    lines = exposition(broker.metrics()).decode().splitlines()
    where = f'group="{GROUP}",node="1",partition="0",topic="{TOPIC}"'
    kinds = 'kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Accept",node="1"} 0.0'
    for line in (
        kinds,
        f"kafka_server_sharepartitionmetrics_inflightmessagecount{{{where}}} 2.0",
        f"kafka_server_sharepartitionmetrics_inflightbatchmessagecount_sum{{{where}}} 2.0",
        f"kafka_server_sharepartitionmetrics_inflightbatchmessagecount_count{{{where}}} 1.0",
        'kafka_server_group_coordinator_metrics_share_group_count{state="Stable"} 1.0',
    ):
        assert _sorted_labels(line) in map(_sorted_labels, lines)


def _sorted_labels(line: str) -> str:
    name, brace, rest = line.partition("{")
    labels, _, value = rest.partition("}")
    return f"{name}{brace}{sorted(labels.split(','))}{value}"
