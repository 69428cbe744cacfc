"""The security of `kafka-share-broker`: what options, files and the environment make of it, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kafka_share.broker import Acl, Security
from kafka_share.broker.security.settings import ClientAuth
from kafka_share.broker.security.tls import ThrowAwayCertificates
from kafka_share.broker.security.tokens import SignedTokens, UnsecuredTokens
from kafka_share.cli.broker import main
from kafka_share.cli.broker_security import USERS_VARIABLE, security_options, take_security
from kafka_share.errors import ConfigurationError

Write = Callable[[str], str]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Writes a file, and returns its path."""

    def write(text: str) -> str:
        path = tmp_path / f"file{len(list(tmp_path.iterdir()))}"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def made(*arguments: str, **environment: str) -> Security:
    taken: list[Security] = []

    @click.command()
    @security_options
    def command(**given: Any) -> None:
        taken.append(take_security(given))
        assert not given, "all security options are taken"

    result = CliRunner(env=environment).invoke(command, arguments)
    if result.exception is not None:
        raise result.exception
    return taken[0]


def test_there_is_no_security_unless_it_is_asked_for() -> None:
    assert made() == Security("PLAINTEXT")


def test_users_come_from_a_file_or_the_environment(written: Write) -> None:
    text = "# ours\n\nalice=a = secret\n  bob=b  \n"
    users = {"alice": "a = secret", "bob": "b"}
    assert made("--security-protocol", "sasl_plaintext", "--users", written(text)).users == users
    assert made("--security-protocol", "SASL_PLAINTEXT", **{USERS_VARIABLE: text}).users == users


@pytest.mark.parametrize("line", ["hunter2", "=hunter2", "hunter2="])
def test_a_wrong_line_of_users_is_named_and_not_shown(written: Write, line: str) -> None:
    with pytest.raises(ConfigurationError, match="line 2: a user is written as NAME=PASSWORD") as caught:
        made("--security-protocol", "SASL_SSL", "--users", written(f"alice=x\n{line}\n"))
    assert "hunter2" not in str(caught.value)


def test_acls_are_read_line_by_line(written: Write) -> None:
    security = made(
        "--acls",
        written(
            "allow User:alice read topic orders  # whole\n"
            'deny "User:CN=a b" All group ord prefixed 10.0.0.1\n'
            "allow User:* describe cluster\n"
        ),
    )
    assert security.acls == (
        Acl("User:alice", "read", "topic", "orders"),
        Acl("User:CN=a b", "all", "group", "ord", pattern="prefixed", permission="deny", host="10.0.0.1"),
        Acl("User:*", "describe", "cluster"),
    )
    assert made("--super-user", "User:a", "--super-user", "User:b").super_users == {"User:a", "User:b"}
    assert made("--super-user", "User:a", "--allow-without-acls").allow_without_acls


@pytest.mark.parametrize(
    "line",
    [
        "allow User:alice read",
        "permit User:alice read topic x",
        "allow alice read topic x",
        "allow User:alice look topic x",
        "allow User:alice read topic x match",
        "allow User:alice read topic x literal * more",
        'allow "User:alice read topic x',
    ],
)
def test_a_wrong_line_of_acls_is_named(written: Write, line: str) -> None:
    with pytest.raises(ConfigurationError, match="line 1: "):
        made("--acls", written(line))


def test_certificates_are_those_of_the_options() -> None:
    files = ThrowAwayCertificates(["localhost"]).files
    security = made(
        "--security-protocol", "SSL", "--tls-certificate", str(files.certificate), "--tls-key", str(files.key),
        "--tls-client-authority", str(files.authority), "--client-auth", "required",
    )  # fmt: skip
    assert security.tls == files
    assert security.client_auth is ClientAuth.REQUIRED


def test_tokens_are_judged_by_keys_or_not_at_all(written: Write) -> None:
    key = {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ", "kid": "1", "alg": "HS256"}
    keys = written(json.dumps({"keys": [key]}))
    sasl = ("--security-protocol", "SASL_PLAINTEXT")
    assert isinstance(made(*sasl, "--oauth-keys", keys, "--oauth-issuer", "me").oauth, SignedTokens)
    assert isinstance(made(*sasl, "--oauth-unsecured").oauth, UnsecuredTokens)
    for wrong in ("[]", "{", '"x"'):
        with pytest.raises(ConfigurationError):
            made(*sasl, "--oauth-keys", written(wrong))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tls-key", "x"], "belong together"),
        (["--tls-client-authority", "x"], "needs --tls-certificate"),
        (["--oauth-issuer", "x"], "need --oauth-keys"),
        (["--oauth-keys", "x", "--oauth-unsecured"], "exclude each other"),
        (["--users", "/nowhere/at/all"], "cannot be read: No such file"),
        (["--oauth-unsecured"], "PLAINTEXT has no users"),
        (["--allow-without-acls"], "everybody may do everything"),
        (["--super-user", "alice"], "User:alice"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: list[str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        made(*arguments)


def test_a_wrong_option_ends_the_command_with_two() -> None:
    result = CliRunner().invoke(main, ["--super-user", "alice"])
    assert (result.exit_code, "User:alice" in result.output) == (2, True)


def test_no_option_takes_a_password() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    assert "--users FILE" in shown
    assert "--password" not in shown
