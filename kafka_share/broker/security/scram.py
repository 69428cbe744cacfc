"""SASL SCRAM-SHA-256 and SCRAM-SHA-512, the server's side (RFC 5802, RFC 7677), without channel binding.

The password itself is never here: `ScramCredential` is what a server keeps of it. The nonce comes from outside.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.security.mechanism import Authenticated, CredentialsRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""Kafka's bounds; the lower one is that of RFC 7677, section 4."""


class ScramMechanism(enum.IntEnum):
    """The wire values of DescribeUserScramCredentials and AlterUserScramCredentials."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        """The name by which clients ask for it."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


@attrs.frozen
class ScramCredential:
    """What the broker keeps of a password: enough to check a client, too little to log in."""

    salt: bytes = attrs.field(repr=False)
    stored_key: bytes = attrs.field(repr=False)
    server_key: bytes = attrs.field(repr=False)
    iterations: int

    @classmethod
    def of_salted_password(
        cls, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """RFC 5802, section 3: StoredKey and ServerKey."""
        client_key = _hmac(mechanism, salted_password, b"Client Key")
        stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
        return cls(salt, stored_key, _hmac(mechanism, salted_password, b"Server Key"), iterations)

    @classmethod
    def of_password(
        cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int = MIN_ITERATIONS
    ) -> ScramCredential:
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)
        return cls.of_salted_password(mechanism, salted, salt, iterations)


_NAME: Final = r"(?:[^=,\0]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<identity>{_NAME}))?,(?P<bare>(?:m=[^,]*,)?n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,.*)?)",
    re.DOTALL,
)
_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,.*)?),p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)


class ScramServer:
    """One authentication. `credential_of` gives a user's credential for this mechanism, None if there is none."""

    def __init__(
        self, mechanism: ScramMechanism, credential_of: Callable[[str], ScramCredential | None], nonce: str
    ) -> None:
        self.authenticated: Authenticated | None = None
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._own_nonce = nonce
        self._name: str | None = None
        """Set when the first message was answered."""
        self._credential: ScramCredential | None = None
        self._header = self._nonce = self._first_messages = ""

    def answer(self, message: bytes, now_ms: int) -> bytes:
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise CredentialsRefusedError from None
        return (self._answer_first(text) if self._name is None else self._answer_final(text)).encode()

    def _answer_first(self, text: str) -> str:
        found = _FIRST.fullmatch(text)
        if found is None or found["bare"].startswith("m="):  # m= announces an extension that we would have to know
            raise CredentialsRefusedError
        name = _decoded(found["name"])
        self._credential = self._credential_of(name)
        if self._credential is None:
            raise CredentialsRefusedError
        if found["identity"] is not None and _decoded(found["identity"]) != name:
            raise CredentialsRefusedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._name = name
        self._header = text[: found.start("bare")]
        self._nonce = found["nonce"] + self._own_nonce
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._first_messages = f"{found['bare']},{answer}"
        return answer

    def _answer_final(self, text: str) -> str:
        found = _FINAL.fullmatch(text)
        assert self._credential is not None, "the first message found it"
        if found is None or found["nonce"] != self._nonce:
            raise CredentialsRefusedError
        if _base64(found["binding"]) != self._header.encode():
            raise CredentialsRefusedError
        signed = f"{self._first_messages},{found['without_proof']}".encode()
        signature = _hmac(self._mechanism, self._credential.stored_key, signed)
        proof = _base64(found["proof"])
        if len(proof) != len(signature):
            raise CredentialsRefusedError
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._mechanism.hash_name, client_key).digest()
        if not hmac.compare_digest(stored_key, self._credential.stored_key):
            raise CredentialsRefusedError
        server_signature = _hmac(self._mechanism, self._credential.server_key, signed)
        assert self._name is not None
        self.authenticated = Authenticated(self._name)
        return f"v={base64.b64encode(server_signature).decode()}"


def _hmac(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)


def _decoded(name: str) -> str:
    """A `saslname` of RFC 5802 without its escapes."""
    return name.replace("=2C", ",").replace("=3D", "=")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise CredentialsRefusedError from None
