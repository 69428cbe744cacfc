"""ShareConsumerConfig: names, ranges, and refusals that say where a setting lives."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_share.config import ShareConsumerConfig
from kafka_share.errors import ConfigurationError, InvalidGroupIdError
from kafka_share.foreign_settings import REFUSED_BY_CONSUMERS

BASE: dict[str, Any] = {"bootstrap_servers": "localhost:9092", "group_id": "g"}


def make(**settings: Any) -> ShareConsumerConfig:
    return ShareConsumerConfig.from_mapping({**BASE, **settings})


def test_defaults_are_javas_when_only_the_required_settings_are_given() -> None:
    config = make()
    assert config.max_poll_records == 500
    assert config.fetch_max_bytes == 52_428_800
    assert config.share_acknowledgement_mode == "implicit"
    assert config.share_acquire_mode == "batch_optimized"


def test_dotted_names_work_when_given_in_a_mapping() -> None:
    config = ShareConsumerConfig.from_mapping(
        {"bootstrap.servers": "a:1,b:2", "group.id": "g", "max.poll.records": 7, "share.acquire.mode": "RECORD_LIMIT"}
    )
    assert config.max_poll_records == 7
    assert config.share_acquire_mode == "record_limit"
    assert [(n.id, n.host, n.port) for n in config.bootstrap_servers] == [(-1, "a", 1), (-2, "b", 2)]


def test_a_name_given_in_both_forms_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="given twice"):
        make(**{"max.poll.records": 7, "max_poll_records": 7})


@pytest.mark.better_than_java("unknown-settings-refused")
@pytest.mark.behaviour("polling")
@pytest.mark.parametrize("name", sorted(REFUSED_BY_CONSUMERS))
def test_an_inapplicable_setting_is_refused_with_the_reason(name: str) -> None:
    """A setting of other Kafka clients is refused with the place where that matter is configured."""
    for form in (name, name.replace("_", ".")):
        with pytest.raises(ConfigurationError, match="cannot be set on a share consumer") as caught:
            make(**{form: ""})
        assert REFUSED_BY_CONSUMERS[name] in str(caught.value)


@pytest.mark.better_than_java("unknown-settings-refused")
def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    """A setting that does not exist is refused, and the message names the nearest one that does."""
    with pytest.raises(ConfigurationError, match=r"fetch_max_byte is not a setting .* fetch_max_bytes"):
        make(fetch_max_byte=1)


@pytest.mark.behaviour("polling")
@pytest.mark.parametrize("group_id", [None, "", "   ", 5])
def test_construction_fails_with_an_invalid_group_id_when_it_is_missing_or_blank(group_id: Any) -> None:
    """The error about a missing or blank group id has an invalid-group-id error as its cause."""
    with pytest.raises(ConfigurationError) as caught:
        make(group_id=group_id)
    assert isinstance(caught.value.__cause__, InvalidGroupIdError)


@pytest.mark.parametrize(
    "servers", [None, "", [], "host", "host:", ":9092", "host:0", "host:99999", "::1:9092", ["a:x"]]
)
def test_bootstrap_servers_are_refused_when_they_are_not_host_and_port(servers: Any) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        make(bootstrap_servers=servers)


def test_an_ipv6_address_is_taken_when_it_stands_in_brackets() -> None:
    assert make(bootstrap_servers="[::1]:9092").bootstrap_servers[0].host == "::1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_poll_records", 0),
        ("max_poll_records", "5"),
        ("max_poll_records", True),
        ("fetch_min_bytes", -1),
        ("check_crcs", "yes"),
        ("share_acknowledgement_mode", "EXPLICIT"),
        ("share_acquire_mode", "fast"),
        ("client_id", 3),
        ("ssl_context", "x"),
        ("key_deserializer", 3),
    ],
)
def test_a_value_of_the_wrong_type_or_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises((ConfigurationError, TypeError)):
        make(**{name: value})


def test_sasl_settings_have_to_fit_together() -> None:
    with pytest.raises(ConfigurationError, match="needs sasl_mechanism"):
        make(security_protocol="SASL_SSL")
    with pytest.raises(ConfigurationError, match="has no SASL"):
        make(sasl_mechanism="PLAIN")
    with pytest.raises(ConfigurationError, match="sasl_plain_username"):
        make(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_plain_username="u")
    with pytest.raises(ConfigurationError, match="sasl_oauth_token_provider"):
        make(security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER")


def test_secrets_do_not_show_in_the_repr() -> None:
    config = make(
        security_protocol="SASL_SSL",
        sasl_mechanism="plain",
        sasl_plain_username="user",
        sasl_plain_password="hunter2",
        ssl_password="hunter3",
    )
    assert "hunter" not in repr(config)
