"""The values that users hold: what a record and the records of a poll promise."""

from __future__ import annotations

import copy
import pickle
import time
from copy import deepcopy
from typing import Any

import pytest

from kafka_share import ShareRecord, TopicPartition
from kafka_share.errors import RecordDeserializationError
from kafka_share.locks import AcquisitionLock, LockGeneration
from kafka_share.records import ShareRecords, TimestampType


def record(partition: int = 0, offset: int = 5, value: Any = b"secret") -> ShareRecord[bytes | None, Any]:
    headers = (("h", b"secret"),)
    return ShareRecord("t", partition, offset, 1000, TimestampType.CREATE_TIME, b"secret", value, headers, 3, 1)


def test_a_record_does_not_spill_its_payload_when_it_is_printed() -> None:
    assert repr(record()) == str(record()) == "<ShareRecord t-0@5 timestamp=1000 delivery_count=1>"


def test_completion_after_a_record_shows_what_a_record_has() -> None:
    shown = [name for name in dir(record()) if not name.startswith("_")]
    properties = ("is_last_delivery", "lock_deadline", "lock_lost", "lock_remaining_ms", "raw_key", "raw_value")
    assert shown == sorted({*ShareRecord.__match_args__, *properties} - {"lock"})


def test_records_say_how_many_they_are_when_they_are_printed() -> None:
    one, two = {TopicPartition("t", 0): [record()]}, {TopicPartition("t", n): [record(n)] for n in range(2)}
    assert repr(ShareRecords(one)) == "<ShareRecords: 1 record of 1 partition>"
    assert repr(ShareRecords(two)) == "<ShareRecords: 2 records of 2 partitions>"


def test_a_record_stays_the_same_when_it_is_pickled() -> None:
    again = pickle.loads(pickle.dumps(record()))
    assert again == record()
    assert isinstance(again, ShareRecord)
    assert (again.value, again.headers, again.delivery_count) == (b"secret", (("h", b"secret"),), 1)


def test_a_record_can_be_in_a_set_when_its_value_cannot() -> None:
    one, same, other = record(value={"a": 1}), record(value={"a": 1}), record(offset=6, value={"a": 1})
    assert {one, same, other} == {one, other}


def test_records_differ_when_one_field_differs() -> None:
    assert record() != record(value=b"other")
    assert record() != record(partition=1)


def test_a_record_is_equal_to_its_copies_whatever_lock_and_error_they_have() -> None:
    """Those are about one delivery to one consumer. A record without a lock has none in another process either."""
    lock = AcquisitionLock(31_000, LockGeneration(), lambda: 1_000)
    error = RecordDeserializationError(
        "bad", topic="t", partition=0, offset=5, origin="value", key=None, value=b"bad", headers=(), timestamp=1
    )
    plain, held = record().__replace__(error=error), record().__replace__(lock=lock, error=error)
    assert (held.lock_deadline, held.lock_remaining_ms(), held.lock_lost) == (31.0, 30_000, False)
    for one in (plain, held):
        for again in (pickle.loads(pickle.dumps(one)), deepcopy(one)):
            assert again == held == record()
            assert again.__replace__(value=b"other") != held
            assert hash(again) == hash(held)
            assert isinstance(again.error, RecordDeserializationError)
            assert again.error.value == b"bad"
            assert (again.lock is None) == (one.lock is None)
    assert (plain.lock_deadline, plain.lock_remaining_ms(), plain.lock_lost) == (None, 0, False)


def test_a_pickled_record_knows_when_its_lock_ends_and_whether_it_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process has another clock: what is kept is the time that is left."""
    now_s = 1_000
    monkeypatch.setattr(time, "time_ns", lambda: now_s * 10**9)
    monkeypatch.setattr(time, "monotonic_ns", lambda: (now_s - 900) * 10**9)
    lock = AcquisitionLock(31_000, LockGeneration(), lambda: 1_000)
    held, lost, renewed = (record(offset=offset).__replace__(lock=lock) for offset in (5, 6, 7))
    lock.lose(6, 6)
    lock.renew(7, 7, 51_000)
    pickled = pickle.dumps([held, lost, renewed])
    now_s -= 5  # another machine, whose clock is late
    assert [one.lock_lost for one in pickle.loads(pickled)] == [False, True, False]
    now_s += 15
    one, two, three = pickle.loads(pickled)
    assert (one.lock_deadline, one.lock_remaining_ms(), one.lock_lost) == (130.0, 20_000, False)
    assert (two.lock_remaining_ms(), two.lock_lost) == (0, True)
    assert (three.lock_remaining_ms(), three.lock_lost) == (40_000, False)
    assert pickle.loads(pickle.dumps(one)).lock_remaining_ms() == 20_000
    now_s += 20
    assert (one.lock_remaining_ms(), one.lock_lost) == (0, True)
    assert (three.lock_remaining_ms(), three.lock_lost) == (20_000, False)


def test_a_copied_record_has_the_same_lock() -> None:
    generation = LockGeneration()
    held = record(value={"a": [1]}).__replace__(lock=AcquisitionLock(31_000, generation, lambda: 1_000))
    for copied in (copy.copy(held), deepcopy(held)):
        assert copied.lock_remaining_ms() == 30_000
    deep = deepcopy(held)
    assert deep.value is not held.value
    generation.has_ended = True
    assert deep.lock_lost


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        record().value = b"other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        record().note = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("partitions", [0, 1, 3])
def test_records_are_a_sequence_over_all_partitions_when_a_poll_returned_them(partitions: int) -> None:
    by_partition = {TopicPartition("t", p): [record(p, 0), record(p, 1)] for p in range(partitions)}
    records = ShareRecords(by_partition)
    expected = [(p, offset) for p in range(partitions) for offset in (0, 1)]
    assert [(r.partition, r.offset) for r in records] == expected
    assert len(records) == len(expected)
    assert bool(records) == bool(expected)
    assert records.partitions() == frozenset(by_partition)
    for where, found in by_partition.items():
        assert records.records(where) == found
        assert records.records(where) is not found, "a caller must not be able to change the records"
    assert records.records(TopicPartition("t", 9)) == []
