"""The bytes of requests that have begun to arrive and are not complete, of all connections: bounded in their sum.

`BrokerServer` keeps one for its connections. Each of them may send half of the largest request that is allowed;
together they must not take the memory of the process. Which connection has to go is said here; closing it is the
server's.
"""

from __future__ import annotations

from typing import Final

HALF_SENT_LIMIT_BYTES: Final = 256 * 1024 * 1024
"""More than two of the largest requests (`socket.request.max.bytes`, 100 MiB by default)."""


class HalfSent:
    """For the server's thread only."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._by_connection: dict[int, int] = {}
        self._bytes = 0

    def note(self, connection_id: int, size: int) -> int | None:
        """A connection holds this much of a request; returns the connection that holds most, if all are too much."""
        self._bytes += size - self._by_connection.pop(connection_id, 0)
        if size:
            self._by_connection[connection_id] = size
        if self._bytes <= self._limit_bytes:
            return None
        return max(self._by_connection, key=self._by_connection.__getitem__)
