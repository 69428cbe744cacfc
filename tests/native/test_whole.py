"""Answers that are made and kept as one thing: which there are, what is sent of them, and what is left then."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from native.implementations import implementation

from kafka_share import AcknowledgeType
from kafka_share.application.decoding import Decoder, whole_maker
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.locks import LockGeneration
from kafka_share.native import IS_COMPILED
from kafka_share.protocol.direct_fetch import fetch_template
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import TopicIdPartition, TopicPartition

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="answers are held as a whole in the compiled module only")

ENDS_AT_MS = 30_000
ACCEPT, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.REJECT
TEMPLATE = fetch_template(2, "client", "group", "member", (500, 1, 1_000_000, 500))


def where(partition: int = 0) -> TopicIdPartition:
    return TopicIdPartition(UUID(int=1), "t", partition)


def batch(*offsets: int) -> bytes:
    return encode_batch([(o, 1_000, b"k", b"v%d" % o, ()) for o in offsets], base_offset=offsets[0])


def part(partition: int, data: bytes, *acquired: tuple[int, int], locks: LockGeneration | None = None) -> Any:
    ranges = tuple(AcquiredRange(first, last, 1) for first, last in acquired)
    return where(partition), locks or LockGeneration(), memoryview(data), ranges


def made(*parts: Any, now_ms: int = 0) -> Any:
    maker = whole_maker(Decoder(), lambda: 0)
    return maker.make(parts, ENDS_AT_MS, count=3, node_id=1, session_id=7, lock_ms=15_000, now_ms=now_ms)


def collected(*parts: Any) -> Any:
    answer = made(*parts)
    answer.collect()
    return answer


def test_records_of_each_partition_are_there() -> None:
    answer = made(part(0, batch(5, 6, 7), (5, 7)), part(1, batch(1) + batch(2, 3), (1, 1), (3, 3)))
    found = {place: [record.value for [run] in [runs] for record in run] for place, runs in answer.by_partition.items()}
    assert found == {TopicPartition("t", 0): [b"v5", b"v6", b"v7"], TopicPartition("t", 1): [b"v1", b"v3"]}
    assert (answer.count, answer.node_id, answer.session_id, answer.lock_ms) == (3, 1, 7, 15_000)
    assert [answer.is_returned, answer.is_sent, answer.is_filed] == [False] * 3


def test_records_share_one_lock_for_each_partition() -> None:
    answer = made(part(0, batch(5, 6), (5, 6)), part(1, batch(1), (1, 1)))
    first, second = answer.partitions
    assert {record.lock for record in first.records} == {first.lock}
    assert first.lock is not second.lock
    assert first.lock.deadline_of(5) == ENDS_AT_MS


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


@pytest.mark.parametrize(
    "one",
    [
        part(0, batch(5, 7), (5, 7)),
        part(0, batch(5, 6), (5, 8)),
        part(0, batch(5, 6), (4, 6)),
        part(0, b"", (5, 5)),
        part(0, batch(5, 6)[:-1], (5, 6)),
        part(0, damaged(batch(5, 6)), (5, 6)),
    ],
    ids=["a gap", "no end", "no beginning", "nothing", "torn", "damaged"],
)
def test_there_is_none_when_something_stands_between_the_records(one: Any) -> None:
    assert made(one) is None
    assert made(part(1, batch(1), (1, 1)), one) is None


def test_there_is_none_when_a_lock_is_lost_already() -> None:
    ended = LockGeneration()
    ended.has_ended = True
    assert made(part(0, batch(5), (5, 5), locks=ended)) is None
    assert made(part(0, batch(5), (5, 5)), now_ms=ENDS_AT_MS) is None
    assert made(part(0, batch(5), (5, 5)), now_ms=ENDS_AT_MS - 1) is not None


def test_what_has_no_acknowledgement_is_accepted_where_that_is_implied() -> None:
    answer = collected(part(0, batch(5, 6, 7), (5, 7)), part(1, batch(1), (1, 1)))
    answer.partitions[0].ledger.acknowledge(6, REJECT)
    assert not answer.has_runs(False, 0)
    assert answer.has_runs(True, 0)
    pieces = [(UUID(int=1), 0, [(5, 7, [ACCEPT, REJECT, ACCEPT])]), (UUID(int=1), 1, [(1, 1, [ACCEPT])])]
    assert answer.request(TEMPLATE, 8, 3) == TEMPLATE.frame(8, 3, pieces)


@pytest.mark.parametrize(
    "places",
    [
        [(1, 0)],
        [(1, 0), (1, 7), (1, 1 << 20)],
        [(1, 0), (2, 0), (2, 3), (1 << 100, 5)],
        [(1, 0), (2, 0), (1, 1)],
        [(1, number) for number in range(126)],
        [(number, 0) for number in range(1, 127)],
    ],
    ids=["one", "of a topic", "of topics", "apart", "many", "many topics"],
)
def test_what_is_sent_has_the_bytes_of_the_template(places: list[tuple[int, int]]) -> None:
    partitions = [TopicIdPartition(UUID(int=topic), f"t{topic}", number) for topic, number in places]
    first = 1 << 40
    answer = collected(
        *[
            (at, LockGeneration(), memoryview(batch(first, first + 1)), (AcquiredRange(first, first + 1, 1),))
            for at in partitions
        ]
    )
    assert answer.has_runs(True, 0)
    pieces = [(at.topic_id, at.partition, [(first, first + 1, [ACCEPT])]) for at in partitions]
    for correlation_id, epoch in ((0, 1), ((1 << 31) - 1, (1 << 31) - 1)):
        sent = answer.request(TEMPLATE, correlation_id, epoch)
        assert sent == TEMPLATE.frame(correlation_id, epoch, pieces)
        assert int.from_bytes(sent[:4], "big") == len(sent) - 4


def test_more_than_a_short_message_takes_is_not_sent() -> None:
    places = [part(number, batch(1), (1, 1)) for number in range(127)]
    answer = collected(*places)
    assert answer.has_runs(True, 0)
    assert answer.request(TEMPLATE, 1, 1) is None


def test_nothing_is_sent_when_a_lock_may_be_lost() -> None:
    answer = collected(part(0, batch(5), (5, 5)), part(1, batch(1), (1, 1)))
    answer.partitions[1].locks.has_ended = True
    assert not answer.has_runs(True, 0)


def test_nothing_is_sent_when_a_record_is_renewed() -> None:
    answer = collected(part(0, batch(5), (5, 5)))
    answer.partitions[0].ledger.acknowledge(5, AcknowledgeType.RENEW)
    assert not answer.has_runs(True, 0)


def test_what_leaves_has_numbers_and_needs_no_records() -> None:
    answer = collected(part(0, batch(5, 6), (5, 6)), part(1, batch(1), (1, 1)))
    kept = next(iter(answer.partitions[0].records))
    answer.has_runs(True, 0)
    answer.leave(iter((8, 9)))
    answer.drop_records()
    assert [(g.partition, g.node_id, g.session_id, g.runs, g.number) for g in answer.gathered()] == [
        (where(0), 1, 7, (AcknowledgementRun(5, 6, ACCEPT),), 8),
        (where(1), 1, 7, (AcknowledgementRun(1, 1, ACCEPT),), 9),
    ]
    assert [(len(one.data), list(one.records), len(one.ledger)) for one in answer.partitions] == [(0, [], 0)] * 2
    assert not answer.by_partition
    assert kept.value == b"v5"


@pytest.mark.parametrize("name", ["WholeAnswer", "WholePartition"])
def test_none_is_made_by_hand(name: str) -> None:
    kind = getattr(implementation("compiled"), name)
    with pytest.raises(TypeError, match="a WholeMaker makes these"):
        kind()
    with pytest.raises(TypeError):
        kind.__new__(kind)
