"""`Ledger` in Python: what `_compiled.pyx` has under this name, for where nothing was compiled.

Every change is one operation, or can be made again from any point of it with the same result: an interrupt may strike
between any two instructions.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from kafka_share.native.pure_record import ShareRecord

    Record: TypeAlias = ShareRecord[Any, Any]

T = TypeVar("T")

_offset_of = attrgetter("offset")
_ACCEPT: Final = 1
_RENEW: Final = 4

Snapshot: TypeAlias = "dict[int, int]"
"""Offset → type, of what has been acknowledged; nobody but a ledger looks into it."""


class Ledger:
    """The delivered records of one delivery, and how each has been acknowledged.

    A record is open (delivered, not acknowledged), acknowledged (its type may still be changed), held for a release
    that comes later, or gone. Offsets ascend; what is added twice is here once.
    """

    def __init__(self) -> None:
        self._fresh: list[Sequence[Record]] = []
        """Delivered, and nobody has asked for one of them since: open, all of them."""
        self._records: dict[int, Record] = {}
        self._types: dict[int, int] = {}
        self._held: set[int] = set()

    # ---- delivery

    def add(self, records: Sequence[Record]) -> None:
        """Take over records in offset order, which are open; these must not change any more."""
        if records and not any(known is records for known in self._fresh):
            self._fresh.append(records)

    def _look_up(self) -> dict[int, Record]:
        """All records by offset."""
        if self._fresh:
            for records in self._fresh:
                for record in records:
                    self._records.setdefault(record.offset, record)
            self._fresh = []
        return self._records

    def remove(self, offsets: Iterable[int]) -> None:
        """Take out records as if they had not been delivered."""
        records = self._look_up()
        for offset in offsets:
            if offset in records:
                self._types.pop(offset, None)
                self._held.discard(offset)
                del records[offset]

    # ---- what is here

    def __len__(self) -> int:
        """How many records are not gone."""
        return sum(map(len, self._fresh)) + len(self._records)

    @property
    def open(self) -> int:
        """How many are neither acknowledged nor held."""
        return len(self) - len(self._types) - len(self._held)

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def acknowledged(self) -> int:
        return len(self._types)

    @property
    def renewing(self) -> int:
        """How many are acknowledged with RENEW."""
        return list(self._types.values()).count(_RENEW)

    def is_held(self, offset: int) -> bool:
        return offset in self._held

    def records_at(self, offsets: Iterable[int]) -> list[Record]:
        """Those of the records that are still here."""
        records = self._look_up()
        return [records[offset] for offset in offsets if offset in records]

    def unacknowledged(self, *, with_held: bool) -> list[int]:
        """The offsets without an acknowledgement."""
        return sorted(
            o for o in self._look_up() if o not in self._types and (with_held or o not in self._held)
        )  # fmt: skip

    def renewals(self) -> list[int]:
        return [offset for offset, kind in self._types.items() if kind == _RENEW]

    def first_open(self) -> int | None:
        """The lowest offset without a final acknowledgement. Any thread may ask while others change what is here."""
        types, held = self._types.copy(), self._held.copy()
        open_ones = [records[0].offset for records in self._fresh.copy()]
        open_ones += [o for o in self._records.copy() if types.get(o, _RENEW) == _RENEW and o not in held]
        return min(open_ones, default=None)

    # ---- acknowledging

    def acknowledge(self, offset: int, kind: int) -> bool:
        """Acknowledge a record, or change its acknowledgement; False if it is not here."""
        if offset not in self._look_up():
            return False
        self._held.discard(offset)
        self._types[offset] = kind
        return True

    def acknowledge_once(self, offset: int, kind: int) -> bool:
        """The same; False also if it has had its final acknowledgement (all are but RENEW), or is held."""
        return not self.acknowledge_each(array("q", [offset]), kind, once=True)

    def acknowledge_each(self, offsets: array[int], kind: int, *, once: bool) -> array[int]:
        """`acknowledge` for many, or `acknowledge_once`; returns those for which it is false."""
        records, types, held = self._look_up(), self._types, self._held
        found = [o for o in offsets if o in records]
        if once:
            found = [o for o in found if types.get(o, _RENEW) == _RENEW and o not in held]
        elif held:
            held.difference_update(found)
        self._types.update(dict.fromkeys(found, kind))
        here = set(found)
        return array("q", [offset for offset in offsets if offset not in here])

    def accept(self, offsets: Iterable[int]) -> None:
        """ACCEPT for those of these that are here."""
        records = self._look_up()
        accepted = {offset: _ACCEPT for offset in offsets if offset in records}
        self._held.difference_update(accepted)
        self._types.update(accepted)

    def accept_open(self) -> None:
        """ACCEPT for every record that is neither acknowledged nor held."""
        self._types.update(dict.fromkeys(self.unacknowledged(with_held=False), _ACCEPT))

    def hold(self, offset: int) -> bool:
        """The record waits for its release; False if it is not here."""
        if offset not in self._look_up():
            return False
        self._types.pop(offset, None)
        self._held.add(offset)
        return True

    # ---- leaving

    def runs_of_all(self, run_type: Callable[[int, int, int], T], *, accepts: bool) -> tuple[T, ...] | None:
        """`runs` of all that is here, each a `run_type`; None if there is nothing, or one is not acknowledged for good.

        `accepts`: what has no acknowledgement is accepted.
        """
        if accepts:
            self.accept_open()
        if not len(self) or self.acknowledged < len(self) or self.renewing:
            return None
        return tuple(run_type(*run) for run in self.runs(self.snapshot(with_renewals=True)))

    def snapshot(self, *, with_renewals: bool) -> Snapshot:
        """What has been acknowledged; nothing changes. False if nothing has."""
        self._look_up()  # an interrupt may have left it half done
        if with_renewals:
            return self._types.copy()
        return {offset: kind for offset, kind in self._types.items() if kind != _RENEW}

    def runs(self, snapshot: Snapshot) -> list[tuple[int, int, int]]:
        """(first, last, type) of neighbouring offsets of one type, ascending."""
        runs: list[tuple[int, int, int]] = []
        for offset in sorted(snapshot):
            kind = snapshot[offset]
            if runs and runs[-1][1] == offset - 1 and runs[-1][2] == kind:
                runs[-1] = (runs[-1][0], offset, kind)
            else:
                runs.append((offset, offset, kind))
        return runs

    def kind_in(self, snapshot: Snapshot, offset: int) -> int:
        """The type of an offset; 0 if it is not part of the snapshot."""
        return snapshot.get(offset, 0)

    def offsets_in(self, snapshot: Snapshot) -> list[int]:
        return sorted(snapshot)

    def renewing_in(self, snapshot: Snapshot) -> dict[int, Record]:
        """The records of the snapshot that are acknowledged with RENEW."""
        return {o: self._records[o] for o, kind in snapshot.items() if kind == _RENEW and o in self._records}

    def split(self, snapshot: Snapshot, offsets: Iterable[int]) -> tuple[Snapshot, Snapshot]:
        """The part of the snapshot at these offsets, and the rest."""
        apart = set(offsets)
        return {o: k for o, k in snapshot.items() if o in apart}, {o: k for o, k in snapshot.items() if o not in apart}

    def leave(self, snapshot: Snapshot, *, keeps_renewals: bool) -> None:
        """Take out what the snapshot has; with `keeps_renewals` the records with RENEW stay, and are open again."""
        for offset, kind in snapshot.items():
            self._types.pop(offset, None)
            if kind != _RENEW or not keeps_renewals:
                self._records.pop(offset, None)

    def check(self) -> None:
        """Invariants: every acknowledgement belongs to something delivered."""
        for offset in self._types:
            assert offset in self._records, f"{offset} was never delivered"
            assert offset not in self._held, f"{offset} is acknowledged and held"
        assert self._held <= self._records.keys(), "what is gone is held"
        for records in self._fresh:
            assert records, "an empty list of records is kept"
            offsets = list(map(_offset_of, records))
            assert offsets == sorted(offsets), "records were delivered out of order"
            assert not any(offset in self._records for offset in offsets), "a record is held twice"
