"""The short way of an acknowledgement, which is one store by compiled code instead of some twenty calls in Python.

Owned by `Deliveries`, which opens it while nothing has to be done with an acknowledgement beside booking it, and shuts
it while acknowledgements are gathered. Where nothing was compiled there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from kafka_share.locks import AcquisitionLock
from kafka_share.native import IS_COMPILED, Gate, Ledger, LedgersByLock
from kafka_share.records import AcknowledgeType


class ShortWay:
    """`is_final`: acknowledgements are final and come from any thread, as in the open window."""

    def __init__(self, *, explicit: bool, is_final: bool) -> None:
        self.exists: bool = explicit and IS_COMPILED and _has_interpreter_lock()
        self.ledgers: LedgersByLock | None = LedgersByLock() if self.exists else None
        self._is_final = is_final
        self._gate: Gate | None = None

    def begin(self, is_busy: Callable[[], bool]) -> Callable[[object, object], bool]:
        """What to call with a record and a type: True if it was acknowledged; False: go the long way.

        `is_busy` returns whether a call of the consumer is under way, which nobody may come between.
        """
        if self.ledgers is None:
            return _nowhere
        self._gate = Gate(self.ledgers, AcknowledgeType, None if self._is_final else is_busy)
        return self._gate.acknowledge

    def in_place_of(self, long_way: Callable[[Any, Any], None]) -> Callable[..., None] | None:
        """What acknowledges by the short way, and by this one where that does not do; None: there is none."""
        if self._gate is None:
            return None
        self._gate.long_way = long_way
        return self._gate.acknowledge_anyway

    @property
    def is_open(self) -> bool:
        return self._gate is not None and self._gate.is_open

    @is_open.setter
    def is_open(self, value: bool) -> None:
        if self._gate is not None:
            self._gate.is_open = value

    def add(self, lock: AcquisitionLock, ledger: Ledger) -> None:
        """The records with this lock are in this ledger."""
        if self.ledgers is not None:
            self.ledgers.add(lock, ledger)

    def drop(self, lock: AcquisitionLock) -> None:
        if self.ledgers is not None:
            self.ledgers.drop(lock)

    def check(self, ledgers: Mapping[AcquisitionLock, Ledger]) -> None:
        known = ledgers if self.ledgers is None else self.ledgers.listed()
        assert known == ledgers, "the short way leads to other ledgers"


def _nowhere(record: object, kind: object) -> bool:
    return False


def _has_interpreter_lock() -> bool:
    """Whether one thread runs Python at a time (not so with PEP 703): else a store needs the guard."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())
