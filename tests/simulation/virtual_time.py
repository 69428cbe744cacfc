"""Virtual time: a queue of what is to happen, and a clock that jumps to it.

Everything of the simulation schedules here. Two actions of the same millisecond happen in the order in which they were
scheduled, so one seed has one history.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

Action = Callable[[], None]

STEP_LIMIT: Final = 60_000
"""No history needs half of it."""

CHECK_EVERY: Final = 4
"""Steps of a machine from one look at its own invariants to the next. What breaks them stays broken; time is short."""


class SpinError(AssertionError):
    """Things happen without end."""


class VirtualTime:
    """`now_ms` begins at 0; `steps` counts the actions that have happened."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.steps = 0
        self._queue: list[tuple[int, int, Action]] = []
        self._scheduled = 0

    def at(self, at_ms: int, action: Action) -> None:
        """Do this at a point of time; one that has passed means as soon as possible."""
        self._scheduled += 1
        heapq.heappush(self._queue, (max(at_ms, self.now_ms), self._scheduled, action))

    def after(self, span_ms: int, action: Action) -> None:
        self.at(self.now_ms + span_ms, action)

    def run_until(self, end_ms: int) -> None:
        """Let everything happen that is due up to `end_ms`, which is the time afterwards."""
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(queue)
            self.steps += 1
            if self.steps > STEP_LIMIT:
                raise SpinError(f"{self.steps} steps in {self.now_ms} ms: something spins")
            action()
        self.now_ms = end_ms
