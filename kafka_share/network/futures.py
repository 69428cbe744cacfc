"""Futures of acknowledgements, and the thread that runs what the application adds to them.

A future is resolved on the network thread. What was added by `add_done_callback` is the application's code, which may
raise anything and block for ever; so it runs on a thread that has nothing else to do, and holds up neither heartbeats,
nor other futures, nor `close` beyond its timeout.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

from kafka_share.errors import KafkaShareError

log: logging.Logger = logging.getLogger(__name__)


def _nobody() -> None:
    """Who is told where nobody looks at what waits."""


class DoneCallbacks:
    """Runs done callbacks one after the other. The thread begins with the first of them and ends after `end`.

    Those that wait for their turn take room in the open window: a callback that blocks stops new records, and so the
    queue grows no longer than the window lets it.
    """

    def __init__(self, name: str) -> None:
        self.on_taken: Callable[[], object] = _nobody
        """Called when one waits no longer; to be set by whoever looks at `waiting`."""
        self._name = name
        self._guard = threading.Lock()
        self._has_ended = False
        self._thread: threading.Thread | None = None
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()

    def put(self, callback: Callable[[], object]) -> None:
        """Have it run soon; at once and here, if no thread can do it any more. Any thread may call this."""
        with self._guard:
            is_taken = not self._has_ended and self._has_thread()
            if is_taken:
                self._waiting.put(callback)
        if not is_taken:
            _run(callback)

    def waiting(self) -> int:
        """How many wait for the one that runs. Any thread may call this."""
        return self._waiting.qsize()

    def _has_thread(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is at its end and begins no thread
                return False
            self._thread = thread
        return True

    def _work(self) -> None:
        for callback in iter(self._waiting.get, None):
            self.on_taken()
            _run(callback)

    @property
    def is_current_thread(self) -> bool:
        return self._thread is threading.current_thread()

    def end(self) -> None:
        """Nothing more is resolved: the thread ends when it has run what waits."""
        with self._guard:
            if not self._has_ended:
                self._has_ended = True
                self._waiting.put(None)

    def join(self, timeout_ms: int) -> None:
        """Wait for the thread, which was told to `end`."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        thread.join(timeout_ms / 1000)
        if thread.is_alive():
            log.warning("a done callback of a future still runs after close: thread %r", self._name)


def _run(callback: Callable[[], object]) -> None:
    try:
        callback()
    except BaseException:  # whatever it is, the next callback is another one's
        log.exception("a done callback of a future raised")


class OutcomeFuture(Future[None]):
    """The outcome of one acknowledgement. It counts as running from the beginning, so it cannot be cancelled."""

    def __init__(self, callbacks: DoneCallbacks) -> None:
        super().__init__()
        self._done = callbacks
        self.set_running_or_notify_cancel()

    def add_done_callback(self, fn: Callable[[Future[None]], Any]) -> None:
        """Have `fn(future)` called on the thread for callbacks, as soon as the outcome is known."""
        super().add_done_callback(lambda future: self._done.put(partial(fn, future)))

    def resolve(self, error: KafkaShareError | None) -> None:
        with suppress(InvalidStateError):  # the application has resolved it, which is its own loss
            if error is None:
                self.set_result(None)
            else:
                self.set_exception(error)
