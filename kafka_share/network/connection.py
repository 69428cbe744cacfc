"""One connection to one broker on asyncio: the socket, TLS and the timer around a `wire.Dialogue`.

Made by `connections.Connections`, driven by callbacks of the event loop, all on the driver's thread. What is sent when,
what an answer means and when time is up is the dialogue's business. A connection is used until it is closed and never
opened again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import attrs

from kafka_share.config import ClientConfig
from kafka_share.core.events import (
    Channel,
    ConnectionLost,
    Lend,
    RequestFailed,
    ResponseReceived,
    Resume,
    Send,
)
from kafka_share.errors import AuthenticationError, BrokerUnreachableError, KafkaShareError, RemoteProtocolError
from kafka_share.native import DirectLine
from kafka_share.network.blocking import BlockingCalls, call_in_thread
from kafka_share.network.connections import ConnectionOwner
from kafka_share.network.dialing import dial
from kafka_share.network.direct import DirectSession
from kafka_share.network.framing import MAX_FRAME_BYTES, MAX_HANDSHAKE_FRAME_BYTES, FrameReceiver
from kafka_share.network.handshake import Challenge
from kafka_share.network.sasl import SaslClient, ask_token, shows_secret
from kafka_share.network.tls import tls_error
from kafka_share.network.wire import Close, Dialogue, Opened, Served, Write
from kafka_share.records import Node

log: logging.Logger = logging.getLogger(__name__)

_EVENTS: Final = (ResponseReceived, RequestFailed, ConnectionLost)
"""For the core."""


@attrs.frozen
class Surroundings:
    """What all connections of one client share."""

    settings: ClientConfig
    ssl_context: ssl.SSLContext | None
    loop: asyncio.AbstractEventLoop
    now_ms: Callable[[], int]
    """The clock of the core, which has to be the loop's."""
    calls: BlockingCalls


class Connection(asyncio.BufferedProtocol):
    """A connection to `node`, opened at once."""

    def __init__(self, node: Node, channel: Channel, owner: ConnectionOwner, surroundings: Surroundings) -> None:
        self.node = node
        self.channel = channel
        self._owner = owner
        self._surroundings = surroundings
        self._loop = surroundings.loop
        self._now_ms = surroundings.now_ms
        settings = surroundings.settings
        self._dialogue = Dialogue(node, channel, settings, owner.measurements, self._now_ms())
        self._receiver = FrameReceiver(MAX_HANDSHAKE_FRAME_BYTES)
        self._sasl = SaslClient(settings)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._direct: DirectSession | None = None
        """What was lent of this connection."""
        self._task: asyncio.Task[None] | None = None
        self._start(self._open)
        self._run(self._now_ms())

    # ---- called by its owner

    def send(self, send: Send) -> None:
        """Send a request now, or as soon as the connection can."""
        now_ms = self._now_ms()
        self._dialogue.send(send, now_ms)
        self._run(now_ms)

    def close(self, error: KafkaShareError, *, report_loss: bool = True, is_failure: bool = True) -> None:
        """Close at once; what is in flight or waiting fails with `error`. Closing again does nothing."""
        self._dialogue.close(error, self._now_ms(), report_loss=report_loss, is_failure=is_failure)
        self._run(self._now_ms())

    # ---- a session that is lent

    def lend(self, lend: Lend) -> DirectSession | None:
        """Stop using the socket, and have the application's thread use it; None where that cannot be."""
        transport = self._transport
        if transport is None or self._surroundings.ssl_context is not None or self._receiver.is_mid_frame:
            return None
        lent = self._dialogue.lend()
        if lent is None:
            return None
        transport.pause_reading()
        line = DirectLine(os.dup(transport.get_extra_info("socket").fileno()))
        self._direct = DirectSession(lend, line, lent, self._surroundings.settings.client_id, self._now_ms)
        return self._direct

    def recall(self) -> bool:
        """Have the session returned; False if the application's thread is at it, and has to be woken."""
        return self._direct is None or self._direct.recall(self._owner.emit)

    def resume(self, resume: Resume) -> None:
        """The session is back: go on where the application's thread has come to, unless this was closed meanwhile."""
        direct, self._direct = self._direct, None
        assert direct is not None, "what was not lent comes back"
        direct.line.close()  # a peer sees the end of a connection when nobody has its socket any more
        if self._dialogue.is_closed:
            if resume.send_id is not None:
                gone = BrokerUnreachableError(f"the connection to {self.node} has ended before the answer came")
                self._owner.emit(RequestFailed(resume.send_id, gone))
            return
        assert self._transport is not None
        now_ms = self._now_ms()
        self._dialogue.take_back(direct.correlation_id, resume, now_ms)
        if resume.send_id is not None:
            if direct.line.unsent:
                self._transport.write(direct.line.unsent)
            self._feed(direct.line.leftover)
        self._transport.resume_reading()
        self._run(now_ms)

    def _feed(self, received: bytes) -> None:
        """Take what others have read as if it came now."""
        left = memoryview(received)
        while left and not self._dialogue.is_closed:
            buffer = self._receiver.buffer()
            count = min(len(left), len(buffer))
            buffer[:count] = left[:count]
            self._received(count, self._now_ms())
            left = left[count:]

    # ---- opening

    def _start(self, steps: Callable[[], Awaitable[None]]) -> None:
        self._task = self._loop.create_task(self._guard(steps))
        self._task.add_done_callback(self._report_defect)

    async def _guard(self, steps: Callable[[], Awaitable[None]]) -> None:
        try:
            await steps()
        except (KafkaShareError, OSError) as error:
            self._lost(error)

    def _report_defect(self, task: asyncio.Task[None]) -> None:
        """What is left after `_guard` is our fault: it has to end the driver instead of being lost in a task."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._loop.call_exception_handler({"message": "opening a connection failed", "exception": error})

    async def _open(self) -> None:
        node, settings, context = self.node, self._surroundings.settings, self._surroundings.ssl_context
        self._log("connecting", address=f"{node.host}:{node.port}")
        sock = await dial(node.host, node.port, settings, self._surroundings.calls)
        self._dialogue.dialled()
        tls: dict[str, Any] = {}
        if context is not None:
            limit_s = settings.socket_connection_setup_timeout_ms / 1000 + 1
            tls = {"ssl": context, "server_hostname": node.host, "ssl_handshake_timeout": limit_s}
        try:
            await self._loop.create_connection(lambda: self, sock=sock, **tls)
        except BaseException:
            sock.close()
            raise

    async def _answer(self, challenge: Challenge) -> None:
        if challenge.data is None:
            await self._begin_login()
        token = await call_in_thread("kafka-share sasl", lambda: self._sasl.answer(challenge))
        self._dialogue.answered_challenge(token, self._now_ms())
        self._run_all()

    async def _begin_login(self) -> None:
        assert self._transport is not None
        settings = self._surroundings.settings
        address = str(self._transport.get_extra_info("peername")[0])
        if shows_secret(settings, address):
            self._owner.exposed(self, address)
        if settings.sasl_mechanism == "OAUTHBEARER":
            # Connections that log in at the same time share a token, and a provider that hangs is asked once.
            self._sasl.token = await self._surroundings.calls.shared("kafka-share token", lambda: ask_token(settings))

    # ---- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._dialogue.is_closed:
            self._transport.abort()
        self._dialogue.connected(self._now_ms())
        self._run_all()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._dialogue.is_closed:
            return
        now_ms = self._now_ms()
        self._received(nbytes, now_ms)
        self._run_all(now_ms)

    def _received(self, count: int, now_ms: int) -> None:
        try:
            for frame in self._receiver.received(count):
                if log.isEnabledFor(logging.DEBUG):
                    self._log("received", bytes=len(frame))
                self._dialogue.received(frame, now_ms)
        except (RemoteProtocolError, AuthenticationError) as error:
            self._dialogue.received_nonsense(error, now_ms)

    def pause_writing(self) -> None:
        self._dialogue.pause()

    def resume_writing(self) -> None:
        self._dialogue.resume()
        self._run_all()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(exc)

    def _lost(self, cause: Exception | None) -> None:
        if isinstance(cause, ssl.SSLError):
            cause = tls_error(cause, f"{self.node.host}:{self.node.port}")
        self._dialogue.lost(cause, self._now_ms(), is_mid_frame=self._receiver.is_mid_frame)
        self._run_all()

    # ---- the dialogue's outputs

    def _run_all(self, now_ms: int | None = None) -> None:
        """Perform what the dialogue wants, then have the core look at what has come of it."""
        self._run(self._now_ms() if now_ms is None else now_ms)
        self._owner.step()

    def _run(self, now_ms: int) -> None:
        dialogue, emit = self._dialogue, self._owner.emit
        while outputs := dialogue.poll(now_ms):
            for output in outputs:
                if isinstance(output, _EVENTS):
                    emit(output)
                else:
                    self._perform(output)
        if self._timer is None or self._timer_at_ms > dialogue.look_at_ms:
            self._arm()

    def _perform(self, output: Write | Challenge | Opened | Served | Close) -> None:
        if isinstance(output, Write):
            assert self._transport is not None
            self._transport.write(output.data)
            if log.isEnabledFor(logging.DEBUG):
                self._log("sent", api=output.api_name, version=output.version, correlation_id=output.correlation_id)
        elif isinstance(output, Challenge):
            self._start(partial(self._answer, output))
        elif isinstance(output, Opened):
            self._receiver.max_frame_bytes = MAX_FRAME_BYTES
            self._owner.opened(self)
        elif isinstance(output, Served):
            self._owner.served(self)
        else:
            self._end(output)

    def _end(self, close: Close) -> None:
        self._owner.closed(self, close)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            if self._direct is not None:
                self._direct.line.shut()
            self._transport.abort()
        if self._task is not None and self._task is not asyncio.current_task(self._loop):
            self._task.cancel()

    def _arm(self) -> None:
        """One timer, never later than the dialogue wants. An earlier one stays: moving it costs more than a look."""
        wake_at_ms = self._dialogue.wake_at_ms()
        if self._timer is not None:
            if wake_at_ms is not None and self._timer_at_ms <= wake_at_ms:
                return
            self._timer.cancel()
            self._timer = None
        if wake_at_ms is not None:
            self._timer_at_ms = wake_at_ms
            self._timer = self._loop.call_at(wake_at_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._run_all()

    def _log(self, event: str, **values: Any) -> None:
        if log.isEnabledFor(logging.DEBUG):
            pairs = "".join(f" {key}={value}" for key, value in values.items())
            log.debug("%s node=%d channel=%s%s", event, self.node.id, self.channel.value, pairs)
