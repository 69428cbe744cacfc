"""Bearer tokens: what makes one good. JSON Web Tokens (RFC 7519), unsecured for tests or signed (RFC 7515).

`oauthbearer.py` asks a `TokenValidator`; users make one for `Security(oauth=…)`. Signatures are checked by PyJWT, which
comes with the extra `broker-oauth`; times are compared here, with the broker's clock.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafka_share.broker.security.mechanism import Authenticated
from kafka_share.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_UNSECURED: Final = "none"
_SYMMETRIC: Final = ("HS256", "HS384", "HS512")
_ASYMMETRIC: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")


class TokenRefusedError(Exception):
    """A token is not good; `status` is the one of RFC 7628 for the client."""

    def __init__(self, why: str, status: str = "invalid_token") -> None:
        super().__init__(why)
        self.status = status


class TokenValidator(Protocol):
    """Judges tokens."""

    def validate(self, token: str, now_ms: int) -> Authenticated:
        """Whose token it is, and until when. Raises `TokenRefusedError`."""


class UnsecuredTokens:
    """Takes unsigned tokens (`alg` "none"), which anybody can make: for tests only, as Kafka's default validator.

    `principal_claim` names the user. A token needs an end (`exp`), and must not come from the future (`iat`).
    """

    def __init__(self, principal_claim: str = "sub") -> None:
        self._principal_claim = principal_claim

    def validate(self, token: str, now_ms: int) -> Authenticated:
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise TokenRefusedError("an unsecured token has two parts and no signature")
        if _json(parts[0]).get("alg") != _UNSECURED:
            raise TokenRefusedError("the token is no unsecured one")
        return _authenticated(_json(parts[1]), self._principal_claim, now_ms)


class SignedTokens:
    """Takes tokens that one of the keys has signed.

    `keys` is a JSON Web Key Set (RFC 7517) as a dictionary, or one secret of 32 bytes or more for HMAC. A token has to
    name `audience` and `issuer`, where they are given. Raises `ConfigurationError` for keys that cannot be used, and
    where PyJWT is missing.
    """

    def __init__(
        self,
        keys: Mapping[str, Any] | bytes,
        *,
        audience: str | None = None,
        issuer: str | None = None,
        principal_claim: str = "sub",
    ) -> None:
        try:
            import jwt
        except ImportError:
            raise ConfigurationError("signed tokens need PyJWT: install kafka-share[broker-oauth]") from None
        self._jwt = jwt
        self._audience = audience
        self._issuer = issuer
        self._principal_claim = principal_claim
        self._algorithms: Sequence[str] = _SYMMETRIC if isinstance(keys, bytes) else _ASYMMETRIC
        self._keys: Mapping[str | None, Any] = {None: keys} if isinstance(keys, bytes) else self._key_set(keys)

    def __repr__(self) -> str:
        return f"SignedTokens(<{len(self._keys)} keys>)"

    def _key_set(self, keys: Mapping[str, Any]) -> Mapping[str | None, Any]:
        try:
            return {key.key_id: key for key in self._jwt.PyJWKSet.from_dict(dict(keys)).keys}
        except self._jwt.PyJWTError as error:
            raise ConfigurationError(f"these are no JSON Web Keys: {type(error).__name__}") from None

    def validate(self, token: str, now_ms: int) -> Authenticated:
        try:
            key_id = self._jwt.get_unverified_header(token).get("kid")
            claims = self._jwt.decode(
                token,
                self._keys[None] if None in self._keys else self._keys[key_id],
                algorithms=list(self._algorithms),
                audience=self._audience,
                issuer=self._issuer,
                options={"verify_exp": False, "verify_iat": False, "verify_nbf": False,
                         "verify_aud": self._audience is not None},
            )  # fmt: skip
        except (self._jwt.PyJWTError, KeyError) as error:
            raise TokenRefusedError(type(error).__name__) from None
        return _authenticated(claims, self._principal_claim, now_ms)


def _json(part: str) -> dict[str, Any]:
    try:
        read = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefusedError("a part of the token is no JSON") from None
    if not isinstance(read, dict):
        raise TokenRefusedError("a part of the token is no JSON object")
    return read


def _authenticated(claims: Mapping[str, Any], principal_claim: str, now_ms: int) -> Authenticated:
    """Checks the times and the name. Raises `TokenRefusedError`."""
    name = claims.get(principal_claim)
    if not isinstance(name, str) or not name:
        raise TokenRefusedError(f"the token has no claim {principal_claim!r}")
    expires_at_ms = _time_ms(claims, "exp")
    issued_at_ms = _time_ms(claims, "iat")
    not_before_ms = _time_ms(claims, "nbf")
    if expires_at_ms is None or expires_at_ms <= now_ms:
        raise TokenRefusedError("the token has ended")
    if issued_at_ms is not None and (issued_at_ms > now_ms or issued_at_ms >= expires_at_ms):
        raise TokenRefusedError("the token is of the future")
    if not_before_ms is not None and not_before_ms > now_ms:
        raise TokenRefusedError("the token is not good yet")
    return Authenticated(name, expires_at_ms)


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise TokenRefusedError(f"the claim {name!r} is no time")
    return int(value * 1_000)
