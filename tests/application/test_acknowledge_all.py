"""acknowledge_all on a broker, with an open window and without: each record as by `acknowledge`, in one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.waiting import wait_until

from kafka_share import AcknowledgeType, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.broker.share.record_state import RecordState
from kafka_share.errors import IllegalStateError
from kafka_share.records import ShareRecord

pytestmark = pytest.mark.parametrize("window", [0, 100], ids=["without a window", "with a window"])


@contextmanager
def consuming(window: int) -> Iterator[tuple[ReferenceBroker, KafkaShareConsumer, list[ShareRecord]]]:
    """A broker, and a consumer that holds the five records of its topic."""
    more: dict[str, Any] = {"explicit_window_records": window} if window else {}
    with ReferenceBroker() as broker:
        broker.create_topic("t")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.produce_batch("t", [b"x"] * 5)
        with KafkaShareConsumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            share_acknowledgement_mode="explicit",
            **more,
        ) as consumer:
            yield broker, consumer, list(wait_until(lambda: consumer.poll(100)))


def states(broker: ReferenceBroker) -> dict[int, RecordState]:
    partition = broker.share_partition("g", "t")
    assert partition is not None
    return {offset: one.state for one in partition.ranges for offset in range(one.first, one.last + 1)}


def test_each_record_has_its_acknowledgement(window: int) -> None:
    with consuming(window) as (broker, consumer, records):
        consumer.acknowledge_all(records[1:3], "release")
        consumer.acknowledge_all(iter(records[3:]), AcknowledgeType.REJECT)
        consumer.acknowledge_all([])
        consumer.acknowledge(records[0], AcknowledgeType.REJECT)
        assert [*consumer.commit_sync().values()] == [None]
        wanted = {**dict.fromkeys((1, 2), RecordState.AVAILABLE), **dict.fromkeys((3, 4), RecordState.ARCHIVED)}
        assert {offset: state for offset, state in states(broker).items() if offset} == wanted


def test_the_others_are_acknowledged_when_one_is_not_in_flight(window: int) -> None:
    with consuming(window) as (broker, consumer, records):
        consumer.acknowledge(records[0])
        consumer.commit_sync()
        with pytest.raises(IllegalStateError, match="offset 0 "):
            consumer.acknowledge_all(records)
        consumer.commit_sync()
        partition = broker.share_partition("g", "t")
        assert partition is not None
        assert partition.start_offset == 5


def test_only_records_can_be_acknowledged(window: int) -> None:
    """What is none is refused before anything is done."""
    with consuming(window) as (_, consumer, records):
        with pytest.raises(TypeError, match="takes a ShareRecord, not str"):
            consumer.acknowledge_all([records[0], "t-0@1"])  # type: ignore[list-item]
        consumer.acknowledge(records[0])
