"""One connection's dialogue with a broker, as a machine without I/O: what is sent when, and what an answer means.

Driven by `connection.Connection` on a socket, and by the simulation of the tests on a virtual wire: call a method, then
`poll(now_ms)` until it returns nothing, perform the outputs, arm a timer for `wake_at_ms()`. Every request given to
`send` ends in exactly one `ResponseReceived` or `RequestFailed`, whatever the peer does. A dialogue repeats nothing and
never begins again. Here are no sockets, clocks, logs; times are milliseconds of one clock. States::

    connecting ──► TLS ──► versions ──► SASL ──► open ──► draining     (KIP-368: before the session's lifetime ends)
        │           │         │          ▲ │       │         │ │
        │           │         │          │ │       │         │ │
        │           │         │          └─────────────────────┘ once the last answer is here
        └───────────┴─────────┴────────────┴───────┴─────────┴───► closed   error, timeout, idle, asked for

Requests that come while it is not open, or while the peer does not read, wait in `_waiting`.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Any, Final, TypeAlias

import attrs

from kafka_share.config import ClientConfig
from kafka_share.core.events import Channel, ConnectionLost, RequestFailed, ResponseReceived, Resume, Send
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    KafkaShareError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from kafka_share.network.framing import LENGTH_BYTES
from kafka_share.network.handshake import Challenge, Exchange, Steps, Token, agree_on_versions, authenticate
from kafka_share.protocol import messages
from kafka_share.protocol.api_message import ApiMessage
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.versions import VersionRanges, choose_version
from kafka_share.records import Node

MAX_WAITING: Final = 1_000
"""Requests that wait for one connection. A core has a handful; more means that it sends without looking."""
SHORTEST_SESSION_MS: Final = 1_000
"""Sessions that end sooner are not renewed in time: the connection breaks, and is opened with back-off."""
REAUTHENTICATE_AFTER: Final = 0.85
"""Part of the session's lifetime after which it is renewed (Java: 85 to 95 %)."""


class Phase(enum.Enum):
    """Where a dialogue stands; the values stand in error messages."""

    CONNECTING = "connecting"
    TLS = "TLS handshake"
    VERSIONS = "agreeing on versions"
    SASL = "SASL authentication"
    OPEN = "open"
    DRAINING = "waiting to authenticate again"
    CLOSED = "closed"


@attrs.frozen
class Write:
    """Send these bytes: one request, which the other fields name for a log."""

    data: bytes
    api_name: str
    version: int
    correlation_id: int


@attrs.frozen
class Opened:
    """Requests are sent from now on. Comes once, and not again after a renewed authentication."""


@attrs.frozen
class Served:
    """The peer has answered a request of the core: it is a broker, and takes us. Comes once."""


@attrs.frozen
class Close:
    """Close the connection: the last output, except for the events about what ends with it.

    `is_failure` is False where closing is nothing to warn about.
    """

    error: KafkaShareError
    is_failure: bool


WireOutput: TypeAlias = Write | Challenge | Opened | Served | Close | ResponseReceived | RequestFailed | ConnectionLost
"""Of these the last three are events for the core."""


@attrs.frozen
class Lent:
    """What somebody else has to know to go on with a connection: versions, and the latest correlation id."""

    fetch_version: int
    acknowledge_version: int
    correlation_id: int
    due_at_ms: int | None = None
    """When the connection has to authenticate again."""


@attrs.define
class _SentRequest:
    correlation_id: int
    api_key: int
    api_name: str
    version: int
    sent_at_ms: int
    deadline_at_ms: int
    send_id: int | None
    """None: a request of the handshake."""


class Dialogue:
    """See the module's docstring. It begins `now_ms`, with a node that is still to be connected to."""

    def __init__(
        self, node: Node, channel: Channel, settings: ClientConfig, measurements: Measurements, now_ms: int
    ) -> None:
        self._node = node
        self._channel = channel
        self._settings = settings
        self._measurements = measurements
        self._address = f"{node.host}:{node.port}"
        self._phase = Phase.CONNECTING
        self._has_opened = self._has_answered = self._is_paused = self._is_lent = False
        self._steps: Steps[Any] | None = None
        self._setup_ends_at_ms: int | None = now_ms + settings.socket_connection_setup_timeout_ms
        self._sasl_began_at_ms = now_ms
        self._reauthenticate_at_ms: int | None = None
        self._active_at_ms = now_ms
        self.look_at_ms: int = now_ms
        """No deadline is before this: until then `poll` does not look."""
        self._versions: VersionRanges = {}
        self._chosen: dict[tuple[type, int], int] = {}
        """The version of each kind of request that was sent, by the lowest that would do."""
        self._correlation_id = 0
        self._in_flight: deque[_SentRequest] = deque()
        self._waiting: deque[tuple[Send, int]] = deque()
        self._outputs: list[WireOutput] = []

    @property
    def is_closed(self) -> bool:
        return self._phase is Phase.CLOSED

    # ---- requests

    def send(self, send: Send, now_ms: int) -> None:
        """A request, to be sent as soon as can be. `send.timeout_ms` runs from now."""
        assert not self._is_lent, "a request on a connection that is lent"
        assert self._phase is not Phase.CLOSED, "a request for a connection that is closed"
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((send, self._deadline(now_ms + send.timeout_ms)))
            self._measurements.unsent_count += 1
        else:
            self._fail(send.send_id, BrokerUnreachableError(f"too many requests are waiting for {self._address}"))

    def pause(self) -> None:
        """The peer does not read: requests wait."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False

    # ---- opening

    def dialled(self) -> None:
        """There is a TCP connection. `connected` follows, at once or after the TLS handshake."""
        if self._settings.uses_tls and not self.is_closed:
            self._phase = Phase.TLS

    def connected(self, now_ms: int) -> None:
        """Bytes can be exchanged."""
        if not self.is_closed:
            self._phase = Phase.VERSIONS
            self._begin(agree_on_versions(), now_ms)

    def answered_challenge(self, token: Token, now_ms: int) -> None:
        """The mechanism's answer to the last `Challenge`."""
        if not self.is_closed:
            self._go_on(token, now_ms)

    def _begin(self, steps: Steps[Any], now_ms: int) -> None:
        self._steps = steps
        self._go_on(None, now_ms)

    def _go_on(self, value: Any, now_ms: int) -> None:
        assert self._steps is not None, "an answer to no step"
        try:
            step = self._steps.send(value)
            if isinstance(step, Challenge):
                self._outputs.append(step)
            else:
                self._exchange(step, now_ms)
        except StopIteration as end:
            self._steps = None
            self._finish_step(end.value, now_ms)
        except KafkaShareError as error:
            self.close(error, now_ms)

    def _exchange(self, step: Exchange, now_ms: int) -> None:
        assert self._setup_ends_at_ms is not None
        self._write(step.request, step.version, self._setup_ends_at_ms, None, now_ms)

    def _finish_step(self, result: Any, now_ms: int) -> None:
        if self._phase is Phase.VERSIONS:
            self._versions, self._chosen = result, {}
            if self._settings.uses_sasl:
                self._authenticate(now_ms)
                return
        else:
            self._authenticated(result, now_ms)
        self._open(now_ms)

    def _authenticate(self, now_ms: int) -> None:
        self._phase = Phase.SASL
        self._sasl_began_at_ms = now_ms
        self._begin(authenticate(self._settings.sasl_mechanism or "", self._versions), now_ms)

    def _authenticated(self, lifetime_ms: int, now_ms: int) -> None:
        measured = self._measurements.reauthentications if self._has_opened else self._measurements.authentications
        measured.record(now_ms - self._sasl_began_at_ms, now_ms)
        session_ms = max(lifetime_ms, SHORTEST_SESSION_MS)
        self._reauthenticate_at_ms = now_ms + int(session_ms * REAUTHENTICATE_AFTER) if lifetime_ms > 0 else None

    def _open(self, now_ms: int) -> None:
        if not self._has_opened:
            self._has_opened = True
            self._measurements.connection_opened(now_ms)
            self._outputs.append(Opened())
        self._phase = Phase.OPEN
        self._setup_ends_at_ms = None
        self._active_at_ms = self.look_at_ms = now_ms

    # ---- a connection that is lent

    def lend(self) -> Lent | None:
        """Somebody else sends ShareFetch and ShareAcknowledge from now on, until `resume`. Until then nothing is sent
        and nothing closed. None: it cannot be lent now.
        """
        fetch_version = self._chosen.get((ShareFetchRequest, 0))
        if fetch_version is None or self._phase is not Phase.OPEN or not self._is_idle or self._is_paused:
            return None
        try:
            acknowledge_version = self._version_of(ShareAcknowledgeRequest)
        except UnsupportedVersionError:
            return None
        self._is_lent = True
        return Lent(fetch_version, acknowledge_version, self._correlation_id, self._reauthenticate_at_ms)

    def take_back(self, correlation_id: int, resume: Resume, now_ms: int) -> None:
        """Others have sent requests up to this one, of which the last may await its answer."""
        self._is_lent = False
        self._correlation_id = correlation_id
        self._active_at_ms = self.look_at_ms = now_ms
        if resume.send_id is None:
            return
        kind: type[ApiMessage] = ShareFetchRequest if resume.is_fetch else ShareAcknowledgeRequest
        version, key, name = self._version_of(kind), kind.API_KEY, kind.__name__
        deadline_at_ms = self._deadline(resume.sent_at_ms + resume.timeout_ms)
        self._in_flight.append(
            _SentRequest(correlation_id, key, name, version, resume.sent_at_ms, deadline_at_ms, resume.send_id)
        )

    # ---- answers

    def received(self, frame: bytes | memoryview, now_ms: int) -> None:
        """The peer has sent a whole frame; `frame` is without its length."""
        if self._phase is Phase.CLOSED:
            return
        try:
            sent, response = self._decode(frame)
        except RemoteProtocolError as error:
            self.received_nonsense(error, now_ms)
            return
        self._in_flight.popleft()
        self._active_at_ms = now_ms
        self._deadline(now_ms + self._settings.connections_max_idle_ms)
        latency_ms = now_ms - sent.sent_at_ms
        self._measurements.response_received(self._node.id, len(frame) + LENGTH_BYTES, latency_ms, now_ms)
        if sent.send_id is None:
            self._go_on(response, now_ms)
        else:
            if not self._has_answered:
                self._has_answered = True
                self._outputs.append(Served())
            self._outputs.append(ResponseReceived(sent.send_id, response))

    def _decode(self, frame: bytes | memoryview) -> tuple[_SentRequest, Any]:
        if not self._in_flight:
            raise RemoteProtocolError("the peer sent an answer that nobody asked for")
        sent = self._in_flight[0]
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != sent.correlation_id:
            raise RemoteProtocolError(
                f"the peer answered request {correlation_id}, but the next answer belongs to {sent.correlation_id}"
            )
        return sent, messages.decode_response(sent.api_key, sent.version, frame)[1]

    def received_nonsense(self, error: RemoteProtocolError | AuthenticationError, now_ms: int) -> None:
        """The peer's bytes make no sense, or come from a listener of another security protocol."""
        kind = AuthenticationError if isinstance(error, AuthenticationError) else RemoteProtocolError
        self.close(kind(f"{self._address}: {error}"), now_ms)

    # ---- time

    def poll(self, now_ms: int) -> list[WireOutput]:
        """Look at the time and send what can be sent; at most one waiting request, so that `pause` can come between."""
        if now_ms >= self.look_at_ms:
            self._look_at_deadlines(now_ms)
        if self._phase is Phase.DRAINING and not self._in_flight:
            self._authenticate_again(now_ms)
        if self._waiting and self._phase is Phase.OPEN and not self._is_paused:
            self._send(*self._waiting.popleft(), now_ms)
        outputs, self._outputs = self._outputs, []
        return outputs

    def _look_at_deadlines(self, now_ms: int) -> None:
        late = next((sent for sent in self._in_flight if sent.deadline_at_ms <= now_ms), None)
        if self._setup_ends_at_ms is not None and self._setup_ends_at_ms <= now_ms:
            limit_ms = self._settings.socket_connection_setup_timeout_ms
            what = f"{self._address} was not ready within {limit_ms} ms ({self._phase.value})"
            self.close(BrokerUnreachableError(what), now_ms)
        elif late is not None:
            # The answer may still come, and all later ones are behind it: this connection is of no use any more.
            self.close(BrokerUnreachableError(f"{self._address} did not answer {late.api_name} in time"), now_ms)
        elif self._is_idle and now_ms >= self._active_at_ms + self._settings.connections_max_idle_ms:
            idle = BrokerUnreachableError(f"the connection to {self._address} was idle and has been closed")
            self.close(idle, now_ms, is_failure=False)
        else:
            self._fail_late_waiting(now_ms)
            self._drain_when_due(now_ms)
        self.look_at_ms = self.wake_at_ms() or now_ms

    @property
    def _is_idle(self) -> bool:
        return self._phase is Phase.OPEN and not (self._in_flight or self._waiting or self._is_lent)

    def _fail_late_waiting(self, now_ms: int) -> None:
        for entry in [entry for entry in self._waiting if entry[1] <= now_ms]:
            self._waiting.remove(entry)
            self._measurements.unsent_count -= 1
            what = f"{self._address} was not ready in time ({self._phase.value})"
            self._fail(entry[0].send_id, BrokerUnreachableError(what))

    def _drain_when_due(self, now_ms: int) -> None:
        """Before the session ends: hold new requests back until the old ones are answered."""
        due_at_ms = self._reauthenticate_at_ms
        if self._phase is Phase.OPEN and due_at_ms is not None and due_at_ms <= now_ms and not self._is_lent:
            self._phase = Phase.DRAINING

    def _authenticate_again(self, now_ms: int) -> None:
        self._setup_ends_at_ms = self._deadline(now_ms + self._settings.socket_connection_setup_timeout_ms)
        self._authenticate(now_ms)

    def _deadline(self, at_ms: int) -> int:
        """A new deadline, which `poll` will look at."""
        if at_ms < self.look_at_ms:
            self.look_at_ms = at_ms
        return at_ms

    def wake_at_ms(self) -> int | None:
        """When to call `poll` if nothing else happens; None once it is closed."""
        times = [sent.deadline_at_ms for sent in self._in_flight]
        times += [deadline_at_ms for _, deadline_at_ms in self._waiting]
        if self._setup_ends_at_ms is not None:
            times.append(self._setup_ends_at_ms)
        if self._phase is Phase.OPEN and self._reauthenticate_at_ms is not None and not self._is_lent:
            times.append(self._reauthenticate_at_ms)
        if self._is_idle:
            times.append(self._active_at_ms + self._settings.connections_max_idle_ms)
        return min(times, default=None)

    # ---- sending

    def _send(self, send: Send, deadline_at_ms: int, now_ms: int) -> None:
        self._measurements.unsent_count -= 1
        try:
            version = self._version_of(type(send.request), send.min_version)
            self._write(send.request, version, deadline_at_ms, send.send_id, now_ms)
        except KafkaShareError as error:
            self._fail(send.send_id, error)
            return
        self._measurements.unsent_waits.record(now_ms - deadline_at_ms + send.timeout_ms, now_ms)

    def _version_of(self, kind: type[ApiMessage], min_version: int = 0) -> int:
        """Raises `UnsupportedVersionError`."""
        key = kind, min_version
        version = self._chosen.get(key)
        if version is None:
            version = self._chosen[key] = choose_version(kind, self._versions, min_version)
        return version

    def _write(self, request: Any, version: int, deadline_at_ms: int, send_id: int | None, now_ms: int) -> None:
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        data = messages.encode_request(request, version, correlation_id, self._settings.client_id)
        name = type(request).__name__
        self._in_flight.append(
            _SentRequest(correlation_id, request.API_KEY, name, version, now_ms, deadline_at_ms, send_id)
        )
        self._outputs.append(Write(data, name, version, correlation_id))
        self._measurements.request_sent(self._node.id, len(data), now_ms)

    def _fail(self, send_id: int, error: KafkaShareError) -> None:
        self._outputs.append(RequestFailed(send_id, error))

    # ---- the end

    def lost(self, cause: Exception | None, now_ms: int, *, is_mid_frame: bool = False) -> None:
        """The peer or the network has ended the connection, perhaps before it was one."""
        if isinstance(cause, KafkaShareError):
            self.close(cause, now_ms)
            return
        what = f"{self._address} closed the connection"
        if cause is not None and str(cause):
            what = f"the connection to {self._address} broke: {cause}"
        self.close(BrokerUnreachableError(what + self._hint(is_mid_frame)), now_ms)

    def _hint(self, is_mid_frame: bool) -> str:
        """A guess at a wrong setting."""
        if self._phase is Phase.TLS:
            return " during the TLS handshake: does its listener speak TLS? If not, set security_protocol accordingly"
        if self._phase is Phase.VERSIONS:
            tls = self._settings.uses_tls
            other = "does its listener demand a client certificate?" if tls else "does it speak TLS?"
            return f" before its first answer: {other}"
        if self._phase is Phase.SASL:
            return " during SASL authentication"
        if is_mid_frame:
            return " in the middle of an answer"
        if not self._has_answered and not self._settings.uses_sasl and self._channel is Channel.CONTROL:
            return " without an answer: does its listener demand SASL?"
        return ""

    def close(self, error: KafkaShareError, now_ms: int, *, report_loss: bool = True, is_failure: bool = True) -> None:
        """Close at once; every request in flight or waiting fails with `error`. Closing again does nothing.

        `ConnectionLost` follows, unless the connection was never open or `report_loss` is False.
        """
        if self.is_closed:
            return
        self._measure_end(error, now_ms)
        self._phase = Phase.CLOSED
        self._steps = self._setup_ends_at_ms = None
        self._outputs.append(Close(error, is_failure))
        for sent in self._in_flight:
            if sent.send_id is not None:
                self._fail(sent.send_id, error)
        for send, _ in self._waiting:
            self._fail(send.send_id, error)
        self._in_flight.clear()
        self._waiting.clear()
        if self._has_opened and report_loss:
            self._outputs.append(ConnectionLost(self._node.id, self._channel, error))

    def _measure_end(self, error: KafkaShareError, now_ms: int) -> None:
        measurements = self._measurements
        measurements.unsent_count -= len(self._waiting)
        if isinstance(error, AuthenticationError):
            again = self._has_opened
            failed = measurements.failed_reauthentications if again else measurements.failed_authentications
            failed.record(1, now_ms)
        if self._has_opened:
            measurements.connection_ended(now_ms)

    def check(self) -> None:
        """Assert the invariants; tests and the simulation call it."""
        is_setting_up = self._phase not in (Phase.OPEN, Phase.DRAINING, Phase.CLOSED)
        assert is_setting_up == (self._setup_ends_at_ms is not None), "a deadline of opening without opening, or none"
        assert (self._steps is not None) == (self._phase in (Phase.VERSIONS, Phase.SASL)), "steps of no phase"
        assert not self.is_closed or not (self._in_flight or self._waiting), "a request that will never end"
        assert not is_setting_up or len(self._in_flight) <= 1, "a handshake asks one thing at a time"
        for sent in self._in_flight:
            assert (sent.send_id is None) == is_setting_up, (
                f"{sent.api_name} in flight in the phase {self._phase.value}"
            )
        assert self.look_at_ms <= (self.wake_at_ms() or self.look_at_ms), "a deadline would pass unseen"
        numbers = [sent.correlation_id for sent in self._in_flight]
        assert len(set(numbers)) == len(numbers), "two requests with one number"
