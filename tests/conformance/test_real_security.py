"""Our consumer on the secured listeners of a real Kafka: each way in brings a record, each wrong key an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme
from conformance.admin_over_wire import Admin
from conformance.kafka_server import KafkaServer, Security
from conformance.kafka_targets import controlled
from conformance.share_flow import Keep
from support.waiting import poll_until

from kafka_share import KafkaShareConsumer
from kafka_share.errors import AuthenticationError

USER, PASSWORD = "worker", "correct horse"
TOPIC = "secured"
POLL_MS = 60_000
"""Far longer than a refusal takes: an error before its end did not wait for it."""
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@attrs.frozen
class Secured:
    kafka: KafkaServer
    admin: Admin

    def login(self, listener: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        """The settings of a consumer that comes in by a password."""
        settings = {
            "bootstrap_servers": self.kafka.bootstrap(listener),
            "security_protocol": listener,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": password,
        }
        if listener == "SASL_SSL":
            settings["ssl_cafile"] = self.authority
        return settings

    def certificate(self) -> dict[str, Any]:
        """The settings of a consumer that comes in by its certificate."""
        assert self.kafka.certificates is not None
        return {
            "bootstrap_servers": self.kafka.bootstrap("SSL"),
            "security_protocol": "SSL",
            "ssl_cafile": self.authority,
            "ssl_certfile": str(self.kafka.certificates.client),
            "ssl_keyfile": str(self.kafka.certificates.client_key),
        }

    @property
    def authority(self) -> str:
        assert self.kafka.certificates is not None
        return str(self.kafka.certificates.authority)


@pytest.fixture(scope="module")
def secured(real_version: str) -> Iterator[Secured]:
    with (
        controlled(real_version, security=Security({USER: PASSWORD})) as kafka,
        Admin(kafka.bootstrap_servers) as admin,
    ):
        admin.create_topic(TOPIC)
        admin.produce(TOPIC, [b"kept"])
        yield Secured(kafka, admin)


def assert_consumes(secured: Secured, group: str, keep: Keep, settings: Mapping[str, Any]) -> None:
    secured.admin.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    [record] = poll_until(keep(KafkaShareConsumer(TOPIC, group_id=group, **settings)), 1)
    assert record.value == b"kept"


def refusal(keep: Keep, settings: Mapping[str, Any]) -> str:
    """What the first poll says, which must not wait for its end."""
    consumer = keep(KafkaShareConsumer(TOPIC, group_id="refused", **settings))
    deadline_s = time.monotonic() + POLL_MS / 1000
    with pytest.raises(AuthenticationError) as caught:
        consumer.poll(timeout_ms=POLL_MS)
    assert time.monotonic() < deadline_s, "the error came when the poll's time had run out"
    return str(caught.value)


@pytest.mark.behaviour("security")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_record_comes_when_the_password_is_right(
    secured: Secured, unique: Callable[[str], str], closing: Keep, listener: str, mechanism: str
) -> None:
    """PLAIN and SCRAM, with and without TLS: a member with the right password consumes."""
    assert_consumes(secured, unique("g"), closing, secured.login(listener, mechanism))


@pytest.mark.behaviour("security")
def test_a_record_comes_when_both_sides_show_certificates(
    secured: Secured, unique: Callable[[str], str], closing: Keep
) -> None:
    """TLS with certificates on both sides: a member consumes."""
    assert_consumes(secured, unique("g"), closing, secured.certificate())


@pytest.mark.behaviour("security")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_poll_says_so_at_once_when_the_password_is_wrong(
    secured: Secured, closing: Keep, listener: str, mechanism: str
) -> None:
    """A wrong password is raised by the first poll, and nothing is consumed."""
    text = refusal(closing, secured.login(listener, mechanism, "wrong"))
    assert mechanism in text or "credentials" in text or "password" in text, text
    assert "wrong" not in text, "the password is in the message"


@pytest.mark.behaviour("security")
def test_poll_says_so_at_once_when_the_brokers_authority_is_unknown(
    secured: Secured, closing: Keep, tmp_path: Path
) -> None:
    """A broker whose certificate nobody trusted has signed is refused, and poll says so."""
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    text = refusal(closing, {**secured.login("SASL_SSL", "PLAIN"), "ssl_cafile": str(stranger)})
    assert "certificate" in text


def test_poll_says_so_at_once_when_the_broker_does_not_know_our_certificate(
    secured: Secured, closing: Keep, tmp_path: Path
) -> None:
    stranger = trustme.CA().issue_cert("client", common_name="client")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    stranger.cert_chain_pems[0].write_to_path(str(certificate))
    stranger.private_key_pem.write_to_path(str(key))
    settings = {**secured.certificate(), "ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    assert "certificate" in refusal(closing, settings)


def test_poll_says_so_at_once_when_we_show_no_certificate(secured: Secured, closing: Keep) -> None:
    shown = ("ssl_certfile", "ssl_keyfile")
    settings = {name: value for name, value in secured.certificate().items() if name not in shown}
    assert "certificate" in refusal(closing, settings)
