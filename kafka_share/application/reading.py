"""What one loop over a consumer has polled: it hands out what is still locked, and knows how far the loop has come.

Made by `ApplicationSide.begin_reading`; the loop takes from it on its thread, and the background thread asks how far
it has come. The iterator steps in C, and a record counts as handed out only when nothing is left to be done with it, so
an interrupt loses none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kafka_share.application.delivery import Record


class Reading:
    """`is_over` tells whether the loop has ended; `on_step` sees each record before the loop does.

    `on_step` returns False for a record that the loop does not get.
    """

    def __init__(
        self, records: Iterable[Record], is_over: Callable[[], bool], on_step: Callable[[Record], bool]
    ) -> None:
        self.is_over = is_over
        self._records = list(records)
        self._on_step = on_step
        self._decided = 0
        self._passed = 0
        self._seen = -1
        self._seen_at_ms = 0
        self._rest = filter(self._decide, self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return self._rest

    def _decide(self, record: Record) -> bool:
        decided = self._decided
        try:
            is_ours = self._on_step(record)
            self._decided = decided + 1
            return is_ours
        except BaseException:
            self._decided = decided  # an interrupt: the loop has not come to this one
            raise

    @property
    def rest(self) -> list[Record]:
        """What the loop has not come to."""
        return self._records[self._decided :]

    def take_passed(self) -> list[Record]:
        """What the loop has moved past since this was last asked."""
        before = self._passed
        self._passed = max(before, self._decided - 1)
        return self._records[before : self._passed]

    @property
    def awaited(self) -> list[Record]:
        """What the loop works on, and what it has not come to."""
        return self._records[max(0, self._decided - 1) :]

    def stands_for_ms(self, now_ms: int) -> int:
        """How long the loop has been at the same record, as far as those who ask have seen."""
        if self._seen != self._decided:
            self._seen, self._seen_at_ms = self._decided, now_ms
        return now_ms - self._seen_at_ms

    def end(self) -> None:
        """The consumer closes: the loop gets nothing more."""
        self._records.clear()
