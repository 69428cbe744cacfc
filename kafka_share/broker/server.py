"""The broker's sockets: listeners, frames, one timer. The only file of the broker that does I/O.

Drives one `BrokerMachine` on one asyncio loop; everything here runs on that loop. Requests of a connection are worked
on one after the other, as in Kafka, so that answers keep their order and effects too; while one is in work (or the
client does not read) the next ones wait, and when too many wait the socket is no longer read.

What it must not do: know what a request means. Bytes that are no request close the connection, with a line in the log.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import socket
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from kafka_share.broker.error_answers import error_answer
from kafka_share.broker.events import (
    ConnectionClosed,
    Reply,
    RequestArrived,
    RequestContext,
)
from kafka_share.broker.faults import Fault, FaultKind, FaultPlan, RequestLog
from kafka_share.broker.handlers import api_versions
from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.messages import (
    API_VERSIONS,
    RequestHeader,
    decode_request_body,
    decode_request_header,
    encode_response,
)

if TYPE_CHECKING:
    from kafka_share.broker.clock import BrokerClock
    from kafka_share.broker.machine import BrokerMachine

logger = logging.getLogger(__name__)

MAX_WAITING_REQUESTS: Final = 64
"""So many requests may wait behind the one in work before the socket is no longer read…"""
MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
"""…or so many bytes."""
_LENGTH_BYTES: Final = 4
_MAX_TIMER_MS: Final = 3_600_000
_BACKLOG: Final = 128
_CLOSING_ROUNDS: Final = 3
_FRAME_HEAD_BYTES: Final = 8
"""Length and correlation id: what a garbage answer keeps right, so that the nonsense reaches the decoder."""


class BrokerServer:
    """Listeners for the nodes of a machine's cluster. `advertised_host` is what clients are told to connect to."""

    def __init__(self, machine: BrokerMachine, clock: BrokerClock, *, host: str, advertised_host: str) -> None:
        self.machine = machine
        self.cluster = machine.cluster
        self.clock = clock
        self.faults = FaultPlan()
        self.requests = RequestLog()
        self._host = host
        self._advertised_host = advertised_host
        self._listeners: dict[int, socket.socket] = {}
        self._accepting: dict[int, set[asyncio.Task[None]]] = {}
        """Clients that have been accepted and have no connection object yet, by node."""
        self._connections: dict[int, Connection] = {}
        self._next_connection_id = 0
        self._delayed: list[tuple[int, int, int, bytes]] = []
        """Answers held back: (due at, order, connection id, frame)."""
        self._delayed_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._running = False

    # ---- life

    async def start_listener(self, node_id: int, port: int) -> None:
        """Listen for a node on `port` (0: any free one). Raises `OSError`."""
        # asyncio's own server loses a client that it accepts while it closes (it asserts and leaks the socket).
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, port), family=family, backlog=_BACKLOG)
        listener.setblocking(False)
        self._listeners[node_id] = listener
        self._accepting[node_id] = set()
        self.cluster.set_address(node_id, self._advertised_host, listener.getsockname()[1])
        asyncio.get_running_loop().add_reader(listener, self._accept, node_id, listener)

    def _accept(self, node_id: int, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                logger.warning("node %d cannot accept a client: %s", node_id, error)
            return
        client.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._connect(node_id, client))
        self._accepting[node_id].add(task)
        task.add_done_callback(self._accepting[node_id].discard)

    async def _connect(self, node_id: int, client: socket.socket) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: Connection(self, node_id), client)

    async def close(self) -> None:
        """Close all listeners and connections."""
        for node_id in list(self._listeners):
            await self._close_listener(node_id)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _close_listener(self, node_id: int) -> None:
        listener = self._listeners.pop(node_id)
        asyncio.get_running_loop().remove_reader(listener)
        listener.close()
        await asyncio.gather(*self._accepting.pop(node_id), return_exceptions=True)
        self.drop_connections(node_id)
        # Closed transports need some rounds of the loop to be gone.
        for _ in range(_CLOSING_ROUNDS):
            await asyncio.sleep(0)

    async def stop_node(self, node_id: int) -> None:
        """Stop a node: its port is closed, its memory is lost, its partitions and groups go to others."""
        await self._close_listener(node_id)
        self.cluster.stop_node(node_id, self.clock.now_ms())
        self.run()

    async def start_node(self, node_id: int) -> None:
        """Start a stopped node on the port that it had."""
        await self.start_listener(node_id, self.cluster.nodes[node_id].port)
        self.cluster.start_node(node_id, self.clock.now_ms())
        self.run()

    def is_running(self, node_id: int) -> bool:
        return node_id in self._listeners

    def drop_connections(self, node_id: int | None = None) -> None:
        """Close the connections to a node, or all, without a word."""
        for connection in list(self._connections.values()):
            if node_id in (None, connection.node_id):
                connection.abort()

    # ---- connections

    def connection_opened(self, connection: Connection) -> int:
        """A client connected; answers the connection's id."""
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        self._connections[connection_id] = connection
        return connection_id

    def connection_closed(self, connection_id: int) -> None:
        """The connection is gone, whoever closed it."""
        if self._connections.pop(connection_id, None) is not None:
            self.machine.handle(ConnectionClosed(connection_id), self.clock.now_ms())
            self.run()

    def max_frame_bytes(self) -> int:
        """The largest request that is read."""
        return self.cluster.configs.broker_int("socket.request.max.bytes")

    def frame_received(self, connection: Connection, frame: bytes) -> None:
        """A whole request came; the connection has no other one in work."""
        try:
            header = decode_request_header(frame)
            if not self._is_offered(header):
                self._refuse_version(connection, header)
                return
            request = decode_request_body(header, frame)
        except RemoteProtocolError as error:
            logger.warning("closing the connection of %s: %s", connection.client_host, error)
            connection.abort()
            return
        context = RequestContext(
            connection_id=connection.id,
            node_id=connection.node_id,
            client_host=connection.client_host,
            api_key=header.api_key,
            api_version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id or "",
        )
        self.requests.add(context, request)
        fault = self.faults.take(context)
        if fault is not None and fault.kind is FaultKind.DROP_BEFORE:
            connection.abort()
            return
        connection.begin(context, fault)
        if fault is not None and fault.kind is FaultKind.ERROR:
            self._reply(Reply(context, error_answer(request, context.api_version, fault.error_code)))
            return
        self.machine.handle(RequestArrived(context, request), self.clock.now_ms())
        self.run()
        if not request.expect_response():
            self._end_without_answer(connection, fault)

    def _is_offered(self, header: RequestHeader) -> bool:
        low, high = self.cluster.api_versions.get(header.api_key, (0, -1))
        return low <= header.api_version <= high

    def _refuse_version(self, connection: Connection, header: RequestHeader) -> None:
        if header.api_key == API_VERSIONS:
            answer = api_versions.unsupported(self.cluster.api_versions)
            connection.send(encode_response(header.correlation_id, answer, 0))
            return
        raise RemoteProtocolError(f"API {header.api_key} version {header.api_version} is not offered")

    def _end_without_answer(self, connection: Connection, fault: Fault | None) -> None:
        if fault is not None and fault.kind in (FaultKind.DROP_AFTER, FaultKind.CUT_FRAME):
            connection.abort()
        else:
            connection.end()

    # ---- outputs and time

    def run(self) -> None:
        """Let the cluster do what is due, send what it puts out, and set the timer anew."""
        if self._running:
            return
        self._running = True
        try:
            while self._run_once():
                pass
        finally:
            self._running = False
        self._arm_timer()

    def _run_once(self) -> bool:
        """One round; answers whether there may be more to do."""
        now_ms = self.clock.now_ms()
        busy = False
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, connection_id, frame = heapq.heappop(self._delayed)
            connection = self._connections.get(connection_id)
            if connection is not None:
                connection.answer(frame)
            busy = True
        for reply in self.machine.poll(now_ms):
            self._reply(reply)
            busy = True
        return busy

    def _reply(self, reply: Reply) -> None:
        context = reply.context
        connection = self._connections.get(context.connection_id)
        if connection is None or not connection.awaits(context):
            return
        frame = encode_response(context.correlation_id, reply.response, context.api_version)
        fault = connection.fault
        if fault is None or fault.kind is FaultKind.ERROR:
            connection.answer(frame)
        elif fault.kind is FaultKind.DELAY:
            self._delay(context, frame, fault.delay_ms)
        elif fault.kind is FaultKind.DROP_AFTER:
            connection.abort()
        elif fault.kind is FaultKind.GARBAGE:
            connection.answer(frame[:_FRAME_HEAD_BYTES] + b"\xff" * (len(frame) - _FRAME_HEAD_BYTES))
        elif fault.kind is FaultKind.CUT_FRAME:
            connection.send(frame[: len(frame) // 2])
            connection.close()

    def _delay(self, context: RequestContext, frame: bytes, delay_ms: int) -> None:
        at_ms = self.clock.now_ms() + delay_ms
        self._delayed_count += 1
        heapq.heappush(self._delayed, (at_ms, self._delayed_count, context.connection_id, frame))

    def _arm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at_ms = self.machine.wake_at_ms()
        if self._delayed:
            at_ms = self._delayed[0][0] if at_ms is None else min(at_ms, self._delayed[0][0])
        if at_ms is None or self.clock.manual:
            return
        wait_ms = min(max(at_ms - self.clock.now_ms(), 0), _MAX_TIMER_MS)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1_000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.run()


class Connection(asyncio.Protocol):
    """One client: bytes to frames, one request in work at a time, back-pressure both ways."""

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
        self.id = self._server.connection_opened(self)

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
