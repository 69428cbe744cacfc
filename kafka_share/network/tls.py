"""TLS contexts from the settings, and what failures of TLS mean.

Called by the driver, once, and by `connection.Connection` when TLS fails. No I/O except for reading certificate files.
Passwords never get into a message or a log line.
"""

from __future__ import annotations

import ssl

from kafka_share.config import ClientConfig
from kafka_share.errors import AuthenticationError, BrokerUnreachableError, ConfigurationError, NetworkError


def make_ssl_context(settings: ClientConfig) -> ssl.SSLContext | None:
    """The context for all connections; None if the security protocol has no TLS.

    Certificates are verified, and host names too unless `ssl_check_hostname` is False. Raises `ConfigurationError` for
    a file that cannot be read, a key that does not open, a cipher list that OpenSSL does not know.
    """
    if not settings.uses_tls:
        return None
    if settings.ssl_context is not None:
        return settings.ssl_context
    for name in ("ssl_cafile", "ssl_crlfile", "ssl_certfile", "ssl_keyfile"):
        _demand_readable(name, getattr(settings, name))
    step = f"ssl_cafile {settings.ssl_cafile}" if settings.ssl_cafile else "the certificate authorities of the system"
    try:
        context = ssl.create_default_context(cafile=settings.ssl_cafile)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = settings.ssl_check_hostname
        if settings.ssl_crlfile is not None:
            step = f"ssl_crlfile {settings.ssl_crlfile}"
            context.load_verify_locations(settings.ssl_crlfile)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if settings.ssl_certfile is not None:
            key = "the key in it" if settings.ssl_keyfile is None else f"ssl_keyfile {settings.ssl_keyfile}"
            step = f"ssl_certfile {settings.ssl_certfile} with {key} and ssl_password"
            # An empty password instead of None: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_password or "")
        if settings.ssl_ciphers is not None:
            step = "ssl_ciphers"
            context.set_ciphers(settings.ssl_ciphers)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError(f"{step} cannot be used: {error}") from error
    return context


def _demand_readable(name: str, path: str | None) -> None:
    """OpenSSL does not say which file it could not read."""
    if path is None:
        return
    try:
        with open(path, "rb"):
            return
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"{name} {path} cannot be read: {reason}") from error


def tls_error(error: ssl.SSLError, address: str) -> NetworkError:
    """What a failure of TLS with the peer at `address` means for the user."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(f"the certificate of {address} was refused: {error.verify_message}")
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"):
        return AuthenticationError(
            f"{address} does not speak TLS: its listener needs security_protocol PLAINTEXT or SASL_PLAINTEXT"
        )
    if "ALERT" in reason:
        words = reason.partition("ALERT_")[2].replace("_", " ").lower() or reason
        # Java's brokers call a missing certificate a bad one.
        hint = "; check ssl_certfile and ssl_keyfile" if words in ("certificate required", "bad certificate") else ""
        return AuthenticationError(f"{address} refused TLS with us: {words}{hint}")
    if isinstance(error, ssl.SSLEOFError) or reason in ("UNEXPECTED_EOF_WHILE_READING", ""):
        return BrokerUnreachableError(f"{address} closed the connection inside TLS: {error}")
    return AuthenticationError(f"TLS with {address} failed: {error}")
