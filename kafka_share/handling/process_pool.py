"""The processes in which handlers run, as the worker sees them: started, called, told to end, and found dead.

For `ProcessDriver`. Each process runs one call at a time for one thread of the worker: one that dies takes one call
with it and no other. They are spawned, never forked: the worker has threads.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

from kafka_share.errors import HandlerProcessError
from kafka_share.handling.child import CALL, END, READY, SIGNALS, serve

_END_S: Final = 5.0
"""How long one waits for a process whose end of the pipe is closed, before it is killed."""


class HandlerProcess:
    """One process. One thread calls; any other one may tell it to end, and kill it."""

    def __init__(self, handler: Callable[..., Any], *, takes_lease: bool) -> None:
        """Start it; `wait_until_ready` follows."""
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, childs_end = context.Pipe()
        self._process = context.Process(
            target=serve, args=(childs_end, handler, takes_lease), name="kafka-share handler", daemon=False
        )
        self._sending = threading.Lock()
        with childs_end, _signals_held():
            self._process.start()

    def wait_until_ready(self) -> None:
        """Raises `HandlerProcessError` if it ends instead: it could not import the handler, perhaps."""
        try:
            assert self._pipe.recv_bytes() == READY
        except (EOFError, OSError):
            raise HandlerProcessError(
                f"the process of the handler {self._end()} as it began; what it wrote to standard error says why"
            ) from None

    def call(self, request: bytes) -> bytes:
        """Have the handler called; returns the answer. Raises `HandlerProcessError` if the process dies."""
        try:
            with self._sending:
                self._pipe.send_bytes(CALL + request)
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise HandlerProcessError(f"the process of the handler {self._end()}") from None

    def tell_end(self, reason: str) -> None:
        """The call has no purpose any more. It never waits: a process that does not read is killed."""
        if not self._sending.acquire(blocking=False):
            self.kill()
            return
        try:
            self._pipe.send_bytes(END + reason.encode())
        except OSError:
            pass  # it has died, which `call` finds
        finally:
            self._sending.release()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        self._process.kill()

    def hang_up(self) -> None:
        """It ends by itself, if it does nothing."""
        self._pipe.close()

    def close(self) -> None:
        """Wait until it has ended, or kill it. Nobody may use it any more."""
        self.hang_up()
        self._process.join(_END_S)
        self.kill()
        self._process.join()
        self._process.close()

    def _end(self) -> str:
        self._process.join(_END_S)
        code = self._process.exitcode
        if code is None:
            self.kill()
            return "closed its pipe"
        return f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def _signals_held() -> Generator[None]:
    """A process that starts here gets no signal before it can say what it does with it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which lets signals through when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ProcessPool:
    """The processes of one worker. Any thread takes one, and gives it back or discards it."""

    def __init__(self, handler: Callable[..., Any], *, takes_lease: bool) -> None:
        self._handler = handler
        self._takes_lease = takes_lease
        self._lock = threading.Lock()
        self._idle: list[HandlerProcess] = []
        self._all: dict[HandlerProcess, None] = {}
        self._is_closed = False
        self._owner = os.getpid()

    def take(self) -> HandlerProcess:
        """One that does nothing, or a new one. Raises `HandlerProcessError` if it cannot begin, or all has ended."""
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                return self._started()
            if process.is_alive:
                return process
            self.discard(process)

    def give_back(self, process: HandlerProcess) -> None:
        """Its call has ended."""
        with self._lock:
            if not self._is_closed:
                self._idle.append(process)
                return
        self.discard(process)

    def discard(self, process: HandlerProcess) -> None:
        """It is dead, or is to end."""
        with self._lock:
            del self._all[process]
        process.close()

    def close(self) -> None:
        """Kill what works, and let the others end. Who waits for a call hears of it."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            for process in self._all:
                if process not in idle:
                    process.kill()
        for process in idle:
            process.hang_up()
        for process in idle:
            self.discard(process)
        atexit.unregister(self._kill_all)

    def _started(self) -> HandlerProcess:
        with self._lock:
            if self._is_closed:
                raise HandlerProcessError("the worker has ended")
            if not self._all:
                atexit.unregister(self._kill_all)
                atexit.register(self._kill_all)  # comes before `multiprocessing` waits for them
            process = HandlerProcess(self._handler, takes_lease=self._takes_lease)
            self._all[process] = None
        try:
            process.wait_until_ready()
        except HandlerProcessError:
            self.discard(process)
            raise
        return process

    def _kill_all(self) -> None:
        if os.getpid() == self._owner:  # not in a forked child, which has these handlers as well
            for process in list(self._all):
                process.kill()
