"""Lets one caller at a time into a consumer: a lock that an interrupt cannot leave behind.

Used by the blocking façade. An interrupt may strike between taking the lock and the `try` that gives it back, so a lock
that is taken proves nothing. Whether its holder is still there can be seen on the stacks of the threads; that is looked
at only when the lock is found taken.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any


class OneCaller:
    """`methods` are all that take the lock; while one of them runs for an owner, its caller is inside."""

    def __init__(self, *methods: Callable[..., Any]) -> None:
        self._codes: frozenset[CodeType] = frozenset(method.__code__ for method in methods)
        self.lock = threading.Lock()
        """Whoever acquires it is inside. Who does not asks `is_free`."""

    def is_free(self, owner: object) -> bool:
        """Called by one of the methods that found the lock taken: whether its holder has gone, so that it is inside."""
        return not self._is_inside(owner)

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
