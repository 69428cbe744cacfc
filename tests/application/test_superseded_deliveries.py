"""ApplicationSide: a record that comes again while an older delivery of it has not been acknowledged.

The simulation found this (see tests/simulation/test_findings.py): a renewal whose answer was lost kept all
records back while their locks ran out, and what the broker handed out anew came on top.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from application.called_side import CalledSide

from kafka_share.application.decoding import Decoder
from kafka_share.core.events import Deliver, FetchedBatch, FetchedPartition
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.locks import LockGeneration
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import AcknowledgeType, TopicIdPartition

A0 = TopicIdPartition(UUID(int=1), "a", 0)


def deliver(
    side: CalledSide, session_id: int, count: int, *, acquired_at_ms: int = 0, where: TopicIdPartition = A0
) -> None:
    """Records 0 to 2 of a-0, handed out in this share session for the `count`th time, with a lock of a second."""
    data = encode_batch([(offset, 0, None, b"v", []) for offset in range(3)])

    part = FetchedPartition(where, 1, session_id, data, (AcquiredRange(0, 2, count),), LockGeneration())
    side.take_all([Deliver(FetchedBatch(session_id, (part,), acquired_at_ms, 1_000))])


def subscribed(now_ms: int = 0) -> CalledSide:
    side = CalledSide(explicit=True, decoder=Decoder(), max_poll_records=500, now_ms=lambda: now_ms)
    side.topics = frozenset({"a"})
    return side


def test_the_latest_delivery_is_acknowledged_when_one_poll_returns_a_record_twice() -> None:
    """A record that comes twice needs one acknowledgement, which goes to the delivery whose lock still runs."""
    side = subscribed()
    deliver(side, 1, 1)
    deliver(side, 2, 2)
    for record in side.collect() or ():
        side.acknowledge(record.topic, record.partition, record.offset, AcknowledgeType.ACCEPT)
    side.check()
    side.demand_all_acknowledged()
    gathered = side.gather()
    assert [(said.session_id, said.runs) for said in gathered] == [(2, (AcknowledgementRun(0, 2, 1),))]
    side.check()


def test_records_are_not_returned_when_their_lock_ran_out_before_any_poll_could_return_them() -> None:
    """What waited in the client until its lock had ended belongs to another consumer by now."""
    side = subscribed(now_ms=5_000)
    deliver(side, 1, 1, acquired_at_ms=0)
    deliver(side, 1, 2, acquired_at_ms=4_500)
    assert [record.delivery_count for record in side.collect() or ()] == [2, 2, 2]
    side.check()


@pytest.mark.parametrize("order", [1, -1], ids=["old one first", "new one first"])
def test_each_record_gets_its_own_acknowledgement_when_its_topic_was_created_again(order: int) -> None:
    """The same place in the deleted topic and in the new one are two records: the lock says which one is meant."""
    side = subscribed()
    deliver(side, 1, 1)
    old = list(side.collect() or ())
    deliver(side, 2, 1, where=TopicIdPartition(UUID(int=2), "a", 0))
    new = list(side.collect() or ())
    kinds = [(record, AcknowledgeType.RELEASE) for record in old] + [(record, AcknowledgeType.ACCEPT) for record in new]
    for record, kind in kinds[::order]:
        side.acknowledge(record.topic, record.partition, record.offset, kind, record.lock)
    side.demand_all_acknowledged()
    gathered = {said.partition.topic_id.int: said.runs for said in side.gather()}
    assert gathered == {1: (AcknowledgementRun(0, 2, 2),), 2: (AcknowledgementRun(0, 2, 1),)}


def test_the_later_delivery_is_meant_when_only_the_place_is_known() -> None:
    """A record that was made by hand names no lock."""
    side = subscribed()
    deliver(side, 1, 1)
    deliver(side, 2, 1, where=TopicIdPartition(UUID(int=2), "a", 0))
    assert len(list(side.collect() or ())) == 6
    side.acknowledge("a", 0, 1, AcknowledgeType.ACCEPT)
    assert [said.partition.topic_id.int for said in side.gather()] == [2]
