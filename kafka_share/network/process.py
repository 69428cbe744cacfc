"""Which process a client was made in, and whether that process is ending.

Asked at each call of a client, so what may change is counted when it changes: to ask the system for the process id
would cost more than to acknowledge a record.
"""

from __future__ import annotations

import os
import threading

from kafka_share.errors import IllegalStateError
from kafka_share.native import shut_all_gates


class _Process:
    changes = 0
    """How many forks led to this process, and whether it ends."""
    is_ending = False


def _forked() -> None:
    _Process.changes += 1
    _Process.is_ending = False
    shut_all_gates()


def begin_to_end() -> None:
    """The interpreter runs its exit handlers: the main thread is done, and no thread but daemons is left."""
    _Process.changes += 1
    _Process.is_ending = True
    shut_all_gates()


class Origin:
    """The process that this was made in."""

    __slots__ = ("_changes", "_process_id")

    def __init__(self) -> None:
        self._changes = _Process.changes
        self._process_id = os.getpid()

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a forked child of that process, or a child's child."""
        return self._changes != _Process.changes and os.getpid() != self._process_id

    def demand(self) -> None:
        """Raises `IllegalStateError` in a forked child."""
        if self._changes != _Process.changes and os.getpid() != self._process_id:
            raise IllegalStateError(
                f"This client was made in process {self._process_id} and cannot be used after fork(): its connections "
                "and its thread belong to the parent. Make a new one in this process."
            )

    def enter(self) -> None:
        """The same at the begin of a call. A daemon thread of a process that ends does not come back from it."""
        if self._changes != _Process.changes:
            self.demand()
            self.hold_daemon()

    def hold_daemon(self) -> None:
        """Keep a daemon thread of a process that ends: Python ends it in a moment, where it happens to be.

        What it would get instead is an error that its code has no use for, and a traceback on the way out.
        """
        if _Process.is_ending and self._changes != _Process.changes and threading.current_thread().daemon:
            threading.Event().wait()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
    os.register_at_fork(after_in_child=_forked)
