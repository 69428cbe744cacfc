"""Memory that connections hold, bounded in their sum: who holds most has to go when all together hold too much.

`BrokerServer` keeps one for what clients have sent and one for what they have not read. Each of them may hold what one
request or one answer takes; together they must not take the memory of the process. Which connection has to go is said
here; closing it is the server's.
"""

from __future__ import annotations


class ByteBudget:
    """For the server's thread only."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._by_connection: dict[int, int] = {}
        self._bytes = 0

    def note(self, connection_id: int, size: int) -> int | None:
        """A connection holds this much now; returns the connection that holds most, if all are too much."""
        self._bytes += size - self._by_connection.pop(connection_id, 0)
        if size:
            self._by_connection[connection_id] = size
        if self._bytes <= self._limit_bytes:
            return None
        return max(self._by_connection, key=self._by_connection.__getitem__)
