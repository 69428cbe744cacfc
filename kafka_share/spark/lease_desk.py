"""LeaseDesk: what an agent can be asked for, over one member, one lease book and the rows of the open leases.

Its methods are the agent's requests; they may be called by any thread, and `acquire` alone waits. Under one lock the
desk tells the book what happened and does what the book wants. A thread of its own looks at the locks and at the time.
Nothing here knows sockets, processes or Spark.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from kafka_share.records import AcknowledgeType, ShareRecord
from kafka_share.spark.failures import LeaseAgentError, LeaseLostError
from kafka_share.spark.held_records import HeldRecords
from kafka_share.spark.lease import LeaseTerms, Place, Plan, Renew, Settle
from kafka_share.spark.lease_book import LeaseBook
from kafka_share.spark.member import ShareMember

log: logging.Logger = logging.getLogger(__name__)

_LOOK_EVERY_MS: Final = 1_000
"""How often the locks of open leases are looked at."""


@attrs.frozen
class _Content:
    """What a lease consists of."""

    records: HeldRecords
    splits: list[bytes]


@attrs.frozen
class OpenedLease:
    """A lease that was handed out."""

    number: int
    records: int


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class LeaseDesk:
    """`encode` makes the splits of a lease from its number and records; `on_stop` is called once, with the reason."""

    def __init__(
        self,
        member: ShareMember,
        terms: LeaseTerms,
        encode: Callable[[int, list[ShareRecord]], list[bytes]],
        on_stop: Callable[[str], None],
        *,
        fail_on_data_loss: bool,
    ) -> None:
        self._member = member
        self._is_batch = terms.is_batch
        self._book = LeaseBook(terms, _now_ms())
        self._encode = encode
        self._on_stop = on_stop
        self._fail_on_data_loss = fail_on_data_loss
        self._contents: dict[int, _Content] = {}
        self._guard = threading.RLock()
        self._changed = threading.Condition(self._guard)
        self._has_stopped = False
        self._settling = 0
        """How many requests wait for the brokers' answers, for which the agent must not end."""

    def start(self) -> None:
        """Begin to look at locks and time."""
        threading.Thread(target=self._tick, name="lease-clock", daemon=True).start()

    # ---- runners

    def attached(self, session: str, driver_pid: int) -> None:
        """A runner has connected."""
        with self._guard:
            self._book.attached(session, driver_pid)
            self._turn()

    def detached(self, session: str) -> None:
        """Its connection has ended."""
        with self._guard:
            self._book.detached(session, _now_ms())
            self._turn()

    def driver_died(self, driver_pid: int) -> None:
        """The process of a driver is gone."""
        with self._guard:
            self._book.driver_died(driver_pid, _now_ms())
            self._turn()

    def stopped(self, reason: str) -> None:
        """The agent is to end: release everything."""
        with self._guard:
            self._book.stopped(reason)
            self._turn()

    # ---- leases

    def acquire(self, session: str, start: int, most: int, wait_ms: int, *, drain: bool) -> OpenedLease | None:
        """The batch behind lease `start`: `start` is committed, and a lease is handed out; None if there is nothing.

        Raises `LeaseAgentError` for what keeps the member from its records, and for records that were lost for good.
        """
        self.commit(start)
        with self._guard:
            pending = self._book.pending(start, session)
        if pending is not None:
            return OpenedLease(pending.number, pending.records)
        self._raise_losses()
        records = self._member.acquire(most, wait_ms, drain=drain)
        if not records:
            return None
        with self._guard:
            if not self._member.renews:
                self._book.renewals_ended()
            redelivered = sum(record.delivery_count > 1 for record in records)
            number = self._book.acquired(session, len(records), redelivered, self._member.lock_ms, _now_ms())
            self._contents = {n: self._contents[n] for n in (lease.number for lease in self._book.open_leases[:-1])}
            self._contents[number] = _Content(HeldRecords(records), self._encode(number, records))
            self._turn()
        return OpenedLease(number, len(records))

    def _raise_losses(self) -> None:
        with self._guard:
            losses, self._member.losses = self._member.losses, []
        if losses and self._fail_on_data_loss:
            raise LeaseAgentError(
                f"data was lost: {'; '.join(losses)}. The query goes on when it is started again; with failOnDataLoss "
                f"false it does not stop for this"
            )

    def rows(self, session: str, number: int) -> list[bytes] | None:
        """The splits of a lease, for the runner that plans its batch; None: it is gone, and the batch has no rows."""
        with self._guard:
            self._look_at_locks()
            plan = self._book.planned(number, session)
            self._turn()
            if plan is Plan.GONE:
                return None
            if plan is Plan.ADOPTED:
                log.info("lease %d is replayed by %s", number, session)
            content = self._contents.get(number)
            return None if content is None else content.splits

    def split(self, number: int, index: int) -> bytes:
        """One split of a lease, for a task. Raises `LeaseLostError` if it is not there any more."""
        with self._guard:
            content = self._contents.get(number)
        if content is None or index >= len(content.splits):
            raise LeaseLostError(f"lease {number} has ended, and its rows are gone")
        return content.splits[index]

    def commit(self, number: int) -> None:
        """There is proof that the batch of this lease, and so of all before it, is committed: accept the records."""
        with self._guard:
            self._look_at_locks()
            self._book.committed(number)
            self._turn()

    def decide(self, number: int, decisions: Mapping[Place, AcknowledgeType]) -> None:
        """What is to become of single records at the commit of the batch. Raises `LeaseLostError` without the lease."""
        with self._guard:
            if not self._book.decided(number, decisions):
                raise _lost(number)

    def give_back(self, session: str, number: int) -> None:
        """Release a lease of a runner whose batch is replayed empty, because another agent's part of it is gone."""
        with self._guard:
            if self._book.is_handed_to(number, session):
                self._book.settled(number, AcknowledgeType.RELEASE)
                self._turn()

    def settle(self, number: int, decisions: Mapping[Place, AcknowledgeType], rest: AcknowledgeType) -> None:
        """End the lease of a batch read now, by these decisions and the others as `rest`, and wait for the brokers.

        Raises `LeaseLostError` if the lease is not there any more, or brokers refused acknowledgements.
        """
        with self._guard:
            self._look_at_locks()
            refused = self._member.refused + self._book.counts.records_lost
            if not self._book.decided(number, decisions) or not self._book.settled(number, rest):
                raise _lost(number)
            self._settling += 1
            self._turn()
        try:
            self._member.flush()
        finally:
            with self._guard:
                self._settling -= 1
                missed = self._member.refused + self._book.counts.records_lost - refused
                self._changed.notify_all()
        if missed:
            raise LeaseLostError(f"{missed} records of lease {number} were not acquired any more: they come again")

    def is_held(self, number: int) -> bool:
        """Whether all records of the lease are still acquired, as far as the agent knows."""
        with self._guard:
            self._look_at_locks()
            self._turn()
            return self._book.is_held(number)

    @property
    def is_batch(self) -> bool:
        """Whether its leases are those of a batch read."""
        return self._is_batch

    def counts(self) -> dict[str, int]:
        """What the agent has done so far, and what is open now."""
        with self._guard:
            open_leases, lag = self._book.open_leases, self._member.lag
            return {
                **attrs.asdict(self._book.counts),
                "records_refused": self._member.refused,
                "records_rejected_for_deliveries": self._member.rejected,
                "open_leases": len(open_leases),
                "open_records": sum(lease.records for lease in open_leases),
                "oldest_lease_ms": _now_ms() - open_leases[0].acquired_at_ms if open_leases else 0,
                **({} if lag is None else {"lag": lag}),
            }

    def leases(self) -> list[dict[str, int]]:
        """Each open lease, oldest first."""
        with self._guard:
            self._look_at_locks()
            self._turn()
            return [
                {
                    "number": lease.number,
                    "age_ms": _now_ms() - lease.acquired_at_ms,
                    "records": lease.records,
                    "renewals": lease.renewals,
                    "records_lost": lease.lost_records,
                    "replays": lease.replays,
                }
                for lease in self._book.open_leases
            ]

    # ---- inside

    def _look_at_locks(self) -> None:
        for lease in self._book.open_leases:
            lost = len(self._contents[lease.number].records.lost())
            if lost > lease.lost_records:
                log.warning("lease %d has lost the locks of %d of its %d records", lease.number, lost, lease.records)
                self._book.lost(lease.number, lost)
                if not lease.is_open:
                    self._member.lost(self._contents[lease.number].records)

    def _turn(self) -> None:
        """Let the book say what is due, and do it."""
        for output in self._book.poll(_now_ms()):
            if isinstance(output, Renew):
                self._member.renew(self._contents[output.lease].records)
            elif isinstance(output, Settle):
                records = self._contents.pop(output.lease).records
                self._book.acknowledged(self._member.acknowledge(records, output.decisions, output.rest))
                log.info("lease %d: %d records, %s", output.lease, len(records), output.rest.name)
            elif not (self._settling or self._has_stopped):  # the book says so again until it is done
                self._has_stopped = True
                self._on_stop(output.reason)
        self._changed.notify_all()

    def _tick(self) -> None:
        with self._guard:
            while not self._has_stopped:
                self._look_at_locks()
                self._turn()
                wake_at_ms = self._book.wake_at_ms()
                wait_ms = _LOOK_EVERY_MS if wake_at_ms is None else min(_LOOK_EVERY_MS, wake_at_ms - _now_ms())
                self._changed.wait(max(1, wait_ms) / 1_000)


def _lost(number: int) -> LeaseLostError:
    return LeaseLostError(f"lease {number} has ended: its records are delivered again, or were acknowledged already")
