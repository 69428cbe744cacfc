"""Closes the clients that are open, and stops the drivers whose threads still run, when the process ends.

What was acknowledged leaves, records that are held are given back, and members leave their groups, as far as a short
time allows; the clients use that time together. Daemon threads that call a client from then on are held. A daemon
thread inside an event loop must not meet an interpreter that is being taken apart.
"""

from __future__ import annotations

import atexit
import logging
import time
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

from kafka_share.network import process

log: logging.Logger = logging.getLogger(__name__)

TIMEOUT_MS: Final = 3_000
"""For closing all clients; a cluster that answers needs a hundredth of it."""
_STOP_TIMEOUT_MS: Final = 500


class Stoppable(Protocol):
    def stop(self, timeout_ms: int) -> None: ...


class Closable(Protocol):
    """A client whose closing can begin without waiting."""

    def begin_exit(self, timeout_ms: int) -> None:
        """Begin to close; `finish_exit` follows."""

    def finish_exit(self, timeout_ms: int) -> None:
        """Wait for the end."""


_RUNNING: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
_OPEN: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def register(driver: Stoppable) -> None:
    """Its thread runs. It is not kept alive by this."""
    _RUNNING.add(driver)


def forget(driver: Stoppable) -> None:
    """Its thread has ended."""
    _RUNNING.discard(driver)


def register_client(client: Closable) -> None:
    """It is open. It is not kept alive by this."""
    _OPEN.add(client)


def forget_client(client: Closable) -> None:
    """It has been closed."""
    _OPEN.discard(client)


def _end_all() -> None:
    process.begin_to_end()
    ends_at = time.monotonic() + TIMEOUT_MS / 1000
    try:
        clients: list[Closable] = list(_OPEN)
        for steps in ([client.begin_exit for client in clients], [client.finish_exit for client in clients]):
            for step in steps:
                _run(step, max(0, int((ends_at - time.monotonic()) * 1000)))
        for driver in tuple(_RUNNING):
            driver.stop(_STOP_TIMEOUT_MS)
    except KeyboardInterrupt:
        pass  # somebody does not want to wait; the brokers take back what is held, in their time


def _run(step: Callable[[int], None], timeout_ms: int) -> None:
    try:
        step(timeout_ms)
    except SystemExit:
        pass  # a callback of the application, to whom the end of the process comes late
    except Exception:
        log.exception("a client could not be closed at the end of the process")


atexit.register(_end_all)
