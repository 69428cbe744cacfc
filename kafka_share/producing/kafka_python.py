"""kafka-python's producer for a worker: the application's, or one that is made from the worker's own settings.

kafka-python is imported when the first record is written. Its versions 2 and 3 are settled here.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from kafka_share.config import ClientConfig
from kafka_share.errors import ConfigurationError
from kafka_share.producing.one_thread import OnOneThread
from kafka_share.producing.producer import FORBIDDEN, MISSING, OutgoingRecord, Told, not_written

_REMEDIES: Final = {
    "KafkaTimeoutError": MISSING,
    "UnknownTopicOrPartitionError": MISSING,
    "TopicAuthorizationFailedError": FORBIDDEN,
    "MessageSizeTooLargeError": "raise max.message.bytes of the topic",
}
"""By the names of its errors."""
_OWN: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "acks": "all",
        "compression_type": "gzip",  # what came compressed may be too large for the topic otherwise
        "max_block_ms": 10_000,
        "max_request_size": 100 * 1024 * 1024,  # the broker decides what is too large
    }
)
_IF_KNOWN: Final[Mapping[str, Any]] = MappingProxyType({"bootstrap_timeout_ms": 10_000, "metrics_enabled": False})
"""Settings that not every version has."""
_SHARED: Final = ("client_id", "security_protocol", "ssl_check_hostname")
_SHARED_IF_SET: Final = (
    "ssl_context", "ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_crlfile", "ssl_ciphers",
    "sasl_mechanism", "sasl_plain_username", "sasl_plain_password", "sasl_oauth_token_provider",
)  # fmt: skip


class KafkaPythonProducer(OnOneThread):
    """Writes with a `kafka.KafkaProducer` of the application, which keeps its settings and closes it.

    kafka-python cannot write a header whose value is null, which becomes empty, nor a record that has neither key nor
    value. Raises `ConfigurationError` if its `acks` is not "all", which is the default of kafka-python 3 only.
    """

    def __init__(self, client: Any) -> None:
        super().__init__()
        acks = getattr(client, "config", {}).get("acks", -1)
        if acks not in (-1, "all"):
            raise ConfigurationError(f"acks of the KafkaProducer is {acks}, and a copy may be lost: write acks='all'")
        self._client = client

    def _send(self, record: OutgoingRecord, told: Told) -> None:
        sent = self._client.send(
            record.topic,
            value=record.value,
            key=record.key,
            headers=[(name, value or b"") for name, value in record.headers],
            partition=record.partition,
        )
        sent.add_callback(lambda _: told(None))
        sent.add_errback(lambda error: told(self._reason(record.topic, error)))

    def _reason(self, topic: str, error: Exception) -> Exception:
        return not_written(topic, error, _REMEDIES.get(type(error).__name__, ""))

    def _end(self, timeout_ms: int) -> None:
        """The application closes its producer, which sends what it has."""


class OwnKafkaPythonProducer(KafkaPythonProducer):
    """Writes with a `kafka.KafkaProducer` that it makes, with the connection and security settings of a client of ours.

    It asks brokers to create a topic that is missing; whether they do so is their setting (auto.create.topics.enable).
    A producer that has failed is replaced as soon as nothing is on its way: kafka-python has failures that last.
    """

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(None)
        self._config = config
        self._lock = threading.Lock()
        self._in_flight = 0
        self._has_failed = False

    def _send(self, record: OutgoingRecord, told: Told) -> None:
        if self._has_failed and not self._in_flight:
            self._end(0)
        if self._client is None:
            self._has_failed = False
            self._client = _make(self._config)
        with self._lock:
            self._in_flight += 1
        has_neither = record.key is None and record.value is None
        try:
            super()._send(_without_either(record) if has_neither else record, lambda error: self._sent(told, error))
        except Exception as error:  # noqa: BLE001 - whatever the client raises is why it was not sent
            self._sent(told, self._reason(record.topic, error))

    def _sent(self, told: Told, error: Exception | None) -> None:
        with self._lock:
            self._in_flight -= 1
            self._has_failed |= error is not None
        told(error)

    def _end(self, timeout_ms: int) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close(timeout=timeout_ms / 1_000)


_NEITHER: Final[Any] = object()
"""For the serializer below: kafka-python refuses a record that is given neither key nor value."""


def _without_either(record: OutgoingRecord) -> OutgoingRecord:
    return OutgoingRecord(record.topic, None, _NEITHER, record.headers, record.partition)


def _make(config: ClientConfig) -> Any:
    kafka, serializer = _module("kafka"), _module("kafka.serializer").Serializer

    class Unchanged(serializer):  # type: ignore[misc, valid-type]
        def serialize(self, topic: str, *headers_and_data: Any) -> Any:
            return None if headers_and_data[-1] is _NEITHER else headers_and_data[-1]

        def close(self) -> None:
            """Nothing to close."""

    known = {name: value for name, value in _IF_KNOWN.items() if name in kafka.KafkaProducer.DEFAULT_CONFIG}
    return kafka.KafkaProducer(**_connection(config), **_OWN, **known, value_serializer=Unchanged())


def _connection(config: ClientConfig) -> dict[str, Any]:
    own = {name: getattr(config, name) for name in (*_SHARED, *_SHARED_IF_SET)}
    own = {name: value for name, value in own.items() if value is not None}
    provider = config.sasl_oauth_token_provider
    if provider is not None:
        _oauth().AbstractTokenProvider.register(type(provider))  # it asks for this class, we for its methods
    hosts = [(f"[{node.host}]" if ":" in node.host else node.host, node.port) for node in config.bootstrap_servers]
    return {**own, "bootstrap_servers": [f"{host}:{port}" for host, port in hosts]}


def _oauth() -> Any:
    try:
        return _module("kafka.net.sasl.oauth")
    except ModuleNotFoundError:  # version 2
        return _module("kafka.sasl.oauth")


def _module(name: str) -> Any:
    with warnings.catch_warnings():
        # It reads files with a function that Python 3.11 and 3.12 call deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        return import_module(name)
