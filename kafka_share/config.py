"""The settings of the clients: every key with its default, range and unit, and the refusal of all others.

One frozen class per client over what they have in common; the façades build theirs from keyword arguments with
`from_mapping`, and everything behind them reads the settings from it. Names are kafka-python's; Java's dotted names are
accepted too. What type checkers know of the settings is in `settings`; what a value may be, in `config_checks`.
"""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import attrs

from kafka_share import config_checks as checks
from kafka_share.deserializers import Deserializer
from kafka_share.errors import ConfigurationError
from kafka_share.foreign_settings import REFUSED_BY_ALL, REFUSED_BY_CONSUMERS, RENAMED, refusal_of
from kafka_share.records import Node

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


_TLS_SETTINGS: Final = (
    "ssl_context", "ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_crlfile", "ssl_ciphers",
)  # fmt: skip
_SASL_SETTINGS: Final = ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password", "sasl_oauth_token_provider")


@attrs.frozen(kw_only=True)
class ClientConfig:
    """The settings that all clients have in common. Times are milliseconds, sizes bytes."""

    client_kind: ClassVar[str] = "a client"
    """What the error messages call it."""
    refused: ClassVar[Mapping[str, str]] = REFUSED_BY_ALL

    bootstrap_servers: tuple[Node, ...] = attrs.field(converter=checks.servers)
    """Required. Where to look for the cluster first: "host:port,host:port" or a list of "host:port"."""
    client_id: str = attrs.field(default="kafka-share", validator=checks.text)
    """Names this client in the broker's logs, metrics and quotas."""

    request_timeout_ms: int = attrs.field(default=30_000, validator=checks.whole_number(0))
    default_api_timeout_ms: int = attrs.field(default=60_000, validator=checks.whole_number(0))
    """For calls that are given no timeout: of the consumer commit_sync, commit_async and unsubscribe, of the admin
    client all; and how long no broker may have answered before the consumer's poll raises."""
    retry_backoff_ms: int = attrs.field(default=100, validator=checks.whole_number(0))
    retry_backoff_max_ms: int = attrs.field(default=1_000, validator=checks.whole_number(0))
    reconnect_backoff_ms: int = attrs.field(default=50, validator=checks.whole_number(0))
    reconnect_backoff_max_ms: int = attrs.field(default=1_000, validator=checks.whole_number(0))
    connections_max_idle_ms: int = attrs.field(default=540_000, validator=checks.whole_number(1))
    socket_connection_setup_timeout_ms: int = attrs.field(default=10_000, validator=checks.whole_number(1))
    """For everything until the first request can leave: address look-up, TCP, TLS, versions, SASL."""
    receive_buffer_bytes: int = attrs.field(default=-1, validator=checks.whole_number(-1))
    """Of the socket; -1: what the operating system gives, and lets grow while answers are larger."""
    send_buffer_bytes: int = attrs.field(default=131_072, validator=checks.whole_number(-1))

    security_protocol: str = attrs.field(
        default="PLAINTEXT", converter=checks.upper, validator=checks.one_of(*SECURITY_PROTOCOLS)
    )
    ssl_context: ssl.SSLContext | None = attrs.field(default=None, validator=checks.tls_context)
    """A ready context; the other ssl_ settings are then not looked at."""
    ssl_check_hostname: bool = attrs.field(default=True, validator=checks.boolean)
    ssl_cafile: str | None = attrs.field(default=None, converter=checks.path_text, validator=checks.file_path)
    """PEM file of the certificate authorities to trust. Default: the system's."""
    ssl_certfile: str | None = attrs.field(default=None, converter=checks.path_text, validator=checks.file_path)
    ssl_keyfile: str | None = attrs.field(default=None, converter=checks.path_text, validator=checks.file_path)
    ssl_password: str | None = attrs.field(default=None, validator=checks.text, repr=False)
    """Of the private key."""
    ssl_crlfile: str | None = attrs.field(default=None, converter=checks.path_text, validator=checks.file_path)
    ssl_ciphers: str | None = attrs.field(default=None, validator=checks.text)
    sasl_mechanism: str | None = attrs.field(
        default=None, converter=checks.upper, validator=attrs.validators.optional(checks.one_of(*SASL_MECHANISMS))
    )
    sasl_plain_username: str | None = attrs.field(default=None, validator=checks.text)
    """For PLAIN and SCRAM."""
    sasl_plain_password: str | None = attrs.field(default=None, validator=checks.text, repr=False)
    sasl_oauth_token_provider: Any = attrs.field(default=None, repr=False)
    """For OAUTHBEARER: an object with token() -> str (kafka-python's AbstractTokenProvider), perhaps extensions()."""

    def __attrs_post_init__(self) -> None:
        self._check_tls()
        self._check_sasl()

    def _check_tls(self) -> None:
        """TLS settings that nothing would look at are a mistake: the connection would not be encrypted."""
        unused = [name for name in _TLS_SETTINGS if getattr(self, name) is not None]
        if not self.ssl_check_hostname:
            unused.append("ssl_check_hostname")
        if unused and not self.uses_tls:
            secure = "SASL_SSL" if self.uses_sasl else "SSL"
            raise ConfigurationError(
                f"{unused[0]} is set, but security_protocol {self.security_protocol} has no TLS: write {secure}"
            )

    def _check_sasl(self) -> None:
        sasl = self.uses_sasl
        unused = [name for name in _SASL_SETTINGS if getattr(self, name) is not None]
        if unused and not sasl:
            secure = "SASL_SSL" if self.uses_tls else "SASL_SSL, or SASL_PLAINTEXT without TLS"
            raise ConfigurationError(
                f"{unused[0]} is set, but security_protocol {self.security_protocol} has no SASL: write {secure}"
            )
        if sasl and self.sasl_mechanism is None:
            raise ConfigurationError(
                f"security_protocol {self.security_protocol} needs sasl_mechanism: {', '.join(SASL_MECHANISMS)}"
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
            if key not in known:
                raise ConfigurationError(cls._refusal(name, key, known))
            if key in given:
                raise ConfigurationError(f"{key} is given twice, as {key} and as {key.replace('_', '.')}")
            given[key] = value
        for required in (field.name for field in fields if field.default is attrs.NOTHING):
            if given.get(required) is None:
                given[required] = ""  # its validator says what is missing
        return cls(**given)

    @classmethod
    def _refusal(cls, name: str, key: str, known: set[str]) -> str:
        """What to say about a name that is no setting."""
        if RENAMED.get(key) in known:
            return f"{name} is not a setting of {cls.client_kind}; here it is called {RENAMED[key]}."
        reason = refusal_of(key, cls.refused)
        if reason is not None:
            return f"{name} cannot be set on {cls.client_kind}: {reason}."
        close = difflib.get_close_matches(key, known, n=1)
        return f"{name} is not a setting of {cls.client_kind}" + (f"; did you mean {close[0]}?" if close else ".")


def _own_fields_first(_: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Where to connect to, then what the client adds, then what all clients have: the order of the documentation."""
    common = {field.name for field in attrs.fields(ClientConfig)}
    return sorted(fields, key=lambda field: (field.name != "bootstrap_servers", field.name in common))


@attrs.frozen(kw_only=True, field_transformer=_own_fields_first)
class ShareConsumerConfig(ClientConfig):
    """Every setting of `KafkaShareConsumer`. Times are milliseconds, sizes bytes."""

    client_kind: ClassVar[str] = "a share consumer"
    refused: ClassVar[Mapping[str, str]] = REFUSED_BY_CONSUMERS

    group_id: str = attrs.field(validator=checks.group_id)
    """Required. The share group."""
    client_rack: str | None = attrs.field(default=None, converter=checks.none_if_empty, validator=checks.text)
    """The rack or zone this client runs in."""

    key_deserializer: Deserializer | None = attrs.field(default=None, converter=checks.deserializer)
    """Callable of the bytes, or an object with deserialize(topic, headers, data). Default: the bytes themselves."""
    value_deserializer: Deserializer | None = attrs.field(default=None, converter=checks.deserializer)

    share_acknowledgement_mode: str = attrs.field(default="implicit", validator=checks.one_of("implicit", "explicit"))
    """implicit: the next poll accepts what the previous one returned. explicit: every record needs acknowledge()."""
    share_acquire_mode: str = attrs.field(
        default="batch_optimized", converter=checks.lower, validator=checks.one_of("batch_optimized", "record_limit")
    )
    """batch_optimized: whole record batches, so max_poll_records is soft. record_limit: never more (Kafka 4.2+)."""
    explicit_window_records: int = attrs.field(default=0, validator=checks.whole_number(0))
    """explicit mode: so many records may be unacknowledged while poll is called for more. 0: none, as in Java."""
    explicit_window_bytes: int = attrs.field(default=0, validator=checks.whole_number(0))
    """With a window: no more is fetched while what came with its records has so many bytes. 0: no limit."""
    protect_locks: bool = attrs.field(default=True, validator=checks.boolean)
    """Send what has been acknowledged before its lock ends, without a poll, and keep the locks of what a loop over the
    consumer has not come to."""
    release_backoff_ms: int = attrs.field(default=1_000, validator=checks.whole_number(0))
    """Pause before the next fetch when all records of a poll were released; it doubles up to eight times this, and ends
    with the first accept or reject."""
    send_ahead: bool = attrs.field(default=False, validator=checks.boolean)
    """Fetch the next batch while the application works on one: at most one batch of each broker waits for its poll."""
    deserialization_errors: str = attrs.field(default="raise", validator=checks.one_of("raise", "mark"))
    """raise: poll raises, as in Java. mark: the record is delivered with its raw bytes and the error."""
    max_poll_records: int = attrs.field(default=500, validator=checks.whole_number(1))
    max_poll_interval_ms: int = attrs.field(default=300_000, validator=checks.whole_number(1))
    """Longest time between two polls; then the consumer leaves the group until the next poll."""
    fetch_min_bytes: int = attrs.field(default=1, validator=checks.whole_number(0))
    fetch_max_bytes: int = attrs.field(default=52_428_800, validator=checks.whole_number(0))
    """Of one broker's answer; one record batch is delivered even if it is larger. 0: never any record."""
    fetch_max_wait_ms: int = attrs.field(default=500, validator=checks.whole_number(0))
    """How long a broker may hold a fetch back while it has nothing to give."""
    max_record_batch_bytes: int = attrs.field(default=134_217_728, validator=checks.whole_number(1))
    """Of the records of one batch once they are decompressed, a record counting as 128 bytes at least."""
    check_crcs: bool = attrs.field(default=True, validator=checks.boolean)
    allow_auto_create_topics: bool = attrs.field(default=False, validator=checks.boolean)
    """A subscribed topic that does not exist is created where the broker allows it."""

    metrics_num_samples: int = attrs.field(default=2, validator=checks.whole_number(1))
    metrics_sample_window_ms: int = attrs.field(default=30_000, validator=checks.whole_number(1))
    """Averages, maxima and rates of metrics() are those of so many windows of this length."""
    enable_metrics_push: bool = attrs.field(default=True, validator=checks.boolean)
    """Push metrics to brokers that ask for them (KIP-714); the others get nothing."""
    metadata_max_age_ms: int = attrs.field(default=300_000, validator=checks.whole_number(0))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.explicit_window_records and self.share_acknowledgement_mode != "explicit":
            raise ConfigurationError("explicit_window_records needs share_acknowledgement_mode explicit")
        if self.explicit_window_bytes and not self.explicit_window_records:
            raise ConfigurationError("explicit_window_bytes needs explicit_window_records")
        if self.send_ahead and self.has_record_limit:
            raise ConfigurationError("send_ahead fetches whole batches: it needs share_acquire_mode batch_optimized")
        if self.send_ahead and self.has_window:
            raise ConfigurationError("send_ahead and explicit_window_records exclude each other: set one of them")

    @property
    def has_record_limit(self) -> bool:
        """Whether never more than `max_poll_records` are acquired (ShareFetch version 2), instead of whole batches."""
        return self.share_acquire_mode == "record_limit"

    @property
    def has_window(self) -> bool:
        """Whether records may stay unacknowledged while poll is called for more."""
        return self.explicit_window_records > 0

    @property
    def empty_window_has_room(self) -> bool:
        """Whether an open window, if there is one and nothing is in it, has room for what any poll may bring."""
        fits = self.explicit_window_records >= self.max_poll_records and not self.explicit_window_bytes
        return fits or not self.has_window


@attrs.frozen(kw_only=True)
class ShareAdminConfig(ClientConfig):
    """Every setting of `KafkaShareAdmin` and `AsyncShareAdmin`: those that all clients have."""

    client_kind: ClassVar[str] = "an admin client"


def demand_keywords(misplaced: tuple[object, ...], client: str) -> None:
    """For the admin clients: refuse positional arguments, such as a dict of settings."""
    if misplaced:
        raise ConfigurationError(f"settings are keyword arguments: write {client}(**settings)")
