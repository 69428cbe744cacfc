"""The channel to an agent: both sides prove the key, messages arrive whole, and an end is an end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.spark.channel import Channel
from kafka_share.spark.failures import LeaseAgentError

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
Sockets = tuple[socket.socket, socket.socket]


@pytest.fixture(name="sockets")
def sockets_fixture() -> Iterator[Sockets]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def opened(sockets: Sockets, key: bytes = KEY) -> tuple[Channel, Channel]:
    """Both ends; the agent's side runs on a thread meanwhile."""
    found: list[Channel] = []
    agent = threading.Thread(target=lambda: found.append(Channel.accepted(sockets[1], KEY)))
    agent.start()
    try:
        client = Channel.connected(sockets[0], key)
    finally:
        agent.join()
    return client, found[0]


def test_messages_arrive_as_they_were_sent(sockets: Sockets) -> None:
    client, agent = opened(sockets)
    client.send({"do": "rows", "lease": 1}, b"\0" * 100_000)
    assert agent.receive() == ({"do": "rows", "lease": 1}, b"\0" * 100_000)
    agent.send({})
    assert client.receive() == ({}, b"")


def test_a_peer_that_says_one_byte_after_the_other_is_hung_up_on_in_time(sockets: Sockets) -> None:
    """The limit is for the whole proof: each byte is in time, and all of them would take half a minute."""
    refused: list[Exception] = []

    def accept() -> None:
        try:
            Channel.accepted(sockets[1], KEY, within_s=0.5)
        except EOFError as error:
            refused.append(error)

    agent = threading.Thread(target=accept)
    agent.start()
    said = 0
    while agent.is_alive():
        with contextlib.suppress(OSError):
            said += sockets[0].send(b"x")
        agent.join(0.3)
    assert len(refused) == 1
    assert said < 64  # a challenge and a proof


def test_who_does_not_know_the_key_gets_in_neither_way(sockets: Sockets) -> None:
    refused: list[Exception] = []

    def accept() -> None:
        try:
            Channel.accepted(sockets[1], KEY)
        except (LeaseAgentError, EOFError) as error:
            refused.append(error)

    agent = threading.Thread(target=accept)
    agent.start()
    with pytest.raises((LeaseAgentError, EOFError)):
        Channel.connected(sockets[0], OTHER_KEY)
    agent.join()
    assert [type(error) for error in refused] == [LeaseAgentError]


def test_a_proof_that_is_sent_back_proves_nothing(sockets: Sockets) -> None:
    """The other side echoes what it hears, without knowing the key."""
    ours, theirs = sockets

    def echo() -> None:
        while data := theirs.recv(1_000):
            theirs.sendall(data)

    mirror = threading.Thread(target=echo)
    mirror.start()
    with pytest.raises(LeaseAgentError, match="does not know the key"):
        Channel.accepted(ours, KEY)
    mirror.join()


def test_an_end_in_the_middle_of_a_message_is_an_end(sockets: Sockets) -> None:
    client, agent = opened(sockets)
    sockets[0].sendall(b"\0\0\0\5")
    client.close()
    with pytest.raises(EOFError):
        agent.receive()
    with pytest.raises(EOFError):
        agent.send({"a": "b"}, b"x" * 10_000_000)


@given(st.binary(min_size=12, max_size=12).filter(lambda head: head[:1] >= b"\x20"))
def test_lengths_beyond_all_bounds_are_refused_before_anything_is_read(head: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        _, agent = opened((ours, theirs))
        ours.sendall(head)
        with pytest.raises(EOFError, match="bounds"):
            agent.receive()
