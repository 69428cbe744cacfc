"""Wakes an event loop from another thread, at the cost of one system call on either side.

Used by `driver.CoreDriver`. `call_soon_threadsafe` does the same and more: it makes a handle with a copy of the context
for each wake-up, checks and locks, and the loop reads from its own pipe until an exception says that it is empty.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

_MANY: Final = 64


class WakeUp:
    """`on_wake` is called by the loop, once or more, after each `ring`. Made and closed on any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_wake: Callable[[], None]) -> None:
        self._loop = loop
        self._on_wake = on_wake
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        loop.add_reader(self._ear, self._heard)

    def ring(self) -> None:
        """Any thread may call it. After `close` it does nothing."""
        try:
            self._bell.send(b"\0")
        except OSError:
            pass  # closed, or so full that the loop has something to hear already

    def close(self) -> None:
        """Called when the loop has ended."""
        self._loop.remove_reader(self._ear)
        self._bell.close()
        self._ear.close()

    def _heard(self) -> None:
        self._ear.recv(_MANY)
        self._on_wake()
