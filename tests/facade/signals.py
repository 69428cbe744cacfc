"""Signals to the thread on which the tests run, which come while it waits in a call."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

from support.waiting import wait_until


@contextlib.contextmanager
def signalled(when: Callable[[], bool], number: int = signal.SIGINT) -> Iterator[None]:
    """In this block the signal comes as soon as `when` is true."""
    main = threading.get_ident()
    assert main == threading.main_thread().ident, "signals reach the main thread only"

    def send() -> None:
        wait_until(when)
        signal.pthread_kill(main, number)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join()
