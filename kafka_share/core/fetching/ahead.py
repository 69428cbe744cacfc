"""send_ahead: when the next batch is fetched before a poll asks for it, so that it is there when the application is.

Owned by `fetching.fetcher`. A batch is fetched ahead when one has been handed to a poll, or as soon as a poll returns
what was at hand, and by each broker once: at most one batch of each waits. What waits has its locks running, and spends
a delivery if the consumer dies (Kafka counts those). So it is off by default, and pauses while the application takes
too long for a batch.
"""

from __future__ import annotations

from typing import Final

from kafka_share.core.events import FetchedBatch, SessionReturned
from kafka_share.protocol.share_values import DEFAULT_LOCK_MS

LOCK_PART: Final = 4
"""Nothing is fetched ahead while the application takes longer for a batch than this part of the lock time: a batch that
waits for one piece of work, and is then worked on, has used half of its lock."""


class FetchingAhead:
    """With `is_on` false nothing is ever wanted."""

    def __init__(self, *, is_on: bool) -> None:
        self.is_wanted: bool = False
        """The application works, and has nothing at hand for its next poll."""
        self._is_on = is_on
        self._asked: dict[int, None] = {}
        """The nodes that have been asked for that poll."""
        self._began_at_ms: int | None = None
        """Since when the application works on records."""
        self._work_ms = 0
        """How long it takes for a batch, smoothed."""
        self._lock_ms = DEFAULT_LOCK_MS

    def poll_started(self, now_ms: int) -> None:
        self.stop()
        if self._began_at_ms is not None:
            took_ms = now_ms - self._began_at_ms
            # The latest counts as much as all before it: one slow batch is enough to wait and see.
            self._work_ms = (self._work_ms + took_ms + 1) // 2
            self._began_at_ms = None

    def delivered(self, batch: FetchedBatch, now_ms: int, *, is_awaited: bool) -> None:
        """A batch goes to the application; `is_awaited`: a poll waits for it."""
        self._lock_ms = batch.acquisition_lock_timeout_ms or DEFAULT_LOCK_MS
        if is_awaited:
            self.work_begun(now_ms, has_more=False)

    def work_begun(self, now_ms: int, *, has_more: bool) -> None:
        if not self._is_on:
            return
        if self._began_at_ms is None:
            self._began_at_ms = now_ms
            self._asked = {}
            self.is_wanted = True
        self.is_wanted = self.is_wanted and not has_more and self._work_ms * LOCK_PART <= self._lock_ms

    def returned(self, event: SessionReturned) -> None:
        """The application has polled by itself until then."""
        if self._began_at_ms is not None and event.fetched_at_ms is not None:
            self._began_at_ms = event.fetched_at_ms
        if event.flight is not None and event.flight.is_fetch:
            self.is_wanted = False  # it has been asked for

    def may_ask(self, node_id: int) -> bool:
        return self.is_wanted and node_id not in self._asked

    def asked(self, node_id: int) -> None:
        """A fetch is under way there."""
        if self._is_on:
            self._asked[node_id] = None

    def stop(self) -> None:
        """Nobody works on anything, or a poll asks by itself."""
        self.is_wanted = False
