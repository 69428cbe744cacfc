"""Delivery counts, locks, renewals and the end of a session, shown by raw requests against the reference broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from facade.delivery_checks import produce_one_batch, produce_values, start_offset
from support.share_member import ACCEPT, RELEASE, RENEW, ShareMember, acquired, only_partition

from kafka_share.broker import ReferenceBroker
from kafka_share.errors import InvalidRecordStateError, InvalidRequestError

LOCK_MS = 15_000
MakeMember = Callable[[str], ShareMember]


@pytest.fixture
def member(broker: ReferenceBroker) -> Iterator[MakeMember]:
    """Makes members of group g, joined to topic t, which has one partition and is read from its start."""
    made: list[ShareMember] = []
    broker.create_topic("t")
    broker.set_group_config("g", {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)})

    def make(name: str) -> ShareMember:
        client = ShareMember(broker.bootstrap_servers, name)
        made.append(client)
        return client.join("t")

    yield make
    for client in made:
        client.close()


@pytest.mark.behaviour("delivery counts")
def test_second_release_archives_when_the_limit_is_two(broker: ReferenceBroker, member: MakeMember) -> None:
    """With a delivery limit of 2 the second release archives records, and only later ones come."""
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    client = member("a")
    produce_one_batch(broker, "t", 10)
    assert acquired(client.fetch(0)) == [(0, 9, 1)]
    assert only_partition(client.acknowledge(1, [(0, 9, RELEASE)])).error_code == 0
    assert acquired(client.fetch(2)) == [(0, 9, 2)]
    assert only_partition(client.acknowledge(3, [(0, 9, RELEASE)])).error_code == 0
    produce_one_batch(broker, "t", 10)
    assert acquired(client.fetch(4)) == [(10, 19, 1)]


@pytest.mark.behaviour("delivery counts")
def test_start_moves_past_records_when_their_last_lock_ends(broker: ReferenceBroker, member: MakeMember) -> None:
    """When the last lock that records may have ends, they are archived and the group's start moves past them."""
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    client = member("a")
    produce_one_batch(broker, "t", 10)
    assert acquired(client.fetch(0)) == [(0, 9, 1)]
    broker.advance(LOCK_MS + 1)
    assert acquired(client.fetch(1)) == [(0, 9, 2)]
    broker.advance(LOCK_MS + 1)
    assert acquired(client.fetch(2)) == []
    partition = broker.share_partition("g", "t", 0)
    assert partition is not None
    assert (partition.start_offset, list(partition.ranges)) == (10, [])
    assert client.stored_offsets() == (0, 0), "the stored start is one write behind, the lag is right"


@pytest.mark.behaviour("delivery counts")
def test_start_stays_when_archived_records_are_behind_available_ones(
    broker: ReferenceBroker, member: MakeMember
) -> None:
    """The group's start stays before available records although those behind them are archived."""
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    client = member("a")
    for _ in range(2):
        produce_one_batch(broker, "t", 10)
    assert acquired(client.fetch(0, batch_size=10)) == [(0, 9, 1), (10, 19, 1)]
    assert only_partition(client.acknowledge(1, [(10, 19, RELEASE)])).error_code == 0
    assert acquired(client.fetch(2)) == [(10, 19, 2)]
    assert only_partition(client.acknowledge(3, [(0, 9, RELEASE)])).error_code == 0
    broker.advance(LOCK_MS + 1)
    assert acquired(client.fetch(4)) == [(0, 9, 2)]
    assert start_offset(broker, "t") == 0


@pytest.mark.behaviour("delivery counts")
def test_renewed_records_can_be_accepted_when_their_first_lock_would_have_ended(
    broker: ReferenceBroker, member: MakeMember
) -> None:
    """A fetch that only renews acquires nothing; renewed records can be accepted after their first lock's time."""
    client = member("a")
    produce_one_batch(broker, "t", 10)
    assert acquired(client.fetch(0)) == [(0, 9, 1)]
    broker.advance(LOCK_MS - 5_000)
    renewed = client.fetch(
        1, [(0, 4, RENEW), (5, 9, ACCEPT)], is_renew_ack=True, min_bytes=0, max_bytes=0, max_records=0, batch_size=0
    )
    assert only_partition(renewed).acknowledge_error_code == 0
    assert acquired(renewed) == []
    broker.advance(LOCK_MS - 5_000)
    assert only_partition(client.acknowledge(2, [(0, 4, ACCEPT)])).error_code == 0
    assert start_offset(broker, "t") == 10


@pytest.mark.behaviour("delivery counts")
@pytest.mark.parametrize("limit", ["max_wait_ms", "min_bytes", "max_bytes", "max_records"])
def test_renewing_fetch_is_refused_when_it_has_a_limit(broker: ReferenceBroker, member: MakeMember, limit: str) -> None:
    """A fetch that renews may not ask for records as well: it is refused as a whole, and changes nothing."""
    client = member("a")
    produce_one_batch(broker, "t", 10)
    assert acquired(client.fetch(0)) == [(0, 9, 1)]
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "batch_size": 0, limit: 1}
    refused = client.fetch(1, [(0, 9, RENEW)], is_renew_ack=True, **limits)
    assert refused.error_code == InvalidRequestError.code
    assert not refused.responses
    assert only_partition(client.acknowledge(1, [(0, 9, ACCEPT)])).error_code == 0, "the epoch did not advance"


@pytest.mark.behaviour("delivery counts")
def test_renewing_fetch_is_answered_when_only_the_batch_size_is_set(
    broker: ReferenceBroker, member: MakeMember
) -> None:
    """A fetch that only renews may have a batch size, and partitions without an acknowledgement."""
    client = member("a")
    produce_one_batch(broker, "t", 10)
    none: dict[str, Any] = {"min_bytes": 0, "max_bytes": 0, "max_records": 0}
    assert acquired(client.fetch(0, is_renew_ack=True, batch_size=7, **none)) == []
    assert acquired(client.fetch(1, is_renew_ack=True, batch_size=7, **none)) == []
    assert acquired(client.fetch(2)) == [(0, 9, 1)]


@pytest.mark.behaviour("delivery counts")
@pytest.mark.parametrize("version", [1, 2])
def test_renewal_is_refused_for_its_partition_when_it_is_not_announced(
    broker: ReferenceBroker, member: MakeMember, version: int
) -> None:
    """A renewal that its request does not announce is an invalid request for its partition."""
    client = member("a")
    produce_one_batch(broker, "t", 10)
    assert acquired(client.fetch(0)) == [(0, 9, 1)]
    refused = client.acknowledge(1, [(0, 9, RENEW)], version=version)
    assert only_partition(refused).error_code == InvalidRequestError.code
    piggybacked = client.fetch(2, [(0, 9, RENEW)], version=version)
    assert only_partition(piggybacked).acknowledge_error_code == InvalidRequestError.code
    assert only_partition(client.acknowledge(3, [(0, 9, ACCEPT)])).error_code == 0


@pytest.mark.behaviour("explicit acknowledgement")
def test_nothing_of_a_partition_is_applied_when_one_offset_is_no_longer_held(
    broker: ReferenceBroker, member: MakeMember
) -> None:
    """Acknowledging records of which some are not acquired any more fails as a whole; the others can be accepted."""
    client = member("a")
    produce_one_batch(broker, "t", 10)
    assert acquired(client.fetch(0)) == [(0, 9, 1)]
    broker.advance(LOCK_MS - 1_000)
    assert only_partition(client.acknowledge(1, [(5, 9, RENEW)], is_renew_ack=True)).error_code == 0
    broker.advance(1_001)
    refused = client.acknowledge(2, [(0, 4, ACCEPT), (5, 9, ACCEPT)])
    assert only_partition(refused).error_code == InvalidRecordStateError.code
    refused = client.acknowledge(3, [(4, 5, ACCEPT)])
    assert only_partition(refused).error_code == InvalidRecordStateError.code
    assert only_partition(client.acknowledge(4, [(5, 9, ACCEPT)])).error_code == 0
    assert acquired(client.fetch(5)) == [(0, 4, 2)]


@pytest.mark.behaviour("acquisition locks")
def test_answers_carry_the_effective_lock_time(broker: ReferenceBroker, member: MakeMember) -> None:
    """ShareFetch answers, empty ones too, and ShareAcknowledge answers have the group's lock time, as it is now."""
    client = member("a")
    assert client.fetch(0).acquisition_lock_timeout_ms == LOCK_MS
    produce_values(broker, "t", 1)
    assert client.fetch(1).acquisition_lock_timeout_ms == LOCK_MS
    broker.set_group_config("g", {"share.record.lock.duration.ms": "20000"})
    assert client.acknowledge(2, [(0, 0, ACCEPT)]).acquisition_lock_timeout_ms == 20_000
    assert client.fetch(3).acquisition_lock_timeout_ms == 20_000


@pytest.mark.behaviour("acquisition locks")
def test_only_the_rest_comes_back_when_subsets_were_acknowledged(broker: ReferenceBroker, member: MakeMember) -> None:
    """Subsets of two batches are acknowledged; after the lock time the others come back, and only they."""
    client = member("a")
    for _ in range(2):
        produce_one_batch(broker, "t", 10)
    assert acquired(client.fetch(0, batch_size=10)) == [(0, 9, 1), (10, 19, 1)]
    assert only_partition(client.acknowledge(1, [(2, 4, ACCEPT), (8, 12, ACCEPT)])).error_code == 0
    broker.advance(LOCK_MS + 1)
    assert acquired(client.fetch(2)) == [(0, 1, 2), (5, 7, 2), (13, 19, 2)]


@pytest.mark.behaviour("acquisition locks")
def test_waiting_fetch_is_answered_when_an_acknowledgement_moves_the_start(
    broker: ReferenceBroker, member: MakeMember
) -> None:
    """With all locks taken a fetch waits until an acknowledgement moves the group's start, not for an inner one."""
    broker.set_group_config("g", {"share.partition.max.record.locks": "100"})
    holder, waiting = member("a"), member("b")
    for _ in range(3):
        produce_one_batch(broker, "t", 60)
    assert acquired(holder.fetch(0, batch_size=60)) == [(0, 59, 1), (60, 119, 1)]
    waiting.send(waiting.fetch_request(0, max_wait_ms=600_000), 2)
    assert only_partition(holder.acknowledge(1, [(70, 90, ACCEPT)])).error_code == 0
    assert only_partition(holder.acknowledge(2, [(0, 59, ACCEPT)])).error_code == 0
    assert acquired(waiting.receive()) == [(120, 179, 1)]


@pytest.mark.behaviour("share sessions")
def test_final_fetch_acquires_nothing_and_releases_what_was_held(broker: ReferenceBroker, member: MakeMember) -> None:
    """A fetch that ends its session acquires nothing and releases the member's records for others."""
    first, second, third = member("a"), member("b"), member("c")
    for _ in range(2):
        produce_one_batch(broker, "t", 3)
    assert acquired(first.fetch(0, max_records=3, batch_size=3)) == [(0, 2, 1)]
    assert acquired(first.fetch(-1)) == []
    held: set[int] = set()
    epoch = 0
    while len(held) < 6:
        ranges, epoch = second.fetch_until_acquired(epoch)
        for start, end, _ in ranges:
            held.update(range(start, end + 1))
    assert held == set(range(6))
    assert acquired(third.fetch(0)) == []
