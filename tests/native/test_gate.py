"""The short way of an acknowledgement: what it books, and what it leaves to the long way."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from types import ModuleType
from typing import Any

import pytest
from native.implementations import implementation

from kafka_share.locks import AcquisitionLock, LockGeneration
from kafka_share.protocol.compression import decompress
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.record_headers import EncodedHeaders
from kafka_share.records import AcknowledgeType, TimestampType

TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)


@pytest.fixture(scope="module", name="compiled")
def compiled_module() -> ModuleType:
    return implementation("compiled")


class Delivery:
    """Records 10 to 14 under one lock, in a ledger."""

    def __init__(self, compiled: ModuleType) -> None:
        self.lock = AcquisitionLock(60_000, LockGeneration(), lambda: 0)
        data = encode_batch([(o, 1_000, None, b"v", ()) for o in range(10, 15)], base_offset=10)
        block = compiled.RecordBlock("t", 0, data, self.lock, TYPES, EncodedHeaders)
        self.records = block.scan(0, [(10, 14, 1)], True, 1 << 20, decompress, 1 << 30)[1]
        self.ledger = compiled.Ledger()
        self.ledger.add(self.records)


def gate(compiled: ModuleType, ledgers: Any, is_busy: Callable[[], bool] | None) -> Any:
    made = compiled.Gate(ledgers, AcknowledgeType, is_busy)
    made.is_open = True
    return made


def test_each_record_is_booked_in_the_ledger_of_its_lock(compiled: ModuleType) -> None:
    ledgers = compiled.LedgersByLock()
    deliveries = [Delivery(compiled), Delivery(compiled)]
    for one in deliveries:
        ledgers.add(one.lock, one.ledger)
    way = gate(compiled, ledgers, Lock().locked)
    for number in range(5):
        for one, kind in zip(deliveries, (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT), strict=True):
            assert way.acknowledge(one.records[number], kind)
    assert [one.ledger.runs(one.ledger.snapshot(with_renewals=True)) for one in deliveries] == [
        [(10, 14, AcknowledgeType.ACCEPT)],
        [(10, 14, AcknowledgeType.REJECT)],
    ]


def test_what_was_dropped_is_not_found_again(compiled: ModuleType) -> None:
    """Also not the ledger that was looked at last."""
    ledgers, one = compiled.LedgersByLock(), Delivery(compiled)
    ledgers.add(one.lock, one.ledger)
    way = gate(compiled, ledgers, Lock().locked)
    assert way.acknowledge(one.records[0], AcknowledgeType.ACCEPT)
    ledgers.drop(one.lock)
    assert not way.acknowledge(one.records[1], AcknowledgeType.ACCEPT)
    assert (one.ledger.acknowledged, ledgers.listed()) == (1, {})


def test_another_ledger_for_the_same_lock_is_the_one(compiled: ModuleType) -> None:
    ledgers, one, other = compiled.LedgersByLock(), Delivery(compiled), Delivery(compiled)
    ledgers.add(one.lock, one.ledger)
    way = gate(compiled, ledgers, Lock().locked)
    assert way.acknowledge(one.records[0], AcknowledgeType.ACCEPT)
    ledgers.add(one.lock, other.ledger)
    assert way.acknowledge(one.records[1], AcknowledgeType.ACCEPT)
    assert (one.ledger.acknowledged, other.ledger.acknowledged) == (1, 1)


def test_a_ledger_that_holds_copies_is_searched_by_offset(compiled: ModuleType) -> None:
    """Its records stand one by one, since they came from two blocks."""
    ledgers, one, other = compiled.LedgersByLock(), Delivery(compiled), Delivery(compiled)
    one.ledger.remove([12])
    one.ledger.add([other.records[2]])
    ledgers.add(one.lock, one.ledger)
    way = gate(compiled, ledgers, Lock().locked)
    assert way.acknowledge(one.records[2], AcknowledgeType.RELEASE)
    assert one.ledger.runs(one.ledger.snapshot(with_renewals=True)) == [(12, 12, AcknowledgeType.RELEASE)]


def test_a_record_that_has_left_goes_the_long_way(compiled: ModuleType) -> None:
    ledgers, one = compiled.LedgersByLock(), Delivery(compiled)
    ledgers.add(one.lock, one.ledger)
    one.ledger.remove([10])
    way = gate(compiled, ledgers, Lock().locked)
    assert not way.acknowledge(one.records[0], AcknowledgeType.ACCEPT)
    assert way.acknowledge(one.records[1], AcknowledgeType.ACCEPT)


@pytest.mark.parametrize("in_c", [True, False], ids=["a lock's method", "a function"])
def test_nothing_is_booked_while_a_call_is_under_way(compiled: ModuleType, *, in_c: bool) -> None:
    ledgers, one, lock = compiled.LedgersByLock(), Delivery(compiled), Lock()
    ledgers.add(one.lock, one.ledger)
    way = gate(compiled, ledgers, lock.locked if in_c else lambda: lock.locked())
    told: list[Any] = []
    way.long_way = lambda record, kind: told.append((record.offset, kind))
    with lock:
        assert not way.acknowledge(one.records[0], AcknowledgeType.ACCEPT)
        way.acknowledge_anyway(one.records[1])
    way.acknowledge_anyway(one.records[2], AcknowledgeType.REJECT)
    assert told == [(11, AcknowledgeType.ACCEPT)]
    assert one.ledger.runs(one.ledger.snapshot(with_renewals=True)) == [(12, 12, AcknowledgeType.REJECT)]


def test_what_the_look_for_others_raises_is_raised(compiled: ModuleType) -> None:
    def is_busy() -> bool:
        raise LookupError("nobody knows")

    ledgers, one = compiled.LedgersByLock(), Delivery(compiled)
    ledgers.add(one.lock, one.ledger)
    with pytest.raises(LookupError, match="nobody knows"):
        gate(compiled, ledgers, is_busy).acknowledge(one.records[0], AcknowledgeType.ACCEPT)


def test_in_an_open_window_it_is_final(compiled: ModuleType) -> None:
    ledgers, one = compiled.LedgersByLock(), Delivery(compiled)
    ledgers.add(one.lock, one.ledger)
    way = gate(compiled, ledgers, None)
    assert way.acknowledge(one.records[0], AcknowledgeType.ACCEPT)
    assert not way.acknowledge(one.records[0], AcknowledgeType.REJECT)
