"""Clients on a broker that asks who they are: ours and unrelated ones, over TLS and SASL, with right and wrong keys."""

from __future__ import annotations

import base64
import json
import logging
import ssl
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from support.waiting import poll_until, wait_until
from support.wire_connection import WireConnection

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker, Security, TlsFiles, UnsecuredTokens
from kafka_share.broker.security.certificate_names import principal_of
from kafka_share.broker.security.tls import ThrowAwayCertificates
from kafka_share.errors import AuthenticationError, ConfigurationError, InvalidArgumentError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.handshake import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka_share.protocol.scram_users import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest

USERS = {"alice": "alice's secret", "admin": "=,admin"}
SASL = Security("SASL_PLAINTEXT", USERS)
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
GROUP = "g"


class Tokens:
    """A provider of unsecured tokens with the broker's time, each of which lasts so long."""

    def __init__(self, broker: ReferenceBroker, lifetime_s: float, user: str = "alice") -> None:
        self._broker = broker
        self._lifetime_s = lifetime_s
        self._user = user
        self.given = 0

    def token(self) -> str:
        self.given += 1
        ends = self._broker.clock.now_ms() / 1_000 + self._lifetime_s
        parts = ({"alg": "none"}, {"sub": self._user, "exp": ends})
        return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in parts) + "."


def filled(broker: ReferenceBroker) -> ReferenceBroker:
    broker.create_topic("orders")
    broker.set_group_config(GROUP, share_auto_offset_reset="earliest")
    broker.produce("orders", b"kept")
    return broker


@pytest.fixture(scope="module")
def certificates() -> ThrowAwayCertificates:
    return ThrowAwayCertificates(["localhost", "127.0.0.1"])


@pytest.fixture
def secured(certificates: ThrowAwayCertificates) -> Iterator[Callable[..., ReferenceBroker]]:
    """Makes brokers with a topic and a record, and stops them."""
    made = []

    def make(security: Security, **settings: Any) -> ReferenceBroker:
        made.append(ReferenceBroker(security=security, **settings))
        made[-1].start()
        return filled(made[-1])

    yield make
    for broker in made:
        broker.stop()


def consumes(settings: dict[str, Any]) -> bool:
    with KafkaShareConsumer("orders", group_id=GROUP, **settings) as consumer:
        [record] = poll_until(consumer, 1)
        return bool(record.value == b"kept")


def refusal(settings: dict[str, Any]) -> str:
    consumer = KafkaShareConsumer("orders", group_id=GROUP, **settings)
    try:
        with pytest.raises(AuthenticationError) as caught:
            consumer.poll(timeout_ms=20_000)
    finally:
        consumer.close(timeout_ms=1_000)
    return str(caught.value)


# ---- our consumer


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_our_consumer_gets_in_with_its_password(
    secured: Callable[..., ReferenceBroker], protocol: str, mechanism: str
) -> None:
    broker = secured(Security(protocol, USERS))
    assert consumes(broker.client_settings("alice", mechanism))
    assert {context.principal for context, _ in broker.requests("ShareFetch")} == {"User:alice"}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_and_logged_nowhere(
    secured: Callable[..., ReferenceBroker], mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = secured(SASL)
    with caplog.at_level(logging.DEBUG):
        text = refusal({**broker.client_settings("alice", mechanism), "sasl_plain_password": "wr0ng"})
    assert "nvalid" in text
    assert "could not be authenticated" in caplog.text
    assert not any(secret in caplog.text + repr(broker) + repr(SASL) for secret in ("wr0ng", *USERS.values()))


def test_a_name_and_a_password_may_hold_the_signs_of_scram(secured: Callable[..., ReferenceBroker]) -> None:
    broker = secured(Security("SASL_PLAINTEXT", {"a,b=c": "=,x"}))
    assert consumes(broker.client_settings("a,b=c"))


def test_our_consumer_gets_in_with_its_certificate(secured: Callable[..., ReferenceBroker]) -> None:
    broker = secured(Security("SSL", client_auth="required"))
    assert consumes(broker.client_settings("alice"))
    (principal,) = {context.principal for context, _ in broker.requests("ShareFetch")}
    assert principal.startswith("User:CN=alice,")


def test_nobody_gets_in_without_a_certificate_where_one_is_required(secured: Callable[..., ReferenceBroker]) -> None:
    broker = secured(Security("SSL", client_auth="required"))
    settings = broker.client_settings()
    with KafkaShareConsumer("orders", group_id=GROUP, **settings) as consumer:
        assert not consumer.poll(timeout_ms=300)
    assert broker.requests("Metadata") == []


def test_a_certificate_may_be_left_out_where_it_is_requested(secured: Callable[..., ReferenceBroker]) -> None:
    broker = secured(Security("SSL", client_auth="requested"))
    assert consumes(broker.client_settings())
    assert {context.principal for context, _ in broker.requests("ShareFetch")} == {"User:ANONYMOUS"}


def test_a_broker_may_have_certificates_of_yours(
    secured: Callable[..., ReferenceBroker], certificates: ThrowAwayCertificates
) -> None:
    broker = secured(Security("SSL", tls=certificates.files))
    assert consumes(broker.client_settings())
    with pytest.raises(InvalidArgumentError, match="makes no certificates"):
        broker.client_settings("alice")


def test_tls_takes_nothing_of_who_speaks_none(secured: Callable[..., ReferenceBroker]) -> None:
    """Nor does it keep others from being served."""
    broker = secured(Security("SSL"))
    with WireConnection(broker.bootstrap_servers) as plain:
        plain.send(MetadataRequest(topics=None), 12)
        with pytest.raises(ConnectionError):
            plain.receive()
    assert broker.requests("Metadata") == []
    assert consumes(broker.client_settings())


# ---- tokens, and sessions that end


def test_a_session_is_prolonged_in_the_midst_of_a_share_session(secured: Callable[..., ReferenceBroker]) -> None:
    """The client fetches a new token on the connection that it has, and its records stay acquired."""
    broker = secured(Security("SASL_PLAINTEXT", oauth=UnsecuredTokens()))
    provider = Tokens(broker, lifetime_s=1.2)
    settings = {**broker.client_settings(), "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}
    with KafkaShareConsumer(
        "orders", group_id=GROUP, share_acknowledgement_mode="explicit", explicit_window_records=10, **settings
    ) as consumer:
        [record] = poll_until(consumer, 1)
        connections = {context.connection_id for context, _ in broker.requests("ShareFetch")}
        given = provider.given

        def prolonged() -> bool:
            consumer.poll(timeout_ms=100)
            return provider.given >= given + 2

        wait_until(prolonged)
        consumer.acknowledge(record)
        assert list(consumer.commit_sync().values()) == [None]
        assert broker.share_session_count() == 1
        assert {context.connection_id for context, _ in broker.requests("ShareFetch")} == connections


def test_a_token_that_has_ended_is_refused(secured: Callable[..., ReferenceBroker]) -> None:
    broker = secured(Security("SASL_PLAINTEXT", oauth=UnsecuredTokens()))
    settings = {
        **broker.client_settings(),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(broker, lifetime_s=-1),
    }
    assert "invalid_token" in refusal(settings)


def test_a_session_that_was_not_prolonged_ends_with_the_next_request(secured: Callable[..., ReferenceBroker]) -> None:
    broker = secured(SASL, config={"connections.max.reauth.ms": 60_000})
    with WireConnection(broker.bootstrap_servers) as client:
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        answer = client.call(SaslAuthenticateRequest(auth_bytes=b"\0admin\0=,admin"), 2)
        assert answer.session_lifetime_ms == 60_000
        client.call(MetadataRequest(topics=None), 12)
        broker.advance(60_001)
        client.send(MetadataRequest(topics=None), 12)
        assert client.is_closed_by_broker()


# ---- what ends a connection


def test_a_frame_before_the_authentication_is_small(secured: Callable[..., ReferenceBroker]) -> None:
    broker = secured(SASL)
    with WireConnection(broker.bootstrap_servers) as client:
        client.send_bytes((524_289).to_bytes(4, "big"))
        assert client.is_closed_by_broker()


def test_random_bytes_end_their_own_connection_only(secured: Callable[..., ReferenceBroker]) -> None:
    broker = secured(SASL)
    for data in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"\0\0\0\x02\0\x12",
        b"\0\0\0\x05hello",
    ):
        with WireConnection(broker.bootstrap_servers) as client:
            client.send_bytes(data)
            assert client.is_closed_by_broker()
    assert consumes(broker.client_settings("alice"))


def test_sasl_without_sasl_is_an_illegal_state(share_broker: ReferenceBroker) -> None:
    with WireConnection(share_broker.bootstrap_servers) as client:
        assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 34
        assert client.call(SaslAuthenticateRequest(auth_bytes=b"x"), 2).error_code == 34


# ---- the users of SCRAM


def test_the_users_of_scram_are_described_and_altered(share_broker: ReferenceBroker) -> None:
    put = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    gone = AlterUserScramCredentialsRequest.ScramCredentialDeletion

    def upsert(name: str, mechanism: int = 1, iterations: int = 8_192) -> Any:
        return put(name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"x" * 32)

    with WireConnection(share_broker.bootstrap_servers) as client:

        def alter(upsertions: list[Any], deletions: list[Any] = []) -> list[tuple[str, int]]:  # noqa: B006 - never changed
            request = AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions)
            return [(one.user, one.error_code) for one in client.call(request, 0).results]

        def describe(*names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
            users = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
            answer = client.call(DescribeUserScramCredentialsRequest(users=users or None), 0)
            return [
                (one.user, one.error_code, [(info.mechanism, info.iterations) for info in one.credential_infos])
                for one in answer.results
            ]

        assert alter(
            [upsert("b"), upsert("a", 2, 4_096), upsert("c", iterations=4_095), upsert("d", iterations=16_385),
             upsert("", 1), upsert("e", 3), upsert("twice"), upsert("twice", 2)],
            [gone(name="nobody", mechanism=1)],
        ) == [("b", 0), ("a", 0), ("nobody", 91), ("c", 93), ("d", 93), ("", 93), ("e", 33), ("twice", 92)]  # fmt: skip
        assert describe() == [("a", 0, [(2, 4_096)]), ("b", 0, [(1, 8_192)])]
        assert alter([], [gone(name="a", mechanism=2)]) == [("a", 0)]
        assert describe("a", "b", "b") == [("a", 91, []), ("b", 92, [])]


# ---- unrelated clients


@pytest.mark.foreign
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_confluent_kafka_gets_in(secured: Callable[..., ReferenceBroker], protocol: str, mechanism: str) -> None:
    from confluent_kafka.admin import AdminClient

    broker = secured(Security(protocol, USERS))
    ours = broker.client_settings("alice", mechanism)
    settings = {
        "bootstrap.servers": ours["bootstrap_servers"],
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
    }
    if "ssl_cafile" in ours:
        settings["ssl.ca.location"] = ours["ssl_cafile"]
    assert "orders" in AdminClient(settings).list_topics(timeout=20).topics


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_kafka_python_gets_in(secured: Callable[..., ReferenceBroker], protocol: str, mechanism: str) -> None:
    from kafka import KafkaProducer

    broker = secured(Security(protocol, USERS))
    producer = KafkaProducer(**broker.client_settings("alice", mechanism))
    assert producer.send("orders", b"more").get(timeout=20).offset == 1
    producer.close()


async def _aiokafka_writes(settings: dict[str, Any]) -> int:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(**settings)
    await producer.start()
    try:
        return int((await producer.send_and_wait("orders", b"more")).offset)
    finally:
        await producer.stop()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_gets_in(secured: Callable[..., ReferenceBroker], mechanism: str) -> None:
    import asyncio

    broker = secured(Security("SASL_SSL", USERS))
    settings = broker.client_settings("alice", mechanism)
    settings["ssl_context"] = ssl.create_default_context(cafile=settings.pop("ssl_cafile"))
    assert asyncio.run(_aiokafka_writes(settings)) == 1


# ---- what is said when a broker is open, or lacks something


@pytest.mark.parametrize(
    ("host", "security", "warns"),
    [
        ("0.0.0.0", None, True),
        ("0.0.0.0", Security("SSL"), True),
        ("0.0.0.0", SASL, False),
        ("0.0.0.0", Security("SSL", client_auth="required"), False),
        ("127.0.0.1", None, False),
        ("localhost", None, False),
    ],
)
def test_a_broker_says_so_when_everybody_may_reach_it(
    host: str, security: Security | None, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with ReferenceBroker(host=host, security=security):
        pass
    assert ("everybody who reaches it may do everything" in caplog.text) is warns


def test_a_mechanism_that_cannot_be_offered_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    config = {"sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN"}
    with ReferenceBroker(security=SASL, config=config) as broker:
        for _ in range(2):
            with WireConnection(broker.bootstrap_servers) as client:
                assert client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).mechanisms == ["PLAIN"]
    assert caplog.text.count("OAUTHBEARER is enabled and not offered") == 1


# ---- settings


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Security("TLS"), "the security protocol is one of"),
        (lambda: Security("SSL", {"a": "b"}), "SSL has no users"),
        (lambda: Security("SASL_PLAINTEXT", {"a": ""}), "a name and a password"),
        (lambda: Security("SASL_PLAINTEXT", client_auth="required"), "has no certificates"),
        (lambda: Security("SSL", client_auth="maybe"), "client_auth is one of"),
        (lambda: Security("SSL", tls=TlsFiles("a", "b"), client_auth="required"), "without an authority"),
        (lambda: ReferenceBroker(security=Security("SSL", tls=TlsFiles("a", "b"))), "cannot be used"),
        (lambda: ReferenceBroker(security=cast("Any", "SSL")), "security is a Security, not str"),
        (lambda: ReferenceBroker(config={"sasl.enabled.mechanisms": "GSSAPI"}), "it must be one or more of PLAIN"),
    ],
)
def test_settings_that_cannot_be_are_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()


def test_private_keys_are_for_their_owner_only_and_are_thrown_away() -> None:
    made = ThrowAwayCertificates(["localhost"])
    folder = made.files.key.parents[1]
    assert folder.stat().st_mode & 0o077 == 0
    del made
    assert not folder.exists()


@pytest.mark.parametrize(
    ("subject", "principal"),
    [
        (((("organizationName", "shop, Inc"),), (("commonName", "worker"),)), r"User:CN=worker,O=shop\, Inc"),
        (((("commonName", "#1"), ("userId", "7 ")),), "User:CN=\\#1+UID=7\\ "),
        (((("emailAddress", "a@b"),),), "User:emailAddress=a@b"),
    ],
)
def test_a_certificate_names_its_owner_as_kafka_writes_it(subject: Any, principal: str) -> None:
    assert principal_of({"subject": subject}) == principal


def test_no_certificate_is_nobody() -> None:
    assert principal_of(None) == principal_of({}) == "User:ANONYMOUS"
