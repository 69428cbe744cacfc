"""The steps that open a connection: versions first (ApiVersions), then SASL if the settings ask for it.

Generators without I/O: they yield an `Exchange` and are resumed with the broker's answer, or a `Challenge` and are
resumed with the mechanism's `Token`. `wire.Dialogue` runs them. What they raise ends the connection.
Source of the rules: KIP-35 and KIP-511 (ApiVersions and its way back to version 0), KIP-43, KIP-152 (SaslHandshake 1
and SaslAuthenticate), KIP-368 (session lifetime).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from kafka_share._version import VERSION
from kafka_share.errors import AuthenticationError, UnsupportedVersionError, error_for_code
from kafka_share.harmless import excerpt
from kafka_share.protocol.handshake import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from kafka_share.protocol.versions import VersionRanges, choose_version, ranges_of

T = TypeVar("T")

UNSUPPORTED_VERSION: Final = 35
UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
HANDSHAKE_VERSION: Final = 1
"""Version 0 would be followed by bare tokens without SaslAuthenticate, and so by refusals without a reason."""
MAX_ROUNDS: Final = 10
"""More than any mechanism here needs (SCRAM: 2); a broker that goes on asking is not a broker."""


@attrs.frozen
class Exchange:
    """Send this request in this version; the step goes on with the answer."""

    request: Any
    version: int


@attrs.frozen
class Challenge:
    """Ask the SASL mechanism for a `Token`. `data` is the broker's part; None begins with a new mechanism."""

    data: bytes | None


@attrs.frozen
class Token:
    """The mechanism's answer to a `Challenge`. Without `data` it has come to its end, one way or the other."""

    data: bytes | None
    is_authenticated: bool = False


_API_VERSIONS_VERSION: Final = 4
"""Version 5 (Kafka 4.4) would tell a broker which node of which cluster we mean; older ones would refuse it first."""

Steps: TypeAlias = Generator[Exchange | Challenge, Any, T]


def agree_on_versions() -> Steps[VersionRanges]:
    """The version ranges of the broker. Raises a `BrokerError` if it refuses to give them."""
    version = _API_VERSIONS_VERSION
    while True:
        request = ApiVersionsRequest(client_software_name="kafka-share", client_software_version=VERSION)
        response = yield Exchange(request, version)
        ranges = ranges_of(response)
        if response.error_code == 0:
            return ranges
        if response.error_code != UNSUPPORTED_VERSION or version == 0:
            error = error_for_code(response.error_code)
            assert error is not None, "code 0 was handled above"
            raise error
        # The refusal has the broker's own range of ApiVersions; one without it means a broker that knows only 0.
        version = min(version - 1, max(0, ranges.get(ApiVersionsRequest.API_KEY, (0, 0))[1]))


def authenticate(name: str, versions: VersionRanges) -> Steps[int]:
    """Authenticate with the mechanism `name`; returns the session's lifetime in ms, 0 if it does not end.

    Raises `AuthenticationError` with the broker's own message if it refuses us, and if we do not believe the broker.
    """
    yield from _choose_mechanism(name, versions)
    version = choose_version(SaslAuthenticateRequest, versions)
    token: Token = yield Challenge(None)
    for _ in range(MAX_ROUNDS):
        assert token.data is not None, "a mechanism begins with a token"
        response = yield Exchange(SaslAuthenticateRequest(auth_bytes=token.data), version)
        if response.error_code != 0:
            reason = excerpt(response.error_message or str(error_for_code(response.error_code)))
            raise AuthenticationError(f"the broker refused to authenticate us with {name}: {reason}")
        token = yield Challenge(bytes(response.auth_bytes))
        if token.data is None:
            break
    if not token.is_authenticated:
        raise AuthenticationError(f"the {name} exchange with the broker did not come to its end")
    return max(0, getattr(response, "session_lifetime_ms", None) or 0)


def _choose_mechanism(name: str, versions: VersionRanges) -> Steps[None]:
    lowest, highest = versions.get(SaslHandshakeRequest.API_KEY, (0, -1))
    if not lowest <= HANDSHAKE_VERSION <= highest:
        raise UnsupportedVersionError("the broker does not know SaslHandshake version 1")
    response = yield Exchange(SaslHandshakeRequest(mechanism=name), HANDSHAKE_VERSION)
    if response.error_code == UNSUPPORTED_SASL_MECHANISM:
        offered = excerpt(", ".join(response.mechanisms or ())) or "none"
        raise AuthenticationError(f"the broker does not offer {name}; it offers: {offered}")
    if response.error_code == ILLEGAL_SASL_STATE:
        raise AuthenticationError("this listener of the broker does not use SASL: set security_protocol accordingly")
    if response.error_code != 0:
        raise AuthenticationError(f"the broker refused the SASL handshake: {error_for_code(response.error_code)}")
