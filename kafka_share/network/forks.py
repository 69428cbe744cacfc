"""Tells a forked child from the process in which a client was made.

Asked at each call of a client, so a fork is counted when it happens: to ask the system for the process id would cost
more than to acknowledge a record.
"""

from __future__ import annotations

import os

from kafka_share.errors import IllegalStateError


class _Forks:
    count = 0


def _count() -> None:
    _Forks.count += 1


class Origin:
    """The process that this was made in."""

    __slots__ = ("_forks", "_process_id")

    def __init__(self) -> None:
        self._forks = _Forks.count
        self._process_id = os.getpid()

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a forked child of that process, or a child's child."""
        return self._forks != _Forks.count

    def demand(self) -> None:
        """Raises `IllegalStateError` in a forked child."""
        if self._forks != _Forks.count:
            raise IllegalStateError(
                f"This client was made in process {self._process_id} and cannot be used after fork(): its connections "
                "and its thread belong to the parent. Make a new one in this process."
            )


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
    os.register_at_fork(after_in_child=_count)
