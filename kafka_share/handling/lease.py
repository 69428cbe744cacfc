"""What a handler may know of its hold on its records.

Made by the drivers, and by the processes that run handlers; handlers hold it, on any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kafka_share.handling.job import Record, places_of


class Lease:
    """A handler's hold on its record, or on the records of its batch: a second parameter of the handler gets it.

    The worker renews the locks by itself, from the receipt of the records on, for up to `max_lease_ms`.
    """

    def __init__(self, records: Sequence[Record], tries: int) -> None:
        self._records = records
        self.tries: int = tries
        """Which call of the handler this is for this delivery, from 1. `record.delivery_count` counts deliveries."""
        self._events: dict[None, threading.Event] = {}
        """One, when somebody has asked for it: most handlers do not, and it is dear."""
        self.reason: str | None = None
        """Why it has ended; None as long as it has not."""

    @property
    def ended(self) -> threading.Event:
        """Set when the work has no purpose any more: the lock was lost (of a batch: all its locks), or the worker stops
        and its drain timeout is over. An async handler is cancelled as well, and so is one in a process."""
        event = self._events.get(None) or self._events.setdefault(None, threading.Event())
        if self.reason is not None:  # `end` may have come before the event
            event.set()
        return event

    def remaining_ms(self) -> int:
        """How long the lock lasts from now, unless it is renewed; 0 if it is lost. Of a batch: of the first one to end.

        Where the broker renews no locks (Kafka 4.1, or a group that forbids it), this is all the time there is. A
        process that runs the handler hears of no renewal: there it is counted from the call.
        """
        return min(record.lock_remaining_ms() for record in self._records)

    def end(self, reason: str) -> None:
        """Called by the worker."""
        self.reason = reason
        event = self._events.get(None)
        if event is not None:
            event.set()

    def __repr__(self) -> str:
        return f"<Lease of {places_of(self._records)}: {self.reason or f'{self.remaining_ms()} ms'}>"
