from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from network.peer import Accepted, Client, Peer, ask, config, talking

from kafka_share.core.events import ConnectionLost, RequestFailed, ResponseReceived
from kafka_share.errors import AuthenticationError, BrokerUnreachableError, ConfigurationError
from kafka_share.network import wire
from kafka_share.network.sasl import _kafka_python, load_mechanisms, shows_secret
from kafka_share.network.tls import make_ssl_context
from kafka_share.protocol.handshake import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

OURS, FOREIGN = trustme.CA(), trustme.CA()


def pem(path: Path, *blobs: trustme.Blob) -> str:
    path.write_bytes(b"".join(blob.bytes() for blob in blobs))
    return str(path)


@pytest.fixture
def cafile(tmp_path: Path) -> str:
    return pem(tmp_path / "ca.pem", OURS.cert_pem)


def server_context(*names: str, demand_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    OURS.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    if demand_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        OURS.configure_trust(context)
    return context


def serve_one(connection: Accepted) -> None:
    connection.negotiate()
    connection.answer_metadata()
    connection.expect_end()


def error_of(client: Client, peer: Peer) -> Exception:
    client.do(ask(peer))
    event = client.next_event()
    assert isinstance(event, RequestFailed), event
    return event.error


def answer_of(client: Client, peer: Peer, send_id: int = 1) -> ResponseReceived:
    client.do(ask(peer, send_id))
    event = client.next_event()
    assert isinstance(event, ResponseReceived), event
    return event


# ---- TLS


def test_requests_are_answered_over_tls_when_the_certificate_is_good(cafile: str) -> None:
    with talking(serve_one, context=server_context(), security_protocol="SSL", ssl_cafile=cafile) as (client, peer):
        answer_of(client, peer)


def test_large_answers_arrive_over_tls_when_they_come_in_many_records(cafile: str) -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        for _ in range(8):
            connection.answer_metadata("x" * 30_000)
        connection.expect_end()

    with talking(script, context=server_context(), security_protocol="SSL", ssl_cafile=cafile) as (client, peer):
        client.do(*(ask(peer, send_id) for send_id in range(8)))
        for send_id in range(8):
            event = client.next_event()
            assert (event.send_id, len(event.response.cluster_id)) == (send_id, 30_000)


def test_broker_is_refused_when_its_certificate_is_from_a_stranger(tmp_path: Path) -> None:
    strange = pem(tmp_path / "foreign.pem", FOREIGN.cert_pem)
    with talking(serve_one, context=server_context(), security_protocol="SSL", ssl_cafile=strange) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "certificate" in str(error)
    assert "issuer" in str(error)


def test_broker_is_refused_when_the_system_does_not_know_its_certificate() -> None:
    with talking(serve_one, context=server_context(), security_protocol="SSL") as (client, peer):
        assert isinstance(error_of(client, peer), AuthenticationError)


def test_broker_is_refused_when_its_certificate_has_another_name(cafile: str) -> None:
    context = server_context("elsewhere.example")
    with talking(serve_one, context=context, security_protocol="SSL", ssl_cafile=cafile) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "127.0.0.1" in str(error)
    assert "mismatch" in str(error)


def test_name_in_the_certificate_does_not_matter_when_the_check_is_off(cafile: str) -> None:
    context = server_context("elsewhere.example")
    settings = {"security_protocol": "SSL", "ssl_cafile": cafile, "ssl_check_hostname": False}
    with talking(serve_one, context=context, **settings) as (client, peer):
        answer_of(client, peer)


def revocations(path: Path, *revoked: x509.Certificate) -> str:
    """A list of our authority, in which these certificates are revoked."""
    authority = x509.load_pem_x509_certificate(OURS.cert_pem.bytes())
    now = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder(authority.subject, now - timedelta(days=1), now + timedelta(days=1))
    for certificate in revoked:
        entry = x509.RevokedCertificateBuilder(certificate.serial_number, now - timedelta(days=1)).build()
        builder = builder.add_revoked_certificate(entry)
    key: Any = load_pem_private_key(OURS.private_key_pem.bytes(), None)
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return str(path)


def test_broker_is_refused_when_its_certificate_was_revoked(cafile: str, tmp_path: Path) -> None:
    certificate = OURS.issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    settings = {"security_protocol": "SSL", "ssl_cafile": cafile}
    crlfile = revocations(tmp_path / "empty.pem")
    with talking(serve_one, context=context, ssl_crlfile=crlfile, **settings) as (client, peer):
        answer_of(client, peer)
    crlfile = revocations(tmp_path / "crl.pem", x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes()))
    with talking(serve_one, context=context, ssl_crlfile=crlfile, **settings) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "revoked" in str(error)


def test_client_certificate_is_shown_when_the_broker_demands_one(cafile: str, tmp_path: Path) -> None:
    certificate = OURS.issue_cert("client.example")
    settings = {
        "ssl_certfile": pem(tmp_path / "cert.pem", *certificate.cert_chain_pems),
        "ssl_keyfile": pem(tmp_path / "key.pem", certificate.private_key_pem),
    }
    context = server_context(demand_certificate=True)
    with talking(serve_one, context=context, security_protocol="SSL", ssl_cafile=cafile, **settings) as (client, peer):
        answer_of(client, peer)


def test_missing_client_certificate_is_named_when_the_broker_demands_one(cafile: str) -> None:
    context = server_context(demand_certificate=True)
    with talking(serve_one, context=context, security_protocol="SSL", ssl_cafile=cafile) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "certificate required" in str(error)
    assert "ssl_certfile" in str(error)


def test_ready_context_is_used_when_it_is_given() -> None:
    context = ssl.create_default_context()
    OURS.configure_trust(context)
    with talking(serve_one, context=server_context(), security_protocol="SSL", ssl_context=context) as (client, peer):
        answer_of(client, peer)


def test_error_says_so_when_tls_meets_a_plaintext_listener_that_answers(cafile: str) -> None:
    def script(connection: Accepted) -> None:
        connection.sock.recv(1)
        connection.write(b"\0\0\0\x04what?")
        connection.ignore_all()

    with talking(script, security_protocol="SSL", ssl_cafile=cafile) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "does not speak TLS" in str(error)


def test_error_guesses_so_when_tls_meets_a_plaintext_listener_that_closes(cafile: str) -> None:
    with talking(lambda connection: None, security_protocol="SSL", ssl_cafile=cafile) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, BrokerUnreachableError)
    assert "does its listener speak TLS?" in str(error)


def test_error_says_so_when_plaintext_meets_a_tls_listener() -> None:
    def script(connection: Accepted) -> None:
        connection.read()
        connection.write(b"\x15\x03\x03\x00\x02\x02\x50")  # what TLS says to bytes that are not TLS
        connection.expect_end()

    with talking(script) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "speaks TLS" in str(error)


def test_context_verifies_certificates_and_names_when_nothing_is_said() -> None:
    context = make_ssl_context(config(security_protocol="SSL"))
    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert make_ssl_context(config()) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl_cafile", "/no/such/file"),
        ("ssl_certfile", "/no/such/file"),
        ("ssl_crlfile", "/no/such/file"),
        ("ssl_ciphers", "no such cipher"),
    ],
)
def test_setting_is_named_when_it_cannot_be_used(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        make_ssl_context(config(security_protocol="SSL", **{name: value}))


# ---- SASL

PASSWORD = "pencil, with comma="


def sasl(mechanism: str = "PLAIN", password: str = PASSWORD, user: str = "user") -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def shake_hands(connection: Accepted, mechanism: str) -> None:
    request = connection.read()
    assert (request.api_key, request.version) == (SaslHandshakeRequest.API_KEY, 1)
    assert mechanism.encode() in request.body
    connection.answer(request, SaslHandshakeResponse(error_code=0, mechanisms=[mechanism]))


def read_token(connection: Accepted) -> tuple[Any, bytes]:
    request = connection.read()
    assert request.api_key == SaslAuthenticateRequest.API_KEY
    return request, bytes(request.message.auth_bytes)


def answer_token(connection: Accepted, request: Any, token: bytes, lifetime_ms: int = 0) -> None:
    response = SaslAuthenticateResponse(
        error_code=0, error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms
    )
    connection.answer(request, response)


def refuse_token(connection: Accepted, request: Any, words: str | None) -> None:
    response = SaslAuthenticateResponse(error_code=58, error_message=words, auth_bytes=b"", session_lifetime_ms=0)
    connection.answer(request, response)
    connection.expect_end()


def plain(connection: Accepted, lifetime_ms: int = 0) -> bool:
    shake_hands(connection, "PLAIN")
    request, token = read_token(connection)
    if token != f"user\0user\0{PASSWORD}".encode():
        refuse_token(connection, request, "Authentication failed: no such user or password")
        return False
    answer_token(connection, request, b"", lifetime_ms)
    return True


def serve_plain(connection: Accepted) -> None:
    connection.negotiate()
    if plain(connection):
        connection.answer_metadata()
        connection.expect_end()


def serve_scram(algorithm: str, user: str, forge: bool = False) -> Callable[[Accepted], None]:
    """The server's half of RFC 5802."""

    def digest(key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, algorithm).digest()

    def script(connection: Accepted) -> None:
        connection.negotiate()
        shake_hands(connection, "SCRAM-SHA-" + algorithm.removeprefix("sha"))
        request, first = read_token(connection)
        header, first_bare = first[:3], first[3:]
        assert header == b"n,,"
        name, nonce = first_bare.split(b",r=")
        assert name == b"n=" + user.encode()
        salt = b"some salt"
        server_first = b"r=" + nonce + b"more,s=" + base64.b64encode(salt) + b",i=4096"
        answer_token(connection, request, server_first)
        request, final = read_token(connection)
        without_proof, proof = final.split(b",p=")
        assert without_proof == b"c=biws,r=" + nonce + b"more"
        salted = hashlib.pbkdf2_hmac(algorithm, PASSWORD.encode(), salt, 4096)
        client_key = digest(salted, b"Client Key")
        message = first_bare + b"," + server_first + b"," + without_proof
        signature = digest(hashlib.new(algorithm, client_key).digest(), message)
        if base64.b64decode(proof) != bytes(a ^ b for a, b in zip(client_key, signature, strict=True)):
            refuse_token(connection, request, "the password is wrong")
            return
        server_signature = digest(digest(salted, b"Server Key"), message)
        if forge:
            server_signature = bytes(len(server_signature))
        answer_token(connection, request, b"v=" + base64.b64encode(server_signature))
        connection.answer_metadata()
        connection.expect_end()

    return script


def test_authentications_and_connections_are_measured() -> None:
    """A login that succeeds and one that is refused each count once, and only the first makes a connection."""
    with talking(serve_plain, **sasl()) as (client, peer):
        answer_of(client, peer)
        measured = client.driver.measurements
        assert (measured.authentications.count, measured.failed_authentications.count) == (1, 0)
        assert (measured.connections_made.count, measured.connection_count) == (1, 1)
    assert (measured.connections_closed.count, measured.connection_count, measured.unsent_count) == (1, 0, 0)
    with talking(serve_plain, **sasl(password="guessed")) as (client, peer):
        error_of(client, peer)
    measured = client.driver.measurements
    assert (measured.authentications.count, measured.failed_authentications.count) == (0, 1)
    assert (measured.connections_made.count, measured.connection_count, measured.unsent_count) == (0, 0, 0)


def test_requests_are_answered_when_plain_succeeds() -> None:
    with talking(serve_plain, **sasl()) as (client, peer):
        answer_of(client, peer)


@pytest.mark.behaviour("security")
def test_requests_are_answered_when_plain_succeeds_over_tls(cafile: str) -> None:
    """A connection that logs in with SASL PLAIN over TLS has its requests answered."""
    settings = {**sasl(), "security_protocol": "SASL_SSL", "ssl_cafile": cafile}
    with talking(serve_plain, context=server_context(), **settings) as (client, peer):
        answer_of(client, peer)


@pytest.mark.behaviour("security")
def test_broker_s_words_come_at_once_when_the_password_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    """A wrong password is raised at once, with the broker's own message."""
    caplog.set_level("DEBUG")
    with talking(serve_plain, **sasl(password="guessed")) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "no such user or password" in str(error)
    assert "guessed" not in caplog.text + str(error)
    (record,) = [record for record in caplog.records if getattr(record, "event", "") == "authentication-failed"]
    assert (record.levelname, record.channel) == ("WARNING", "control")  # type: ignore[attr-defined]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "fe80::1%eth0", "192.0.2.1"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_password_or_token_is_exposed_when_it_goes_to_another_machine_without_tls(
    protocol: str, mechanism: str, address: str
) -> None:
    login = bearer(Provider("t")) if mechanism == "OAUTHBEARER" else sasl(mechanism)
    is_far = address in ("fe80::1%eth0", "192.0.2.1")
    expected = protocol == "SASL_PLAINTEXT" and mechanism != "SCRAM-SHA-256" and is_far
    assert shows_secret(config(**{**login, "security_protocol": protocol}), address) == expected


@pytest.mark.behaviour("security")
@pytest.mark.parametrize("is_loopback", [True, False])
def test_a_warning_says_so_when_a_password_goes_unencrypted_to_another_machine(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_loopback: bool
) -> None:
    """PLAIN without TLS to an address that is not loopback is one WARNING."""
    monkeypatch.setattr(ipaddress.IPv4Address, "is_loopback", property(lambda address: is_loopback))
    with talking(serve_plain, **sasl()) as (client, peer):
        answer_of(client, peer)
    warnings = [record for record in caplog.records if getattr(record, "event", "") == "secret-exposed"]
    assert [(record.levelname, record.address) for record in warnings] == (  # type: ignore[attr-defined]
        [] if is_loopback else [("WARNING", "127.0.0.1")]
    )


@pytest.mark.behaviour("security")
def test_a_broker_s_words_forge_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Line breaks and escape sequences in the text of a broker are shown as text, in errors and in the log."""
    forged = "bad\n2030-01-01 00:00:00 CRITICAL root: forged \x1b[31mred\u202e\u2028" + "x" * 5_000

    def refuse(connection: Accepted) -> None:
        connection.negotiate()
        shake_hands(connection, "PLAIN")
        refuse_token(connection, read_token(connection)[0], forged)

    with talking(refuse, **sasl()) as (client, peer):
        error = error_of(client, peer)
    (record,) = [record for record in caplog.records if getattr(record, "event", "") == "authentication-failed"]
    for text in (str(error), record.getMessage(), record.error):  # type: ignore[attr-defined]
        assert text.isprintable()
        assert "bad\\n2030-01-01" in text
        assert len(text) < 1_500


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_requests_are_answered_when_scram_succeeds(algorithm: str) -> None:
    mechanism = "SCRAM-SHA-" + algorithm.removeprefix("sha")
    with talking(serve_scram(algorithm, "us=2Cer=3D"), **sasl(mechanism, user="us,er=")) as (client, peer):
        answer_of(client, peer)


def test_broker_s_words_come_at_once_when_scram_fails() -> None:
    with talking(serve_scram("sha256", "user"), **sasl("SCRAM-SHA-256", "guessed")) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "the password is wrong" in str(error)


def test_broker_is_refused_when_it_does_not_know_the_password_itself() -> None:
    with talking(serve_scram("sha512", "user", forge=True), **sasl("SCRAM-SHA-512")) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "signature" in str(error)


@pytest.mark.parametrize("token", [b"", b"nonsense", b"r=x,s=!,i=many", b"\xff"])
def test_broker_is_refused_when_its_scram_makes_no_sense(token: bytes) -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        shake_hands(connection, "SCRAM-SHA-256")
        request, _ = read_token(connection)
        answer_token(connection, request, token)
        connection.expect_end()

    with talking(script, **sasl("SCRAM-SHA-256")) as (client, peer):
        assert isinstance(error_of(client, peer), AuthenticationError)


class Provider:
    """Any object with token() will do."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def bearer(provider: object) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


def serve_bearer(connection: Accepted) -> None:
    connection.negotiate()
    shake_hands(connection, "OAUTHBEARER")
    request, token = read_token(connection)
    if token == b"n,,\x01auth=Bearer good\x01\x01":
        answer_token(connection, request, b"")
        connection.answer_metadata()
        connection.expect_end()
        return
    answer_token(connection, request, b'{"status":"invalid_token"}')
    request, token = read_token(connection)
    assert token == b"\x01"
    refuse_token(connection, request, "the token has expired")


def test_requests_are_answered_when_the_bearer_token_is_good() -> None:
    with talking(serve_bearer, **bearer(Provider("good"))) as (client, peer):
        answer_of(client, peer)


def test_broker_s_words_come_when_the_bearer_token_is_bad() -> None:
    with talking(serve_bearer, **bearer(Provider("old"))) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "the token has expired" in str(error)


def test_request_fails_when_the_token_provider_fails() -> None:
    class Broken:
        def token(self) -> str:
            raise OSError("the token server is down")

    def script(connection: Accepted) -> None:
        connection.negotiate()
        shake_hands(connection, "OAUTHBEARER")
        connection.expect_end()

    with talking(script, **bearer(Broken())) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert "the token server is down" in str(error)


@pytest.mark.parametrize(
    ("code", "offered", "words"),
    [(33, ["SCRAM-SHA-256"], "it offers: SCRAM-SHA-256"), (34, [], "does not use SASL"), (42, [], "INVALID_REQUEST")],
)
def test_reason_is_clear_when_the_broker_refuses_the_mechanism(code: int, offered: list[str], words: str) -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        connection.answer(connection.read(), SaslHandshakeResponse(error_code=code, mechanisms=offered))
        connection.expect_end()

    with talking(script, **sasl()) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert words in str(error)


def test_broker_is_refused_when_it_never_comes_to_an_end() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        shake_hands(connection, "OAUTHBEARER")
        while True:
            request, _ = read_token(connection)
            answer_token(connection, request, b"go on")

    with talking(script, **bearer(Provider("good"))) as (client, peer):
        assert "did not come to its end" in str(error_of(client, peer))


def test_hint_names_sasl_when_the_broker_closes_on_the_first_request() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        connection.read()

    with talking(script) as (client, peer):
        assert "demand SASL" in str(error_of(client, peer))


@pytest.mark.behaviour("security")
def test_client_authenticates_again_before_its_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials are asked for anew before a session ends, on the same connection."""
    monkeypatch.setattr(wire, "REAUTHENTICATE_AFTER", 0)

    def script(connection: Accepted) -> None:
        connection.negotiate()
        assert plain(connection, lifetime_ms=100_000)
        assert plain(connection)
        connection.answer_metadata()
        connection.expect_end()

    with talking(script, **sasl()) as (client, peer):
        answer_of(client, peer)
        measured = client.driver.measurements
        assert (measured.authentications.count, measured.reauthentications.count) == (1, 1)


def test_loss_is_reported_when_authenticating_again_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "REAUTHENTICATE_AFTER", 0.0001)

    def script(connection: Accepted) -> None:
        connection.negotiate()
        assert plain(connection, lifetime_ms=100_000)
        connection.answer_metadata()
        shake_hands(connection, "PLAIN")
        request, _ = read_token(connection)
        refuse_token(connection, request, "the user is gone")

    with talking(script, **sasl()) as (client, peer):
        answer_of(client, peer)
        event = client.next_event()
        assert isinstance(event, ConnectionLost)
        assert isinstance(event.error, AuthenticationError)


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl_mechanism": None},
        {"sasl_mechanism": "GSSAPI"},
        {"sasl_mechanism": "PLAIN"},
        {"sasl_mechanism": "PLAIN", "sasl_plain_username": "user"},
        {"sasl_mechanism": "OAUTHBEARER"},
        {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": object()},
    ],
)
def test_sasl_settings_are_refused_when_they_cannot_work(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        config(security_protocol="SASL_SSL", **settings)


LOADING = """
import sys
from kafka_share.config import ClientConfig
from kafka_share.network.handshake import Challenge
from kafka_share.network.sasl import SaslClient, load_mechanisms
load_mechanisms(ClientConfig(bootstrap_servers="unused:9092"))
print("kafka" in sys.modules)
sasl = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
config = ClientConfig(bootstrap_servers="unused:9092", sasl_plain_username="u", sasl_plain_password="p", **sasl)
load_mechanisms(config)
print(SaslClient(config).answer(Challenge(None)).data)
"""


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_kafka_python_is_loaded_for_sasl_only_and_its_warnings_are_not_ours() -> None:
    """A program that makes errors of warnings can authenticate; one without SASL does not load kafka-python."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOADING], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.splitlines(), done.stderr) == (["False", r"b'u\x00u\x00p'"], "")


def test_a_client_is_refused_when_kafka_python_has_no_mechanisms(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("kafka_share.network.sasl.import_module", nothing)
    monkeypatch.setattr("kafka_share.network.sasl._kafka_python", _kafka_python.__wrapped__)
    with pytest.raises(ConfigurationError, match="needs kafka-python"):
        load_mechanisms(config(**sasl()))


def test_secrets_are_not_shown_when_settings_are_printed() -> None:
    settings = config(
        **{**sasl(password="p4ssw0rd"), "security_protocol": "SASL_SSL"},
        ssl_password="k3y",
        sasl_oauth_token_provider="t0ken",
    )
    assert not any(secret in repr(settings) for secret in ("p4ssw0rd", "k3y", "t0ken"))
