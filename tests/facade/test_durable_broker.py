"""A broker with a data directory that starts again: what consumers of a share group find."""

from __future__ import annotations

from pathlib import Path

from kafka_share import KafkaShareConsumer
from kafka_share.broker import Acl, ReferenceBroker, Security


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


def test_an_acl_that_was_removed_stays_so_when_it_is_given_at_the_next_start(tmp_path: Path) -> None:
    kept, removed = (Acl("User:alice", "read", "topic", name) for name in ("t", "u"))
    security = Security("PLAINTEXT", acls=[kept, removed])
    with ReferenceBroker(data_dir=tmp_path, security=security) as broker:
        assert broker.acls() == [kept, removed]
        broker.remove_acls(removed)
        broker.stop()
        broker.start()
        assert broker.acls() == [kept]
    with ReferenceBroker(data_dir=tmp_path, security=security) as again:
        assert again.acls() == [kept]
        again.add_acls(removed)
    with ReferenceBroker(data_dir=tmp_path, security=security) as last:
        assert last.acls() == [kept, removed]
