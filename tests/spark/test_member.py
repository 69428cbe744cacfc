"""The agent's member on the reference broker: how it fills leases, and what becomes of their records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_share.broker import ApiKey, ReferenceBroker
from kafka_share.records import AcknowledgeType, ShareRecord, TimestampType

pytest.importorskip("pyarrow", reason="pip install 'kafka-share[spark]'")

from kafka_share.spark.held_records import HeldRecords
from kafka_share.spark.member import ShareMember, _fill_ms

LOCKS = 100
"""As few as a group may have."""
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


@pytest.fixture(name="limited")
def limited_fixture() -> Iterator[ReferenceBroker]:
    """A broker whose group may hold 100 records of a partition, and two partitions with 250 each."""
    with ReferenceBroker() as broker:
        broker.create_topic("orders", partitions=2)
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": LOCKS})
        for partition in (0, 1):
            for _ in range(10):
                broker.produce_batch("orders", [b"x"] * 25, partition=partition)
        yield broker


@pytest.fixture(name="member")
def member_fixture(limited: ReferenceBroker) -> Iterator[ShareMember]:
    settings = {"bootstrap_servers": limited.bootstrap_servers, "group_id": "g"}
    member = ShareMember(["orders"], settings, max_bytes=1 << 20, reject_after=0)
    yield member
    member.close()


def acquire(member: ShareMember, most: int = 1_000) -> HeldRecords:
    return HeldRecords(member.acquire(most, 1_000, drain=True))


def offsets(lease: HeldRecords, partition: int) -> list[int]:
    return [record.offset for record in lease.records if record.partition == partition]


def test_a_lease_has_all_that_the_limit_of_locks_allows_as_soon_as_the_last_one_is_acknowledged(
    limited: ReferenceBroker, member: ShareMember
) -> None:
    """The acknowledgements have been answered before records are asked for: they need the room."""
    first = acquire(member)
    assert [offsets(first, partition) for partition in (0, 1)] == [list(range(100))] * 2
    limited.clear_requests()
    assert member.acknowledge(first, {}, ACCEPT) == {ACCEPT: 200}
    second = acquire(member)
    assert [offsets(second, partition) for partition in (0, 1)] == [list(range(100, 200))] * 2
    assert limited.requests(ApiKey.SHARE_ACKNOWLEDGE)
    assert not any(
        partition.acknowledgement_batches
        for _, request in limited.requests(ApiKey.SHARE_FETCH)
        for topic in request.topics
        for partition in topic.partitions
    )


def test_records_are_acknowledged_by_decisions_and_the_others_alike(
    limited: ReferenceBroker, member: ShareMember
) -> None:
    lease = acquire(member, 10)
    where = lease.records[0].partition
    first = lease.records[0].offset
    decisions = {("orders", where, first): REJECT, ("orders", where, first + 1): RELEASE}
    assert member.acknowledge(lease, decisions, ACCEPT) == {ACCEPT: 8, REJECT: 1, RELEASE: 1}
    member.flush()
    assert member.refused == 0
    again = acquire(member, 10)
    assert (first + 1, 2) in [(record.offset, record.delivery_count) for record in again.records]
    assert first not in offsets(again, where)


def test_lost_locks_are_not_counted_as_acknowledged_nor_renewed(limited: ReferenceBroker, member: ShareMember) -> None:
    """One record of ten is known to be lost: nine are renewed, and nine accepted."""
    lease = acquire(member, 10)
    lost = lease.records[3]
    assert lost.lock is not None
    lost.lock.lose(lost.offset, lost.offset)
    assert lease.lost() == [lost]
    assert lost not in lease.held()
    assert len(lease.held()) == 9
    member.renew(lease)
    assert member.acknowledge(lease, {}, ACCEPT) == {ACCEPT: 9}


def test_refused_acknowledgements_are_counted(limited: ReferenceBroker, member: ShareMember) -> None:
    """The group's share state is gone with its topic: the brokers refuse all ten."""
    lease = acquire(member, 10)
    limited.delete_topic("orders")
    member.acknowledge(lease, {}, ACCEPT)
    member.flush()
    assert member.refused == 10


@pytest.mark.parametrize(("took_s", "poll_ms"), [(0.001, 30), (0.06, 60), (5.0, 100)])
def test_a_poll_for_more_takes_as_long_as_the_last_records_took_within_bounds(took_s: float, poll_ms: int) -> None:
    """Large records on a busy machine take longer, and a lease would be cut. The first ones may be waited for, too."""
    assert _fill_ms(took_s) == poll_ms


def made_by_hand(offset: int) -> ShareRecord:
    return ShareRecord("t", 0, offset, 0, TimestampType.CREATE_TIME, None, b"x", (), None, 1)


def test_records_without_a_lock_are_never_lost() -> None:
    lease = HeldRecords([made_by_hand(0), made_by_hand(1)])
    assert lease.lost() == []
    assert list(lease.held()) == list(lease.records)
    assert len(lease) == 2
