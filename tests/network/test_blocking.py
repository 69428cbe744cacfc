"""Calls of the application's and the system's code that hang: one thread each, however often it is tried again."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from network.peer import WAIT_S, Accepted, Client, Peer, talking
from network.test_security import Provider, bearer, read_token, shake_hands

from kafka_share.core.events import Channel, RequestFailed, ResponseReceived, Send
from kafka_share.protocol.cluster import MetadataRequest

TRIES = 5


def threads(name: str) -> int:
    return sum(name in thread.name for thread in threading.enumerate())


def try_again(client: Client, peer: Peer, host: str = "127.0.0.1", times: int = TRIES) -> None:
    """One request after the other, each on a new connection, because the one before has failed."""
    for number in range(times):
        client.do(Send(number, peer.node(host=host), Channel.CONTROL, MetadataRequest(topics=[]), 60_000))
        assert isinstance(client.next_event(), RequestFailed)


def test_a_resolver_that_hangs_has_one_thread_and_its_late_answer_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real, may_end = socket.getaddrinfo, threading.Event()

    def hanging(host: str, port: int, **kwargs: Any) -> Any:
        if host == "slow.example" and kwargs["flags"]:
            raise socket.gaierror
        if host == "slow.example":
            assert may_end.wait(WAIT_S)
            host = "127.0.0.1"
        return real(host, port, **kwargs)

    monkeypatch.setattr("kafka_share.network.dialing.socket.getaddrinfo", hanging)

    def serve(connection: Accepted) -> None:
        connection.negotiate()
        connection.answer_metadata()
        connection.expect_end()

    with talking(serve, socket_connection_setup_timeout_ms=200) as (client, peer):
        try_again(client, peer, "slow.example")
        assert threads("look-up of slow.example") == 1
        may_end.set()
        client.do(Send(9, peer.node(host="slow.example"), Channel.CONTROL, MetadataRequest(topics=[]), 60_000))
        assert isinstance(client.next_event(), ResponseReceived)
    assert threads("look-up of slow.example") == 0


def test_a_token_provider_that_hangs_is_asked_once_and_its_late_token_is_used() -> None:
    may_end = threading.Event()

    class Hanging(Provider):
        calls = 0

        def token(self) -> str:
            self.calls += 1
            assert may_end.wait(WAIT_S)
            return "good"

    def wait_in_vain(connection: Accepted) -> None:
        connection.negotiate()
        shake_hands(connection, "OAUTHBEARER")
        connection.expect_end()

    def serve(connection: Accepted) -> None:
        connection.negotiate()
        shake_hands(connection, "OAUTHBEARER")
        may_end.set()
        _, token = read_token(connection)
        assert b"Bearer good" in token

    provider = Hanging("unused")
    settings = {**bearer(provider), "socket_connection_setup_timeout_ms": 200}
    with talking(*[wait_in_vain] * TRIES, serve, **settings) as (client, peer):
        try_again(client, peer)
        assert provider.calls == 1
        assert threads("kafka-share token") == 1
        try_again(client, peer, times=1)
    assert provider.calls == 1
    assert threads("kafka-share token") == 0
