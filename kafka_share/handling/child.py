"""What runs in a process of a worker that has `processes`: it takes calls from a pipe, calls the handler, and answers.

`process_pool` starts it. It knows neither the consumer nor the policy, and acknowledges nothing. The main thread runs
handlers, another one reads the pipe: so it hears that the work has no purpose any more, or that the worker is gone,
while a handler computes.
"""

from __future__ import annotations

import inspect
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, Final, TypeAlias

from kafka_share.handling.job import Record
from kafka_share.handling.lease import Lease

CALL: Final = b"c"
"""From the worker: (what the handler gets, the records, tries), pickled, follows."""
END: Final = b"e"
"""From the worker: the call has no purpose any more; the reason follows."""
RETURNED: Final = b"r"
RAISED: Final = b"x"
"""The exception, pickled, follows."""
NOT_AWAITED: Final = b"n"
"""The handler returned a coroutine."""
READY: Final = b"!"

GRACE_S: Final = 0.5
"""How long a handler may go on when its lease has ended. Then the process ends."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""The worker decides what these mean, also when they go to a whole group of processes."""

Work: TypeAlias = "tuple[Record | list[Record], Lease] | Exception"


def serve(pipe: Connection, handler: Callable[..., Any], takes_lease: bool) -> None:
    """Until the worker closes the pipe, or its process ends."""
    for number in SIGNALS:
        signal.signal(number, _left_to_the_worker)  # not SIG_IGN, which programs that the handler starts would inherit
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _Child(pipe, handler, takes_lease=takes_lease).serve()


def _left_to_the_worker(_number: int, _frame: FrameType | None) -> None:
    """Neither ends the handler nor its process."""


class _Child:
    """One handler at a time."""

    def __init__(self, pipe: Connection, handler: Callable[..., Any], *, takes_lease: bool) -> None:
        self._pipe = pipe
        self._handler = handler
        self._takes_lease = takes_lease
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._lease: Lease | None = None
        """Of the latest call."""
        self._is_idle = threading.Event()
        self._is_idle.set()

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="kafka-share calls", daemon=True).start()
        self._pipe.send_bytes(READY)
        while (work := self._work.get()) is not None:
            answer = self._answer(work)
            self._is_idle.set()
            try:
                self._pipe.send_bytes(answer)
            except OSError:
                return  # the worker is gone

    # ---- the thread that reads

    def _listen(self) -> None:
        try:
            while True:
                message = self._pipe.recv_bytes()
                if message[:1] == CALL:
                    self._is_idle.clear()
                    self._work.put(self._unpacked(message[1:]))
                else:
                    self._end(message[1:].decode())
        except (EOFError, OSError):  # the worker has closed it, or is gone
            self._work.put(None)
            self._end("its worker is gone")

    def _unpacked(self, data: bytes) -> Work:
        try:
            argument, tries = pickle.loads(data)
        except Exception as error:  # noqa: BLE001 - a value that cannot be made here fails like a handler
            return error
        self._lease = Lease(argument if isinstance(argument, list) else [argument], tries)
        return argument, self._lease

    def _end(self, reason: str) -> None:
        if self._lease is not None:
            self._lease.end(reason)
        if not self._is_idle.wait(GRACE_S):
            os._exit(1)  # what it does is done again by others

    # ---- the thread that works

    def _answer(self, work: Work) -> bytes:
        if isinstance(work, Exception):
            return RAISED + _pickled(work)
        argument, lease = work
        try:
            result = self._handler(argument, lease) if self._takes_lease else self._handler(argument)
        except BaseException as error:  # noqa: BLE001 - the worker decides what it means
            return RAISED + _pickled(error)
        if inspect.iscoroutine(result):
            result.close()
            return NOT_AWAITED
        return RETURNED


def _pickled(error: BaseException) -> bytes:
    """With its traceback as a note. One that cannot be pickled, or cannot be made again, is replaced by its text."""
    told = "".join(traceback.format_exception(error))
    try:
        error.add_note(f"In the process of the handler:\n{told}")
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:  # noqa: BLE001 - whatever its class does
        stand_in = RuntimeError(f"the handler raised {type(error).__qualname__}, which cannot be pickled")
        stand_in.add_note(f"In the process of the handler:\n{told}")
        data = pickle.dumps(stand_in)
    return data
