"""No value of a setting shows in an exception, a traceback, a log line or a repr, whatever its type and place.

Canaries go into every setting, as every kind of wrong value, through every entry. What may show is a number where a
number belongs, the path of a file, and what an accepted setting that is no secret is for (a client id in a repr).
"""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_share import AsyncShareAdmin, KafkaShareAdmin, KafkaShareConsumer
from kafka_share.cli.clients import client_settings
from kafka_share.cli.groups.command import main as groups_command
from kafka_share.config import ShareAdminConfig, ShareConsumerConfig
from kafka_share.errors import KafkaShareError

CANARY = "hunter" + "2"
NUMBER = 8_675_309_867
SECRETS = ("ssl_password", "sasl_plain_password", "sasl_oauth_token_provider")
PATHS = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
SHOWN_AS_PATH = ("text", "nul", "url", "broken text")
NUMBERS = tuple(field.name for field in attrs.fields(ShareConsumerConfig) if field.type in (int, "int"))


class Shows:
    """An object that cannot keep a secret."""

    def __repr__(self) -> str:
        return CANARY

    __str__ = __repr__


KINDS: dict[str, Any] = {
    "text": CANARY,
    "bytes": CANARY.encode(),
    "bytearray": bytearray(CANARY.encode()),
    "number": NUMBER,
    "fraction": NUMBER / 2,
    "dict": {"password": CANARY},
    "list": [CANARY],
    "tuple": (CANARY, NUMBER),
    "set": {CANARY},
    "object": Shows(),
    "class": type(CANARY, (), {}),
    "error": ValueError(CANARY),
    "pem": f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n",
    "broken text": f"{CANARY}\ud800",
    "nul": f"{CANARY}\0",
    "url": f"https://user:{CANARY}@host:9092/",
}
SITUATIONS: dict[str, dict[str, Any]] = {
    "no security": {},
    "SASL over TLS": {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    },
    "tokens": {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"},
    "an unknown protocol": {"security_protocol": CANARY},
}


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Everything that can be printed of an exception and of those behind it, shown in tracebacks or not.

    Of a traceback those lines that are made of the exception: the others are code.
    """
    if error is not None:
        yield from ("".join(traceback.format_exception_only(error)), str(error), repr(error), repr(error.args))
        yield from texts_of(error.__cause__)
        yield from texts_of(error.__context__)


def shows_nothing(text: str) -> None:
    assert CANARY not in text
    assert str(NUMBER) not in text
    assert str(NUMBER // 2) not in text


def consumer(settings: dict[str, Any]) -> Any:
    return KafkaShareConsumer[Any, Any]("t", **settings)


def admin(settings: dict[str, Any]) -> Any:
    settings.pop("group_id", None)
    return KafkaShareAdmin(**settings)


def async_admin(settings: dict[str, Any]) -> Any:
    settings.pop("group_id", None)
    return AsyncShareAdmin(**settings)


def consumer_config(settings: dict[str, Any]) -> Any:
    return ShareConsumerConfig.from_mapping(settings)


def dotted(settings: dict[str, Any]) -> Any:
    return ShareConsumerConfig.from_mapping({name.replace("_", "."): value for name, value in settings.items()})


ENTRIES = [consumer, admin, async_admin, consumer_config, dotted]


def demand_silence(make: Callable[[], Any], caplog: pytest.LogCaptureFixture, *, may_show: bool = False) -> None:
    """Make a client; whether it is refused or not, nothing that can be read has the canary."""
    made: Any = None
    try:
        made = make()
    except (KafkaShareError, TypeError) as error:
        for text in texts_of(error):
            shows_nothing(text)
    else:
        if not may_show:
            shows_nothing(repr(made))
            shows_nothing(str(made))
    finally:
        if made is not None and not isinstance(made, ShareConsumerConfig):
            (made._calls if isinstance(made, AsyncShareAdmin) else made).close(5_000)
    if not may_show:
        shows_nothing(caplog.text)
    caplog.clear()


@pytest.mark.timeout(120)  # a few thousand clients, some with a thread
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)
def test_a_setting_keeps_what_it_was_given_to_itself(
    entry: Callable[[dict[str, Any]], Any],
    situation: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every setting, with every kind of value, through every way to make a client."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)  # the system's authorities take long to read, and none is needed
    for field in attrs.fields(ShareConsumerConfig):
        if situation != "no security" and not field.name.startswith(("ssl_", "sasl_", "security_")):
            continue
        for kind, value in KINDS.items():
            if (field.name in NUMBERS and kind == "number") or (field.name in PATHS and kind in SHOWN_AS_PATH):
                continue
            settings = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g", **SITUATIONS[situation]}
            settings[field.name] = value
            demand_silence(lambda s=settings: entry(s), caplog, may_show=field.name not in SECRETS)  # type: ignore[misc]


@pytest.mark.parametrize(
    "servers",
    [
        f"user:{CANARY}@host",
        f"user:{CANARY}@host:9092",
        f"{CANARY}@host:9092",
        f"kafka://user:{CANARY}@host:9092",
        f"[user:{CANARY}@::1]:9092",
        f"host:{CANARY}",
        f"good:1,user:{CANARY}@host:9092",
        ["good:1", f"user:{CANARY}@host:9092"],
        ["good:1", CANARY.encode()],
    ],
)
def test_an_address_with_a_password_is_refused_without_being_shown(
    servers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for entry in ENTRIES:
        settings = {"bootstrap_servers": servers, "group_id": "g"}
        with pytest.raises(KafkaShareError, match="is not host:port"):
            entry(dict(settings))
        demand_silence(lambda e=entry, s=settings: e(s), caplog)  # type: ignore[misc]


@pytest.mark.parametrize(
    "name",
    ["sasl_password", "sasl.password", "password", "ssl.key.password", "sasl.jaas.config", "sasl_plain_pasword", "x"],
)
def test_a_name_that_is_no_setting_is_refused_without_its_value(name: str, caplog: pytest.LogCaptureFixture) -> None:
    for entry in (consumer, admin, async_admin, consumer_config):
        for value in KINDS.values():
            settings = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g", name: value}
            demand_silence(lambda e=entry, s=settings: e(s), caplog)  # type: ignore[misc]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"text", "url", "pem", "nul", "broken text"}))
def test_a_positional_argument_that_is_no_topic_is_refused_without_being_shown(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The dict of settings that confluent-kafka takes is one of them."""
    value = KINDS[kind]
    settings: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g"}
    makers: list[Callable[[], Any]] = [
        lambda: KafkaShareConsumer[Any, Any](value),  # type: ignore[call-arg]
        lambda: KafkaShareConsumer[Any, Any](value, **settings),
        lambda: KafkaShareConsumer[Any, Any]("t", value, **settings),
        lambda: KafkaShareAdmin(value),  # type: ignore[call-arg]
        lambda: AsyncShareAdmin(value),  # type: ignore[call-arg]
    ]
    for make in makers:
        with pytest.raises(KafkaShareError):
            make()
        demand_silence(make, caplog)


# ---- property files of the tools

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BROKEN_FILES = {
    "a number": f"request.timeout.ms={CANARY}",
    "a truth": f"check.crcs={CANARY}",
    "a choice": f"share.acquire.mode={CANARY}",
    "a protocol": f"security.protocol={CANARY}",
    "an escape": f"sasl.password=abc\\u{CANARY}",
    "a line of its own": CANARY,
    "a quoted line": f'"{CANARY}";',
    "an unknown key": f"my.password={CANARY}",
    "a mechanism": f"security.protocol=SASL_SSL\nsasl.mechanism={CANARY}",
    "a login module": f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={CANARY} required a=b;",
    "no login": f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={CANARY}",
    "no semicolon": f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={LOGIN} password="{CANARY}"',
    "no quotes": f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    f"sasl.jaas.config={LOGIN} username=u password=a {CANARY}=b c;",
    "no backslash": "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    f'sasl.jaas.config={LOGIN}\n password="{CANARY}";',
    "a store of Java's": f"security.protocol=SSL\nssl.truststore.location=x\nssl.truststore.type={CANARY}",
    "a key as its path": f"security.protocol=SSL\nssl.keystore.location=-----BEGIN PRIVATE KEY-----\\n{CANARY}",
    "a key": f"security.protocol=SSL\nssl.keystore.key={CANARY}\nssl.keystore.certificate.chain={CANARY}",
    "certificates": f"security.protocol=SSL\nssl.truststore.certificates={CANARY}",
    "a key's password": f"security.protocol=SSL\nssl.keystore.location=/nowhere.pem\nssl.key.password={CANARY}",
    "providers": f"config.providers={CANARY}",
    "TLS without TLS": f"ssl.key.password={CANARY}",
    "SASL without SASL": f'sasl.mechanism=PLAIN\nsasl.jaas.config={LOGIN} username="u" password="{CANARY}";',
}


@pytest.mark.parametrize("content", BROKEN_FILES)
def test_a_property_file_keeps_its_values_when_it_is_refused(
    content: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Errors and warnings about the file name keys only; so does the tool that read it."""
    file = tmp_path / "client.properties"
    file.write_text(BROKEN_FILES[content])
    for client in (ShareConsumerConfig, ShareAdminConfig):

        def make(client: type = client) -> Any:
            return client.from_mapping({**client_settings("127.0.0.1:1", file, client), "group_id": "g"})  # type: ignore[attr-defined]

        demand_silence(make, caplog)
    with contextlib.suppress(SystemExit):
        groups_command(
            ["--bootstrap-server", "127.0.0.1:1", "--list", "--command-config", str(file), "--timeout-ms", "1"]
        )
    shown = capfd.readouterr()
    shows_nothing(shown.out + shown.err)


def test_every_key_of_a_property_file_keeps_its_value(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for field in attrs.fields(ShareConsumerConfig):
        if field.name in PATHS:
            continue
        for value in (CANARY, f"{CANARY}\ud800", f"-----BEGIN X-----{CANARY}"):
            properties = {field.name.replace("_", "."): value}

            def make(properties: dict[str, str] = properties) -> Any:
                settings = client_settings("127.0.0.1:1", None, ShareConsumerConfig, properties)
                return ShareConsumerConfig.from_mapping({"group_id": "g", **settings})

            demand_silence(make, caplog, may_show=field.name not in SECRETS)
    shown = capfd.readouterr()
    shows_nothing(shown.out + shown.err)


def test_a_command_property_without_an_equals_sign_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    from kafka_share.cli.console.command import main as console_command

    with pytest.raises(SystemExit):
        console_command(["--bootstrap-server", "x:1", "--topic", "t", "--command-property", f"sasl.password {CANARY}"])
    shown = capfd.readouterr()
    assert "is not NAME=VALUE" in shown.err
    shows_nothing(shown.out + shown.err)
