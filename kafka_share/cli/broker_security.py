"""The security of `kafka-share-broker`: its options, and what they make of `Security`.

Passwords come from a file or the environment, since everybody on a machine sees the arguments of a process.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from kafka_share.broker.security.acls import Acl
from kafka_share.broker.security.settings import PROTOCOLS, ClientAuth, Security, TlsFiles
from kafka_share.broker.security.tokens import SignedTokens, TokenValidator, UnsecuredTokens
from kafka_share.errors import ConfigurationError, InvalidArgumentError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

USERS_VARIABLE: Final = "KAFKA_SHARE_BROKER_USERS"
"""The environment variable that stands in for --users: the text of such a file."""
_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_PERMISSIONS: Final = ("allow", "deny")

_OPTIONS: Final = (
    click.option(
        "--security-protocol",
        "protocol",
        default=PROTOCOLS[0],
        show_default=True,
        type=click.Choice(PROTOCOLS, case_sensitive=False),
        help="What clients have to speak.",
    ),
    click.option(
        "--users",
        type=_FILE,
        metavar="FILE",
        help=f"Users of PLAIN and SCRAM: a NAME=PASSWORD on each line. [env var: {USERS_VARIABLE}, with such lines]",
    ),
    click.option(
        "--tls-certificate",
        type=_FILE,
        metavar="FILE",
        help="Certificate of the broker and its chain, PEM.  [default: one that is made and thrown away]",
    ),
    click.option("--tls-key", type=_FILE, metavar="FILE", help="Its private key, PEM without a password."),
    click.option(
        "--tls-client-authority", type=_FILE, metavar="FILE", help="Authority of the clients' certificates, PEM."
    ),
    click.option(
        "--client-auth",
        default=ClientAuth.NONE.value,
        show_default=True,
        type=click.Choice([one.value for one in ClientAuth]),
        help="Whether clients show a certificate.",
    ),
    click.option("--oauth-keys", type=_FILE, metavar="FILE", help="Enable OAUTHBEARER: a JSON Web Key Set."),
    click.option("--oauth-audience", metavar="NAME", help="What tokens have to name as their audience."),
    click.option("--oauth-issuer", metavar="NAME", help="What tokens have to name as their issuer."),
    click.option(
        "--oauth-unsecured", is_flag=True, help="Enable OAUTHBEARER with tokens that anybody can make; for tests."
    ),
    click.option(
        "--acls",
        type=_FILE,
        metavar="FILE",
        help="Authorize requests. 'allow|deny PRINCIPAL OPERATION RESOURCE NAME [literal|prefixed] [HOST]' on a line.",
    ),
    click.option(
        "--super-user",
        "super_users",
        multiple=True,
        metavar="PRINCIPAL",
        help="Authorize requests, and allow everything to this one, as User:admin; may be repeated.",
    ),
    click.option("--allow-without-acls", is_flag=True, help="What no ACL covers is allowed, and not denied."),
)


def security_options(function: Decorated) -> Decorated:
    """All that `take_security` takes."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def take_security(given: dict[str, Any]) -> Security:
    """Take the security options out of `given`. Raises `ConfigurationError`."""
    certificate, key = given.pop("tls_certificate"), given.pop("tls_key")
    authority = given.pop("tls_client_authority")
    if (certificate is None) != (key is None):
        raise ConfigurationError("--tls-certificate and --tls-key belong together")
    if authority is not None and certificate is None:
        raise ConfigurationError("--tls-client-authority needs --tls-certificate and --tls-key")
    acls = given.pop("acls")
    return Security(
        given.pop("protocol"),
        _users(given.pop("users")),
        oauth=_oauth(given),
        acls=None if acls is None else list(_acls(acls)),
        super_users=given.pop("super_users"),
        allow_without_acls=given.pop("allow_without_acls"),
        tls=None if certificate is None else TlsFiles(certificate, key, authority),
        client_auth=given.pop("client_auth"),
    )


def _users(file: Path | None) -> dict[str, str]:
    """Name -> password. No message shows a line: it may be a password."""
    text, source = os.environ.get(USERS_VARIABLE, ""), USERS_VARIABLE
    if file is not None:
        text, source = _text(file), str(file)
    users = {}
    for number, line in _lines(text):
        name, equals, password = line.partition("=")
        if not (name and equals and password):
            raise ConfigurationError(f"{source}, line {number}: a user is written as NAME=PASSWORD")
        users[name] = password
    return users


def _acls(file: Path) -> Iterator[Acl]:
    for number, line in _lines(_text(file)):
        try:
            permission, principal, operation, resource, *rest = shlex.split(line, comments=True)
            if permission not in _PERMISSIONS or len(rest) > 3:
                raise ValueError
            yield Acl(principal, operation, resource, **dict(zip(("name", "pattern", "host"), rest, strict=False)),
                      permission=permission)  # fmt: skip
        except InvalidArgumentError as error:
            raise ConfigurationError(f"{file}, line {number}: {error}") from None
        except ValueError:
            raise ConfigurationError(
                f"{file}, line {number}: an ACL is written as in 'allow User:alice read topic orders'"
            ) from None


def _oauth(given: dict[str, Any]) -> TokenValidator | None:
    keys, is_unsecured = given.pop("oauth_keys"), given.pop("oauth_unsecured")
    audience, issuer = given.pop("oauth_audience"), given.pop("oauth_issuer")
    if keys is None and (audience is not None or issuer is not None):
        raise ConfigurationError("--oauth-audience and --oauth-issuer need --oauth-keys")
    if keys is not None and is_unsecured:
        raise ConfigurationError("--oauth-keys and --oauth-unsecured exclude each other")
    if keys is None:
        return UnsecuredTokens() if is_unsecured else None
    try:
        return SignedTokens(dict(json.loads(_text(keys))), audience=audience, issuer=issuer)
    except (ValueError, TypeError):
        raise ConfigurationError(f"{keys} is no JSON Web Key Set") from None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(f"{file} cannot be read: {reason}") from None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Those that say something, with their numbers."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()
