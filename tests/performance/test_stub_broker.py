"""The stub broker of the benchmarks serves foreign clients and ours as a broker would, and keeps a true account."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from performance.offset_ranges import OffsetRanges
from performance.replayed_batches import ReplayedBatches, Shape
from performance.replayed_group import ReplayedGroup
from performance.stub_broker import Settings
from performance.stub_process import NOT_ON_WINDOWS, StubProcess
from support.waiting import looks, wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.protocol.record_batches import iter_batches

pytestmark = pytest.mark.skipif(os.name == "nt", reason=NOT_ON_WINDOWS)
RECORDS = 3_000
Seen = list[tuple[int, int]]
"""(partition, offset) of each record."""

foreign = [
    pytest.mark.foreign,
    pytest.mark.skipif(importlib.util.find_spec("confluent_kafka") is None, reason="confluent-kafka is not installed"),
]


def with_ours(stub: StubProcess, group: str) -> Seen:
    seen: Seen = []
    consumer: KafkaShareConsumer[Any, Any]
    with KafkaShareConsumer(stub.topic, bootstrap_servers=stub.bootstrap, group_id=group) as consumer:
        for _ in looks("the records did not come"):
            seen += [(record.partition, record.offset) for record in consumer.poll(timeout_ms=100)]
            if len(seen) >= RECORDS:
                break
        consumer.commit_sync()
    return seen


def with_confluent(stub: StubProcess, group: str) -> Seen:
    from confluent_kafka import ShareConsumer

    seen: Seen = []
    consumer: Any = ShareConsumer({"bootstrap.servers": stub.bootstrap, "group.id": group})
    try:
        consumer.subscribe([stub.topic])
        for _ in looks("the records did not come"):
            seen += [(record.partition(), record.offset()) for record in consumer.poll(0.1)]
            if len(seen) >= RECORDS:
                break
        consumer.commit_sync()
    finally:
        consumer.close()
    return seen


@pytest.fixture(params=[(500, "none"), (10, "lz4"), (1, "none")], ids=str)
def stub(request: pytest.FixtureRequest) -> Iterator[StubProcess]:
    batch_records, codec = request.param
    with StubProcess(Settings(partitions=4, shape=Shape(40, batch_records, codec, headers=1))) as running:
        yield running


@pytest.mark.parametrize("consume", [with_ours, pytest.param(with_confluent, marks=foreign)])
def test_each_record_comes_once_and_is_accepted_once(
    stub: StubProcess, consume: Callable[[StubProcess, str], Seen]
) -> None:
    stub.open_group("g", RECORDS)
    seen = consume(stub, "g")
    assert len(seen) == len(set(seen)) == RECORDS
    assert {partition for partition, _ in seen} == {0, 1, 2, 3}
    account = stub.account("g")
    assert account["cpu_s"] > 0
    assert {name: account[name] for name in ("records", "acquired", "accepted", "wrong", "held", "given_back")} == {
        "records": RECORDS,
        "acquired": RECORDS,
        "accepted": RECORDS,
        "wrong": 0,
        "held": 0,
        "given_back": 0,
    }


def test_records_of_a_member_that_left_and_released_ones_come_again() -> None:
    with StubProcess(Settings(shape=Shape(batch_records=10))) as stub:
        stub.open_group("g", 10)
        settings: dict[str, Any] = {"bootstrap_servers": stub.bootstrap, "group_id": "g"}
        consumer: KafkaShareConsumer[Any, Any]
        with KafkaShareConsumer(stub.topic, share_acknowledgement_mode="explicit", **settings) as consumer:
            [first, second, *_] = wait_until(lambda: list(consumer.poll(timeout_ms=100)))
            consumer.acknowledge(first)
            consumer.acknowledge(second, "release")
        with KafkaShareConsumer(stub.topic, **settings) as consumer:
            again: list[Any] = []
            for _ in looks("the records did not come"):
                again += consumer.poll(timeout_ms=100)
                if len(again) == 9:
                    break
            consumer.commit_sync()
        assert {record.offset for record in again} == set(range(1, 10))
        assert {record.delivery_count for record in again} == {2}
        account = stub.account("g")
        assert (account["acquired"], account["accepted"], account["wrong"], account["held"]) == (19, 10, 0, 0)


def test_nobody_gets_a_record_before_all_members_are_there() -> None:
    with StubProcess(Settings(shape=Shape(batch_records=1))) as stub:
        stub.open_group("g", 2, members=2)
        settings: dict[str, Any] = {"bootstrap_servers": stub.bootstrap, "group_id": "g", "fetch_max_wait_ms": 50}
        one: KafkaShareConsumer[Any, Any]
        other: KafkaShareConsumer[Any, Any]
        with KafkaShareConsumer(stub.topic, **settings) as one:
            for _ in range(3):
                assert not one.poll(timeout_ms=100)
            with KafkaShareConsumer(stub.topic, **settings) as other:
                wait_until(lambda: len([*one.poll(timeout_ms=50), *other.poll(timeout_ms=50)]))


def test_a_stamped_record_comes_when_it_is_made() -> None:
    with StubProcess(Settings(every_ms=5)) as stub:
        stub.open_group("g", 5)
        consumer: KafkaShareConsumer[Any, Any]
        with KafkaShareConsumer(stub.topic, bootstrap_servers=stub.bootstrap, group_id="g") as consumer:
            stamps: list[int] = []
            for _ in looks("the records did not come"):
                stamps += [int.from_bytes((record.value or b"")[:8], "big") for record in consumer.poll(timeout_ms=100)]
                if len(stamps) == 5:
                    break
        assert stamps == sorted(stamps)
        assert stamps[-1] - stamps[0] >= 4 * 5_000_000 * 0.9


# ---- its parts


def test_the_offsets_of_replayed_batches_are_patched_and_their_checksums_hold() -> None:
    batches = ReplayedBatches(Shape(batch_records=7))
    for first in (0, 7 * 40_000, 7 * 3_000_000):
        for count in (3, 1, 5):
            found = list(iter_batches(batches.run(first, count)))
            assert [batch.base_offset for batch in found] == [first + 7 * number for number in range(count)]
            offsets = [offset for batch in found for offset, *_ in batch.records()]
            for batch in found:
                batch.verify_crc()
            assert offsets == list(range(first, first + 7 * count))


def test_acknowledgements_of_what_is_not_held_are_counted_as_wrong() -> None:
    group = ReplayedGroup(ReplayedBatches(Shape(batch_records=10)), partitions=1, records=20)
    session = group.open("m")
    session.turns.append(0)
    [acquired] = group.acquire(session, max_records=10, max_bytes=1 << 20)
    assert (acquired.first, acquired.last) == (0, 9)
    group.acknowledge(session, [(0, 0, 3, b"\1"), (0, 3, 4, b"\3\1"), (0, 12, 12, b"\1"), (0, 9, 9, b"\4")])
    account = group.account()
    assert (account["accepted"], account["rejected"], account["renewed"]) == (6, 1, 1)
    assert (account["wrong"], account["held"]) == (2, 5)


def test_ranges_join_and_part() -> None:
    ranges = OffsetRanges()
    for first, last in ((0, 4), (5, 9), (20, 29), (10, 12)):
        ranges.add(first, last)
    assert list(ranges) == [(0, 12), (20, 29)]
    assert ranges.remove(3, 24) == 7
    assert list(ranges) == [(0, 2), (25, 29)]
    ranges.add(3, 24)
    assert list(ranges) == [(0, 29)]
    assert (len(ranges), ranges.covers(0, 29), ranges.covers(0, 30)) == (30, True, False)
    assert ranges.remove(29, 31) == 2
