"""Acknowledgements that were gathered and whose outcome is not known: which lock each is about, who waits for it.

Owned by `Deliveries`. An outcome names the numbers of the `GatheredAcknowledgements` that it ends, so the order in
which outcomes come means nothing, and an outcome that is seen twice ends nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

from kafka_share.core.events import AcknowledgementOutcome, GatheredAcknowledgements
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.core.fetching.reactions import ENDS_LOCK
from kafka_share.errors import KafkaShareError
from kafka_share.locks import AcquisitionLock
from kafka_share.records import AcknowledgeType

OnOutcome: TypeAlias = Callable[[KafkaShareError | None], None]
"""Told once how an acknowledgement ended."""
Notice: TypeAlias = tuple[OnOutcome, KafkaShareError | None]
"""A call to be made as soon as no lock is held."""
Waiting: TypeAlias = dict[int, list[OnOutcome]]
"""By offset."""


@attrs.define(eq=False)
class _Awaited:
    gathered: GatheredAcknowledgements
    lock: AcquisitionLock | None
    waiting: Waiting
    open_runs: tuple[AcknowledgementRun, ...]
    on_refused: Callable[[], None] | None
    """Called if these were renewals of the client's own, and the broker refused them."""


class AwaitedOutcomes:
    """By number. Bounded by what the application has acknowledged and no broker has answered."""

    def __init__(self) -> None:
        self.by_number: dict[int, _Awaited] = {}
        self.unreported: dict[int, tuple[AcknowledgementRun, ...]] = {}
        """The runs of each number that have no outcome that has reached the application."""

    @property
    def has_unreported(self) -> bool:
        """Whether the application has not heard of all."""
        return bool(self.unreported)

    @property
    def has_waiting(self) -> bool:
        """Whether somebody is to be told of an outcome."""
        return any(awaited.waiting for awaited in self.by_number.values())

    def add(
        self,
        gathered: GatheredAcknowledgements,
        lock: AcquisitionLock | None,
        waiting: Waiting,
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        self.unreported[gathered.number] = gathered.runs
        self.by_number[gathered.number] = _Awaited(gathered, lock, waiting, gathered.runs, on_refused)

    def resolve(self, outcome: AcknowledgementOutcome, lock_ms: int) -> list[Notice]:
        """End what an outcome names: renew and lose locks. Returns whom to tell."""
        notices: list[Notice] = []
        for ended in outcome.ended:
            awaited = self.by_number.get(ended.number)
            if awaited is None:
                continue
            notices += _end(awaited, ended.runs, outcome, lock_ms)
            awaited.open_runs = without(awaited.open_runs, ended.runs)
            if not awaited.open_runs:
                del self.by_number[ended.number]
        return notices

    def reported(self, outcome: AcknowledgementOutcome, *, is_again: bool) -> None:
        """It has reached the application; perhaps not for the first time, after an interrupt."""
        for ended in outcome.ended:
            assert is_again or ended.number in self.unreported, f"{ended} of what has no more outcomes to come"
            left = without(self.unreported.get(ended.number, ()), ended.runs)
            if left:
                self.unreported[ended.number] = left
            else:
                self.unreported.pop(ended.number, None)

    def abandon(self, error: KafkaShareError) -> list[Notice]:
        """No outcome will come any more: all that wait get this error."""
        awaited = list(self.by_number.values())
        self.by_number.clear()
        return [(told, error) for one in awaited for waiting in one.waiting.values() for told in waiting]

    def check(self) -> None:
        assert all(self.unreported.values()), "what has been reported is kept"
        for number, awaited in self.by_number.items():
            assert awaited.gathered.number == number
            assert awaited.open_runs, "an acknowledgement that has ended is kept"
            offsets = {o for run in awaited.open_runs for o in range(run.first, run.last + 1)}
            assert offsets >= awaited.waiting.keys(), "somebody waits for what has ended"


def _end(
    awaited: _Awaited, runs: tuple[AcknowledgementRun, ...], outcome: AcknowledgementOutcome, lock_ms: int
) -> Iterator[Notice]:
    lock, waiting = awaited.lock, awaited.waiting
    is_renewed = outcome.error is None and outcome.sent_at_ms is not None
    if outcome.is_own and outcome.error is not None:
        # A group may forbid renewals, which a broker says in the words for a lock that is lost.
        if awaited.on_refused is not None:
            awaited.on_refused()
        return
    for run in runs:
        if lock is not None and isinstance(outcome.error, ENDS_LOCK):
            lock.lose(run.first, run.last)
        elif lock is not None and is_renewed and run.type == AcknowledgeType.RENEW:
            lock.renew(run.first, run.last, (outcome.sent_at_ms or 0) + lock_ms)
        if waiting:
            # A run may be longer than what waits: what could not be decoded is acknowledged as well.
            offsets = range(run.first, run.last + 1)
            for offset in offsets if len(offsets) <= len(waiting) else [o for o in waiting if o in offsets]:
                for told in waiting.pop(offset, ()):
                    yield told, outcome.error


def without(
    runs: tuple[AcknowledgementRun, ...], ended: tuple[AcknowledgementRun, ...]
) -> tuple[AcknowledgementRun, ...]:
    """The runs that have not ended yet."""
    if runs == ended:
        return ()
    gone = set(ended)
    return tuple(run for run in runs if run not in gone)
