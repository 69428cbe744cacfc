"""SASL PLAIN, the server's side (RFC 4616): the user's name and password in clear text."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from kafka_share.broker.security.mechanism import Authenticated, CredentialsRefusedError

if TYPE_CHECKING:
    from kafka_share.broker.security.passwords import Passwords

PLAIN: Final = "PLAIN"
_PARTS: Final = 3
"""Authorization identity, name, password."""


class PlainServer:
    """One authentication against these passwords."""

    def __init__(self, passwords: Passwords) -> None:
        self.authenticated: Authenticated | None = None
        self._passwords = passwords

    def answer(self, message: bytes, now_ms: int) -> bytes:
        parts = message.decode("utf-8", "replace").split("\0")
        if len(parts) != _PARTS:
            raise CredentialsRefusedError(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}")
        identity, name, password = parts
        if not name:
            raise CredentialsRefusedError("Authentication failed: username not specified")
        if not password:
            raise CredentialsRefusedError("Authentication failed: password not specified")
        if not hmac.compare_digest(self._passwords.of(name).encode(), password.encode()) or name not in self._passwords:
            raise CredentialsRefusedError("Authentication failed: Invalid username or password")
        if identity not in ("", name):
            raise CredentialsRefusedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.authenticated = Authenticated(name)
        return b""
