"""The settings of the clients as type checkers and editors see them: names, types, choices.

The constructors take them as keyword arguments; `config` checks the values when a client is made. Annotate a dict of
settings with these types to have it checked: `settings: ShareConsumerSettings = {...}`, and then
`KafkaShareConsumer("orders", **settings)`. What each means is in docs/consumer.md. No logic.
"""

import os
import ssl
from collections.abc import Iterable
from typing import Literal, Protocol, Required, TypeAlias, TypedDict

SecurityProtocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
FilePath: TypeAlias = str | os.PathLike[str]


class TokenProvider(Protocol):
    """For OAUTHBEARER. A method `extensions() -> Mapping[str, str]` is used too if there is one."""

    def token(self) -> str:
        """Return a token that is valid now; called on the background thread, and may block."""
        ...


class ClientSettings(TypedDict, total=False):
    """What all clients have. Times are milliseconds, sizes bytes."""

    bootstrap_servers: Required[str | Iterable[str]]
    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    connections_max_idle_ms: int
    socket_connection_setup_timeout_ms: int
    receive_buffer_bytes: int
    send_buffer_bytes: int
    security_protocol: SecurityProtocol
    ssl_context: ssl.SSLContext | None
    ssl_check_hostname: bool
    ssl_cafile: FilePath | None
    ssl_certfile: FilePath | None
    ssl_keyfile: FilePath | None
    ssl_password: str | None
    ssl_crlfile: FilePath | None
    ssl_ciphers: str | None
    sasl_mechanism: SaslMechanism | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: TokenProvider | None


class ShareConsumerSettings(ClientSettings, total=False):
    """The settings of `KafkaShareConsumer`, except for the two deserializers, which are parameters of their own."""

    group_id: Required[str]
    client_rack: str | None
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    explicit_window_records: int
    explicit_window_bytes: int
    protect_locks: bool
    release_backoff_ms: int
    send_ahead: bool
    deserialization_errors: Literal["raise", "mark"]
    max_poll_records: int
    max_poll_interval_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_record_batch_bytes: int
    check_crcs: bool
    allow_auto_create_topics: bool
    metrics_num_samples: int
    metrics_sample_window_ms: int
    enable_metrics_push: bool
    metadata_max_age_ms: int


class ShareAdminSettings(ClientSettings, total=False):
    """The settings of `KafkaShareAdmin` and `AsyncShareAdmin`."""
