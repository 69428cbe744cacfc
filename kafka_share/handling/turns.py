"""Whose turn it is: the records that are ready for the handler, and which of them one call gets. Machines for `Jobs`.

`InOrder` gives one after another; `ByKey` holds back records while one of equal key is in work; `InBatches` waits until
there are enough for a batch. All know a record from `add` to `end`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Final

from kafka_share.handling.job import Job, Record

KeyOf = Callable[[Record], Hashable]
"""None: this record has no place in an order."""

NOBODY: Final[tuple[Job, ...]] = ()


class InOrder:
    """In the order in which records became ready, one for each call."""

    def __init__(self) -> None:
        self._ready: OrderedDict[Job, None] = OrderedDict()

    def __len__(self) -> int:
        """How many wait for their turn."""
        return len(self._ready)

    @property
    def startable(self) -> int:
        """How many of them calls could get now, if there were handlers."""
        return len(self._ready)

    def waiting(self) -> list[Job]:
        """Those that wait for their turn."""
        return list(self._ready)

    def add(self, job: Job, now_ms: int) -> None:
        """It is ready, for the first time or again."""
        self._ready[job] = None

    def end(self, job: Job) -> None:
        """It is acknowledged or lost, and needs no turn any more."""
        self._ready.pop(job, None)

    def take(self, now_ms: int, *, at_once: bool = False) -> tuple[Job, ...]:
        """Those that one call of the handler gets now; nobody if none is to be called. `at_once`: no more will come."""
        return (self._ready.popitem(last=False)[0],) if self._ready else NOBODY

    def wake_at_ms(self) -> int | None:
        """When `take` may give more than now though nothing has happened."""
        return None


class ByKey(InOrder):
    """Records of equal key one after another, by their offsets as far as they are here; others side by side.

    A record keeps its key from its turn to its `end`, also while it waits to be tried again. When it has ended, the
    next one of its key gets in line behind all that are ready: so no key can keep others from their turn.
    """

    def __init__(self, key_of: KeyOf) -> None:
        super().__init__()
        self._key_of = key_of
        self._lines: dict[Hashable, deque[Job]] = {}
        """The records of a key. The first one is ready, in work, or waits to be tried again."""
        self._keys: dict[Job, Hashable] = {}
        self._behind = 0

    def __len__(self) -> int:
        return len(self._ready) + self._behind

    def waiting(self) -> list[Job]:
        behind = [job for line in self._lines.values() for job in line if job is not line[0]]
        return [*self._ready, *behind]

    def add(self, job: Job, now_ms: int) -> None:
        """Raises what the application's function for keys raises, and TypeError for a key that cannot be hashed."""
        if job in self._keys:  # it is tried again
            self._ready[job] = None
            return
        key = self._key_of(job.record)
        line = None if key is None else self._lines.get(key)
        if line is None:
            self._ready[job] = None
        else:
            _get_in_line(line, job)
            self._behind += 1
        if key is not None:
            self._keys[job] = key
            if line is None:
                self._lines[key] = deque((job,))

    def end(self, job: Job) -> None:
        super().end(job)
        key = self._keys.pop(job, None)
        if key is None:
            return
        line = self._lines[key]
        was_first = line[0] is job
        line.remove(job)
        self._behind -= not was_first
        if not line:
            del self._lines[key]
        elif was_first:
            self._behind -= 1
            self._ready[line[0]] = None


def _get_in_line(line: deque[Job], job: Job) -> None:
    """Behind the first one, which has begun perhaps, and before those of a higher offset: it was delivered again."""
    at = len(line)
    while at > 1 and _is_before(job.record, line[at - 1].record):
        at -= 1
    line.insert(at, job)


def _is_before(one: Record, other: Record) -> bool:
    return (one.topic, one.partition) == (other.topic, other.partition) and one.offset < other.offset


class InBatches(InOrder):
    """As many for each call as make a batch, or those that are here when the first of them has waited long enough.

    A record whose batch has failed is tried again alone, so that it neither spoils others nor suffers for them.
    """

    def __init__(self, records: int, wait_ms: int) -> None:
        super().__init__()
        self._records = records
        self._wait_ms = wait_ms
        self._since_ms: dict[Job, int] = {}
        """Since when those wait that are for a batch."""
        self._alone: OrderedDict[Job, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ready) + len(self._alone)

    @property
    def startable(self) -> int:
        return len(self._ready) // self._records * self._records + len(self._alone)

    def waiting(self) -> list[Job]:
        return [*self._alone, *self._ready]

    def add(self, job: Job, now_ms: int) -> None:
        if job.tries:
            self._alone[job] = None
        else:
            self._ready[job] = None
            self._since_ms[job] = now_ms

    def end(self, job: Job) -> None:
        super().end(job)
        self._since_ms.pop(job, None)
        self._alone.pop(job, None)

    def take(self, now_ms: int, *, at_once: bool = False) -> tuple[Job, ...]:
        if self._alone:
            return (self._alone.popitem(last=False)[0],)
        full_at_ms = self.wake_at_ms()
        if not self._ready or not (at_once or full_at_ms is None or full_at_ms <= now_ms):
            return NOBODY
        batch = tuple(self._ready.popitem(last=False)[0] for _ in range(min(self._records, len(self._ready))))
        for job in batch:
            del self._since_ms[job]
        return batch

    def wake_at_ms(self) -> int | None:
        if not self._ready or len(self._ready) >= self._records:
            return None
        return self._since_ms[next(iter(self._ready))] + self._wait_ms


Turns = InOrder
"""What `Jobs` asks: this one or one of the others."""


def key_of(record: Record) -> Hashable:
    """The order that producers mean: records of equal key are in one partition of a topic."""
    return None if record.key is None else (record.topic, record.key)
