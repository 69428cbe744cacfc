"""Where many records stand: both implementations say the same of what a mask names, delivery by delivery."""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native.implementations import implementation

from kafka_share.locks import AcquisitionLock, LockGeneration
from kafka_share.protocol.compression import decompress
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.record_headers import EncodedHeaders
from kafka_share.records import ShareRecord, TimestampType


def new_lock() -> AcquisitionLock:
    return AcquisitionLock(1, LockGeneration(), lambda: 0)


def records(
    native: ModuleType, topic: str, partition: int, offsets: range, lock: AcquisitionLock
) -> list[ShareRecord[Any, Any]]:
    """As they are delivered: by a block where there are blocks."""
    if native.RecordBlock is None:
        kind = TimestampType.CREATE_TIME
        return [
            native.ShareRecord(topic, partition, o, 0, kind, None, b"", (), None, 1, lock=lock) for o in offsets
        ]  # fmt: skip
    data = encode_batch([(o, 0, None, b"", ()) for o in offsets], base_offset=offsets[0])
    block = native.RecordBlock(topic, partition, data, lock, (*TimestampType,), EncodedHeaders)
    found: list[ShareRecord[Any, Any]] = block.scan(
        0, [(offsets[0], offsets[-1], 1)], True, 1 << 20, decompress, 1 << 30
    )[1]
    return found


def test_records_of_one_delivery_stand_together_as_they_come(native: ModuleType) -> None:
    one, other = new_lock(), new_lock()
    delivered = [
        *records(native, "a", 0, range(3), one),
        *records(native, "b", 7, range(100, 102), other),
        *records(native, "a", 0, range(5, 6), one),
    ]
    offsets = [(lock, topic, partition, [*those]) for lock, topic, partition, those in native.places([delivered], None)]
    assert offsets == [(one, "a", 0, [0, 1, 2]), (other, "b", 7, [100, 101]), (one, "a", 0, [5])]
    meant = native.places([delivered], bytes([0, 1, 0, 0, 0, 1]))
    assert [o for lock, *_, those in meant for o in those if lock is one] == [1, 5]
    assert native.places([[]], None) == []
    assert native.places([delivered], bytes(6)) == []


@given(st.lists(st.booleans(), min_size=20, max_size=20))
def test_a_mask_names_what_acknowledging_one_by_one_would(mask: list[bool]) -> None:
    """What a ledger holds after one call for all is what it holds after a call for each."""
    for name in ("compiled", "pure"):
        native, lock = implementation(name), new_lock()
        delivered = records(native, "a", 0, range(20), lock)
        ledgers = [native.Ledger(), native.Ledger()]
        for ledger in ledgers:
            ledger.add(delivered)
        for _, _, _, offsets in native.places([delivered], bytes(mask)):
            assert not ledgers[0].acknowledge_each(offsets, 2, once=False)
        for record, is_meant in zip(delivered, mask, strict=True):
            assert not is_meant or ledgers[1].acknowledge(record.offset, 2)
        taken = [ledger.runs(ledger.snapshot(with_renewals=True)) for ledger in ledgers]
        assert taken[0] == taken[1]
        ledgers[0].check()


def test_what_is_not_there_is_left_and_the_rest_is_acknowledged(native: ModuleType) -> None:
    ledger = native.Ledger()
    ledger.add(records(native, "a", 0, range(5), new_lock()))
    ledger.hold(1)
    ledger.acknowledge(2, 1)
    assert [*ledger.acknowledge_each(array("q", [1, 2, 3, 9]), 3, once=True)] == [1, 2, 9]
    assert [*ledger.acknowledge_each(array("q", [1, 2, 9]), 2, once=False)] == [9]
    assert ledger.held == 0
    assert ledger.runs(ledger.snapshot(with_renewals=True)) == [(1, 2, 2), (3, 3, 3)]
    ledger.check()


def test_only_records_have_a_place(native: ModuleType) -> None:
    if native.RecordBlock is None:
        pytest.skip("the façade looks before")
    with pytest.raises(TypeError, match="ShareRecord"):
        native.places([[*records(native, "a", 0, range(1), new_lock()), "t-0@1"]], None)


def test_a_ledger_takes_runs_and_lists_in_turn(native: ModuleType) -> None:
    """Neighbours of what it has, the same once more, records of another block between them: one entry for each."""
    if native.RecordBlock is None:
        pytest.skip("there are lists only")
    lock = new_lock()
    data = b"".join(encode_batch([(o, 0, None, b"%d" % o, ())], base_offset=o) for o in range(6))
    block = native.RecordBlock("a", 0, data, lock, (*TimestampType,), EncodedHeaders)
    position, runs = 0, []
    for acquired in ([(0, 1, 1)], [(2, 3, 1)], [(5, 5, 1)]):
        position, run, _, _ = block.scan(position, acquired, True, 1 << 20, decompress, 1 << 30)
        runs.append(run)
    ledger = native.Ledger()
    for run in (runs[0], runs[1], runs[0], runs[1]):
        ledger.add(run)
        ledger.check()
    assert (len(ledger), [r.value for r in ledger.records_at(range(9))]) == (4, [b"0", b"1", b"2", b"3"])
    ledger.remove([1, 2])
    assert [r.offset for r in ledger.records_at(range(9))] == [0, 3]
    ledger.add(runs[0])
    ledger.check()
    assert ledger.unacknowledged(with_held=True) == [0, 1, 3]
    ledger.acknowledge(3, 4)
    assert [r.value for r in ledger.renewing_in(ledger.snapshot(with_renewals=True)).values()] == [b"3"]
    ledger.add(list(records(native, "a", 0, range(4, 5), lock)))
    ledger.add(runs[2])
    ledger.add(runs[1])
    ledger.check()
    assert [r.offset for r in ledger.records_at(range(9))] == [0, 1, 2, 3, 4, 5]
    ledger.accept_open()
    ledger.leave(ledger.snapshot(with_renewals=True), keeps_renewals=False)
    ledger.add(runs[2])
    ledger.check()
    assert [r.value for r in ledger.records_at(range(9))] == [b"5"]


@given(st.binary(max_size=5), st.integers(0, 40), st.integers(0, 40))
def test_a_packed_mask_has_a_bit_for_each_row(bits: bytes, start: int, count: int) -> None:
    every = [int(bit) for byte in bits for bit in f"{byte:08b}"[::-1]]
    for name in ("compiled", "pure"):
        native = implementation(name)
        if start + count <= len(every):
            assert native.unpacked(bits, start, count) == bytes(every[start : start + count])
        else:
            with pytest.raises(ValueError, match="fewer bits"):
                native.unpacked(memoryview(bits), start, count)
