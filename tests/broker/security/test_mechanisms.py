"""The server sides of the SASL mechanisms, without a connection: the examples of the RFCs, and what is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from kafka_share.broker.security.mechanism import Authenticated, CredentialsRefusedError
from kafka_share.broker.security.oauthbearer import OAuthBearerServer
from kafka_share.broker.security.passwords import Passwords
from kafka_share.broker.security.plain import PlainServer
from kafka_share.broker.security.scram import ScramCredential, ScramMechanism, ScramServer
from kafka_share.broker.security.tokens import SignedTokens, TokenRefusedError, UnsecuredTokens
from kafka_share.errors import ConfigurationError

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1_000

# ---- PLAIN

PASSWORDS = Passwords({"tim": "tanstaaftanstaaf"})


@pytest.mark.parametrize("message", [b"\0tim\0tanstaaftanstaaf", b"tim\0tim\0tanstaaftanstaaf"])
def test_plain_lets_in_who_knows_the_password(message: bytes) -> None:
    """The first one is the example of RFC 4616."""
    server = PlainServer(PASSWORDS)
    assert server.answer(message, NOW_MS) == b""
    assert server.authenticated == Authenticated("tim")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0tim\0wrong", "Invalid username or password"),
        (b"\0tom\0tanstaaftanstaaf", "Invalid username or password"),
        (b"\0\0tanstaaftanstaaf", "username not specified"),
        (b"\0tim\0", "password not specified"),
        (b"\0tom\0", "password not specified"),
        (b"tom\0tim\0tanstaaftanstaaf", "authorization id"),
        (b"tim\0tanstaaftanstaaf", "expected 3 tokens, got 2"),
        (b"\0tim\0tanstaaf\0tanstaaf", "expected 3 tokens, got 4"),
        (b"\xff\xfe", "expected 3 tokens, got 1"),
    ],
)
def test_plain_refuses_everything_else(message: bytes, text: str) -> None:
    server = PlainServer(PASSWORDS)
    with pytest.raises(CredentialsRefusedError, match=text):
        server.answer(message, NOW_MS)
    assert server.authenticated is None


# ---- SCRAM

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CREDENTIAL = ScramCredential.of_password(ScramMechanism.SCRAM_SHA_256, "pencil", SALT)
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def scram() -> ScramServer:
    return ScramServer(ScramMechanism.SCRAM_SHA_256, {"user": CREDENTIAL, "a,b=c": CREDENTIAL}.get, SERVER_NONCE)


def test_scram_speaks_as_in_the_example_of_the_rfc() -> None:
    """RFC 7677, section 3."""
    server = scram()
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert server.answer(CLIENT_FIRST, NOW_MS) == first
    assert server.authenticated is None
    assert server.answer(CLIENT_FINAL, NOW_MS) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.authenticated == Authenticated("user")


def test_scram_reads_the_escapes_in_a_name_and_ignores_extensions() -> None:
    server = scram()
    assert server.answer(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=nonce,tokenauth=true", NOW_MS).startswith(b"r=nonce%hvYD")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"n=user,r=abc",
        b"y",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=nobody,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=",
        b"n,,m=what,n=user,r=abc",
        b"n,a=other,n=user,r=abc",
    ],
)
def test_scram_refuses_a_first_message_that_it_cannot_take(message: bytes) -> None:
    with pytest.raises(CredentialsRefusedError):
        scram().answer(message, NOW_MS)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        CLIENT_FINAL.replace(b"p=dHzb", b"p=dHzc"),
        CLIENT_FINAL.replace(b"r=rOpr", b"r=xOpr"),
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),
        CLIENT_FINAL.replace(b"c=biws", b"c=b"),
        CLIENT_FINAL[:-4],
        CLIENT_FINAL[:-20] + b"=" * 20,
        CLIENT_FINAL.partition(b",p=")[0],
        CLIENT_FIRST,
    ],
)
def test_scram_refuses_a_final_message_that_proves_nothing(message: bytes) -> None:
    server = scram()
    server.answer(CLIENT_FIRST, NOW_MS)
    with pytest.raises(CredentialsRefusedError):
        server.answer(message, NOW_MS)
    assert server.authenticated is None


def test_a_credential_shows_nothing_of_the_password() -> None:
    assert repr(CREDENTIAL) == "ScramCredential(iterations=4096)"
    assert repr(PASSWORDS) == "<passwords of 1 users>"


# ---- OAUTHBEARER


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsecured(**claims: Any) -> str:
    return f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'exp': NOW_S + 60, **claims})}."


def first(token: str, head: str = "n,,") -> bytes:
    return f"{head}\x01auth=Bearer {token}\x01\x01".encode()


def bearer() -> OAuthBearerServer:
    return OAuthBearerServer(UnsecuredTokens())


@pytest.mark.parametrize(
    "message",
    [
        first(unsecured()),
        first(unsecured(), "n,a=alice,"),
        first(unsecured()).replace(b"\x01auth", b"\x01traceId=7\x01auth"),
        first(unsecured()).replace(b"Bearer ", b"bearer  "),
    ],
)
def test_a_good_token_lets_in_until_its_end(message: bytes) -> None:
    server = bearer()
    assert server.answer(message, NOW_MS) == b""
    assert server.authenticated == Authenticated("alice", NOW_MS + 60_000)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": 1e300},
        {"iat": NOW_S + 1},
        {"nbf": NOW_S + 1},
        {"sub": ""},
        {"sub": 7},
    ],
)
def test_a_token_that_is_not_good_is_answered_first_and_ends_the_exchange_then(claims: dict[str, Any]) -> None:
    """RFC 7628, section 3.2.3: the client has to answer the refusal."""
    server = bearer()
    assert server.answer(first(unsecured(**claims)), NOW_MS) == b'{"status":"invalid_token"}'
    with pytest.raises(CredentialsRefusedError, match="invalid_token"):
        server.answer(b"\x01", NOW_MS)
    assert server.authenticated is None


@pytest.mark.parametrize(
    "token",
    ["a", "a.b", "a.b.c", f"{part({'alg': 'none'})}.{part([])}.", f"{part({'alg': 'HS256'})}.{part({})}.",
     unsecured() + "x", f"{part({'alg': 'none'})}.{'W' * 4001}.", f"{part('[' * 9)}.x."],
)  # fmt: skip
def test_what_is_no_unsecured_token_is_refused(token: str) -> None:
    with pytest.raises(TokenRefusedError):
        UnsecuredTokens().validate(token, NOW_MS)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        first(unsecured(), "y,,"),
        first(unsecured()).replace(b"Bearer", b"Basic"),
        first("\xff"),
        first(unsecured())[:-1],
    ],
)
def test_oauthbearer_refuses_what_it_cannot_read(message: bytes) -> None:
    with pytest.raises(CredentialsRefusedError):
        bearer().answer(message, NOW_MS)


def test_a_token_lets_in_its_own_user_only() -> None:
    with pytest.raises(CredentialsRefusedError, match=r"authorization id \(bob\)"):
        bearer().answer(first(unsecured(), "n,a=bob,"), NOW_MS)


SECRET = b"s" * 32
CLAIMS = {"sub": "alice", "exp": NOW_S + 60, "aud": "kafka", "iss": "us"}


def test_signed_tokens_are_good_if_the_secret_is_the_right_one() -> None:
    validator = SignedTokens(SECRET, audience="kafka", issuer="us")
    assert validator.validate(jwt.encode(CLAIMS, SECRET), NOW_MS) == Authenticated("alice", NOW_MS + 60_000)
    for refused in (
        jwt.encode(CLAIMS, b"x" * 32),
        jwt.encode(CLAIMS | {"aud": "else"}, SECRET),
        jwt.encode(CLAIMS | {"iss": "them"}, SECRET),
        jwt.encode(CLAIMS | {"exp": NOW_S}, SECRET),
        unsecured(),
        "nothing",
    ):
        with pytest.raises(TokenRefusedError):
            validator.validate(refused, NOW_MS)
    assert "sss" not in repr(validator)


def test_signed_tokens_are_good_if_a_key_of_the_set_has_signed_them() -> None:
    key, other = generate_private_key(65537, 2048), generate_private_key(65537, 2048)
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    validator = SignedTokens({"keys": [{**public, "kid": "one"}]})
    good = jwt.encode(CLAIMS, key, "RS256", headers={"kid": "one"})
    assert validator.validate(good, NOW_MS).name == "alice"
    for refused in (
        jwt.encode(CLAIMS, other, "RS256", headers={"kid": "one"}),
        jwt.encode(CLAIMS, key, "RS256", headers={"kid": "two"}),
        jwt.encode(CLAIMS, key, "RS256"),
        jwt.encode(CLAIMS, SECRET, headers={"kid": "one"}),
    ):
        with pytest.raises(TokenRefusedError):
            validator.validate(refused, NOW_MS)


def test_keys_that_are_none_are_refused_when_they_are_given() -> None:
    with pytest.raises(ConfigurationError, match="no JSON Web Keys"):
        SignedTokens({"keys": []})
