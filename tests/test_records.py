"""The values that users hold: what a record and the records of a poll promise."""

from __future__ import annotations

import pickle
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


def test_a_record_stays_the_same_when_it_is_pickled() -> None:
    copy = pickle.loads(pickle.dumps(record()))
    assert copy == record()
    assert type(copy) is ShareRecord
    assert (copy.value, copy.headers, copy.delivery_count) == (b"secret", (("h", b"secret"),), 1)


def test_a_record_can_be_in_a_set_when_its_value_cannot() -> None:
    one, same, other = record(value={"a": 1}), record(value={"a": 1}), record(offset=6, value={"a": 1})
    assert {one, same, other} == {one, other}


def test_records_differ_when_one_field_differs() -> None:
    assert record() != record(value=b"other")
    assert record() != record(partition=1)


def test_a_record_is_equal_to_its_copy_without_lock_and_error() -> None:
    """Those are about one delivery to one consumer; a copy in another process has no lock, and says so."""
    now_ms = 1_000
    lock = AcquisitionLock(31_000, LockGeneration(), lambda: now_ms)
    error = RecordDeserializationError(
        "bad", topic="t", partition=0, offset=5, origin="value", key=None, value=b"bad", headers=(), timestamp=1
    )
    plain, held = record(), record()._replace(lock=lock, error=error)
    assert (held.lock_deadline, held.lock_remaining_ms(), held.lock_lost) == (31.0, 30_000, False)
    for copy in (pickle.loads(pickle.dumps(held)), deepcopy(held)):
        assert copy == held == plain
        assert copy._replace(value=b"other") != held
        assert hash(copy) == hash(held)
        assert isinstance(copy.error, RecordDeserializationError)
        assert copy.error.value == b"bad"
        assert (copy.lock, copy.lock_deadline, copy.lock_remaining_ms(), copy.lock_lost) == (None, None, 0, False)


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
