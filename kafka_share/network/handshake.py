"""The conversation that opens a connection: versions first (ApiVersions), then SASL if the settings ask for it.

`connection.Connection` runs it with its own `exchange`, which sends one request in one version and awaits the answer.
Source of the rules: KIP-35 and KIP-511 (ApiVersions and its way back to version 0), KIP-43, KIP-152 (SaslHandshake 1
and SaslAuthenticate), KIP-368 (session lifetime).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kafka_share._version import VERSION
from kafka_share.config import ClientConfig
from kafka_share.errors import AuthenticationError, RemoteProtocolError, UnsupportedVersionError, error_for_code
from kafka_share.network.blocking import call_in_thread
from kafka_share.network.security import SaslMechanism, make_sasl_mechanism
from kafka_share.protocol.classic import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from kafka_share.protocol.versions import VersionRanges, choose_version, ranges_of

Exchange = Callable[[Any, int], Awaitable[Any]]
"""(request, version) -> response. Raises `NetworkError` or `RemoteProtocolError`, having closed the connection."""

UNSUPPORTED_VERSION: Final = 35
UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
HANDSHAKE_VERSION: Final = 1
"""Version 0 would be followed by bare tokens without SaslAuthenticate, and so by refusals without a reason."""
MAX_ROUNDS: Final = 10
"""More than any mechanism here needs (SCRAM: 2); a broker that goes on asking is not a broker."""


async def agree_on_versions(exchange: Exchange) -> VersionRanges:
    """The version ranges of the broker. Raises `UnsupportedVersionError` if it cannot tell them to us."""
    version = ApiVersionsRequest.valid_versions[1]
    while True:
        request = ApiVersionsRequest(client_software_name="kafka-share", client_software_version=VERSION)
        response = await exchange(request, version)
        ranges = ranges_of(response)
        if response.error_code == 0:
            return ranges
        if response.error_code != UNSUPPORTED_VERSION or version == 0:
            error = error_for_code(response.error_code)
            assert error is not None, "code 0 was handled above"
            raise error
        # The refusal has the broker's own range of ApiVersions; one without it means a broker that knows only 0.
        version = min(version - 1, max(0, ranges.get(ApiVersionsRequest.API_KEY, (0, 0))[1]))


async def authenticate(exchange: Exchange, settings: ClientConfig, versions: VersionRanges) -> int:
    """Authenticate with the settings' mechanism; returns the session's lifetime in ms, 0 if it does not end.

    Raises `AuthenticationError` with the broker's own words if it refuses us, and if we do not believe the broker.
    """
    name = settings.sasl_mechanism or ""
    mechanism = make_sasl_mechanism(settings)
    await _shake_hands(exchange, settings, versions)
    version = choose_version(SaslAuthenticateRequest, versions)
    for _ in range(MAX_ROUNDS):
        token = await _guarded(settings, mechanism.auth_bytes)
        response = await exchange(SaslAuthenticateRequest(auth_bytes=token), version)
        if response.error_code != 0:
            reason = response.error_message or str(error_for_code(response.error_code))
            raise AuthenticationError(f"the broker refused to authenticate us with {name}: {reason}")
        await _receive(settings, mechanism, bytes(response.auth_bytes))
        if mechanism.is_done():
            break
    if not mechanism.is_authenticated():
        raise AuthenticationError(f"the {name} exchange with the broker did not come to its end")
    return max(0, getattr(response, "session_lifetime_ms", None) or 0)


async def _shake_hands(exchange: Exchange, settings: ClientConfig, versions: VersionRanges) -> None:
    lowest, highest = versions.get(SaslHandshakeRequest.API_KEY, (0, -1))
    if not lowest <= HANDSHAKE_VERSION <= highest:
        raise UnsupportedVersionError("the broker does not know SaslHandshake version 1")
    response = await exchange(SaslHandshakeRequest(mechanism=settings.sasl_mechanism or ""), HANDSHAKE_VERSION)
    if response.error_code == UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(response.mechanisms or ()) or "none"
        raise AuthenticationError(f"the broker does not offer {settings.sasl_mechanism}; it offers: {offered}")
    if response.error_code == ILLEGAL_SASL_STATE:
        raise AuthenticationError("this listener of the broker does not use SASL: set security_protocol accordingly")
    if response.error_code != 0:
        raise AuthenticationError(f"the broker refused the SASL handshake: {error_for_code(response.error_code)}")


async def _receive(settings: ClientConfig, mechanism: SaslMechanism, token: bytes) -> None:
    try:
        await call_in_thread("kafka-share sasl", lambda: mechanism.receive(token))
    except Exception as error:  # noqa: BLE001 - its parser meets whatever the peer sent; a wrong signature ends here
        raise AuthenticationError(
            f"the broker's part of {settings.sasl_mechanism} is not valid: {type(error).__name__}: {error}"
        ) from RemoteProtocolError(str(error))


async def _guarded(settings: ClientConfig, function: Callable[[], Any]) -> Any:
    """Runs a step of our own side off the loop: it may call the application's token provider, or derive keys."""
    try:
        return await call_in_thread("kafka-share sasl", function)
    except Exception as error:
        raise AuthenticationError(
            f"our part of {settings.sasl_mechanism} failed: {type(error).__name__}: {error}"
        ) from error
