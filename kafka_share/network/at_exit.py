"""Stops the drivers whose threads still run when the process ends.

A daemon thread inside an event loop must not meet an interpreter that is being taken apart.
"""

from __future__ import annotations

import atexit
import weakref
from typing import Any, Final, Protocol

_TIMEOUT_MS: Final = 500


class Stoppable(Protocol):
    def stop(self, timeout_ms: int) -> None: ...


_RUNNING: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def register(driver: Stoppable) -> None:
    """Its thread runs. It is not kept alive by this."""
    _RUNNING.add(driver)


def forget(driver: Stoppable) -> None:
    """Its thread has ended."""
    _RUNNING.discard(driver)


def _stop_all() -> None:
    for driver in tuple(_RUNNING):
        driver.stop(_TIMEOUT_MS)


atexit.register(_stop_all)
