from __future__ import annotations

import socket
import struct
import threading
from typing import Any

import pytest
from network.peer import Accepted, Client, Peer, ask, frame, metadata, talking

from kafka_share.core.events import Channel, ConnectionLost, Disconnect, RequestFailed, ResponseReceived, Send
from kafka_share.errors import BrokerUnreachableError, RemoteProtocolError, UnsupportedVersionError
from kafka_share.network.connection import Connection
from kafka_share.network.framing import MAX_FRAME_BYTES, MAX_HANDSHAKE_FRAME_BYTES
from kafka_share.protocol.cluster import MetadataRequest, MetadataResponse
from kafka_share.protocol.handshake import ApiVersionsResponse
from kafka_share.records import Node


def failure(event: Any, send_id: int = 1) -> Any:
    assert isinstance(event, RequestFailed)
    assert event.send_id == send_id
    return event.error


def expect_loss(client: Client, channel: Channel = Channel.CONTROL) -> Any:
    event = client.next_event()
    assert isinstance(event, ConnectionLost)
    assert (event.node_id, event.channel) == (1, channel)
    return event.error


def expect_answer(client: Client, send_id: int = 1, cluster_id: str = "a cluster") -> None:
    event = client.next_event()
    assert isinstance(event, ResponseReceived), event
    assert (event.send_id, event.response.cluster_id) == (send_id, cluster_id)


def serve_one(connection: Accepted) -> None:
    connection.negotiate()
    connection.answer_metadata()
    connection.expect_end()


# ---- opening and versions


@pytest.mark.behaviour("broker")
def test_highest_common_version_is_spoken_when_both_know_several() -> None:
    """Each API is spoken in the highest version that both sides know."""
    seen = []

    def script(connection: Accepted) -> None:
        seen.append(connection.negotiate({3: (0, 9), 18: (0, 4)}))
        seen.append(connection.read())
        connection.answer(seen[1], metadata("x"))
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer))
        expect_answer(client, cluster_id="x")
    assert [(request.api_key, request.version, request.client_id) for request in seen] == [
        (18, 4, "tester"),
        (3, 9, "tester"),
    ]


@pytest.mark.parametrize(
    ("refusal", "second_version"),
    [
        ([ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)], 2),
        ([], 0),
    ],
)
def test_versions_are_asked_for_again_when_the_broker_does_not_know_our_way_to_ask(
    refusal: list[Any], second_version: int
) -> None:
    def script(connection: Accepted) -> None:
        request = connection.read()
        assert request.version == 4
        connection.answer(request, ApiVersionsResponse(error_code=35, api_keys=refusal), version=0)
        assert connection.negotiate().version == second_version
        connection.answer_metadata()
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer))
        expect_answer(client)


def test_request_fails_when_the_broker_refuses_every_way_to_ask_for_versions() -> None:
    def script(connection: Accepted) -> None:
        for _ in range(2):
            connection.answer(connection.read(), ApiVersionsResponse(error_code=35, api_keys=[]), version=0)
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer))
        assert isinstance(failure(client.next_event()), UnsupportedVersionError)


def test_request_fails_and_the_connection_stays_when_the_broker_is_too_old_for_it() -> None:
    with talking(serve_one) as (client, peer):
        client.do(ask(peer, 1, min_version=13))
        error = failure(client.next_event())
        assert isinstance(error, UnsupportedVersionError)
        assert "12" in str(error)
        client.do(ask(peer, 2))
        expect_answer(client, 2)


def test_request_fails_and_the_connection_stays_when_the_broker_does_not_know_the_api() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate({18: (0, 4)})
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer, 1), ask(peer, 2))
        for send_id in (1, 2):
            assert isinstance(failure(client.next_event(), send_id), UnsupportedVersionError)


def test_request_fails_when_nobody_listens() -> None:
    peer = Peer()
    peer.close()
    with talking() as (client, _):
        client.do(ask(peer))
        error = failure(client.next_event())
    assert isinstance(error, BrokerUnreachableError)
    assert "127.0.0.1" in str(error)
    assert "refused" in str(error).lower()


def test_request_fails_when_the_name_is_unknown() -> None:
    with talking() as (client, _):
        client.do(Send(1, Node(1, "no-such-host.invalid", 9092), Channel.CONTROL, MetadataRequest(topics=[]), 60_000))
        error = failure(client.next_event())
    assert isinstance(error, BrokerUnreachableError)
    assert "no-such-host.invalid" in str(error)


def test_other_addresses_are_tried_when_the_first_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def two(host: str, port: int, **kwargs: Any) -> Any:
        if host != "two.example":
            return real(host, port, **kwargs)
        if kwargs["flags"]:
            raise socket.gaierror
        return real("127.0.0.2", port, **kwargs) + real("127.0.0.1", port, **kwargs)

    monkeypatch.setattr("kafka_share.network.dialing.socket.getaddrinfo", two)
    with talking(serve_one) as (client, peer):
        client.do(Send(1, peer.node(host="two.example"), Channel.CONTROL, MetadataRequest(topics=[]), 60_000))
        expect_answer(client)


def test_request_fails_when_opening_takes_too_long() -> None:
    def script(connection: Accepted) -> None:
        connection.read()
        connection.expect_end()

    with talking(script, socket_connection_setup_timeout_ms=2_000) as (client, peer):  # connecting takes less
        client.do(ask(peer))
        error = failure(client.next_event())
    assert isinstance(error, BrokerUnreachableError)
    assert "agreeing on versions" in str(error)


def test_only_the_late_request_fails_when_opening_outlasts_its_time() -> None:
    may_go_on = threading.Event()

    def script(connection: Accepted) -> None:
        assert may_go_on.wait(20)
        connection.negotiate()
        connection.answer_metadata()
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer, 1, timeout_ms=20), ask(peer, 2))
        assert isinstance(failure(client.next_event(), 1), BrokerUnreachableError)
        may_go_on.set()
        expect_answer(client, 2)


# ---- answers


def test_answers_match_their_requests_when_several_are_under_way() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        requests = [connection.read() for _ in range(5)]
        connection.write(b"".join(frame(request, metadata(str(i))) for i, request in enumerate(requests)))
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(*(ask(peer, send_id) for send_id in range(5)))
        for send_id in range(5):
            expect_answer(client, send_id, str(send_id))


def test_answer_is_understood_when_it_comes_byte_by_byte() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        for byte in frame(connection.read(), metadata("drop by drop")):
            connection.write(bytes([byte]))
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer))
        expect_answer(client, cluster_id="drop by drop")


def test_answer_is_understood_when_it_is_larger_than_the_staging_area() -> None:
    cluster_id = "x" * 30_000

    def script(connection: Accepted) -> None:
        connection.negotiate()
        requests = [connection.read() for _ in range(6)]
        connection.write(b"".join(frame(request, metadata(cluster_id)) for request in requests))
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(*(ask(peer, send_id) for send_id in range(6)))
        for send_id in range(6):
            expect_answer(client, send_id, cluster_id)


def test_requests_on_two_channels_use_two_connections() -> None:
    both = threading.Barrier(2)

    def script(connection: Accepted) -> None:
        connection.negotiate()
        request = connection.read()
        both.wait(20)
        connection.answer(request, metadata("a cluster"))
        connection.expect_end()

    with talking(script, script) as (client, peer):
        client.do(ask(peer, 1, channel=Channel.DATA), ask(peer, 2, channel=Channel.CONTROL))
        assert {client.next_event().send_id, client.next_event().send_id} == {1, 2}


@pytest.mark.parametrize(
    ("garble", "words"),
    [
        (lambda data: data[:4] + struct.pack(">i", 999) + data[8:], "answered request 999"),
        (lambda data: struct.pack(">i", len(data) - 10) + data[4:-6], ""),
        (lambda data: data[:8] + b"\xff" * (len(data) - 8), ""),
        (lambda data: struct.pack(">i", 4) + data[4:8], ""),
        (lambda data: struct.pack(">i", -5), "-5 bytes"),
        (lambda data: struct.pack(">i", MAX_FRAME_BYTES + 1) + data[4:], f"{MAX_FRAME_BYTES + 1} bytes"),
    ],
    ids=["correlation id", "truncated", "nonsense", "empty body", "negative length", "too long"],
)
def test_request_fails_and_the_connection_closes_when_the_answer_is_garbled(garble: Any, words: str) -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        first, _second = connection.read(), connection.read()
        connection.write(garble(frame(first, metadata("a cluster"))))
        connection.expect_end()

    with talking(script, serve_one) as (client, peer):
        client.do(ask(peer, 1), ask(peer, 2))
        error = failure(client.next_event(), 1)
        assert isinstance(error, RemoteProtocolError)
        assert words in str(error)
        failure(client.next_event(), 2)
        assert isinstance(expect_loss(client), RemoteProtocolError)
        client.do(ask(peer, 3))
        expect_answer(client, 3)


def test_connection_closes_when_an_answer_comes_that_nobody_asked_for() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        request = connection.read()
        connection.write(frame(request, metadata("a cluster")) * 2)
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer))
        expect_answer(client)
        assert isinstance(expect_loss(client), RemoteProtocolError)


# ---- loss and time


@pytest.mark.parametrize("sent_bytes", [0, 2, 4, 11])
def test_all_requests_under_way_fail_when_the_connection_breaks(sent_bytes: int) -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        connection.answer_metadata()
        request = connection.read()
        connection.read()
        connection.write(frame(request, metadata("a cluster"))[:sent_bytes])

    with talking(script) as (client, peer):
        client.do(ask(peer, 1))
        expect_answer(client, 1)
        client.do(ask(peer, 2), ask(peer, 3))
        for send_id in (2, 3):
            error = failure(client.next_event(), send_id)
            assert isinstance(error, BrokerUnreachableError)
            assert ("in the middle of an answer" in str(error)) == (sent_bytes > 0)
        expect_loss(client)


def test_loss_is_reported_when_an_idle_connection_breaks() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        connection.answer_metadata()

    with talking(script) as (client, peer):
        client.do(ask(peer, 1, channel=Channel.DATA))
        expect_answer(client)
        assert isinstance(expect_loss(client, Channel.DATA), BrokerUnreachableError)


@pytest.mark.behaviour("share sessions")
def test_connection_closes_when_an_answer_does_not_come_in_time() -> None:
    """An answer that is late ends its connection, so that it never arrives in a later share session."""

    def script(connection: Accepted) -> None:
        connection.negotiate()
        connection.answer_metadata()
        connection.read()
        connection.read()
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer, 1))
        expect_answer(client, 1)  # so that the short time is not spent on opening
        client.do(ask(peer, 2), ask(peer, 3, timeout_ms=50))
        for send_id in (2, 3):
            error = failure(client.next_event(), send_id)
            assert isinstance(error, BrokerUnreachableError)
            assert "MetadataRequest in time" in str(error)
        expect_loss(client)


def test_connection_closes_without_a_warning_when_it_is_idle(caplog: pytest.LogCaptureFixture) -> None:
    with talking(serve_one, connections_max_idle_ms=50) as (client, peer):
        client.do(ask(peer))
        expect_answer(client)
        assert "idle" in str(expect_loss(client))
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_connection_stays_when_an_answer_takes_longer_than_the_idle_time() -> None:
    answer_at = threading.Event()

    def script(connection: Accepted) -> None:
        connection.negotiate()
        request = connection.read()
        assert answer_at.wait(20)
        connection.answer(request, metadata("a cluster"))
        connection.expect_end()

    with talking(script, connections_max_idle_ms=20) as (client, peer):
        client.do(ask(peer))
        timer = threading.Timer(0.1, answer_at.set)
        timer.start()
        expect_answer(client)
        timer.join()


# ---- asked for by the core


def test_requests_fail_without_a_loss_when_the_core_disconnects() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        connection.read()
        reached.set()
        connection.expect_end()

    reached = threading.Event()
    with talking(script, serve_one) as (client, peer):
        client.do(ask(peer, 1))
        assert reached.wait(20)
        client.do(Disconnect(1), Disconnect(77))
        assert isinstance(failure(client.next_event(), 1), BrokerUnreachableError)
        client.do(ask(peer, 2))
        expect_answer(client, 2)


def test_disconnect_takes_effect_when_the_connection_is_still_opening() -> None:
    with talking(lambda connection: connection.expect_end()) as (client, peer):
        client.do(ask(peer, 1), Disconnect(1))
        assert isinstance(failure(client.next_event(), 1), BrokerUnreachableError)


def test_connection_is_replaced_when_the_node_has_moved() -> None:
    new_home = Peer(serve_one)
    try:
        with talking(serve_one) as (client, peer):
            client.do(ask(peer, 1))
            expect_answer(client, 1)
            client.do(ask(new_home, 2))
            assert "moved" in str(expect_loss(client))
            expect_answer(client, 2)
    finally:
        new_home.close()


def test_requests_wait_when_the_peer_does_not_read() -> None:
    big = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t" * 20_000)] * 20)
    count = 20
    may_read = threading.Event()

    def script(connection: Accepted) -> None:
        connection.negotiate()
        assert may_read.wait(20)
        for _ in range(count):
            connection.answer_metadata()
        connection.expect_end()

    with talking(script, send_buffer_bytes=65_536) as (client, peer):
        client.do(*(Send(i, peer.node(), Channel.DATA, big, 60_000) for i in range(count)))
        client.do(ask(peer, 1000, timeout_ms=1_000, channel=Channel.DATA))
        assert isinstance(failure(client.next_event(), 1000), BrokerUnreachableError)  # it waited behind the others
        (connection,) = client.driver._turns.connections._open.values()
        assert isinstance(connection, Connection)
        transport = connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 3 * 410_000
        may_read.set()
        for i in range(count):
            expect_answer(client, i)


def test_request_is_refused_when_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_share.network.wire.MAX_WAITING", 2)

    def script(connection: Accepted) -> None:
        connection.negotiate()
        connection.answer_metadata()
        connection.answer_metadata()
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(*(ask(peer, send_id) for send_id in (1, 2, 3)))
        assert "too many" in str(failure(client.next_event(), 3))
        expect_answer(client, 1)
        expect_answer(client, 2)


def test_failure_is_warned_of_once_when_a_broker_stays_down(caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer()
    peer.close()
    with talking() as (client, _):
        for send_id in range(3):
            client.do(ask(peer, send_id))
            failure(client.next_event(), send_id)
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


def test_a_large_answer_is_refused_until_the_connection_is_open() -> None:
    """A decoded answer costs many times its bytes, and nobody knows yet who the peer is."""

    def script(connection: Accepted) -> None:
        request = connection.read()
        ranges = [ApiVersionsResponse.ApiVersion(api_key=3, min_version=0, max_version=1)] * 20_000
        connection.answer(request, ApiVersionsResponse(error_code=0, api_keys=ranges))
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer))
        error = failure(client.next_event())
        assert isinstance(error, RemoteProtocolError)
        assert f"allowed are 4 to {MAX_HANDSHAKE_FRAME_BYTES}" in str(error)


def test_a_large_answer_is_taken_when_the_connection_is_open() -> None:
    def script(connection: Accepted) -> None:
        connection.negotiate()
        large = metadata("a cluster")
        large.brokers = [MetadataResponse.MetadataResponseBroker(node_id=1, host="h" * 30_000, port=9)] * 9
        connection.answer(connection.read(), large)
        connection.expect_end()

    with talking(script) as (client, peer):
        client.do(ask(peer))
        expect_answer(client)
