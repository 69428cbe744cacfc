"""Wakes a task that waits for the mailbox of a consumer, or for the sockets of sessions that were lent to it.

Used by the asyncio façade, on its event loop. Where the system has epoll, one reader and one timer of the loop serve
wait after wait: to add both for each would cost as much as the rest of a poll.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

epoll: Any = getattr(select, "epoll", None)
"""Of Linux."""
_ONCE: Final[int] = getattr(select, "EPOLLIN", 0) | getattr(select, "EPOLLONESHOT", 0)


class Bell:
    """Wakes the task that waits for the mailbox. Any thread may ring; the mailbox keeps no more of the consumer."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._is_ringing = False
        self._timer: asyncio.TimerHandle | None = None
        self._ends_at_s = 0.0
        """When the present wait ends, or the last one."""
        self._sockets: Any = None
        self._lines: dict[int, Any] = {}
        """Those that are waited for, or were, by their file descriptor."""

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not loop:
            self._forget()
            self._loop, self._waiting, self._is_ringing = loop, None, False

    def is_of(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self._loop is loop

    def ring(self) -> None:
        loop = self._loop
        if loop is None or self._is_ringing:
            return
        self._is_ringing = True  # one call on the loop is enough, however many there are until it has run
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(self._wake)

    async def wait(self, has_news: Callable[[], bool], timeout_ms: int) -> None:
        """Until there is news, up to `timeout_ms`."""
        loop = self._loop
        assert loop is not None
        is_late = False

        def end() -> None:
            nonlocal is_late
            is_late = True
            self._wake()

        timer: asyncio.TimerHandle | None = None
        try:
            while not (is_late or has_news()):
                waiting = self._waiting = loop.create_future()
                self._is_ringing = False
                if has_news():
                    return
                timer = timer or loop.call_later(timeout_ms / 1000, end)
                await waiting
        finally:
            self._waiting = None
            if timer is not None:
                timer.cancel()

    async def wait_on(self, lines: Sequence[Any], has_news: Callable[[], bool], timeout_ms: int) -> None:
        """The same, and until one of the `DirectLine`s has an answer."""
        loop = self._loop
        assert loop is not None
        numbers = [line.fileno() for line in lines]
        try:
            for number, line in zip(numbers, lines, strict=True):
                loop.add_reader(number, self._hear, line)
            # What the peer has not taken yet of a request is the core's to send.
            await self.wait(lambda: has_news() or any(line.has_come or line.unsent for line in lines), timeout_ms)
        finally:
            for number in numbers:
                loop.remove_reader(number)

    async def hear(self, lines: Sequence[Any], has_news: Callable[[], bool], timeout_ms: int) -> None:
        """The same, and it lets others run once in any case. It changes little of what the loop knows: where the system
        has epoll, that waits for sockets, and one timer serves wait after wait."""
        loop = self._loop
        assert loop is not None
        if epoll is None:
            await self.wait_on(lines, has_news, timeout_ms)
            return
        ends_at_s = loop.time() + timeout_ms / 1000
        self._keep_time(loop, ends_at_s)
        try:
            while True:
                waiting = self._waiting = loop.create_future()
                self._is_ringing = False
                if has_news():
                    return
                for line in lines:
                    self._listen(loop, line)
                await waiting
                if loop.time() >= ends_at_s:
                    return
                for line in lines:
                    if line.has_come:
                        return
        finally:
            self._waiting = None

    def _keep_time(self, loop: asyncio.AbstractEventLoop, ends_at_s: float) -> None:
        """Have `_wake` called then, or earlier."""
        self._ends_at_s = ends_at_s
        if self._timer is None or self._timer.when() > ends_at_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(ends_at_s, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        if self._waiting is None or self._loop is None:
            return
        if self._loop.time() >= self._ends_at_s:
            self._wake()
        else:
            self._timer = self._loop.call_at(self._ends_at_s, self._time_is_up)

    def _listen(self, loop: asyncio.AbstractEventLoop, line: Any) -> None:
        """Hear of the next thing that comes on a line, once."""
        if self._sockets is None:
            self._sockets = epoll()
            loop.add_reader(self._sockets.fileno(), self._something_has_come)
        number = line.fileno()
        self._lines[number] = line
        try:
            self._sockets.modify(number, _ONCE)
        except FileNotFoundError:
            self._sockets.register(number, _ONCE)

    def _something_has_come(self) -> None:
        assert self._sockets is not None
        for number, _ in self._sockets.poll(0):
            line = self._lines.get(number)
            if line is None or line.fileno() != number:
                continue  # it was given back
            if line.receive():
                self._wake()
            elif self._waiting is not None:
                self._sockets.modify(number, _ONCE)

    def close(self) -> None:
        """Nobody waits any more; on the loop."""
        self._forget()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._sockets is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._sockets.fileno())
            self._sockets.close()
        self._timer, self._sockets, self._lines = None, None, {}

    def _hear(self, line: Any) -> None:
        if line.receive():
            self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
