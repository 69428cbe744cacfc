"""What a connection needs to know: the part of a client's configuration that is about sockets, TLS and SASL.

The façades fill it from their configuration, which has checked the values; names are kafka-python's.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

import attrs

from kafka_share.config import ClientConfig

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_MAX_FRAME_BYTES: Final = 256 * 1024 * 1024


@attrs.frozen(kw_only=True)
class ConnectionSettings:
    """Settings of every connection of one client. Times are milliseconds, sizes bytes."""

    client_id: str = "kafka-share"
    security_protocol: str = attrs.field(default="PLAINTEXT", validator=attrs.validators.in_(SECURITY_PROTOCOLS))
    ssl_context: ssl.SSLContext | None = attrs.field(default=None, repr=False)
    """A ready context; the other ssl_ settings are then not looked at."""
    ssl_check_hostname: bool = True
    ssl_cafile: str | None = None
    """PEM file of the certificate authorities to trust. Default: the system's."""
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = attrs.field(default=None, repr=False)
    """Of the private key."""
    ssl_crlfile: str | None = None
    ssl_ciphers: str | None = None
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    """For PLAIN and SCRAM."""
    sasl_plain_password: str | None = attrs.field(default=None, repr=False)
    sasl_oauth_token_provider: Any = attrs.field(default=None, repr=False)
    """For OAUTHBEARER: an object with token() -> str and, if it likes, extensions() -> dict[str, str]."""
    receive_buffer_bytes: int | None = None
    """Of the socket (SO_RCVBUF); None or -1: what the operating system gives."""
    send_buffer_bytes: int | None = None
    connections_max_idle_ms: int = attrs.field(default=540_000, validator=attrs.validators.gt(0))
    socket_connection_setup_timeout_ms: int = attrs.field(default=10_000, validator=attrs.validators.gt(0))
    """For everything until the first request can leave: address look-up, TCP, TLS, versions, SASL."""
    max_frame_bytes: int = attrs.field(default=DEFAULT_MAX_FRAME_BYTES, validator=attrs.validators.ge(1024))
    """An answer that claims to be longer is refused and its connection closed."""

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")


def connection_settings(config: ClientConfig) -> ConnectionSettings:
    """The part of a client's configuration that its connections need."""
    return ConnectionSettings(
        client_id=config.client_id,
        security_protocol=config.security_protocol,
        ssl_context=config.ssl_context,
        ssl_check_hostname=config.ssl_check_hostname,
        ssl_cafile=config.ssl_cafile,
        ssl_certfile=config.ssl_certfile,
        ssl_keyfile=config.ssl_keyfile,
        ssl_password=config.ssl_password,
        ssl_crlfile=config.ssl_crlfile,
        ssl_ciphers=config.ssl_ciphers,
        sasl_mechanism=config.sasl_mechanism,
        sasl_plain_username=config.sasl_plain_username,
        sasl_plain_password=config.sasl_plain_password,
        sasl_oauth_token_provider=config.sasl_oauth_token_provider,
        receive_buffer_bytes=config.receive_buffer_bytes,
        send_buffer_bytes=config.send_buffer_bytes,
        connections_max_idle_ms=config.connections_max_idle_ms,
        socket_connection_setup_timeout_ms=config.socket_connection_setup_timeout_ms,
    )
