"""Java's trust store and key store settings, as far as the stores are PEM: for `command_config`.

Certificates come from files, or stand in the property file itself. Stores in Java's own formats are refused with the
commands that turn them into PEM.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kafka_share.errors import ConfigurationError

STORE_KEYS: Final = (
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
)
"""What this file reads."""

_BEGIN: Final = b"-----BEGIN "
_REMEDY: Final = {
    "truststore": (
        "keytool -importkeystore -srckeystore {0} -destkeystore ca.p12 -deststoretype PKCS12; "
        "openssl pkcs12 -in ca.p12 -nokeys -out ca.pem; "
        "then ssl.truststore.type=PEM and ssl.truststore.location=ca.pem"
    ),
    "keystore": (
        "keytool -importkeystore -srckeystore {0} -destkeystore client.p12 -deststoretype PKCS12; "
        "openssl pkcs12 -in client.p12 -out client.pem; "
        "then ssl.keystore.type=PEM, ssl.keystore.location=client.pem and ssl.key.password"
    ),
}


def tls_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """The ssl_ settings of a client of ours, from Java's store settings.

    Files are named in the settings; certificates that stand in the properties come as a ready `ssl_context`. Raises
    `ConfigurationError` for a store that is not PEM, and certificates that cannot be used.
    """
    settings: dict[str, Any] = {}
    trusted, key_store = _pem_file(properties, "truststore"), _pem_file(properties, "keystore")
    if trusted is not None:
        settings["ssl_cafile"] = trusted
    if key_store is not None:
        settings["ssl_certfile"] = key_store  # private key and certificates are in one file
    password = properties.get("ssl.key.password")
    if password:
        settings["ssl_password"] = password
    inline = [name for name in ("ssl.truststore.certificates", "ssl.keystore.certificate.chain") if name in properties]
    if inline:
        _check_types(properties)
        settings["ssl_context"] = _context(properties, trusted, key_store)
    return settings


def _pem_file(properties: Mapping[str, str], store: str) -> str | None:
    location = properties.get(f"ssl.{store}.location", "").strip()
    if not location:
        return None
    if _BEGIN.decode() in location:
        raise ConfigurationError(
            f"ssl.{store}.location is the path of a file; certificates and keys that stand in the property file itself "
            "are ssl.truststore.certificates, ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    kind = _type_of(properties, store)
    if kind not in ("", "PEM"):
        raise ConfigurationError(_refusal(store, kind, location))
    try:
        content = Path(location).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"ssl.{store}.location {location} cannot be read: {error.strerror}") from error
    if _BEGIN not in content:
        # Java takes a store without a type for JKS; one that is PEM all the same is understood.
        raise ConfigurationError(_refusal(store, kind or "JKS (Java's default)", location))
    return location


def _type_of(properties: Mapping[str, str], store: str) -> str:
    kind = properties.get(f"ssl.{store}.type", "").strip().upper()
    return kind if kind in ("", "PEM", "JKS", "PKCS12") else "other than PEM"


def _refusal(store: str, kind: str, location: str) -> str:
    if kind == "PEM":
        return f"ssl.{store}.location {location} is not PEM: it has no line that begins with -----BEGIN"
    return f"ssl.{store}.type {kind} cannot be read here; make it PEM: {_REMEDY[store].format(location)}"


def _check_types(properties: Mapping[str, str]) -> None:
    for store in ("truststore", "keystore"):
        kind = _type_of(properties, store)
        if kind not in ("", "PEM"):
            raise ConfigurationError(f"ssl.{store}.type is {kind}, but certificates in the file need PEM")


def _context(properties: Mapping[str, str], trusted: str | None, key_store: str | None) -> ssl.SSLContext:
    step = "ssl.truststore.certificates"
    try:
        context = ssl.create_default_context(cafile=trusted, cadata=properties.get(step))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
        context.check_hostname = bool(algorithm.strip())
        password = properties.get("ssl.key.password", "")
        chain = properties.get("ssl.keystore.certificate.chain")
        if chain is not None:
            step = "ssl.keystore.certificate.chain and ssl.keystore.key"
            with _written(properties.get("ssl.keystore.key", "") + "\n" + chain) as file:
                context.load_cert_chain(file, password=password)
        elif key_store is not None:
            step = "ssl.keystore.location"
            context.load_cert_chain(key_store, password=password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError(f"{step} cannot be used: {error}") from error
    return context


@contextlib.contextmanager
def _written(text: str) -> Iterator[str]:
    """A file that only this user can read, for OpenSSL, which takes keys from files only."""
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        yield name
    finally:
        os.unlink(name)
