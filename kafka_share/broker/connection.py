"""One client's socket: bytes to its conversation and answers to the wire, with back-pressure both ways.

Made by `BrokerServer` for each accepted client; lives on its loop. While the client does not read, its requests wait;
when too many wait, the socket is no longer read. It performs what a planned fault does to an answer.

One client must not cost the others anything: what cannot be answered ends its own connection only, many requests at
once are worked on in turns, and the rest of a request is waited for with limits of time and of bytes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final, Protocol, cast

from kafka_share.broker.conversation import Conversation
from kafka_share.broker.faults import FaultKind
from kafka_share.broker.security.authentication import AuthenticationStep
from kafka_share.broker.security.certificate_names import principal_of
from kafka_share.errors import LocalProtocolError, RemoteProtocolError
from kafka_share.harmless import excerpt
from kafka_share.protocol.messages import encode_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_share.broker.events import Message, Reply, RequestArrived
    from kafka_share.broker.faults import Fault
    from kafka_share.broker.limits import Limits
    from kafka_share.broker.security.authentication import Authentication

logger: logging.Logger = logging.getLogger(__name__)

_FRAME_HEAD_BYTES: Final = 8
"""Length and correlation id: what a garbage answer keeps right, so that the nonsense reaches the decoder."""

MAX_REQUESTS_PER_TURN: Final = 16
"""Then the loop looks at other connections first."""


class Server(Protocol):
    """What a connection asks of the server."""

    def connection_opened(self, connection: Connection) -> int:
        """A client connected; returns the connection's id."""

    def connection_closed(self, connection: Connection) -> None:
        """The connection is gone, from whichever side."""

    def offered_versions(self) -> Mapping[int, tuple[int, int]]: ...
    def new_authentication(self) -> Authentication | None:
        """What a new client has to go through; None if it need not say who it is."""

    def now_ms(self) -> int:
        """The broker's time."""

    def max_frame_bytes(self, *, is_authenticated: bool) -> int: ...
    def refusal_delay_s(self) -> float:
        """How long a client whose credentials were refused waits for that answer."""

    @property
    def limits(self) -> Limits: ...
    def requests_held(self, connection: Connection, size: int) -> None:
        """So many bytes of requests without an answer are here; the server may refuse this client, or another one."""

    def answers_unread(self, connection: Connection, size: int) -> None:
        """So many bytes of answers wait to be read; the server may refuse this client, or another one."""

    def may_complain(self) -> bool:
        """Whether there is a line of the log left for what clients do wrong."""

    def request_arrived(self, connection: Connection, arrived: RequestArrived, size: int) -> None:
        """The request is in work until `Connection.answer`, also if it wants no answer."""

    def answer_later(self, connection: Connection, frame: bytes, delay_ms: int) -> None:
        """Call `finish` with the frame when this time has passed."""

    def unmute_later(self, connection: Connection, delay_ms: int) -> None:
        """Call `unmute` when this time has passed."""


class Connection(asyncio.Protocol):
    """One client of a node."""

    def __init__(self, server: Server, node_id: int) -> None:
        self.node_id = node_id
        self.fault: Fault | None = None
        """What is to happen to the request in work."""
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._conversation = Conversation(-1, node_id, "")
        self._can_write = True
        self._pumping = False
        self._handed_over = 0
        """How many requests in this turn."""
        self._resting = False
        self._reading_paused = False
        self._half_sent_timer: asyncio.TimerHandle | None = None
        self._handshake_timer: asyncio.TimerHandle | None = None
        """Set while the client has to say who it is."""
        self._last_active_s = 0.0
        self._unread_bytes = 0
        self._is_muted = False
        """The client exceeds a quota: what it sends is left unread."""
        self._closing_timer: asyncio.TimerHandle | None = None
        """Set while a client whose credentials were refused waits for that answer."""

    @property
    def id(self) -> int:
        return self._conversation.connection_id

    @property
    def was_opened(self) -> bool:
        return self.id >= 0

    @property
    def client_host(self) -> str:
        return self._conversation.client_host

    @property
    def request(self) -> Message | None:
        """The request in work."""
        return None if self._conversation.in_work is None else self._conversation.in_work.request

    # ---- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client_host = transport.get_extra_info("peername")[0]
        self._conversation = Conversation(
            self._server.connection_opened(self),
            self.node_id,
            client_host,
            principal=principal_of(transport.get_extra_info("peercert")),
            authentication=self._server.new_authentication(),
            limits=self._server.limits,
        )
        loop = asyncio.get_running_loop()
        self._last_active_s = loop.time()
        if not self._conversation.is_authenticated:
            self._handshake_timer = loop.call_later(self._server.limits.handshake_ms / 1_000, self._still_unknown)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()

    def data_received(self, data: bytes) -> None:
        self._last_active_s = asyncio.get_running_loop().time()
        before = self._conversation.whole_frames
        try:
            limit = self._server.max_frame_bytes(is_authenticated=self._conversation.is_authenticated)
            self._conversation.received(data, limit)
        except RemoteProtocolError as error:
            self.refuse(str(error))
        self._server.requests_held(self, self._conversation.held_bytes)
        if self._conversation.whole_frames != before:
            self._stop_half_sent_timer()
        self._pump()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._can_write = False
        if self._transport is not None:
            self._server.answers_unread(self, self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._can_write = True
        self._server.answers_unread(self, 0)
        self._pump()

    # ---- for the server

    def answer(self, reply: Reply) -> None:
        """Send the answer of the request in work, or do to it what its fault wants. Another one is thrown away."""
        context = reply.context
        if not self._conversation.awaits(context):
            return
        throttle_ms = getattr(reply.response, "throttle_time_ms", 0)
        if throttle_ms:
            self._is_muted = True
            self._server.unmute_later(self, throttle_ms)
        if not self._conversation.wants_answer:
            self._end_without_answer()
            return
        try:
            frame = encode_response(context.correlation_id, reply.response, context.api_version)
        except LocalProtocolError as error:
            self.refuse(f"no answer can be sent: {error}")
            return
        kind = None if self.fault is None else self.fault.kind
        if kind is FaultKind.DELAY:
            assert self.fault is not None
            self._server.answer_later(self, frame, self.fault.delay_ms)
        elif kind is FaultKind.DROP_AFTER:
            self.abort()
        elif kind is FaultKind.CUT_FRAME:
            self._send(frame[: len(frame) // 2])
            self._close()
        elif kind is FaultKind.GARBAGE:
            self.finish(frame[:_FRAME_HEAD_BYTES] + b"\xff" * (len(frame) - _FRAME_HEAD_BYTES))
        elif kind is not FaultKind.LOSE_REPLY:
            self.finish(frame)

    def _end_without_answer(self) -> None:
        """The request in work asks for no answer; a fault that closes the connection still does."""
        if self.fault is not None and self.fault.kind in (FaultKind.DROP_AFTER, FaultKind.CUT_FRAME):
            self.abort()
        else:
            self.finish(b"")

    def unmute(self) -> None:
        """The time to wait is over."""
        self._is_muted = False
        self._pump()

    def finish(self, frame: bytes) -> None:
        """Send the answer of the request in work; the next request follows."""
        self._send(frame)
        self._conversation.ended()
        self.fault = None
        self._pump()

    def is_idle(self, limit_s: float) -> bool:
        """Whether nothing has come or gone for so long, and nothing is in work. Below 0 nobody is."""
        now_s = asyncio.get_running_loop().time()
        unread_bytes = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if unread_bytes != self._unread_bytes:
            self._unread_bytes = unread_bytes
            self._last_active_s = now_s
        works = self._conversation.in_work is not None and not unread_bytes
        return limit_s >= 0 and not works and now_s - self._last_active_s >= limit_s

    def refuse(self, why: str) -> None:
        """Close at once, and say why."""
        self._complain("closing the connection of %s: %s", why)
        self.abort()

    def _complain(self, text: str, why: str) -> None:
        if self._server.may_complain():
            logger.warning(text, self._conversation.client_host, excerpt(why))

    def abort(self) -> None:
        """Close at once."""
        transport = self._transport
        self._gone()
        if transport is not None:
            transport.abort()

    # ---- inside

    def _send(self, frame: bytes) -> None:
        if self._transport is not None and frame:
            self._last_active_s = asyncio.get_running_loop().time()
            self._transport.write(frame)

    def _close(self) -> None:
        """Close as soon as everything sent so far is out."""
        transport = self._transport
        self._gone()
        if transport is not None:
            transport.close()

    def _gone(self) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._stop_half_sent_timer()
        for timer in (self._handshake_timer, self._closing_timer):
            if timer is not None:
                timer.cancel()
        self._conversation.clear()
        self._server.connection_closed(self)

    def _pump(self) -> None:
        """Hand over one request after the other. Not re-entered: an answer may come at once."""
        if self._pumping or self._resting or self._is_muted or self._closing_timer is not None:
            return
        self._pumping = True
        try:
            while self._can_write and self._hand_over():
                pass
        finally:
            self._pumping = False
        self._regulate_reading()

    def _hand_over(self) -> bool:
        """Hand the next request to the server; returns whether there was anything to do in this turn."""
        if self._handed_over == MAX_REQUESTS_PER_TURN:
            self._resting = True
            asyncio.get_running_loop().call_soon(self._next_turn)
            return False
        try:
            arrived = self._conversation.next_request(self._server.offered_versions(), self._server.now_ms())
        except RemoteProtocolError as error:
            self.refuse(str(error))
            return False
        if arrived is None:
            return False
        self._handed_over += 1
        if isinstance(arrived, bytes):
            self._send(arrived)
        elif isinstance(arrived, AuthenticationStep):
            return self._authenticate(arrived)
        else:
            self._work_on(arrived)
        return True

    def _authenticate(self, step: AuthenticationStep) -> bool:
        """Send our part of an authentication; returns whether the connection goes on."""
        if step.failure is None:
            self._send(step.answer)
            return True
        self._complain("%s could not be authenticated: %s", step.failure)
        self._closing_timer = asyncio.get_running_loop().call_later(
            self._server.refusal_delay_s(), self._refuse_credentials, step.answer
        )
        return False

    def _refuse_credentials(self, answer: bytes) -> None:
        """Late, so that guessing passwords is slow."""
        self._send(answer)
        self._close()

    def _work_on(self, arrived: RequestArrived) -> None:
        try:
            self._server.request_arrived(self, arrived, self._conversation.in_work_bytes)
        except Exception:  # a defect of the broker costs one connection, and not the answers of others
            logger.exception("a request of %s could not be worked on", self._conversation.client_host)
            self.abort()

    def _next_turn(self) -> None:
        self._handed_over = 0
        self._resting = False
        self._pump()

    def _regulate_reading(self) -> None:
        if self._transport is not None:
            self._server.requests_held(self, self._conversation.held_bytes)
        if self._transport is None:
            return
        full = self._conversation.is_full or self._is_muted
        if full and not self._reading_paused:
            self._transport.pause_reading()
        elif self._reading_paused and not full:
            self._transport.resume_reading()
        self._reading_paused = full
        self._regulate_half_sent_timer()

    def _regulate_half_sent_timer(self) -> None:
        """It runs while the rest of a request is awaited: not while it is we who do not read."""
        awaited = self._conversation.half_sent_bytes and not self._reading_paused
        if not awaited:
            self._stop_half_sent_timer()
        elif self._half_sent_timer is None:
            limit_s = self._server.limits.half_request_ms / 1_000
            self._half_sent_timer = asyncio.get_running_loop().call_later(limit_s, self._half_sent_for_too_long)

    def _stop_half_sent_timer(self) -> None:
        if self._half_sent_timer is not None:
            self._half_sent_timer.cancel()
            self._half_sent_timer = None

    def _half_sent_for_too_long(self) -> None:
        limit_s = self._server.limits.half_request_ms / 1_000
        self.refuse(f"the rest of a request did not come within {limit_s:g} s")

    def _still_unknown(self) -> None:
        if not self._conversation.is_authenticated:
            limit_s = self._server.limits.handshake_ms / 1_000
            self.refuse(f"it did not say who it is within {limit_s:g} s")
