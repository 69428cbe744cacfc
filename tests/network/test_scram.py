"""What we demand of a SCRAM server: see RFC 5802 and RFC 7677."""

from __future__ import annotations

import pytest
from network.peer import Accepted, talking
from network.test_security import answer_token, error_of, read_token, sasl, shake_hands

from kafka_share.errors import AuthenticationError
from kafka_share.network.scram import check_server_message

FIRST = b"n,,n=user,r=abc"


@pytest.mark.parametrize(
    "data", [b"r=abcdef,s=c2FsdA==,i=4096", b"r=abcdef,s=c2FsdA==,i=10000", b"v=c2ln", b"", b"\xff"]
)
def test_what_a_good_server_says_and_what_nobody_can_read_is_left_to_the_mechanism(data: bytes) -> None:
    check_server_message(data, FIRST)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"r=abcdef,s=c2FsdA==,i=1", "asks for 1 SCRAM iterations"),
        (b"r=abcdef,s=c2FsdA==,i=4095", "fewer than 4096"),
        (b"r=abcdef,s=c2FsdA==,i=0", "asks for 0"),
        (b"r=abc,s=c2FsdA==,i=4096", "adds nothing"),
        (b"e=unknown-user", "error 'unknown-user'"),
        (b"e=bad\nforged", r"bad\\nforged"),
    ],
)
def test_a_server_is_refused_when_it_weakens_the_exchange_or_ends_it(data: bytes, words: str) -> None:
    with pytest.raises(AuthenticationError) as raised:
        check_server_message(data, FIRST)
    assert words in str(raised.value)


@pytest.mark.behaviour("security")
@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"r=%smore,s=c2FsdA==,i=1", "1 SCRAM iterations"), (b"r=%s,s=c2FsdA==,i=4096", "nonce"), (b"e=%s", "the error")],
)
def test_no_proof_is_sent_when_a_scram_server_weakens_the_exchange(answer: bytes, words: str) -> None:
    """A SCRAM server that asks for too few iterations, or whose nonce adds nothing, gets no proof of the password."""

    def script(connection: Accepted) -> None:
        connection.negotiate()
        shake_hands(connection, "SCRAM-SHA-256")
        request, first = read_token(connection)
        answer_token(connection, request, answer % first.split(b"r=")[1])
        connection.expect_end()

    with talking(script, **sasl("SCRAM-SHA-256")) as (client, peer):
        error = error_of(client, peer)
    assert isinstance(error, AuthenticationError)
    assert words in str(error)
