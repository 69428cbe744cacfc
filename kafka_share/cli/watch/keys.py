"""The pause between two looks of `kafka-share watch`, which the key q ends. `looking` uses it."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

Pause: TypeAlias = Callable[[float], bool]
"""Waits for so many seconds; returns whether to quit."""

if sys.platform != "win32":
    import termios
    import tty

_QUIT: Final = b"qQ"


@contextlib.contextmanager
def quit_by_key() -> Iterator[tuple[Pause, bool]]:
    """A pause, and whether a key can end it: if standard input is a terminal, which then hands over each key at once.

    The terminal is as before afterwards.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield _sleep, False
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number, termios.TCSADRAIN)  # what has been typed already counts
    try:
        yield lambda seconds: _is_quit_within(number, seconds), True
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _is_quit_within(number: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([number], [], [], left)
        if ready:
            key = os.read(number, 1)
            if not key:
                return _sleep(max(0.0, until - time.monotonic()))  # the terminal is gone
            if key in _QUIT:
                return True
    return False
