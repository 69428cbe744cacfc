"""The server side of a SASL mechanism, and how it ends: the contract between `authentication.py` and the mechanisms.

A mechanism is a machine: the client's messages in, ours out. One object serves one authentication.
"""

from __future__ import annotations

from typing import Protocol

import attrs


@attrs.frozen
class Authenticated:
    """Who the client is, and until when its credentials are good: milliseconds since 1970, None without an end."""

    name: str
    expires_at_ms: int | None = None


class CredentialsRefusedError(Exception):
    """The client is not who it says it is, or speaks nonsense. Ends the authentication.

    The text is for the client; None stands for a plain refusal that tells nothing, as that a user exists.
    """

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.message = message


class Mechanism(Protocol):
    """One authentication."""

    @property
    def authenticated(self) -> Authenticated | None:
        """Set when the exchange has come to a good end; nothing more is expected from the client then."""

    def answer(self, message: bytes, now_ms: int) -> bytes:
        """Our answer to a message of the client. Raises `CredentialsRefusedError`."""
