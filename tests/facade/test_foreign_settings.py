"""Those who come from another client are told of each of its settings: it works, has another name, or a reason."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import aiokafka
import attrs
import pytest

from kafka_share import KafkaShareAdmin, KafkaShareConsumer
from kafka_share.broker.configs.config_keys import GROUP_KEYS
from kafka_share.config import ShareAdminConfig, ShareConsumerConfig
from kafka_share.errors import ConfigurationError, InvalidArgumentError
from kafka_share.foreign_settings import REFUSED_BY_CONSUMERS, RENAMED

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas with a function of old
    from kafka import KafkaAdminClient, KafkaConsumer

HERE = Path(__file__).parent
BASE: dict[str, Any] = {"bootstrap_servers": "localhost:9092", "group_id": "g"}
OURS = {field.name for field in attrs.fields(ShareConsumerConfig)}


def listed(file: str) -> list[str]:
    lines = (HERE / file).read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def refusal(name: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        ShareConsumerConfig.from_mapping({**BASE, name: "x"})
    return str(caught.value)


ELSEWHERE = {
    "java": listed("settings_of_java.txt"),
    "librdkafka": listed("settings_of_librdkafka.txt"),
    "kafka-python": list(KafkaConsumer.DEFAULT_CONFIG),
    "aiokafka": list(inspect.signature(aiokafka.AIOKafkaConsumer.__init__).parameters)[2:],
    "group configs": [key.name for key in GROUP_KEYS.values() if key.name.startswith("share.")],
    "common words": ["username", "password", "topics", "timeout_ms", "acks", "schema.registry.url"],
}


@pytest.mark.parametrize("client", ELSEWHERE)
def test_every_setting_of_another_client_is_ours_or_told_by_name(client: str) -> None:
    """None is answered with nothing but "is not a setting", or with a guess at another one."""
    assert len(ELSEWHERE[client]) >= 6
    for name in ELSEWHERE[client]:
        if name.replace(".", "_") not in OURS:
            said = refusal(name)
            assert "here it is called" in said or "cannot be set on a share consumer: " in said, said
            assert "did you mean" not in said


def test_every_setting_of_kafka_pythons_admin_client_is_ours_or_told_by_name() -> None:
    ours = {field.name for field in attrs.fields(ShareAdminConfig)}
    of_our_consumer = {"metadata_max_age_ms", "metrics_num_samples", "metrics_sample_window_ms"}
    for name in set(KafkaAdminClient.DEFAULT_CONFIG) - ours - of_our_consumer:
        with pytest.raises(ConfigurationError) as caught:
            ShareAdminConfig.from_mapping({"bootstrap_servers": "localhost:9092", name: "x"})
        assert f"{name} cannot be set on an admin client: " in str(caught.value)


@pytest.mark.parametrize("name", sorted(RENAMED))
def test_a_setting_that_has_another_name_here_is_told_it(name: str) -> None:
    for form in (name, name.replace("_", ".")):
        assert refusal(form).endswith(f"here it is called {RENAMED[name]}.")
    assert RENAMED[name] in OURS
    assert name not in REFUSED_BY_CONSUMERS


def test_a_setting_of_the_token_s_source_is_answered_with_the_provider() -> None:
    assert "sasl_oauth_token_provider" in refusal("sasl.oauthbearer.something.new")


def test_no_setting_of_ours_is_refused() -> None:
    assert not OURS & (set(REFUSED_BY_CONSUMERS) | set(RENAMED))


def test_reasons_that_lie_in_the_group_name_our_own_tools() -> None:
    for name in ("auto_offset_reset", "session.timeout.ms", "share.record.lock.duration.ms"):
        assert "KafkaShareAdmin.ensure_group_config or kafka-share-groups --alter --add-config" in refusal(name)


# ---- arguments in the wrong place


@pytest.mark.parametrize("settings", [{"bootstrap.servers": "x:1", "group.id": "g"}, ShareConsumerConfig(**BASE)])
def test_settings_as_an_argument_are_answered_with_how_to_write_them(settings: Any) -> None:
    """confluent-kafka's style."""
    with pytest.raises(ConfigurationError, match=r"keyword arguments.* KafkaShareConsumer\(\*topics, \*\*"):
        KafkaShareConsumer(settings)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"settings are keyword arguments: write KafkaShareAdmin\(\*\*"):
        KafkaShareAdmin(settings)  # type: ignore[call-arg]


@pytest.mark.parametrize("topics", [["orders"], ("orders",), {"orders"}])
def test_a_list_of_topics_is_answered_with_how_to_write_it(topics: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"one name each, not \w+: write KafkaShareConsumer\(\*topics, \*\*"):
        KafkaShareConsumer(topics, **BASE)


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        (9092, 'is "host:port,host:port" or a list of "host:port", not int'),
        (b"localhost:9092", "not bytes"),
        ({"localhost": 9092}, "not dict"),
        ([("localhost", 9092)], 'it is tuple, write "host:port"'),
        ("http://localhost:9092", "without a scheme"),
        ("good:1, localhost", "address 2 of 2, is not host:port"),
    ],
)
def test_addresses_of_another_shape_are_answered_with_what_to_write(servers: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ShareConsumerConfig.from_mapping({**BASE, "bootstrap_servers": servers})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_poll_records", "5", "max_poll_records is a whole number, not str: write it without quotes"),
        ("max_poll_records", 5.0, "max_poll_records is a whole number, not float"),
        ("check_crcs", "true", "check_crcs is True or False, not str"),
        ("client_id", b"c", "client_id is text, not bytes: decode it"),
        ("group_id", 5, "group_id is text, not int"),
        ("share_acknowledgement_mode", "explcit", "is one of implicit, explicit; did you mean explicit?"),
        ("share_acknowledgement_mode", "EXPLICIT", "did you mean explicit?"),
        ("ssl_keyfile", "-----BEGIN PRIVATE KEY-----", "is the path of a PEM file, not what stands in it"),
    ],
)
def test_a_value_of_another_kind_is_answered_with_what_to_write(name: str, value: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ShareConsumerConfig.from_mapping({**BASE, name: value})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile is set, but security_protocol PLAINTEXT has no TLS: write SSL"),
        ({"ssl_check_hostname": False}, "ssl_check_hostname is set, but security_protocol PLAINTEXT has no TLS"),
        (
            {"sasl_mechanism": "PLAIN"},
            "sasl_mechanism is set, but security_protocol PLAINTEXT has no SASL: write SASL_",
        ),
        ({"security_protocol": "SSL", "sasl_plain_password": "p"}, "security_protocol SSL has no SASL: write SASL_SSL"),
    ],
)
def test_a_security_setting_that_nothing_would_look_at_is_refused(settings: dict[str, Any], said: str) -> None:
    """Otherwise the connection would be less safe than it looks in the code."""
    with pytest.raises(ConfigurationError) as caught:
        ShareConsumerConfig.from_mapping({**BASE, **settings})
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    """By its setting and its path; a Path is as good as text."""
    there, missing = tmp_path / "there.pem", tmp_path / "missing.pem"
    there.write_text("")
    settings: dict[str, Any] = {"ssl_certfile": there} if name == "ssl_keyfile" else {}
    with pytest.raises(ConfigurationError) as caught:
        KafkaShareConsumer("t", **BASE, security_protocol="SSL", **{**settings, name: missing})
    assert f"{name} {missing} cannot be read: No such file or directory" in str(caught.value)
