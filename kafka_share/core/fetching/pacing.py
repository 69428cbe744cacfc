"""When one broker may be asked for records again: no hot loop, and no pause that a healthy broker would not need.

Owned by `fetching.node_exchange`, one per broker; the connection itself is paced by `core.outputs`.
"""

from __future__ import annotations

from typing import Final

from kafka_share.core.context import CoreContext

FREE_EMPTY_ANSWERS: Final = 2
"""How many empty answers in a row may come early and cost no pause: a lock that ended, an acknowledgement that moved
the start offset, or deleted records make a healthy broker answer so, and the next fetch brings records."""


class Pacing:
    def __init__(self, context: CoreContext) -> None:
        self._least_wait_ms = context.config.retry_backoff_ms
        self._after_errors = context.new_backoff()
        self._after_nothing = context.new_backoff(free_failures=FREE_EMPTY_ANSWERS)

    @property
    def ready_at_ms(self) -> int:
        return self._after_errors.ready_at_ms

    @property
    def bare_fetch_ready_at_ms(self) -> int:
        """For a fetch without acknowledgements and changes: it keeps the pause after empty answers, too."""
        return max(self._after_errors.ready_at_ms, self._after_nothing.ready_at_ms)

    def succeeded(self) -> None:
        if self._after_errors.attempts:
            self._after_errors.succeeded()

    def failed(self, now_ms: int) -> None:
        self._after_errors.failed(now_ms)

    def fetched(
        self, *, has_acquired: bool, has_errors: bool, is_bare: bool, took_ms: int, max_wait_ms: int, now_ms: int
    ) -> None:
        """A fetch was answered after `took_ms`; the broker might have waited for `max_wait_ms`."""
        if has_errors and not has_acquired and took_ms < max(max_wait_ms, self._least_wait_ms):
            # An answer that comes when its time is over needs no pause, which other partitions would feel.
            self._after_errors.failed(now_ms)
        else:
            self.succeeded()
        if has_acquired:
            if self._after_nothing.attempts:
                self._after_nothing.succeeded()
        elif is_bare and max_wait_ms > 0:
            if took_ms >= max_wait_ms // 2:
                self._after_nothing.succeeded()
            else:
                self._after_nothing.failed(now_ms)
