"""LeaseBook: who holds which lease, when its locks are renewed, and when its records are acknowledged.

A machine without I/O: the agent tells it by method calls what happened, with the time, performs what `poll` returns,
and calls again at `wake_at_ms`. It takes no lock and reads no clock.

Theory of operation. A runner is the process that drives one run of a streaming query; it is *attached* while its
connection lives. `acquired` opens a lease for it. The lease ends in one of four ways:

- `committed`: there is proof that the query has committed the batch. The records are accepted, save for what was
  decided otherwise; earlier leases of the same runner too, since batches are committed in order.
- nobody is attached for `grace_ms`: all is released. A later runner that attaches within that time asks for the rows
  of the lease that its checkpoint names (`planned`), gets the same rows, and so replays the same batch.
- it was handed to `max_replays` later runners, and another one asks: it is released, because a batch that fails each
  time would otherwise be replayed for ever without its delivery count moving.
- its locks are lost (`lost`), or its `ttl_ms` has passed.

A lease that no checkpoint names was acquired just before its runner died: `pending` offers it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kafka_share.records import AcknowledgeType
from kafka_share.spark.lease import (
    Lease,
    LeaseOutput,
    LeaseState,
    LeaseTerms,
    Place,
    Plan,
    Renew,
    Settle,
    Stop,
)

KEPT_LEASES: Final = 100
"""So many ended leases are remembered, to be told apart from those that never were."""


@attrs.define
class LeaseCounts:
    """What one agent has done so far."""

    leases: int = 0
    leases_done: int = 0
    leases_lost: int = 0
    leases_released: int = 0
    leases_adopted: int = 0
    records: int = 0
    records_redelivered: int = 0
    """Records that came with a delivery count above 1."""
    records_accepted: int = 0
    records_rejected: int = 0
    records_released: int = 0
    records_lost: int = 0
    """Their lock ended before the acknowledgement: they are delivered again."""
    renewals: int = 0


class LeaseBook:
    """The leases of one agent."""

    def __init__(self, terms: LeaseTerms, now_ms: int) -> None:
        self.counts: LeaseCounts = LeaseCounts()
        self._terms = terms
        self._leases: dict[int, Lease] = {}
        self._sessions: dict[str, int] = {}
        """Attached runners, and the process of the driver that each belongs to."""
        self._alone_since_ms: int | None = now_ms
        self._was_attached = False
        self._outputs: list[LeaseOutput] = []
        self._last_number = 0
        self._stop: str | None = None

    # ---- runners

    def attached(self, session: str, driver_pid: int) -> None:
        """A runner has connected."""
        assert session not in self._sessions, f"{session} is attached already"
        self._sessions[session] = driver_pid
        self._alone_since_ms = None
        self._was_attached = True

    def detached(self, session: str, now_ms: int) -> None:
        """Its connection has ended; again for one that has gone already does nothing."""
        if self._sessions.pop(session, None) is not None and not self._sessions:
            self._alone_since_ms = now_ms

    def driver_died(self, driver_pid: int, now_ms: int) -> None:
        """A driver's process is gone, and with it its runners, whether or not their connections show it yet."""
        for session in [session for session, pid in self._sessions.items() if pid == driver_pid]:
            self.detached(session, now_ms)
        if self._terms.is_batch:  # nobody can ever name its leases again
            self.stopped("the driver has died")

    def stopped(self, reason: str) -> None:
        """The agent is told to end: what is open is released."""
        for lease in self._open():
            self._end(lease, LeaseState.RELEASED, AcknowledgeType.RELEASE)
        self._stop = self._stop or reason

    # ---- leases

    def acquired(self, session: str, records: int, redelivered: int, lock_ms: int, now_ms: int) -> int:
        """Records were acquired for a runner; returns the number of their lease."""
        assert records > 0, "a lease has records"
        self._last_number += 1
        lease = Lease(self._last_number, session, records, lock_ms, now_ms, None)
        if self._terms.renews:
            lease.renew_at_ms = now_ms + self._renew_every_ms(lease)
        self._leases[lease.number] = lease
        self.counts.leases += 1
        self.counts.records += records
        self.counts.records_redelivered += redelivered
        return lease.number

    def pending(self, start: int, session: str) -> Lease | None:
        """The oldest open lease behind `start`: it was acquired for a batch that no checkpoint has heard of."""
        for lease in self._open():
            if lease.number > start:
                lease.session = session
                return lease
        return None

    def planned(self, number: int, session: str) -> Plan:
        """A runner asks for the rows of a lease, for the first time or again."""
        lease = self._leases.get(number)
        if lease is None:
            return Plan.GONE
        if lease.session == session:  # also when it was lost meanwhile: the rows of a batch never change while it runs
            return Plan.SAME if lease.state in (LeaseState.OPEN, LeaseState.LOST) else Plan.GONE
        if not lease.is_open:
            return Plan.GONE
        if lease.replays >= self._terms.max_replays:
            self._end(lease, LeaseState.RELEASED, AcknowledgeType.RELEASE)
            return Plan.GONE
        lease.replays += 1
        lease.session = session
        self.counts.leases_adopted += 1
        return Plan.ADOPTED

    def committed(self, number: int) -> None:
        """There is proof that the batch of this lease, and so of all earlier ones of its runner, is committed.

        Other runners' leases stay: two queries may run from copies of one checkpoint.
        """
        proved = self._leases.get(number)
        for lease in self._open():
            if proved is not None and lease.session == proved.session and lease.number <= number:
                self._end(lease, LeaseState.DONE, AcknowledgeType.ACCEPT)

    def decided(self, number: int, decisions: Mapping[Place, AcknowledgeType]) -> bool:
        """Keep what is to become of single records; the latest word counts. False: the lease is not open any more."""
        lease = self._leases.get(number)
        if lease is None or not lease.is_open:
            return False
        lease.decisions.update(decisions)
        return True

    def settled(self, number: int, rest: AcknowledgeType) -> bool:
        """End a lease by its decisions, the other records by `rest`. False: it is not open any more."""
        lease = self._leases.get(number)
        if lease is None or not lease.is_open:
            return False
        self._end(lease, LeaseState.RELEASED if rest is AcknowledgeType.RELEASE else LeaseState.DONE, rest)
        return True

    def is_handed_to(self, number: int, session: str) -> bool:
        """Whether the lease is this runner's now."""
        lease = self._leases.get(number)
        return lease is not None and lease.session == session

    def lost(self, number: int, records: int) -> None:
        """So many of the lease's records are known to have lost their locks by now."""
        lease = self._leases[number]
        if not lease.is_open or records <= lease.lost_records:
            return
        self.counts.records_lost += records - lease.lost_records
        lease.lost_records = records
        if records >= lease.records:
            lease.end(LeaseState.LOST)
            self.counts.leases_lost += 1
            self._drop_old()

    def renewals_ended(self) -> None:
        """The brokers do not know renewals: from now on each lease has its lock time and no more."""
        self._terms = attrs.evolve(self._terms, renews=False)
        for lease in self._open():
            lease.renew_at_ms = None

    def is_held(self, number: int) -> bool:
        """Whether no lock of the lease is known to be lost, and it has not ended."""
        lease = self._leases.get(number)
        return lease is not None and lease.is_open and not lease.lost_records

    def acknowledged(self, by_type: Mapping[AcknowledgeType, int]) -> None:
        """So many records were acknowledged so, for the counts."""
        self.counts.records_accepted += by_type.get(AcknowledgeType.ACCEPT, 0)
        self.counts.records_rejected += by_type.get(AcknowledgeType.REJECT, 0)
        self.counts.records_released += by_type.get(AcknowledgeType.RELEASE, 0)

    @property
    def open_leases(self) -> tuple[Lease, ...]:
        """Oldest first."""
        return tuple(self._open())

    # ---- time

    def poll(self, now_ms: int) -> list[LeaseOutput]:
        """What to do now."""
        self._end_overdue(now_ms)
        for lease in self._open():
            if lease.renew_at_ms is not None and lease.renew_at_ms <= now_ms:
                self._renew(lease, now_ms)
        if self._stop is None:
            self._stop = self._reason_to_stop(now_ms)
        outputs, self._outputs = self._outputs, []
        return outputs if self._stop is None else [*outputs, Stop(self._stop)]

    def wake_at_ms(self) -> int | None:
        """When `poll` must run even if nothing happens."""
        times = [lease.renew_at_ms for lease in self._open() if lease.renew_at_ms is not None]
        if self._terms.ttl_ms is not None:
            times += [lease.acquired_at_ms + self._terms.ttl_ms for lease in self._open()]
        patience_ms = self._patience_ms()
        if self._alone_since_ms is not None and patience_ms is not None:
            times.append(self._alone_since_ms + patience_ms)
        return min(times, default=None)

    def check(self) -> None:
        """Assert the invariants."""
        for number, lease in self._leases.items():
            assert number == lease.number <= self._last_number
            assert lease.is_open or lease.renew_at_ms is None, "the locks of an ended lease are renewed"
            assert 0 <= lease.lost_records <= lease.records
            assert lease.replays <= self._terms.max_replays
        assert (self._alone_since_ms is None) == bool(self._sessions)
        assert len([1 for lease in self._leases.values() if not lease.is_open]) <= KEPT_LEASES

    # ---- inside

    def _open(self) -> list[Lease]:
        return [lease for lease in self._leases.values() if lease.is_open]

    def _end(self, lease: Lease, state: LeaseState, rest: AcknowledgeType) -> None:
        lease.end(state)
        if state is LeaseState.DONE:
            self.counts.leases_done += 1
        else:
            self.counts.leases_released += 1
        decisions = {} if rest is AcknowledgeType.RELEASE and not self._terms.is_batch else dict(lease.decisions)
        self._outputs.append(Settle(lease.number, decisions, rest))
        self._drop_old()

    def _renew(self, lease: Lease, now_ms: int) -> None:
        limit_ms = self._terms.max_lease_ms
        if limit_ms and now_ms - lease.acquired_at_ms >= limit_ms:
            lease.renew_at_ms = None
            return
        lease.renew_at_ms = now_ms + self._renew_every_ms(lease)
        lease.renewals += 1
        self.counts.renewals += lease.records - lease.lost_records
        self._outputs.append(Renew(lease.number))

    def _renew_every_ms(self, lease: Lease) -> int:
        return max(1, int(lease.lock_ms * self._terms.renew_fraction))

    def _end_overdue(self, now_ms: int) -> None:
        for lease in self._open():
            if self._terms.ttl_ms is not None and now_ms - lease.acquired_at_ms >= self._terms.ttl_ms:
                self._end(lease, LeaseState.RELEASED, AcknowledgeType.RELEASE)
        if not self._terms.is_batch and self._is_alone_for_good(now_ms):
            for lease in self._open():
                self._end(lease, LeaseState.RELEASED, AcknowledgeType.RELEASE)

    def _patience_ms(self) -> int | None:
        """How long the agent stays when no runner is attached; None: as long as it has open leases."""
        if not self._was_attached:
            return self._terms.first_attach_ms
        if not self._open():
            return 0
        return None if self._terms.is_batch else self._terms.grace_ms

    def _is_alone_for_good(self, now_ms: int) -> bool:
        patience_ms = self._patience_ms()
        return (
            self._alone_since_ms is not None
            and patience_ms is not None
            and now_ms - self._alone_since_ms >= patience_ms
        )

    def _reason_to_stop(self, now_ms: int) -> str | None:
        if not self._is_alone_for_good(now_ms):
            return None
        return "no query is attached, and nothing is open" if self._was_attached else "no query has ever attached"

    def _drop_old(self) -> None:
        ended = [number for number, lease in self._leases.items() if not lease.is_open]
        for number in ended[:-KEPT_LEASES]:
            del self._leases[number]
