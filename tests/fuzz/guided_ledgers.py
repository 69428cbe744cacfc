"""The ledgers' part of the coverage-guided fuzz: an input is a list of operations, done to both implementations.

Demanded is that each operation returns the same, that both then tell the same of themselves, and that their own checks
hold. Operations are used as `application.delivery` does: what leaves was taken just before.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from native.implementations import implementation

from kafka_share.native import ShareRecord
from kafka_share.records import TimestampType

OFFSETS: Final = 32
KINDS: Final = 4
LARGE: Final = 1 << 40
SEEDS: Final = 60
_LENGTH: Final = 300


def try_ledgers(data: bytes) -> None:
    """The first byte says where offsets begin; then each operation has a byte, and three for what it is done to."""
    if data:
        both = BothLedgers(LARGE if data[0] & 1 else 0)
        for operation, *words in zip(*[iter(data[1:])] * 4, strict=False):
            OPERATIONS[operation % len(OPERATIONS)](both, *words)
            both.compare()


class BothLedgers:
    """The compiled ledger and the one in Python, which are told the same."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._modules = [implementation("compiled"), implementation("pure")]
        self._ledgers = [module.Ledger() for module in self._modules]

    def _same(self, name: str, *arguments: Any, **named: Any) -> Any:
        compiled, plain = (getattr(ledger, name)(*arguments, **named) for ledger in self._ledgers)
        assert compiled == plain, f"{name}{arguments}: compiled {compiled}, in Python {plain}"
        return compiled

    def _offset(self, word: int) -> int:
        return self._base + word % OFFSETS

    def _offsets(self, first: int, pattern: int) -> list[int]:
        """Up to eight, ascending."""
        return [self._offset(first) + at for at in range(8) if pattern >> at & 1]

    def add(self, first: int, pattern: int, word: int) -> None:
        """Of what is not here; twice, as who was interrupted does."""
        here = {record.offset for record in self._ledgers[0].records_at(range(self._base, self._base + OFFSETS + 8))}
        new = [offset for offset in self._offsets(first, pattern) if offset not in here]
        for module, ledger in zip(self._modules, self._ledgers, strict=True):
            records = [_record(module, offset) for offset in new]
            ledger.add(records)
            if word & 1:
                ledger.add(records)

    def remove(self, first: int, pattern: int, _: int) -> None:
        self._same("remove", self._offsets(first, pattern))

    def acknowledge(self, offset: int, kind: int, _: int) -> None:
        self._same("acknowledge", self._offset(offset), 1 + kind % KINDS)

    def acknowledge_once(self, offset: int, kind: int, _: int) -> None:
        self._same("acknowledge_once", self._offset(offset), 1 + kind % KINDS)

    def acknowledge_each(self, first: int, pattern: int, kind: int) -> None:
        """An offset may come twice."""
        offsets = array("q", 2 * self._offsets(first, pattern))
        self._same("acknowledge_each", offsets, 1 + kind % KINDS, once=bool(kind & KINDS))

    def accept(self, first: int, pattern: int, _: int) -> None:
        self._same("accept", self._offsets(first, pattern))

    def accept_open(self, *_: int) -> None:
        self._same("accept_open")

    def hold(self, offset: int, *_: int) -> None:
        self._same("hold", self._offset(offset))

    def leave(self, flags: int, first: int, pattern: int) -> None:
        """All that was acknowledged leaves, or a part of it."""
        taken = [ledger.snapshot(with_renewals=bool(flags & 1)) for ledger in self._ledgers]
        if flags & 2:
            offsets = self._offsets(first, pattern)
            apart = [ledger.split(one, offsets) for ledger, one in zip(self._ledgers, taken, strict=True)]
            self._compare_snapshots([inside for inside, _ in apart])
            taken = [outside for _, outside in apart]
        self._compare_snapshots(taken)
        for ledger, snapshot in zip(self._ledgers, taken, strict=True):
            for _ in range(1 + (flags >> 2 & 1)):
                ledger.leave(snapshot, keeps_renewals=bool(flags & 8))

    def _compare_snapshots(self, snapshots: list[Any]) -> None:
        told = [
            (
                ledger.runs(one),
                ledger.offsets_in(one),
                [ledger.kind_in(one, offset) for offset in range(self._base, self._base + OFFSETS)],
                sorted(ledger.renewing_in(one)),
            )
            for ledger, one in zip(self._ledgers, snapshots, strict=True)
        ]
        assert told[0] == told[1], f"leaving: compiled {told[0]}, in Python {told[1]}"

    def compare(self) -> None:
        compiled, plain = (self._told(ledger) for ledger in self._ledgers)
        assert compiled == plain, f"compiled {compiled}, in Python {plain}"

    def _told(self, ledger: Any) -> list[Any]:
        ledger.check()
        places = range(self._base, self._base + OFFSETS + 8)
        return [
            len(ledger), ledger.open, ledger.held, ledger.acknowledged, ledger.renewing, ledger.first_open(),
            ledger.unacknowledged(with_held=True), ledger.unacknowledged(with_held=False), sorted(ledger.renewals()),
            [ledger.is_held(offset) for offset in places], [record.offset for record in ledger.records_at(places)],
        ]  # fmt: skip


OPERATIONS: Final[tuple[Callable[..., None], ...]] = (
    BothLedgers.add,
    BothLedgers.remove,
    BothLedgers.acknowledge,
    BothLedgers.acknowledge_once,
    BothLedgers.acknowledge_each,
    BothLedgers.accept,
    BothLedgers.accept_open,
    BothLedgers.hold,
    BothLedgers.leave,
)


def _record(module: ModuleType, offset: int) -> ShareRecord[Any, Any]:
    made: ShareRecord[Any, Any] = module.ShareRecord("t", 0, offset, 0, TimestampType.CREATE_TIME, None, b"", (), 0, 1)
    return made


def ledger_corpus() -> Iterator[bytes]:
    source = random.Random("guided ledgers")
    for number in range(SEEDS):
        added = b"".join(bytes((0, first, source.choice((255, 85, 7)), 0)) for first in range(0, OFFSETS, 8))
        yield bytes((number & 1,)) + added + source.randbytes(source.randrange(_LENGTH))
