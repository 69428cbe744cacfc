"""Clients that connect more often than a quota allows: they wait for some time, unread, and are then closed (KIP-612).

Used by the server, on its loop. So a client that tries again at once does not try a thousand times a second."""

from __future__ import annotations

import heapq
from typing import Protocol


class Client(Protocol):
    """A socket, of which no more is needed."""

    def close(self) -> None:
        """Close it."""


class TurnedAway:
    """The clients of all nodes that are about to be closed."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, int, Client]] = []
        """(When to close it, order, node, client), as a heap."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, client: Client, node_id: int, until_ms: int) -> None:
        """Close it at this time of the broker's clock."""
        self._count += 1
        heapq.heappush(self._waiting, (until_ms, self._count, node_id, client))

    def wake_at_ms(self) -> int | None:
        """When `close_due` has to be called."""
        return self._waiting[0][0] if self._waiting else None

    def close_due(self, now_ms: int) -> bool:
        """Close those whose time has come; returns whether there were any."""
        before = len(self._waiting)
        while self._waiting and self._waiting[0][0] <= now_ms:
            heapq.heappop(self._waiting)[3].close()
        return len(self._waiting) < before

    def close_all(self, node_id: int | None = None) -> None:
        """Close those of a node, or all."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if node_id in (None, one[2]):
                one[3].close()
            else:
                heapq.heappush(self._waiting, one)
