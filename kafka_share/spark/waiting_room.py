"""WaitingRoom: connections that have not proved yet that they know the key, and no more of them than there are places.

For the agent's doors: without a bound, whoever can reach the port could have the agent hold any number of threads and
sockets. When all places are taken, who has waited longest is hung up on, so that silent connections keep nobody out.
"""

from __future__ import annotations

import contextlib
import socket
import threading


class WaitingRoom:
    """Used by any thread."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: dict[socket.socket, None] = {}
        """Oldest first."""
        self._guard = threading.Lock()

    def enter(self, sock: socket.socket) -> None:
        """A connection has come in. It may have cost another one its place, which then ends as if its peer had left."""
        with self._guard:
            self._waiting[sock] = None
            oldest = next(iter(self._waiting)) if len(self._waiting) > self._places else None
            if oldest is not None:
                del self._waiting[oldest]
        if oldest is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)

    def leave(self, sock: socket.socket) -> None:
        """It has proved itself, or has ended."""
        with self._guard:
            self._waiting.pop(sock, None)
