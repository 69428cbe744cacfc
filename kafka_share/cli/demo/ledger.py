"""What happened to every published file, and the demo's verdict: was each settled exactly once?

Owned by the job's thread, which feeds it the events of all workers. Events of one worker come in their order; nothing
is assumed about the order between two workers, whose reports may overtake each other.

A file is settled by a broker's confirmation of ACCEPT or REJECT, or by a confirmed RELEASE of its last allowed
delivery: the broker then archives the record. An acknowledgement that failed settles nothing.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import TypeAlias

import attrs

from kafka_share.cli.demo.definitions import Definitions
from kafka_share.records import AcknowledgeType


@attrs.frozen
class Delivered:
    """A worker got the record."""

    worker: int
    partition: int
    offset: int
    delivery_count: int


@attrs.frozen
class Acknowledged:
    """A worker acknowledged the record; the broker has not answered yet."""

    worker: int
    partition: int
    offset: int
    type: AcknowledgeType
    definitions: Definitions = attrs.field(factory=Definitions)
    reason: str = ""
    """Of a REJECT: the name of the parser's exception."""


@attrs.frozen
class OutcomeKnown:
    """The broker answered (`error` None), or the acknowledgement failed."""

    worker: int
    partition: int
    offset: int
    error: str | None


@attrs.frozen
class Dropped:
    """A worker that stopped in the middle left the record without an acknowledgement."""

    worker: int
    partition: int
    offset: int


@attrs.frozen
class DamageFound:
    """The record's bytes are not those that were published."""

    worker: int
    partition: int
    offset: int


@attrs.frozen
class WorkerStopped:
    """A worker was stopped on purpose while it held records."""

    worker: int


@attrs.frozen
class WorkerFailed:
    """A worker ended by an exception."""

    worker: int
    message: str


LedgerEvent: TypeAlias = Delivered | Acknowledged | OutcomeKnown | Dropped | DamageFound | WorkerStopped | WorkerFailed


class Settlement(enum.Enum):
    """How a file's record ended."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    ARCHIVED = "archived"
    """Released so often that the broker gave it up: the group's delivery count limit."""


@attrs.define
class WorkerTally:
    """What one worker did, in records. All but the first three count what a broker confirmed."""

    worker: int
    delivered: int = 0
    redelivered: int = 0
    """Those of `delivered` with a delivery count above 1."""
    dropped: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    failed: int = 0
    """Acknowledgements that failed."""
    stopped: bool = False


@attrs.define
class _File:
    name: str
    deliveries: int = 0
    settlements: list[tuple[Settlement, int]] = attrs.field(factory=list)
    dropped_at_limit: bool = False

    @property
    def is_settled(self) -> bool:
        return bool(self.settlements) or self.dropped_at_limit


@attrs.define
class _Holding:
    """A record in a worker's hands, from its delivery to the outcome of its acknowledgement."""

    delivery_count: int
    acknowledged: Acknowledged | None = None


class Ledger:
    """Feed it with `publish` and `handle`; read the rest when `is_complete`, or when time has run out.

    `delivery_count_limit` is the group's: how often the broker delivers a record at most.
    """

    def __init__(self, workers: int, delivery_count_limit: int) -> None:
        self.limit = delivery_count_limit
        self.workers: list[WorkerTally] = [WorkerTally(number) for number in range(workers)]
        self.definitions: Definitions = Definitions()
        self.reject_reasons: Counter[str] = Counter()
        self.rejected_files: list[str] = []
        self._files: dict[tuple[int, int], _File] = {}
        self._holdings: dict[tuple[int, int, int], _Holding] = {}
        self._settled = 0
        self._problems: list[str] = []

    # ---- events

    def publish(self, name: str, partition: int, offset: int) -> None:
        """The file `name` is in the topic, at this place. Call it for every file before the first event."""
        assert (partition, offset) not in self._files, f"two files at {partition}@{offset}"
        self._files[partition, offset] = _File(name)

    def handle(self, event: LedgerEvent) -> None:
        if isinstance(event, WorkerStopped):
            self.workers[event.worker].stopped = True
        elif isinstance(event, WorkerFailed):
            self._problems.append(f"worker {event.worker + 1} failed: {event.message}")
        else:
            self._handle_record_event(event)

    def note(self, problem: str) -> None:
        """Something outside the files' own story that speaks against the run."""
        self._problems.append(problem)

    def _handle_record_event(self, event: Delivered | Acknowledged | OutcomeKnown | Dropped | DamageFound) -> None:
        file = self._files.get((event.partition, event.offset))
        if file is None:
            # An outcome may cover offsets that hold no record, such as the marker that ends a transaction.
            if isinstance(event, Delivered):
                self._problems.append(f"partition {event.partition}, offset {event.offset}: not published by this run")
            return
        before = file.is_settled
        if isinstance(event, Delivered):
            self._delivered(file, event)
        elif isinstance(event, Acknowledged):
            self._acknowledged(file, event)
        elif isinstance(event, OutcomeKnown):
            self._outcome_known(file, event)
        elif isinstance(event, Dropped):
            self._dropped(file, event)
        else:
            self._problems.append(f"{file.name}: its bytes changed on the way")
        self._settled += file.is_settled - before

    def _delivered(self, file: _File, event: Delivered) -> None:
        tally = self.workers[event.worker]
        tally.delivered += 1
        tally.redelivered += event.delivery_count > 1
        file.deliveries += 1
        if any(event.delivery_count > at for _, at in file.settlements):
            self._problems.append(f"{file.name}: delivered again after it had been settled")
        self._holdings[event.worker, event.partition, event.offset] = _Holding(event.delivery_count)

    def _acknowledged(self, file: _File, event: Acknowledged) -> None:
        holding = self._holdings.get((event.worker, event.partition, event.offset))
        assert holding is not None, f"worker {event.worker} acknowledged {file.name} without having it"
        holding.acknowledged = event

    def _outcome_known(self, file: _File, event: OutcomeKnown) -> None:
        tally = self.workers[event.worker]
        holding = self._holdings.pop((event.worker, event.partition, event.offset), None)
        if holding is None or holding.acknowledged is None:
            self._problems.append(f"{file.name}: worker {event.worker + 1} got an outcome without an acknowledgement")
            return
        if event.error is not None:
            tally.failed += 1
            return
        acknowledged = holding.acknowledged
        if acknowledged.type == AcknowledgeType.ACCEPT:
            tally.accepted += 1
            self.definitions += acknowledged.definitions
            file.settlements.append((Settlement.ACCEPTED, holding.delivery_count))
        elif acknowledged.type == AcknowledgeType.REJECT:
            tally.rejected += 1
            self.reject_reasons[acknowledged.reason] += 1
            self.rejected_files.append(file.name)
            file.settlements.append((Settlement.REJECTED, holding.delivery_count))
        else:
            assert acknowledged.type == AcknowledgeType.RELEASE, f"the demo does not use {acknowledged.type!r}"
            tally.released += 1
            if holding.delivery_count >= self.limit:
                file.settlements.append((Settlement.ARCHIVED, holding.delivery_count))

    def _dropped(self, file: _File, event: Dropped) -> None:
        self.workers[event.worker].dropped += 1
        holding = self._holdings.pop((event.worker, event.partition, event.offset), None)
        assert holding is not None, f"worker {event.worker} dropped {file.name} without having it"
        if holding.delivery_count >= self.limit:
            # The broker gives the record back when the worker's session ends, and archives it at the limit. Brokers
            # before 4.2 take the delivery's count back instead: then a later settlement takes the place of this mark.
            file.dropped_at_limit = True

    # ---- what came of it

    @property
    def published(self) -> int:
        return len(self._files)

    @property
    def settled(self) -> int:
        """How many files are settled, however often."""
        return self._settled

    @property
    def is_complete(self) -> bool:
        return self._settled == len(self._files)

    def settlements(self) -> Counter[Settlement]:
        counts = Counter(kind for file in self._files.values() for kind, _ in file.settlements)
        counts[Settlement.ARCHIVED] += sum(
            file.dropped_at_limit and not file.settlements for file in self._files.values()
        )
        return counts

    def delivery_counts(self) -> dict[int, int]:
        """Delivery count → how many files were settled at it, ascending."""
        counts: Counter[int] = Counter()
        for file in self._files.values():
            if file.settlements:
                counts[file.settlements[-1][1]] += 1
            elif file.dropped_at_limit:
                counts[self.limit] += 1
        return dict(sorted(counts.items()))

    def problems(self) -> list[str]:
        """One line for everything that speaks against "each file was settled exactly once"; empty: all is well."""
        found = list(self._problems)
        for file in self._files.values():
            if not file.is_settled:
                found.append(f"{file.name}: never settled (deliveries: {file.deliveries})")
            elif len(file.settlements) > 1:
                ends = ", ".join(f"{kind.value} at delivery {count}" for kind, count in file.settlements)
                found.append(f"{file.name}: settled {len(file.settlements)} times ({ends})")
        return found
