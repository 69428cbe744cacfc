"""What may come before an authentication, how it goes, and how it is done again: the machine, without a socket."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_share.broker.conversation import Conversation
from kafka_share.broker.events import RequestArrived
from kafka_share.broker.kafka_version import advertised_versions
from kafka_share.broker.security.authentication import Authentication, AuthenticationStep, Mechanisms
from kafka_share.broker.security.mechanism import Authenticated
from kafka_share.broker.security.passwords import Passwords
from kafka_share.broker.security.plain import PlainServer
from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.handshake import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from kafka_share.protocol.messages import decode_response, encode_request

OFFERED = advertised_versions()
GOOD, OTHER, WRONG = b"\0alice\0right", b"\0bob\0right", b"\0alice\0wrong"


class Lasting(PlainServer):
    """PLAIN with credentials that end, as a token does."""

    def answer(self, message: bytes, now_ms: int) -> bytes:
        answer = super().answer(message, now_ms)
        assert self.authenticated is not None
        self.authenticated = Authenticated(self.authenticated.name, 5_000)
        return answer


class Client:
    """One connection; what it sends is answered at once."""

    def __init__(self, max_session_ms: int = 0) -> None:
        passwords = Passwords({"alice": "right", "bob": "right"})
        makers = {"PLAIN": lambda: PlainServer(passwords), "LASTING": lambda: Lasting(passwords)}
        authentication = Authentication(lambda: Mechanisms(makers, max_session_ms))
        self.conversation = Conversation(1, 1, "127.0.0.1", authentication=authentication)
        self.now_ms = 0

    def send_frame(self, frame: bytes) -> Any:
        self.conversation.received(len(frame).to_bytes(4, "big") + frame, 1_000_000)
        self.conversation.ended()
        return self.conversation.next_request(OFFERED, self.now_ms)

    def send(self, request: Any, version: int) -> Any:
        """The answer, if the authentication gave one; else the request as it reached the broker."""
        got = self.send_frame(encode_request(request, version, 7, "c")[4:])
        if not isinstance(got, AuthenticationStep):
            return got
        self.failure = got.failure
        correlation_id, answer = decode_response(request.API_KEY, version, got.answer[4:])
        assert correlation_id == 7
        return answer

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.send(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, message: bytes = GOOD, version: int = 2) -> Any:
        return self.send(SaslAuthenticateRequest(auth_bytes=message), version)

    def log_in(self, mechanism: str = "PLAIN") -> Any:
        self.handshake(mechanism)
        answer = self.authenticate()
        assert answer.error_code == 0
        return answer

    def reaches_the_broker(self) -> bool:
        return isinstance(self.send(MetadataRequest(topics=None), 12), RequestArrived)


def test_a_client_that_knows_the_password_is_known_from_then_on() -> None:
    client = Client()
    assert isinstance(client.send(ApiVersionsRequest(), 3), RequestArrived)
    assert client.handshake().mechanisms == ["PLAIN", "LASTING"]
    assert not client.conversation.is_authenticated
    answer = client.authenticate()
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    arrived = client.send(MetadataRequest(topics=None), 12)
    assert (arrived.context.principal, client.conversation.is_authenticated) == ("User:alice", True)


def test_bare_messages_follow_a_handshake_of_version_0() -> None:
    client = Client()
    client.handshake(version=0)
    assert client.send_frame(GOOD) == AuthenticationStep(b"\0\0\0\0")
    assert client.reaches_the_broker()


def test_wrong_bare_messages_end_the_connection_without_an_answer() -> None:
    client = Client()
    client.handshake(version=0)
    with pytest.raises(RemoteProtocolError, match="PLAIN: the credentials are refused"):
        client.send_frame(WRONG)


def test_wrong_credentials_are_answered_before_the_end() -> None:
    client = Client()
    client.handshake()
    answer = client.authenticate(WRONG)
    assert (answer.error_code, answer.error_message) == (58, "Authentication failed: Invalid username or password")
    assert client.failure == "PLAIN: the credentials are refused"
    assert not client.conversation.is_authenticated


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are() -> None:
    client = Client()
    answer = client.handshake("GSSAPI")
    assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", "LASTING"])
    assert client.failure == "the SASL mechanism 'GSSAPI' is not enabled"


def test_other_requests_end_a_connection_that_is_not_authenticated() -> None:
    for before in ([], [ApiVersionsRequest()]):
        client = Client()
        for request in before:
            client.send(request, 3)
        with pytest.raises(RemoteProtocolError, match="API 3 before the authentication"):
            client.reaches_the_broker()


def test_versions_may_be_asked_for_once_and_again_if_the_version_was_unknown() -> None:
    client = Client()
    unknown = (18).to_bytes(2, "big") + (99).to_bytes(2, "big") + bytes(3) + b"\x07\xff\xff"
    assert decode_response(18, 0, client.send_frame(unknown)[4:])[1].error_code == 35  # type: ignore[attr-defined]
    assert isinstance(client.send(ApiVersionsRequest(), 3), RequestArrived)
    with pytest.raises(RemoteProtocolError, match="API 18 before the authentication"):
        client.send(ApiVersionsRequest(), 3)


def test_another_request_in_the_midst_is_an_illegal_state() -> None:
    client = Client()
    client.handshake()
    assert client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 34
    assert client.failure is not None


def test_nonsense_ends_the_connection() -> None:
    for frame in (b"", b"GET / HTTP/1.1", b"\x60\x81"):
        with pytest.raises(RemoteProtocolError):
            Client().send_frame(frame or b"\0")


# ---- sessions that end


@pytest.mark.parametrize(
    ("mechanism", "max_session_ms", "lifetime_ms"),
    [
        ("PLAIN", 0, 0),
        ("PLAIN", 3_000, 3_000),
        ("LASTING", 0, 5_000),
        ("LASTING", 3_000, 3_000),
        ("LASTING", 9_000, 5_000),
    ],
)
def test_a_session_lasts_as_long_as_the_credentials_and_the_broker_allow(
    mechanism: str, max_session_ms: int, lifetime_ms: int
) -> None:
    client = Client(max_session_ms)
    assert client.log_in(mechanism).session_lifetime_ms == lifetime_ms
    client.now_ms = lifetime_ms
    assert client.reaches_the_broker()
    client.now_ms += 1
    if lifetime_ms:
        with pytest.raises(RemoteProtocolError, match="the session has ended"):
            client.reaches_the_broker()
    else:
        assert client.reaches_the_broker()


def test_a_client_may_prolong_its_session_also_after_its_end() -> None:
    client = Client(3_000)
    client.log_in()
    client.now_ms = 4_000
    assert client.log_in().session_lifetime_ms == 3_000
    client.now_ms = 7_000
    assert client.reaches_the_broker()


def test_a_second_handshake_reaches_the_broker_within_a_second_and_where_no_session_ends() -> None:
    """The broker's handler then says that this is no state for it."""
    assert isinstance(_logged_in(0).handshake(), RequestArrived)
    client = _logged_in(3_000)
    client.now_ms = 100
    client.log_in()
    client.now_ms = 1_099
    assert isinstance(client.handshake(), RequestArrived)
    client.now_ms = 1_100
    client.log_in()


def _logged_in(max_session_ms: int) -> Client:
    client = Client(max_session_ms)
    client.log_in()
    return client


def test_a_session_cannot_be_prolonged_for_another_user() -> None:
    client = _logged_in(3_000)
    client.handshake()
    answer = client.authenticate(OTHER)
    text = "Cannot change principals during re-authentication from User:alice to User:bob"
    assert (answer.error_code, answer.error_message) == (58, text)
    assert client.failure is not None


def test_a_session_cannot_be_prolonged_by_another_mechanism() -> None:
    client = _logged_in(3_000)
    assert client.handshake("LASTING").error_code == 0
    with pytest.raises(RemoteProtocolError, match="another SASL mechanism"):
        client.authenticate()


def test_secrets_are_in_no_repr_of_a_message() -> None:
    assert repr(SaslAuthenticateRequest(auth_bytes=GOOD)) == "SaslAuthenticateRequest(auth_bytes=<secret>)"
