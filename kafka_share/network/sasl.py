"""SASL mechanisms from the settings: the client's half of an authentication, without the connection.

The one module that knows kafka-python's mechanisms, which the driver has loaded only if the settings ask for one. The
rest is called by `connection.Connection`, on a thread where it may block: a mechanism may call the application's token
provider, or derive keys. Passwords and tokens never get into a message or a log line.
"""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeVar

from kafka_share.config import ClientConfig
from kafka_share.errors import AuthenticationError, ConfigurationError, RemoteProtocolError
from kafka_share.harmless import excerpt
from kafka_share.network.handshake import Challenge, Token
from kafka_share.network.scram import check_server_message

T = TypeVar("T")


def load_mechanisms(settings: ClientConfig) -> None:
    """Import kafka-python if the settings need a mechanism of it; it costs more than all of this package.

    Raises `ConfigurationError` if it has none.
    """
    if settings.uses_sasl:
        _kafka_python()


@cache
def _kafka_python() -> tuple[Any, Any]:
    """The packages of its mechanisms and of its token providers."""
    with warnings.catch_warnings():
        # It reads files with a function that Python 3.11 and 3.12 call deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        for name in ("kafka.net.sasl", "kafka.sasl"):  # its versions 3 and 2
            with suppress(ModuleNotFoundError):
                return import_module(name), import_module(f"{name}.oauth")
    raise ConfigurationError("security_protocol with SASL needs kafka-python 2.1 or newer")


class SaslClient:
    """Our half of the authentications of one connection, one after the other. Its method may block."""

    def __init__(self, settings: ClientConfig) -> None:
        self.token: BearerToken | None = None
        """To be set before an authentication with OAUTHBEARER begins."""
        self._settings = settings
        self._first = b""
        """Our first message of the present authentication."""
        self._mechanism: SaslMechanism | None = None

    def answer(self, challenge: Challenge) -> Token:
        """The mechanism's answer. Raises `AuthenticationError`, also where the broker's part cannot be believed."""
        if challenge.data is None:
            self._mechanism = _ours(self._settings, lambda: make_sasl_mechanism(self._settings, self.token))
        mechanism = self._mechanism
        assert mechanism is not None, "a challenge before the first one"
        if challenge.data is not None:
            self._receive(mechanism, challenge.data)
            if mechanism.is_done():
                return Token(None, mechanism.is_authenticated())
        answer = _ours(self._settings, mechanism.auth_bytes)
        if challenge.data is None:
            self._first = answer
        return Token(answer)

    def _receive(self, mechanism: SaslMechanism, data: bytes) -> None:
        if (self._settings.sasl_mechanism or "").startswith("SCRAM-"):
            check_server_message(data, self._first)
        try:
            mechanism.receive(data)
        except Exception as error:  # noqa: BLE001 - its parser meets whatever the peer sent; a wrong signature ends here
            raise AuthenticationError(
                f"the broker's part of {self._settings.sasl_mechanism} is not valid: "
                f"{type(error).__name__}: {excerpt(str(error))}"
            ) from RemoteProtocolError(str(error))


def _ours(settings: ClientConfig, function: Callable[[], T]) -> T:
    try:
        return function()
    except Exception as error:
        raise AuthenticationError(
            f"our part of {settings.sasl_mechanism} failed: {type(error).__name__}: {error}"
        ) from error


class SaslMechanism(Protocol):
    """kafka-python's interface of a mechanism (`kafka.net.sasl.abc.SaslMechanism`)."""

    def auth_bytes(self) -> bytes: ...
    def receive(self, auth_bytes: bytes) -> object: ...
    def is_done(self) -> bool: ...
    def is_authenticated(self) -> bool: ...


class BearerToken:
    """A token and its SASL extensions, as kafka-python's mechanism asks its token provider for them."""

    def __init__(self, token: str, extensions: dict[str, str]) -> None:
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions


def ask_token(settings: ClientConfig) -> BearerToken:
    """Ask the application's token provider, which may block. Raises `AuthenticationError` for what it raises."""
    return _ours(settings, lambda: _token_of(settings.sasl_oauth_token_provider))


def _token_of(provider: Any) -> BearerToken:
    token = provider.token()
    if not isinstance(token, str) or not token:
        raise TypeError("sasl_oauth_token_provider.token() has to return a text that is not empty")
    extensions = getattr(provider, "extensions", None)
    return BearerToken(token, dict(extensions()) if extensions is not None else {})


def shows_secret(settings: ClientConfig, address: str) -> bool:
    """Whether a login at this address sends the password or token itself, unencrypted, to another machine.

    SCRAM sends a proof instead.
    """
    if settings.uses_tls or settings.sasl_mechanism not in ("PLAIN", "OAUTHBEARER"):
        return False
    found = ipaddress.ip_address(address.partition("%")[0])
    return not (getattr(found, "ipv4_mapped", None) or found).is_loopback


def make_sasl_mechanism(settings: ClientConfig, token: BearerToken | None) -> SaslMechanism:
    """A mechanism for one authentication; it keeps state and cannot be used twice."""
    mechanisms, oauth = _kafka_python()
    name = settings.sasl_mechanism
    assert name is not None, "the settings have been checked"
    username = settings.sasl_plain_username
    if name.startswith("SCRAM-") and username is not None:
        username = username.replace("=", "=3D").replace(",", "=2C")  # RFC 5802, section 5.1: saslname
    config: dict[str, Any] = {"sasl_mechanism": name}
    if name == "OAUTHBEARER":
        oauth.AbstractTokenProvider.register(BearerToken)
        config["sasl_oauth_token_provider"] = token
    else:
        config.update(sasl_plain_username=username, sasl_plain_password=settings.sasl_plain_password)
    mechanism: SaslMechanism = mechanisms.get_sasl_mechanism(name)(**config)
    return mechanism
