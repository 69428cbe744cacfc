"""What a handler may know of its hold on a record.

Made by the drivers; handlers hold it, on any thread.
"""

from __future__ import annotations

import threading

from kafka_share.handling.jobs import Job


class Lease:
    """A handler's hold on one record: a second parameter of the handler gets it.

    The worker renews the record's lock by itself, from its receipt on, for up to `max_lease_ms`.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.tries: int = job.tries
        """Which call of the handler this is for this delivery, from 1. `record.delivery_count` counts deliveries."""
        self.ended: threading.Event = threading.Event()
        """Set when the work has no purpose any more: the lock was lost, or the worker stops and its drain timeout is
        over. What the handler then returns counts for nothing. An async handler is cancelled as well."""
        self.reason: str | None = None
        """Why it has ended; None as long as it has not."""

    def remaining_ms(self) -> int:
        """How long the lock lasts from now, unless it is renewed; 0 if it is lost.

        Where the broker renews no locks (Kafka 4.1, or a group that forbids it), this is all the time there is.
        """
        return self._job.record.lock_remaining_ms()

    def end(self, reason: str) -> None:
        """Called by the worker."""
        self.reason = reason
        self.ended.set()

    def __repr__(self) -> str:
        return f"<Lease of {self._job.place}: {self.reason or f'{self.remaining_ms()} ms'}>"
