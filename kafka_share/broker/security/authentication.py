"""The authentication of one connection, as a machine without I/O: what may come before it, SASL, and doing it again.

`Conversation` gives it each frame, and takes the request on only if the machine has nothing to say about it. Before the
authentication ApiVersions and SaslHandshake are answered here, and nothing else is; after SaslHandshake 0 the messages
of the mechanism are bare frames, after version 1 they are SaslAuthenticate requests. A session that ends (KIP-368) may
be prolonged by another SaslHandshake, for the same user with the same mechanism; a request that comes after its end
ends the connection.

What it must not do: know sockets, or what a request means. Passwords and tokens get into no text of it.

Source: Kafka's `SaslServerAuthenticator` and `KafkaChannel`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.error_answers import error_answer
from kafka_share.broker.security.mechanism import CredentialsRefusedError
from kafka_share.errors import (
    IllegalSaslStateError,
    RemoteProtocolError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka_share.harmless import excerpt
from kafka_share.protocol.handshake import SaslAuthenticateResponse, SaslHandshakeResponse
from kafka_share.protocol.messages import decode_request_body, decode_request_header, encode_response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_share.broker.events import Message
    from kafka_share.broker.security.mechanism import Authenticated, Mechanism
    from kafka_share.protocol.handshake import SaslAuthenticateRequest, SaslHandshakeRequest
    from kafka_share.protocol.messages import RequestHeader

_LENGTH_BYTES: Final = 4
_HEADERS_SINCE_VERSION: Final = 1
"""From this version of SaslHandshake on the mechanism's messages travel in SaslAuthenticate requests."""
_USER: Final = "User"
MIN_BETWEEN_MS: Final = 1_000
"""A client may not authenticate again more often."""


class Mechanisms(NamedTuple):
    """What the broker offers for authentication at this moment."""

    makers: Mapping[str, Callable[[], Mechanism]]
    """Name -> what makes a machine for one authentication."""
    max_session_ms: int
    """`connections.max.reauth.ms`; 0: sessions end with their credentials only."""


class AuthenticationStep(NamedTuple):
    """What follows from a frame that belonged to the authentication."""

    answer: bytes
    """A frame to be sent, length included."""
    failure: str | None = None
    """Why the connection has to be closed behind the answer; for our log, without anything secret."""


class _State(enum.Enum):
    FIRST_REQUEST = enum.auto()
    HANDSHAKE = enum.auto()
    """ApiVersions has been answered."""
    EXCHANGE = enum.auto()
    """The mechanism's messages."""
    WRONG_MECHANISM = enum.auto()
    """The session cannot be prolonged by another mechanism: the client's next message ends the connection."""
    DONE = enum.auto()


class Authentication:
    """Of one connection. `mechanisms` is asked anew for each authentication."""

    def __init__(self, mechanisms: Callable[[], Mechanisms]) -> None:
        self.principal: str | None = None
        """The client, since the first authentication has come to a good end."""
        self._mechanisms = mechanisms
        self._state = _State.FIRST_REQUEST
        self._exchange: Mechanism | None = None
        self._mechanism = ""
        self._has_headers = True
        self._expires_at_ms: int | None = None
        self._begun_again_at_ms: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether requests other than those of an authentication may come."""
        return self._state is _State.DONE

    def received(self, frame: bytes, offered: Mapping[int, tuple[int, int]], now_ms: int) -> AuthenticationStep | None:
        """What follows from a frame; None: it is a request that the broker may work on.

        Raises `RemoteProtocolError` for what ends the connection without an answer.
        """
        if self._state is _State.WRONG_MECHANISM:
            raise RemoteProtocolError("a session cannot be prolonged by another SASL mechanism")
        if self._state is _State.EXCHANGE and not self._has_headers:
            return self._bare_message(frame, now_ms)
        header = decode_request_header(frame)
        if self._state is _State.EXCHANGE:
            return self._message(header, frame, offered, now_ms)
        if self._state is _State.DONE:
            return self._after(header, frame, offered, now_ms)
        return self._before(header, frame, offered)

    # ---- requests beside an exchange

    def _before(
        self, header: RequestHeader, frame: bytes, offered: Mapping[int, tuple[int, int]]
    ) -> AuthenticationStep | None:
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(header, frame, offered)
        if header.api_key != ApiKey.API_VERSIONS or self._state is not _State.FIRST_REQUEST:
            raise RemoteProtocolError(f"a request of API {header.api_key} before the authentication")
        if _is_offered(header, offered):
            self._state = _State.HANDSHAKE
        return None

    def _after(
        self, header: RequestHeader, frame: bytes, offered: Mapping[int, tuple[int, int]], now_ms: int
    ) -> AuthenticationStep | None:
        begun_at_ms = self._begun_again_at_ms
        is_too_soon = begun_at_ms is not None and now_ms - begun_at_ms < MIN_BETWEEN_MS
        if header.api_key == ApiKey.SASL_HANDSHAKE and self._expires_at_ms is not None and not is_too_soon:
            self._begun_again_at_ms = now_ms
            return self._handshake(header, frame, offered)
        if self._expires_at_ms is not None and now_ms > self._expires_at_ms:
            raise RemoteProtocolError("the session has ended, and the client did not authenticate again")
        return None

    def _handshake(
        self, header: RequestHeader, frame: bytes, offered: Mapping[int, tuple[int, int]]
    ) -> AuthenticationStep:
        _require_offered(header, offered)
        request: SaslHandshakeRequest = decode_request_body(header, frame)  # type: ignore[assignment]
        makers = self._mechanisms().makers
        response = SaslHandshakeResponse(error_code=0, mechanisms=list(makers))
        if request.mechanism not in makers:
            response.error_code = UnsupportedSaslMechanismError.code
            return _step(header, response, f"the SASL mechanism {excerpt(request.mechanism)!r} is not enabled")
        if self._mechanism not in ("", request.mechanism):
            self._state = _State.WRONG_MECHANISM
        else:
            self._state = _State.EXCHANGE
            self._mechanism = request.mechanism
            self._exchange = makers[request.mechanism]()
            self._has_headers = header.api_version >= _HEADERS_SINCE_VERSION
        return _step(header, response)

    # ---- the exchange

    def _message(
        self, header: RequestHeader, frame: bytes, offered: Mapping[int, tuple[int, int]], now_ms: int
    ) -> AuthenticationStep:
        _require_offered(header, offered)
        request = decode_request_body(header, frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            response = error_answer(request, header.api_version, IllegalSaslStateError.code)
            return _step(header, response, f"a request of API {header.api_key} during the authentication")
        asked: SaslAuthenticateRequest = request  # type: ignore[assignment]
        try:
            message, lifetime_ms = self._take(asked.auth_bytes, now_ms)
        except CredentialsRefusedError as error:
            text = error.message or self._plain_refusal()
            refused = SaslAuthenticateResponse(
                error_code=SaslAuthenticationFailedError.code, error_message=text, auth_bytes=b""
            )
            return _step(header, refused, f"{self._mechanism}: the credentials are refused")
        return _step(
            header,
            SaslAuthenticateResponse(error_code=0, auth_bytes=message, session_lifetime_ms=lifetime_ms),
        )

    def _bare_message(self, frame: bytes, now_ms: int) -> AuthenticationStep:
        try:
            message, _ = self._take(frame, now_ms)
        except CredentialsRefusedError:
            raise RemoteProtocolError(f"{self._mechanism}: the credentials are refused") from None
        return AuthenticationStep(len(message).to_bytes(_LENGTH_BYTES, "big") + message)

    def _take(self, message: bytes, now_ms: int) -> tuple[bytes, int]:
        """Our answer, and how long the session will last: milliseconds, 0 while that is open or without an end."""
        assert self._exchange is not None, "the handshake has made one"
        answer = self._exchange.answer(message, now_ms)
        authenticated = self._exchange.authenticated
        if authenticated is None:
            return answer, 0
        principal = f"{_USER}:{authenticated.name}"
        if self.principal not in (None, principal):
            raise CredentialsRefusedError(
                f"Cannot change principals during re-authentication from {self.principal} to {principal}"
            )
        self.principal = principal
        self._exchange = None
        self._state = _State.DONE
        return answer, self._begin_session(authenticated, now_ms)

    def _begin_session(self, authenticated: Authenticated, now_ms: int) -> int:
        limits_ms = []
        if authenticated.expires_at_ms is not None:
            limits_ms.append(max(0, authenticated.expires_at_ms - now_ms))
        max_session_ms = self._mechanisms().max_session_ms
        if max_session_ms > 0:
            limits_ms.append(max_session_ms)
        lifetime_ms = min(limits_ms, default=0)
        self._expires_at_ms = now_ms + lifetime_ms if limits_ms else None
        return lifetime_ms

    def _plain_refusal(self) -> str:
        again = "re-authentication" if self.principal is not None else "authentication"
        return f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self._mechanism}"


def _is_offered(header: RequestHeader, offered: Mapping[int, tuple[int, int]]) -> bool:
    low, high = offered.get(header.api_key, (0, -1))
    return low <= header.api_version <= high


def _require_offered(header: RequestHeader, offered: Mapping[int, tuple[int, int]]) -> None:
    if not _is_offered(header, offered):
        raise RemoteProtocolError(f"API {header.api_key} version {header.api_version} is not offered")


def _step(header: RequestHeader, response: Message, failure: str | None = None) -> AuthenticationStep:
    return AuthenticationStep(encode_response(header.correlation_id, response, header.api_version), failure)
