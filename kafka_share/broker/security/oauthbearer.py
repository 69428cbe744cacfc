"""SASL OAUTHBEARER, the server's side (RFC 7628): a bearer token, judged by a `TokenValidator`.

A token that is refused is answered with the RFC's JSON, and the exchange fails with the client's next message. SASL
extensions are read and not looked at, as by Kafka's own validators.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafka_share.broker.security.mechanism import Authenticated, CredentialsRefusedError
from kafka_share.broker.security.tokens import TokenRefusedError

if TYPE_CHECKING:
    from kafka_share.broker.security.tokens import TokenValidator

OAUTHBEARER: Final = "OAUTHBEARER"
_DUMMY: Final = b"\x01"
"""What a client answers to a refusal."""
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR: Final = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<identity>{_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.A-Za-z0-9]+=*)")


class OAuthBearerServer:
    """One authentication."""

    def __init__(self, validator: TokenValidator) -> None:
        self.authenticated: Authenticated | None = None
        self._validator = validator
        self._refusal: str | None = None
        """What was answered to a token that is not good."""

    def answer(self, message: bytes, now_ms: int) -> bytes:
        if self._refusal is not None and message == _DUMMY:
            raise CredentialsRefusedError(self._refusal)
        identity, token = _read(message)
        try:
            authenticated = self._validator.validate(token, now_ms)
        except TokenRefusedError as error:
            self._refusal = f'{{"status":"{error.status}"}}'
            return self._refusal.encode()
        if identity not in ("", authenticated.name):
            raise CredentialsRefusedError(
                f"Authentication failed: Client requested an authorization id ({identity}) that is different from the "
                f"token's principal name ({authenticated.name})"
            )
        self.authenticated = authenticated
        return b""


def _read(message: bytes) -> tuple[str, str]:
    """The authorization identity, "" for none, and the token."""
    found = _FIRST.fullmatch(message.decode("latin-1"))
    if found is None:
        raise CredentialsRefusedError
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise CredentialsRefusedError
    return (found["identity"] or "").replace("=2C", ",").replace("=3D", "="), auth["token"]
