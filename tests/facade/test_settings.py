"""The settings as type checkers see them are those that are checked at run time; clients say what they are."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs
import pytest

import kafka_share
from kafka_share import AsyncShareAdmin, KafkaShareAdmin, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.config import ClientConfig, ShareAdminConfig, ShareConsumerConfig
from kafka_share.errors import ConfigurationError, ConsumerClosedError, IllegalStateError
from kafka_share.settings import ShareAdminSettings, ShareConsumerSettings

BASE: dict[str, Any] = {"bootstrap_servers": "localhost:1", "group_id": "g"}
BOTH = [(ShareConsumerSettings, ShareConsumerConfig), (ShareAdminSettings, ShareAdminConfig)]
TYPES: dict[Any, list[Any]] = {
    bool: [True, False],
    int: [1],
    str: ["text"],
}
SECURE: dict[str, dict[str, Any]] = {
    "ssl_": {"security_protocol": "SSL"},
    "sasl_": {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    },
}


def required(typed: Any) -> set[str]:
    return set(typed.__required_keys__)


@pytest.mark.parametrize(("typed", "config"), BOTH)
def test_the_types_name_every_setting_and_no_other(typed: Any, config: type[ClientConfig]) -> None:
    """The deserializers, whose types become the consumer's, are parameters instead."""
    deserializers = {"key_deserializer", "value_deserializer"}
    assert (
        set(typed.__annotations__) | set(ShareAdminSettings.__annotations__)
        == {field.name for field in attrs.fields(config)} - deserializers
    )
    assert required(typed) == {field.name for field in attrs.fields(config) if field.default is attrs.NOTHING}


@pytest.mark.parametrize(("typed", "config"), BOTH)
def test_every_value_that_the_types_allow_is_taken(typed: Any, config: type[ClientConfig]) -> None:
    """Each choice, both truths, a number, a text and None are taken where the types have them."""
    tried = 0
    for name, of_setting in get_type_hints(typed).items():
        for one in (of_setting, *get_args(of_setting)):
            values: list[Any] = list(get_args(one)) if get_origin(one) is Literal else list(TYPES.get(one, []))
            values += [None] if one is type(None) else []
            for value in values:
                if name == "bootstrap_servers":
                    continue
                base = {key: value for key, value in BASE.items() if key in get_type_hints(typed)}
                for prefix, settings in SECURE.items():
                    if name.startswith(prefix) or str(value).startswith(prefix.upper()):
                        base.update(settings)
                if "OAUTHBEARER" in (value,):
                    base["sasl_oauth_token_provider"] = Tokens()
                if name.startswith("explicit_window_"):
                    base["share_acknowledgement_mode"] = "explicit"
                    base["explicit_window_records"] = 10
                if name in ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password") and value is None:
                    base = {key: value for key, value in base.items() if not key.startswith(("sasl_", "security_"))}
                config.from_mapping({**base, name: value})
                tried += 1
    assert tried > 30


class Tokens:
    def token(self) -> str:
        return "a token"


@pytest.mark.parametrize(("typed", "config"), BOTH)
def test_what_the_types_do_not_allow_is_refused(typed: Any, config: type[ClientConfig]) -> None:
    """A number as text, a truth as text and a choice that is none are found by type checkers and at run time."""
    hints = get_type_hints(typed)
    for name, of_setting in hints.items():
        kinds = (of_setting, *get_args(of_setting))
        wrong = "something else" if any(get_origin(k) is Literal or k in (int, bool) for k in kinds) else 5
        base = {key: value for key, value in BASE.items() if key in hints}
        with pytest.raises(ConfigurationError):
            config.from_mapping({**base, name: wrong})


# ---- what clients say of themselves


@pytest.fixture
def consumer() -> Iterator[KafkaShareConsumer]:
    with KafkaShareConsumer("orders", "bills", **BASE) as made:
        yield made


def test_a_consumer_shows_its_group_its_topics_and_whether_it_is_closed(consumer: KafkaShareConsumer) -> None:
    rest = "group_id='g' client_id='kafka-share' topics=['bills', 'orders']>"
    assert repr(consumer) == f"<KafkaShareConsumer open {rest}"
    consumer.close()
    assert repr(consumer) == f"<KafkaShareConsumer closed {rest}"


def test_a_closed_consumer_is_not_entered_again(consumer: KafkaShareConsumer) -> None:
    consumer.close()
    with pytest.raises(ConsumerClosedError, match="already been closed"):
        consumer.__enter__()


def test_an_admin_client_shows_whether_it_is_closed_and_is_not_entered_again() -> None:
    with KafkaShareAdmin(bootstrap_servers="localhost:1") as admin:
        assert repr(admin) == "<KafkaShareAdmin open client_id='kafka-share'>"
    assert repr(admin) == "<KafkaShareAdmin closed client_id='kafka-share'>"
    with pytest.raises(IllegalStateError, match="already been closed"):
        admin.__enter__()


async def _asynchronous() -> tuple[str, str]:
    async with AsyncShareAdmin(bootstrap_servers="localhost:1") as admin:
        before = repr(admin)
    with pytest.raises(IllegalStateError, match="already been closed"):
        await admin.__aenter__()
    return before, repr(admin)


def test_an_asynchronous_admin_client_does_the_same() -> None:
    import asyncio

    assert asyncio.run(_asynchronous()) == (
        "<AsyncShareAdmin open client_id='kafka-share'>",
        "<AsyncShareAdmin closed client_id='kafka-share'>",
    )


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_says_why_it_cannot_be_pickled_or_copied(
    consumer: KafkaShareConsumer, copied: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError, match="a KafkaShareConsumer cannot be pickled or copied: make one in each process"):
        copied(consumer)
    with (
        KafkaShareAdmin(bootstrap_servers="localhost:1") as admin,
        pytest.raises(TypeError, match="a KafkaShareAdmin cannot be pickled or copied"),
    ):
        copied(admin)


def test_completion_of_the_package_shows_what_users_may_use() -> None:
    """Not the machinery, though it has been loaded by now."""
    with ReferenceBroker():
        shown = {name for name in dir(kafka_share) if not name.startswith("__")}
    assert {"KafkaShareConsumer", "ShareConsumerSettings", "errors", "broker", "settings"} <= shown
    assert not {"core", "network", "protocol", "application", "config", "config_checks", "import_module"} & shown
