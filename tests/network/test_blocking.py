"""Calls of the application's and the system's code that hang: one thread each, however often it is tried again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from network.peer import WAIT_S, Accepted, Client, Peer, talking
from network.test_security import Provider, answer_token, bearer, read_token, shake_hands
from support.waiting import wait_until

from kafka_share.core.events import Channel, Output, RequestFailed, ResponseReceived, Send
from kafka_share.network import clock
from kafka_share.protocol.cluster import MetadataRequest

TRIES = 5
SETUP_MS = 60_000
"""Nobody waits for it: the tests move the clock."""
Skip = Callable[[int], None]


@pytest.fixture
def skip(monkeypatch: pytest.MonkeyPatch) -> Skip:
    """Moves the clock of clients by milliseconds; what that makes due happens when the client is woken."""
    real, ahead_ns = clock.clock_ns, [0]
    monkeypatch.setattr(clock, "clock_ns", lambda: real() + ahead_ns[0])

    def ahead(span_ms: int) -> None:
        ahead_ns[0] += span_ms * 1_000_000

    return ahead


def threads(name: str) -> int:
    return sum(name in thread.name for thread in threading.enumerate())


def step(client: Client, *outputs: Output) -> None:
    """Have the client do this, and come back when it has."""
    for done in (outputs, ()):
        polls = client.core.polls
        client.do(*done)
        wait_until(lambda: client.core.polls > polls)  # noqa: B023 - it is called at once


def request(peer: Peer, host: str) -> Send:
    return Send(1, peer.node(host=host), Channel.CONTROL, MetadataRequest(topics=[]), 10 * SETUP_MS)


def test_a_resolver_that_hangs_has_one_thread_and_its_late_answer_is_used(
    monkeypatch: pytest.MonkeyPatch, skip: Skip
) -> None:
    real, may_end, asked = socket.getaddrinfo, threading.Event(), []

    def hanging(host: str, port: int, **kwargs: Any) -> Any:
        if host == "slow.example" and kwargs["flags"]:
            raise socket.gaierror
        if host == "slow.example":
            asked.append(host)
            assert may_end.wait(WAIT_S)
            host = "127.0.0.1"
        return real(host, port, **kwargs)

    monkeypatch.setattr("kafka_share.network.dialing.socket.getaddrinfo", hanging)

    def serve(connection: Accepted) -> None:
        connection.negotiate()
        connection.answer_metadata()
        connection.expect_end()

    with talking(serve, socket_connection_setup_timeout_ms=SETUP_MS) as (client, peer):
        for _ in range(TRIES):
            step(client, request(peer, "slow.example"))
            wait_until(lambda: bool(asked))
            skip(SETUP_MS)
            step(client)
            assert isinstance(client.next_event(), RequestFailed)
        assert threads("look-up of slow.example") == 1
        step(client, request(peer, "slow.example"))
        may_end.set()
        assert isinstance(client.next_event(), ResponseReceived)
    assert asked == ["slow.example"]
    assert threads("look-up of slow.example") == 0


def test_a_token_provider_that_hangs_is_asked_once_and_its_late_token_is_used(skip: Skip) -> None:
    may_end, asking, greeted = threading.Event(), threading.Event(), []

    class Hanging(Provider):
        calls = 0

        def token(self) -> str:
            self.calls += 1
            asking.set()
            assert may_end.wait(WAIT_S)
            return "good"

    def serve(connection: Accepted) -> None:
        connection.negotiate()
        shake_hands(connection, "OAUTHBEARER")
        greeted.append(connection)
        request, token = read_token(connection)
        assert b"Bearer good" in token
        answer_token(connection, request, b"")
        connection.answer_metadata()
        connection.expect_end()

    provider = Hanging("unused")
    settings = {**bearer(provider), "socket_connection_setup_timeout_ms": SETUP_MS}
    with talking(*[serve] * (TRIES + 1), **settings) as (client, peer):
        for number in range(TRIES):
            step(client, request(peer, "127.0.0.1"))
            wait_until(lambda: len(greeted) > number)  # noqa: B023 - it is called at once
            assert asking.wait(WAIT_S)
            skip(SETUP_MS)
            step(client)
            assert isinstance(client.next_event(), RequestFailed)
        assert (provider.calls, threads("kafka-share token")) == (1, 1)
        step(client, request(peer, "127.0.0.1"))
        wait_until(lambda: len(greeted) > TRIES)
        step(client)
        may_end.set()
        assert isinstance(client.next_event(), ResponseReceived)
    assert provider.calls in (1, 2), "the last login may have come when the first token was there"
    assert threads("kafka-share token") == 0
