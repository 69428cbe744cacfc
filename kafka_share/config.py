"""The settings of the clients: every key with its default, range and unit, and the refusal of all others.

One frozen class per client over what they have in common; the façades build theirs from keyword arguments with
`from_mapping`, and everything behind them reads the settings from it. Names are kafka-python's; Java's dotted names are
accepted too.
"""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

import attrs

from kafka_share.deserializers import Deserializer, as_deserializer
from kafka_share.errors import ConfigurationError, InvalidGroupIdError
from kafka_share.records import Node

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_BY_GROUP = "it belongs to the share group: set the group config {} with an admin client or kafka-configs --group"
_BY_BROKER = "the group coordinator decides it: set the group config {} with an admin client or kafka-configs --group"
REFUSED_BY_ALL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "api_version": "versions are negotiated with each broker",
        "ssl_truststore_location": "give the certificate authorities as a PEM file in ssl_cafile",
        "ssl_keystore_location": "give certificate and key as PEM files in ssl_certfile and ssl_keyfile",
        "ssl_endpoint_identification_algorithm": "host names are verified unless ssl_check_hostname is False",
        "sasl_jaas_config": "give sasl_plain_username and sasl_plain_password, or sasl_oauth_token_provider",
    }
)
"""Settings of other Kafka clients that every client here refuses, each with the sentence that says where it lives."""

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "auto_offset_reset": _BY_GROUP.format("share.auto.offset.reset"),
        "isolation_level": _BY_GROUP.format("share.isolation.level"),
        "session_timeout_ms": _BY_BROKER.format("share.session.timeout.ms"),
        "heartbeat_interval_ms": _BY_BROKER.format("share.heartbeat.interval.ms"),
        "enable_auto_commit": "records are acknowledged, not committed: see share_acknowledgement_mode",
        "auto_commit_interval_ms": "records are acknowledged, not committed: see share_acknowledgement_mode",
        "group_instance_id": "share groups have no static members",
        "partition_assignment_strategy": "the broker assigns partitions (its setting group.share.assignors)",
        "interceptor_classes": "share consumers have no interceptors: wrap poll, or use the acknowledgement callback",
        "group_protocol": "a share consumer speaks the share group protocol only",
        "group_remote_assignor": "the broker assigns partitions (its setting group.share.assignors)",
        "max_partition_fetch_bytes": "one limit covers the whole answer of a broker: fetch_max_bytes",
        "exclude_internal_topics": "share consumers subscribe by name only: no pattern could match an internal topic",
        "consumer_timeout_ms": "give poll its timeout_ms, or end the iteration with wakeup()",
        **REFUSED_BY_ALL,
    }
)
"""The same for a share consumer."""


# ---- what a value may be: each refusal is a `ConfigurationError` with the setting's name in it


_INT32_MAX: Final = 2**31 - 1


def _integer(low: int, high: int = _INT32_MAX) -> Callable[[Any, attrs.Attribute[int], Any], None]:
    def check(_: Any, attribute: attrs.Attribute[int], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"{attribute.name} is a whole number, not {value!r}")
        if not low <= value <= high:
            raise ConfigurationError(f"{attribute.name} is {value}; allowed are {low} to {high}")

    return check


def _one_of(*choices: str) -> Callable[[Any, attrs.Attribute[str], Any], None]:
    def check(_: Any, attribute: attrs.Attribute[str], value: Any) -> None:
        if value not in choices:
            raise ConfigurationError(f"{attribute.name} is {value!r}; allowed are {', '.join(choices)}")

    return check


def _boolean(_: Any, attribute: attrs.Attribute[bool], value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{attribute.name} is True or False, not {value!r}")


def _text(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{attribute.name} is text, not {value!r}")


def _check_group_id(_: Any, __: attrs.Attribute[str], value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError("group_id is required: the share group to be a member of") from InvalidGroupIdError()


def _deserializer(value: Any) -> Deserializer | None:
    try:
        return as_deserializer(value)
    except TypeError as error:
        raise ConfigurationError(str(error)) from None


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _servers(value: str | Iterable[str]) -> tuple[Node, ...]:
    """The bootstrap addresses as nodes -1, -2, … : "host:port,host:port" or an iterable of "host:port"."""
    texts: list[Any] = value.split(",") if isinstance(value, str) else list(value)
    texts = [t.strip() if isinstance(t, str) else t for t in texts if t]
    if not texts:
        raise ConfigurationError("bootstrap_servers is required: one or more host:port")
    nodes = []
    for i, text in enumerate(texts):
        host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536 or (":" in host and host[0] != "["):
            raise ConfigurationError(f"bootstrap_servers has {text!r}, which is not host:port (IPv6: [address]:port)")
        nodes.append(Node(-1 - i, host.strip("[]"), int(port)))
    return tuple(nodes)


# ---- the settings


@attrs.frozen(kw_only=True)
class ClientConfig:
    """The settings that all clients have in common. Times are milliseconds, sizes bytes."""

    client_kind: ClassVar[str] = "a client"
    """What the error messages call it."""
    refused: ClassVar[Mapping[str, str]] = REFUSED_BY_ALL

    bootstrap_servers: tuple[Node, ...] = attrs.field(converter=_servers)
    """Required. Where to look for the cluster first: "host:port,host:port" or a list of "host:port"."""
    client_id: str = attrs.field(default="kafka-share", validator=_text)
    """Names this client in the broker's logs, metrics and quotas."""

    request_timeout_ms: int = attrs.field(default=30_000, validator=_integer(0))
    default_api_timeout_ms: int = attrs.field(default=60_000, validator=_integer(0))
    """For calls that are given no timeout: of the consumer commit_sync, commit_async and unsubscribe, of the admin
    client all; and how long no broker may have answered before the consumer's poll raises."""
    retry_backoff_ms: int = attrs.field(default=100, validator=_integer(0))
    retry_backoff_max_ms: int = attrs.field(default=1_000, validator=_integer(0))
    reconnect_backoff_ms: int = attrs.field(default=50, validator=_integer(0))
    reconnect_backoff_max_ms: int = attrs.field(default=1_000, validator=_integer(0))
    connections_max_idle_ms: int = attrs.field(default=540_000, validator=_integer(1))
    socket_connection_setup_timeout_ms: int = attrs.field(default=10_000, validator=_integer(1))
    """For everything until the first request can leave: address look-up, TCP, TLS, versions, SASL."""
    receive_buffer_bytes: int = attrs.field(default=65_536, validator=_integer(-1))
    """Of the socket; -1: what the operating system gives."""
    send_buffer_bytes: int = attrs.field(default=131_072, validator=_integer(-1))

    security_protocol: str = attrs.field(default="PLAINTEXT", converter=_upper, validator=_one_of(*SECURITY_PROTOCOLS))
    ssl_context: ssl.SSLContext | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.instance_of(ssl.SSLContext))
    )
    """A ready context; the other ssl_ settings are then not looked at."""
    ssl_check_hostname: bool = attrs.field(default=True, validator=_boolean)
    ssl_cafile: str | None = attrs.field(default=None, validator=_text)
    """PEM file of the certificate authorities to trust. Default: the system's."""
    ssl_certfile: str | None = attrs.field(default=None, validator=_text)
    ssl_keyfile: str | None = attrs.field(default=None, validator=_text)
    ssl_password: str | None = attrs.field(default=None, validator=_text, repr=False)
    """Of the private key."""
    ssl_crlfile: str | None = attrs.field(default=None, validator=_text)
    ssl_ciphers: str | None = attrs.field(default=None, validator=_text)
    sasl_mechanism: str | None = attrs.field(
        default=None, converter=_upper, validator=attrs.validators.optional(_one_of(*SASL_MECHANISMS))
    )
    sasl_plain_username: str | None = attrs.field(default=None, validator=_text)
    """For PLAIN and SCRAM."""
    sasl_plain_password: str | None = attrs.field(default=None, validator=_text, repr=False)
    sasl_oauth_token_provider: Any = attrs.field(default=None, repr=False)
    """For OAUTHBEARER: an object with token() -> str (kafka-python's AbstractTokenProvider), perhaps extensions()."""

    def __attrs_post_init__(self) -> None:
        sasl = self.uses_sasl
        if sasl and self.sasl_mechanism is None:
            raise ConfigurationError(f"security_protocol {self.security_protocol} needs sasl_mechanism")
        if self.sasl_mechanism is not None and not sasl:
            raise ConfigurationError(
                "sasl_mechanism is set, but security_protocol is neither SASL_PLAINTEXT nor SASL_SSL"
            )
        if sasl and self.sasl_mechanism == "OAUTHBEARER":
            if not callable(getattr(self.sasl_oauth_token_provider, "token", None)):
                raise ConfigurationError("sasl_mechanism OAUTHBEARER needs a sasl_oauth_token_provider with token()")
        elif sasl and (not self.sasl_plain_username or self.sasl_plain_password is None):
            raise ConfigurationError(
                f"sasl_mechanism {self.sasl_mechanism} needs sasl_plain_username and sasl_plain_password"
            )

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Self:
        """Build it from keyword arguments; names in snake_case or Java's dotted form.

        Raises `ConfigurationError` for a name that is unknown, inapplicable or given twice, a missing one, and a value
        of the wrong type or out of range.
        """
        fields = attrs.fields(cls)
        known = {field.name for field in fields}
        given: dict[str, Any] = {}
        for name, value in settings.items():
            key = name.replace(".", "_")
            if key in cls.refused:
                raise ConfigurationError(f"{name} cannot be set on {cls.client_kind}: {cls.refused[key]}.")
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                raise ConfigurationError(
                    f"{name} is not a setting of {cls.client_kind}" + (f"; did you mean {close[0]}?" if close else ".")
                )
            if key in given:
                raise ConfigurationError(f"{key} is given twice, as {key} and as {key.replace('_', '.')}")
            given[key] = value
        for required in (field.name for field in fields if field.default is attrs.NOTHING):
            if given.get(required) is None:
                given[required] = ""  # its validator says what is missing
        return cls(**given)


def _own_fields_first(_: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Where to connect to, then what the client adds, then what all clients have: the order of the documentation."""
    common = {field.name for field in attrs.fields(ClientConfig)}
    return sorted(fields, key=lambda field: (field.name != "bootstrap_servers", field.name in common))


@attrs.frozen(kw_only=True, field_transformer=_own_fields_first)
class ShareConsumerConfig(ClientConfig):
    """Every setting of `KafkaShareConsumer`. Times are milliseconds, sizes bytes."""

    client_kind: ClassVar[str] = "a share consumer"
    refused: ClassVar[Mapping[str, str]] = REFUSED

    group_id: str = attrs.field(validator=_check_group_id)
    """Required. The share group."""
    client_rack: str | None = attrs.field(default=None, converter=_none_if_empty, validator=_text)
    """The rack or zone this client runs in."""

    key_deserializer: Deserializer | None = attrs.field(default=None, converter=_deserializer)
    """Callable of the bytes, or an object with deserialize(topic, headers, data). Default: the bytes themselves."""
    value_deserializer: Deserializer | None = attrs.field(default=None, converter=_deserializer)

    share_acknowledgement_mode: str = attrs.field(default="implicit", validator=_one_of("implicit", "explicit"))
    """implicit: the next poll accepts what the previous one returned. explicit: every record needs acknowledge()."""
    share_acquire_mode: str = attrs.field(
        default="batch_optimized", converter=_lower, validator=_one_of("batch_optimized", "record_limit")
    )
    """batch_optimized: whole record batches, so max_poll_records is soft. record_limit: never more (Kafka 4.2+)."""
    explicit_window_records: int = attrs.field(default=0, validator=_integer(0))
    """explicit mode: so many records may be unacknowledged while poll is called for more. 0: none, as in Java."""
    deserialization_errors: str = attrs.field(default="raise", validator=_one_of("raise", "mark"))
    """raise: poll raises, as in Java. mark: the record is delivered with its raw bytes and the error."""
    max_poll_records: int = attrs.field(default=500, validator=_integer(1))
    max_poll_interval_ms: int = attrs.field(default=300_000, validator=_integer(1))
    """Longest time between two polls; then the consumer leaves the group until the next poll."""
    fetch_min_bytes: int = attrs.field(default=1, validator=_integer(0))
    fetch_max_bytes: int = attrs.field(default=52_428_800, validator=_integer(0))
    """Of one broker's answer; one record batch is delivered even if it is larger. 0: never any record."""
    fetch_max_wait_ms: int = attrs.field(default=500, validator=_integer(0))
    """How long a broker may hold a fetch back while it has nothing to give."""
    check_crcs: bool = attrs.field(default=True, validator=_boolean)
    allow_auto_create_topics: bool = attrs.field(default=True, validator=_boolean)
    """A subscribed topic that does not exist is created where the broker allows it."""

    metrics_num_samples: int = attrs.field(default=2, validator=_integer(1))
    metrics_sample_window_ms: int = attrs.field(default=30_000, validator=_integer(1))
    """Averages, maxima and rates of metrics() are those of so many windows of this length."""
    enable_metrics_push: bool = attrs.field(default=True, validator=_boolean)
    """Push metrics to brokers that ask for them (KIP-714); the others get nothing."""
    metadata_max_age_ms: int = attrs.field(default=300_000, validator=_integer(0))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.explicit_window_records and self.share_acknowledgement_mode != "explicit":
            raise ConfigurationError("explicit_window_records needs share_acknowledgement_mode explicit")

    @property
    def has_record_limit(self) -> bool:
        """Whether never more than `max_poll_records` are acquired (ShareFetch version 2), instead of whole batches."""
        return self.share_acquire_mode == "record_limit"

    @property
    def has_window(self) -> bool:
        """Whether records may stay unacknowledged while poll is called for more."""
        return self.explicit_window_records > 0


@attrs.frozen(kw_only=True)
class ShareAdminConfig(ClientConfig):
    """Every setting of `KafkaShareAdmin` and `AsyncShareAdmin`: those that all clients have."""

    client_kind: ClassVar[str] = "an admin client"
