"""Lets one caller at a time into a consumer: a lock that an interrupt cannot leave behind.

Used by the blocking façade. An interrupt may strike between taking the lock and the `try` that gives it back, so a lock
that is taken proves nothing. Whether its holder is still there can be seen on the stacks of the threads; that is looked
at only when the lock is found taken.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

_LOOK_S: Final = 0.05
"""How often to look whether the one who is inside has gone without giving the lock back."""


class OneCaller:
    """`methods` are all that take the lock; while one of them runs for an owner, its caller is inside."""

    def __init__(self, *methods: Callable[..., Any]) -> None:
        self._codes: frozenset[CodeType] = frozenset(method.__code__ for method in methods)
        self.lock: threading.Lock = threading.Lock()
        """Whoever acquires it is inside. Who does not asks `is_free`."""
        self.is_wanted: bool = False
        """Somebody waits to come in: a call that waits inside should end."""

    def is_free(self, owner: object) -> bool:
        """Called by one of the methods that found the lock taken: whether its holder has gone, so that it is inside."""
        return not self._is_inside(owner)

    def wait(self, owner: object, timeout_s: float, nudge: Callable[[], None]) -> bool:
        """Wait until the one who is inside has gone; `nudge` makes a waiting call look at `is_wanted`.

        Called by one of the methods. Returns whether its caller is inside now; False: the time is over.
        """
        ends_at_s = time.monotonic() + timeout_s
        self.is_wanted = True
        try:
            nudge()
            while not (self.lock.acquire(timeout=_LOOK_S) or self.is_free(owner)):
                if time.monotonic() >= ends_at_s:
                    return False
                nudge()
            return True
        finally:
            self.is_wanted = False

    def is_nested(self, owner: object) -> bool:
        """Called by one of the methods: whether it was called from inside another one, on the same thread."""
        return self._count_calls(sys._getframe(), owner) > 1

    def leave(self) -> None:
        try:
            self.lock.release()
        except RuntimeError:
            pass  # an interrupt struck behind the first time

    def _is_inside(self, owner: object) -> bool:
        here = threading.get_ident()
        return any(
            self._count_calls(frame, owner) > (thread == here) for thread, frame in sys._current_frames().items()
        )

    def _count_calls(self, frame: FrameType | None, owner: object) -> int:
        calls = 0
        while frame is not None:
            calls += frame.f_code in self._codes and frame.f_locals.get("self") is owner
            frame = frame.f_back
        return calls
