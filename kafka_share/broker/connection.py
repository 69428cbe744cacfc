"""One client connection of the broker: bytes to frames, one request in work at a time, back-pressure both ways.

Made by the listeners of `BrokerServer`, which it tells of whole frames and of its end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.faults import Fault
    from kafka_share.broker.server import BrokerServer

logger = logging.getLogger(__name__)

MAX_WAITING_REQUESTS: Final = 64
"""So many requests may wait behind the one in work before the socket is no longer read…"""
MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
"""…or so many bytes."""
_LENGTH_BYTES: Final = 4


class Connection(asyncio.Protocol):
    """One connection to the listener of a node."""

    def __init__(self, server: BrokerServer, node_id: int) -> None:
        self.node_id = node_id
        self.id = -1
        self.client_host = ""
        self.fault: Fault | None = None
        """What is to happen to the request in work."""
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._in_work: RequestContext | None = None
        self._can_write = True
        self._pumping = False
        self._reading_paused = False

    # ---- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_host = transport.get_extra_info("peername")[0]
        self.id = self._server.connection_opened(self, self.client_host)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        limit = self._server.max_frame_bytes()
        while len(self._buffer) >= _LENGTH_BYTES:
            size = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big", signed=True)
            if not 0 < size <= limit:
                logger.warning("closing the connection of %s: a frame of %d bytes", self.client_host, size)
                self.abort()
                return
            stop = _LENGTH_BYTES + size
            if len(self._buffer) < stop:
                break
            self._waiting.append(bytes(memoryview(self._buffer)[_LENGTH_BYTES:stop]))
            self._waiting_bytes += size
            del self._buffer[:stop]
        self._pump()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._pump()

    # ---- for the server

    def begin(self, context: RequestContext, fault: Fault | None) -> None:
        """The request is in work until `answer` or `end`."""
        self._in_work, self.fault = context, fault

    def awaits(self, context: RequestContext) -> bool:
        """Whether this is the request in work."""
        return self._in_work is context

    def answer(self, frame: bytes) -> None:
        """Send the answer of the request in work; the next request follows."""
        self.send(frame)
        self.end()

    def end(self) -> None:
        """The request in work gets no answer (any more)."""
        self._in_work = self.fault = None
        self._pump()

    def send(self, frame: bytes) -> None:
        """Send bytes if the connection still stands."""
        if self._transport is not None:
            self._transport.write(frame)

    def close(self) -> None:
        """Close as soon as everything sent so far is out."""
        transport = self._transport
        self._gone()
        if transport is not None:
            transport.close()

    def abort(self) -> None:
        """Close at once."""
        transport = self._transport
        self._gone()
        if transport is not None:
            transport.abort()

    # ---- inside

    def _gone(self) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._waiting.clear()
        self._waiting_bytes = 0
        self._buffer.clear()
        self._server.connection_closed(self.id)

    def _pump(self) -> None:
        """Hand the next request over while none is in work. Not re-entered: an answer may come at once."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._waiting and self._in_work is None and self._can_write:
                frame = self._waiting.popleft()
                self._waiting_bytes -= len(frame)
                self._server.frame_received(self, frame)
        finally:
            self._pumping = False
        self._regulate_reading()

    def _regulate_reading(self) -> None:
        if self._transport is None:
            return
        full = len(self._waiting) >= MAX_WAITING_REQUESTS or self._waiting_bytes >= MAX_WAITING_BYTES
        if full and not self._reading_paused:
            self._transport.pause_reading()
        elif self._reading_paused and not full:
            self._transport.resume_reading()
        self._reading_paused = full
