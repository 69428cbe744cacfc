"""What guards the door of a `ReferenceBroker`: its `Security`, turned into TLS, SASL and users; and the keys for tests.

The broker keeps one, for its whole life. Chance comes in here: nonces and salts.
"""

from __future__ import annotations

import ipaddress
import logging
import secrets
from typing import TYPE_CHECKING, Any, Final

from kafka_share.broker.security.authorizer import Authorizer
from kafka_share.broker.security.passwords import Passwords
from kafka_share.broker.security.sasl import Sasl
from kafka_share.broker.security.scram import ScramCredential, ScramMechanism
from kafka_share.broker.security.tls import ThrowAwayCertificates, server_context
from kafka_share.errors import InvalidArgumentError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable
    from pathlib import Path

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.security.settings import Security

logger: logging.Logger = logging.getLogger(__name__)

_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 24
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class Guard:
    """Of a broker that listens on `hosts`. Raises `ConfigurationError` for certificates that cannot be had."""

    def __init__(self, security: Security, hosts: Iterable[str]) -> None:
        self._security = security
        self._made: ThrowAwayCertificates | None = None
        authority: Path | None = None
        self.tls: ssl.SSLContext | None = None
        self.sasl: Sasl | None = None
        if security.uses_tls:
            files = security.tls
            if files is None:
                self._made = ThrowAwayCertificates(dict.fromkeys((*_LOCAL, *filter(None, hosts))))
                files = self._made.files
            authority = files.authority
            self.tls = server_context(files, security.client_auth)
        if security.uses_sasl:
            self.sasl = Sasl(Passwords(security.users), security.oauth, _new_nonce)
        self._authority = authority
        """What clients verify the broker with, if it is known."""
        self._credentials = [
            (name, mechanism, ScramCredential.of_password(mechanism, password, secrets.token_bytes(_SALT_BYTES)))
            for name, password in security.users.items()
            for mechanism in ScramMechanism
        ]

    def warn_if_open(self, host: str) -> None:
        """Say so if everybody who reaches this address may do everything."""
        if self._security.asks_who_clients_are or _is_loopback(host):
            return
        logger.warning(
            "listening on %s without security: everybody who reaches it may do everything", host or "all addresses"
        )

    def instruct(self, cluster: Cluster) -> None:
        """Give a new cluster its users, its ACLs and its authorizer."""
        for name, mechanism, credential in self._credentials:
            cluster.scram_users.put(name, mechanism, credential)
        if self.sasl is not None:
            self.sasl.mechanisms(cluster.configs, cluster.scram_users)  # says what cannot be offered
        security = self._security
        if security.authorizes:
            cluster.acls.give(security.acls or ())
            cluster.authorizer = Authorizer(
                cluster.acls, security.super_users, allow_without_acls=security.allow_without_acls
            )

    def client_settings(self, user: str | None, mechanism: str | None) -> dict[str, Any]:
        """What a client has to be told besides the address. Raises `InvalidArgumentError`."""
        security = self._security
        settings: dict[str, Any] = {"security_protocol": security.protocol}
        if security.uses_tls and self._authority is not None:
            settings["ssl_cafile"] = str(self._authority)
        if security.uses_sasl and user is not None:
            if user not in security.users:
                raise InvalidArgumentError(f"this broker was made without a user {user!r}")
            settings |= {
                "sasl_mechanism": mechanism or ScramMechanism.SCRAM_SHA_256.label,
                "sasl_plain_username": user,
                "sasl_plain_password": security.users[user],
            }
        elif user is not None:
            if self._made is None:
                raise InvalidArgumentError("this broker makes no certificates: it has none, or yours")
            certificate, key = self._made.client(user)
            settings |= {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
        return settings


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _new_nonce() -> str:
    return secrets.token_urlsafe(_NONCE_BYTES)
