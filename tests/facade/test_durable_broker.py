"""A broker with a data directory that starts again: what consumers of a share group find."""

from __future__ import annotations

from pathlib import Path

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker


def consumer_of(broker: ReferenceBroker) -> KafkaShareConsumer:
    return KafkaShareConsumer(
        "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", share_acknowledgement_mode="explicit"
    )


def test_what_was_accepted_stays_so_and_the_rest_comes_again_when_the_broker_starts_again(tmp_path: Path) -> None:
    """Accepted stays accepted; acquired and released records come again, with their delivery counts."""
    with ReferenceBroker(data_dir=tmp_path) as broker:
        broker.create_topic("t")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        for value in (b"accepted", b"released", b"accepted"):
            broker.produce("t", value)
        with consumer_of(broker) as consumer:
            records = consumer.poll(timeout_ms=20_000)
            assert len(records) == 3
            for record in records:
                consumer.acknowledge(record, "release" if record.value == b"released" else "accept")
            consumer.commit_sync(timeout_ms=20_000)
    with ReferenceBroker(data_dir=tmp_path) as again, consumer_of(again) as consumer:
        (record,) = consumer.poll(timeout_ms=20_000)
        assert (record.value, record.delivery_count) == (b"released", 2)
        consumer.acknowledge(record, "accept")
        consumer.commit_sync(timeout_ms=20_000)
        again.check()
