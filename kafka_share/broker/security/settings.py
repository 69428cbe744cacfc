"""`Security`: what a `ReferenceBroker` asks of its clients, in one value.

Users make it; `ReferenceBroker` turns it into the TLS and the SASL of its server. Settings that Kafka has names for
(`sasl.enabled.mechanisms`, `connections.max.reauth.ms`, …) and that may change while the broker runs are broker
settings, and not here.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka_share.broker.security.acls import Acl
    from kafka_share.broker.security.tokens import TokenValidator

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ClientAuth(enum.Enum):
    """Whether clients show a certificate; Kafka's values of `ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


def _auth(value: ClientAuth | str) -> ClientAuth:
    try:
        return ClientAuth(value)
    except ValueError:
        choices = ", ".join(one.value for one in ClientAuth)
        raise ConfigurationError(f"client_auth is one of {choices}, not {value!r}") from None


def _acls(values: Iterable[Acl] | None) -> Sequence[Acl] | None:
    return None if values is None else tuple(values)


def _principals(values: Iterable[str]) -> frozenset[str]:
    if isinstance(values, str):
        raise ConfigurationError(f"super_users is a list of principals, not {values!r}")
    wrong = [value for value in values if ":" not in value]
    if wrong:
        raise ConfigurationError(f'a principal is written as "User:alice", not {wrong[0]!r}')
    return frozenset(values)


@attrs.frozen
class TlsFiles:
    """PEM files: the broker's certificate with its chain, its key, and the authority of clients' certificates."""

    certificate: Path = attrs.field(converter=Path)
    key: Path = attrs.field(converter=Path)
    authority: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))


@attrs.frozen
class Security:
    """`protocol` is one of Kafka's: SSL, SASL_PLAINTEXT, SASL_SSL, or PLAINTEXT.

    `users` are names with passwords, for PLAIN and for SCRAM; `oauth` judges the tokens of OAUTHBEARER, and enables it.
    With `acls` or `super_users` (principals such as "User:admin") clients may do only what these allow; what no ACL
    covers is denied, unless `allow_without_acls`. Without `tls` a protocol with TLS has certificates that are made for
    this broker and thrown away with it (extra `broker-tls`). With `client_auth="required"` clients have to show a
    certificate. A broker with a data directory has its users at each start, whatever admins made of them before, and
    those of its ACLs that were not removed after an earlier start. Raises `ConfigurationError`.
    """

    protocol: str
    users: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    oauth: TokenValidator | None = attrs.field(default=None, kw_only=True)
    acls: Sequence[Acl] | None = attrs.field(default=None, kw_only=True, converter=_acls)
    super_users: frozenset[str] = attrs.field(default=frozenset(), kw_only=True, converter=_principals)
    allow_without_acls: bool = attrs.field(default=False, kw_only=True)
    tls: TlsFiles | None = attrs.field(default=None, kw_only=True)
    client_auth: ClientAuth = attrs.field(default=ClientAuth.NONE, kw_only=True, converter=_auth)

    def __attrs_post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ConfigurationError(f"the security protocol is one of {', '.join(PROTOCOLS)}, not {self.protocol!r}")
        if not self.uses_sasl and (self.users or self.oauth is not None):
            raise ConfigurationError(f"{self.protocol} has no users: they need SASL_PLAINTEXT or SASL_SSL")
        if not self.uses_tls and (self.tls is not None or self.client_auth is not ClientAuth.NONE):
            raise ConfigurationError(f"{self.protocol} has no certificates: they need SSL or SASL_SSL")
        wants_authority = self.client_auth is not ClientAuth.NONE and self.tls is not None
        if wants_authority and self.tls is not None and self.tls.authority is None:
            raise ConfigurationError("clients' certificates cannot be verified without an authority")
        if self.allow_without_acls and not self.authorizes:
            raise ConfigurationError("without acls or super_users everybody may do everything")
        if any(not name or not password for name, password in self.users.items()):
            raise ConfigurationError("users have a name and a password")

    @property
    def authorizes(self) -> bool:
        """Whether clients may do only what they are allowed to."""
        return self.acls is not None or bool(self.super_users)

    @property
    def asks_who_clients_are(self) -> bool:
        """Whether nobody gets in who is not known."""
        return self.uses_sasl or self.client_auth is ClientAuth.REQUIRED

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")
