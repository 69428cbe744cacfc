"""One connection to one broker: asyncio protocol, requests in flight, their deadlines.

Made by `connections.Connections`, driven by callbacks of the event loop, all on the driver's thread. Every request
given to `send` ends in exactly one `ResponseReceived` or `RequestFailed`, whatever the peer does. A connection is used
until it is closed and never opened again; it repeats nothing.

States::

    opening ──► ready ◄──► authenticating again     (KIP-368: before the session's lifetime ends)
       │          │              │
       └──────────┴──────────────┴──► closed        error, timeout, idle, asked for

Requests that come while it is not ready, or while the peer does not read, wait in `_waiting`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import attrs

from kafka_share.config import ClientConfig
from kafka_share.core.events import Channel, ConnectionLost, Event, RequestFailed, ResponseReceived, Send
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    KafkaShareError,
    NetworkError,
    RemoteProtocolError,
)
from kafka_share.network import security
from kafka_share.network.dialing import dial
from kafka_share.network.framing import LENGTH_BYTES, FrameReceiver
from kafka_share.network.handshake import agree_on_versions, authenticate
from kafka_share.network.logs import log_event
from kafka_share.protocol import messages
from kafka_share.protocol.versions import VersionRanges, choose_version
from kafka_share.records import Node

log = logging.getLogger(__name__)

MAX_WAITING: Final = 1_000
"""Requests that wait for one connection. A core has a handful; more means that it sends without looking."""
REAUTHENTICATE_AFTER: Final = 0.85
"""Part of the session's lifetime after which it is renewed (Java: 85 to 95 %)."""


@attrs.define
class _InFlight:
    correlation_id: int
    api_key: int
    api_name: str
    version: int
    sent_at: float
    deadline_at: float
    send_id: int | None
    answer: asyncio.Future[Any] | None
    """Of a request of the handshake, which has no `send_id`."""


@attrs.frozen
class ConnectionOwner:
    """What a connection reports to."""

    emit: Callable[[Event], None]
    step: Callable[[], None]
    """Run the core: called at the end of each callback that emitted something."""
    closed: Callable[[Connection, KafkaShareError, bool], None]
    """(connection, why, was it asked for): called once, before the events of its end."""
    measurements: Measurements = attrs.field(factory=Measurements)


class Connection(asyncio.BufferedProtocol):
    """A connection to `node`, opened at once. Times are seconds of the loop's clock."""

    def __init__(
        self,
        node: Node,
        channel: Channel,
        settings: ClientConfig,
        ssl_context: ssl.SSLContext | None,
        owner: ConnectionOwner,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.node = node
        self.channel = channel
        self.is_closed = False
        self._settings = settings
        self._ssl_context = ssl_context
        self._owner = owner
        self._measurements = owner.measurements
        self._loop = loop
        self._address = f"{node.host}:{node.port}"
        self._phase = "connecting"
        self._transport: asyncio.Transport | None = None
        self._receiver = FrameReceiver()
        self._versions: VersionRanges = {}
        self._was_ready = self._is_ready = False
        self._has_answered = False
        self._is_write_paused = False
        self._correlation_id = 0
        self._in_flight: deque[_InFlight] = deque()
        self._waiting: deque[tuple[Send, float]] = deque()
        self._active_at = loop.time()
        self._setup_ends_at: float | None = None
        self._reauthenticate_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._start_setup(self._open)

    # ---- requests

    def send(self, send: Send) -> None:
        """Send a request now, or as soon as the connection can. `send.timeout_ms` runs from now."""
        assert not self.is_closed
        deadline_at = self._loop.time() + send.timeout_ms / 1000
        if self._is_ready and not self._is_write_paused and not self._waiting:
            self._send(send, deadline_at)
        elif len(self._waiting) < MAX_WAITING:
            self._waiting.append((send, deadline_at))
            self._measurements.unsent_count += 1
        else:
            self._fail(send.send_id, BrokerUnreachableError(f"too many requests are waiting for {self._address}"))
        self._arm(deadline_at)

    def _send(self, send: Send, deadline_at: float) -> None:
        try:
            version = choose_version(send.request, self._versions, send.min_version)
            self._write(send.request, version, deadline_at, send.send_id, None)
            now_ms = self._now_ms()
            waited_ms = now_ms - round(deadline_at * 1000) + send.timeout_ms
            self._measurements.unsent_waits.record(max(0, waited_ms), now_ms)
        except KafkaShareError as error:
            self._fail(send.send_id, error)

    def _write(
        self, request: Any, version: int, deadline_at: float, send_id: int | None, answer: asyncio.Future[Any] | None
    ) -> None:
        assert self._transport is not None
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        data = messages.encode_request(request, version, correlation_id, self._settings.client_id)
        now = self._loop.time()
        self._in_flight.append(
            _InFlight(correlation_id, request.API_KEY, _name(request), version, now, deadline_at, send_id, answer)
        )
        self._transport.write(data)
        self._measurements.request_sent(self.node.id, len(data), int(now * 1000))
        if log.isEnabledFor(logging.DEBUG):
            self._log("sent", api=_name(request), version=version, correlation_id=correlation_id, bytes=len(data))

    def _flush(self) -> None:
        while self._waiting and self._is_ready and not self._is_write_paused and not self.is_closed:
            self._measurements.unsent_count -= 1
            self._send(*self._waiting.popleft())

    def _fail(self, send_id: int, error: KafkaShareError) -> None:
        self._owner.emit(RequestFailed(send_id, error))

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    # ---- opening

    def _start_setup(self, steps: Callable[[], Awaitable[None]]) -> None:
        self._setup_ends_at = self._loop.time() + self._settings.socket_connection_setup_timeout_ms / 1000
        self._task = self._loop.create_task(self._guard_setup(steps))
        self._task.add_done_callback(self._report_defect)
        self._arm(self._setup_ends_at)

    async def _guard_setup(self, steps: Callable[[], Awaitable[None]]) -> None:
        try:
            await steps()
        except KafkaShareError as error:
            self.close(error)
            return
        except ssl.SSLError as error:
            self.close(security.tls_error(error, self._address))
            return
        except OSError as error:
            self.close(self._broken(error))
            return
        self._setup_ends_at = None
        if not self._was_ready:
            self._measurements.connection_opened(self._now_ms())
            fields: dict[str, str | int] = {"node_id": self.node.id, "channel": self.channel.value}
            log_event("connection-made", fields, self._measurements.labels)
        self._is_ready = self._was_ready = True
        self._phase = "open"
        self._active_at = self._loop.time()
        self._flush()
        self._arm(self._active_at + self._settings.connections_max_idle_ms / 1000)
        self._owner.step()

    def _report_defect(self, task: asyncio.Task[None]) -> None:
        """What is left after `_guard_setup` is our fault: it has to end the driver instead of being lost in a task."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._loop.call_exception_handler({"message": "opening a connection failed", "exception": error})

    async def _open(self) -> None:
        self._log("connecting", address=self._address)
        sock = await dial(self.node.host, self.node.port, self._settings)
        limit_s = self._settings.socket_connection_setup_timeout_ms / 1000
        tls: dict[str, Any] = {}
        if self._ssl_context is not None:
            self._phase = "TLS handshake"
            tls = {"ssl": self._ssl_context, "server_hostname": self.node.host, "ssl_handshake_timeout": limit_s + 1}
        try:
            await self._loop.create_connection(lambda: self, sock=sock, **tls)
        except BaseException:
            sock.close()
            raise
        self._phase = "agreeing on versions"
        self._versions = await agree_on_versions(self._exchange)
        await self._authenticate()

    async def _authenticate(self) -> None:
        if not self._settings.uses_sasl:
            return
        self._phase = "SASL authentication"
        began_at = self._loop.time()
        lifetime_ms = await authenticate(self._exchange, self._settings, self._versions)
        took_ms = (self._loop.time() - began_at) * 1000
        measured = self._measurements.reauthentications if self._was_ready else self._measurements.authentications
        measured.record(took_ms, self._now_ms())
        self._reauthenticate_at = None
        if lifetime_ms:
            self._reauthenticate_at = self._loop.time() + lifetime_ms / 1000 * REAUTHENTICATE_AFTER
            self._arm(self._reauthenticate_at)

    async def _exchange(self, request: Any, version: int) -> Any:
        if self.is_closed:
            raise BrokerUnreachableError(f"the connection to {self._address} is closed")
        answer: asyncio.Future[Any] = self._loop.create_future()
        assert self._setup_ends_at is not None
        self._write(request, version, self._setup_ends_at, None, answer)
        return await answer

    def _reauthenticate_when_quiet(self) -> None:
        """Hold new requests back; once the answers to the old ones are here, authenticate again."""
        self._is_ready = False
        if not self._in_flight and self._setup_ends_at is None:
            self._start_setup(self._authenticate)

    # ---- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_closed:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_closed:
            return
        try:
            for frame in self._receiver.received(nbytes):
                self._answered(frame)
        except (RemoteProtocolError, AuthenticationError) as error:
            kind = AuthenticationError if isinstance(error, AuthenticationError) else RemoteProtocolError
            self._refuse(kind(f"{self._address}: {error}"))
            return
        if self._reauthenticate_at is not None and not self._is_ready and not self._in_flight:
            self._reauthenticate_when_quiet()
        self._owner.step()

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._flush()
        self._owner.step()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_closed:
            self.close(self._broken(exc))

    # ---- answers

    def _answered(self, frame: bytes | memoryview) -> None:
        if not self._in_flight:
            raise RemoteProtocolError("the peer sent an answer that nobody asked for")
        first = self._in_flight[0]
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != first.correlation_id:
            raise RemoteProtocolError(
                f"the peer answered request {correlation_id}, but the next answer belongs to {first.correlation_id}"
            )
        _, response = messages.decode_response(first.api_key, first.version, frame)
        self._in_flight.popleft()
        self._active_at = now = self._loop.time()
        latency_ms = (now - first.sent_at) * 1000
        self._measurements.response_received(self.node.id, len(frame) + LENGTH_BYTES, latency_ms, int(now * 1000))
        if log.isEnabledFor(logging.DEBUG):
            self._log("received", api=_name(response), correlation_id=correlation_id, bytes=len(frame))
        if first.answer is None:
            assert first.send_id is not None
            self._has_answered = True
            self._owner.emit(ResponseReceived(first.send_id, response))
        elif not first.answer.done():
            first.answer.set_result(response)

    def _refuse(self, error: KafkaShareError) -> None:
        """The peer's bytes make no sense: the request that they should have answered gets that error."""
        if self._in_flight and self._in_flight[0].send_id is not None:
            self._fail(cast(int, self._in_flight.popleft().send_id), error)
        self.close(error)

    # ---- time

    def _arm(self, at: float) -> None:
        """See to it that `_on_timer` runs at `at` or before; it finds out by itself what for."""
        if self.is_closed:
            return
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = next((entry for entry in self._in_flight if entry.deadline_at <= now), None)
        if self._setup_ends_at is not None and self._setup_ends_at <= now:
            limit_ms = self._settings.socket_connection_setup_timeout_ms
            self.close(BrokerUnreachableError(f"{self._address} was not ready within {limit_ms} ms ({self._phase})"))
        elif late is not None:
            # The answer may still come, and all later ones are behind it: this connection is of no use any more.
            self.close(BrokerUnreachableError(f"{self._address} did not answer {late.api_name} in time"))
        elif self._is_idle() and now >= self._active_at + self._settings.connections_max_idle_ms / 1000:
            idle = BrokerUnreachableError(f"the connection to {self._address} was idle and has been closed")
            self.close(idle, is_failure=False)
        else:
            self._fail_waiting(now)
            if self._reauthenticate_at is not None and self._reauthenticate_at <= now:
                self._reauthenticate_when_quiet()
            self._arm(self._next_deadline_at(now))
            self._owner.step()

    def _is_idle(self) -> bool:
        return self._is_ready and not self._in_flight and not self._waiting

    def _fail_waiting(self, now: float) -> None:
        late = [entry for entry in self._waiting if entry[1] <= now]
        for entry in late:
            self._waiting.remove(entry)
            self._measurements.unsent_count -= 1
            self._fail(
                entry[0].send_id, BrokerUnreachableError(f"{self._address} was not ready in time ({self._phase})")
            )

    def _next_deadline_at(self, now: float) -> float:
        deadlines = [entry.deadline_at for entry in self._in_flight]
        deadlines += [deadline_at for _, deadline_at in self._waiting]
        deadlines += [at for at in (self._setup_ends_at, self._reauthenticate_at) if at is not None and at > now]
        # A busy connection is looked at again too: no other timer runs once its answers have come.
        deadlines.append((self._active_at if self._is_idle() else now) + self._settings.connections_max_idle_ms / 1000)
        return min(deadlines)

    # ---- the end

    def close(self, error: KafkaShareError, *, report_loss: bool = True, is_failure: bool = True) -> None:
        """Close at once; every request under way or waiting fails with `error`. Closing again does nothing.

        `ConnectionLost` follows, unless the connection was never ready or `report_loss` is False. `is_failure` is
        False where closing is nothing to warn about.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._measure_end(error)
        self._owner.closed(self, error, not is_failure)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        in_flight, self._in_flight = self._in_flight, deque()
        waiting, self._waiting = self._waiting, deque()
        for entry in in_flight:
            if entry.send_id is not None:
                self._fail(entry.send_id, error)
            elif entry.answer is not None and not entry.answer.done():
                entry.answer.cancel()
        for send, _ in waiting:
            self._fail(send.send_id, error)
        if self._was_ready and report_loss:
            self._owner.emit(ConnectionLost(self.node.id, self.channel, error))
        if self._transport is not None:
            self._transport.abort()
        if self._task is not None and self._task is not asyncio.current_task(self._loop):
            self._task.cancel()
        self._owner.step()

    def _measure_end(self, error: KafkaShareError) -> None:
        measurements, now_ms = self._measurements, self._now_ms()
        measurements.unsent_count -= len(self._waiting)
        if isinstance(error, AuthenticationError):
            failed = measurements.failed_reauthentications if self._was_ready else measurements.failed_authentications
            failed.record(1, now_ms)
        if self._was_ready:
            measurements.connection_ended(now_ms)

    def _broken(self, cause: BaseException | None) -> NetworkError:
        """What the end of the connection by the peer or the network means, with a guess at a wrong setting."""
        if isinstance(cause, (AuthenticationError, BrokerUnreachableError)):
            return cause
        if isinstance(cause, ssl.SSLError):
            return security.tls_error(cause, self._address)
        what = (
            f"the connection to {self._address} broke: {cause}"
            if cause and str(cause)
            else (f"{self._address} closed the connection")
        )
        return BrokerUnreachableError(what + self._hint())

    def _hint(self) -> str:
        if self._phase == "TLS handshake":
            return " during the TLS handshake: does its listener speak TLS? If not, set security_protocol accordingly"
        if self._phase == "agreeing on versions":
            other = "does its listener demand a client certificate?" if self._ssl_context else "does it speak TLS?"
            return f" before its first answer: {other}"
        if self._phase == "SASL authentication":
            return " during SASL authentication"
        if self._receiver.is_mid_frame:
            return " in the middle of an answer"
        if not self._has_answered and not self._settings.uses_sasl:
            return " without an answer: does its listener demand SASL?"
        return ""

    def _log(self, event: str, **values: Any) -> None:
        if log.isEnabledFor(logging.DEBUG):
            pairs = "".join(f" {key}={value}" for key, value in values.items())
            log.debug("%s node=%d channel=%s%s", event, self.node.id, self.channel.value, pairs)


def _name(message: Any) -> str:
    return type(message).__name__
