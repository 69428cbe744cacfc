"""What one client does to the reference broker, by mistake or on purpose, costs the others nothing."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from typing import Any

import pytest
from broker.served import answer, serving
from support.waiting import wait_until
from support.wire_connection import WireConnection

from kafka_share.broker import ApiKey, BrokerClock, ReferenceBroker, connection, machine
from kafka_share.broker.connection import MAX_REQUESTS_PER_TURN
from kafka_share.broker.handlers.handler_table import HANDLERS
from kafka_share.broker.storage.produced_batch import AT_ONCE_BYTES
from kafka_share.errors import LocalProtocolError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.messages import encode_request
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest
from kafka_share.protocol.topics import CreatePartitionsRequest
from kafka_share.pytest_plugin import ShareTopicFactory

ALL_TOPICS = encode_request(MetadataRequest(topics=None), 12, 1, "many")
ONE_MORE = encode_request(MetadataRequest(topics=None), 12, 1, "one")


def all_topics() -> MetadataRequest:
    return MetadataRequest(topics=None)


def unanswerable() -> CreatePartitionsRequest:
    """The text of its refusal has the name in it, and is longer than a text of Kafka may be."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="x" * 32_767, count=1, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1_000, validate_only=False)


# ---- an answer that cannot be encoded


def test_only_its_own_connection_ends_when_an_answer_cannot_be_encoded(
    share_broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with WireConnection(share_broker.bootstrap_servers) as bad, WireConnection(share_broker.bootstrap_servers) as good:
        good.call(all_topics(), 12)
        bad.send(all_topics(), 12)
        bad.send(unanswerable(), 1)
        bad.receive()
        assert bad.is_closed_by_broker()
        assert good.call(all_topics(), 12).topics == []
    assert "Traceback" not in caplog.text
    assert "no answer can be sent: CreatePartitionsResponse" in caplog.text


@pytest.mark.share_broker(clock=BrokerClock(manual=True))
def test_answers_of_others_that_are_due_at_the_same_moment_are_sent(share_broker: ReferenceBroker) -> None:
    """All answers become due in one step of the clock, the bad one first."""
    share_broker.faults.delay("Metadata", 1_000, times=3)
    with (
        WireConnection(share_broker.bootstrap_servers) as bad,
        WireConnection(share_broker.bootstrap_servers) as one,
        WireConnection(share_broker.bootstrap_servers) as two,
    ):
        bad.send(all_topics(), 12)
        bad.send(unanswerable(), 1)  # in work as soon as the answer before it is out
        wait_until(lambda: len(share_broker.requests("Metadata")) == 1)
        one.send(all_topics(), 12)
        two.send(all_topics(), 12)
        wait_until(lambda: len(share_broker.requests("Metadata")) == 3)
        share_broker.advance(1_000)
        assert one.receive().topics == two.receive().topics == []
        bad.receive()
        assert bad.is_closed_by_broker()


def test_a_defect_costs_one_connection_and_is_logged(
    share_broker: ReferenceBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def defect(*_: Any) -> None:
        raise ZeroDivisionError("planted")

    with WireConnection(share_broker.bootstrap_servers) as bad, WireConnection(share_broker.bootstrap_servers) as good:
        good.call(all_topics(), 12)
        monkeypatch.setattr(machine, "HANDLERS", {**HANDLERS, ApiKey.SHARE_GROUP_HEARTBEAT: defect})
        bad.send(ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0), 1)
        assert bad.is_closed_by_broker()
        assert good.call(all_topics(), 12).topics == []
    assert "a request of 127.0.0.1 could not be worked on" in caplog.text
    assert "ZeroDivisionError: planted" in caplog.text


# ---- no room for another socket


def test_it_waits_when_there_are_no_file_descriptors(
    share_broker: ReferenceBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It looks again after a while, not in each round of its loop, and logs one line."""
    attempts: list[socket.socket] = []

    def refuse(listener: socket.socket) -> Any:
        attempts.append(listener)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    servers = share_broker.bootstrap_servers
    with WireConnection(servers) as served, caplog.at_level(logging.WARNING):
        served.call(all_topics(), 12)
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "accept", refuse)
            waiting = WireConnection(servers)
            waiting.send(all_topics(), 12)
            wait_until(lambda: attempts)
            for _ in range(1_000):
                share_broker.topics()  # a round of the loop
            assert len(attempts) < 100
        assert served.call(all_topics(), 12).topics == []
        assert waiting.receive().topics == []
        waiting.close()
    assert [record.getMessage() for record in caplog.records if "accept" in record.getMessage()] == [
        "no client can be accepted for now: [Errno 24] Too many open files"
    ]


# ---- many requests at once, half requests


def test_others_get_their_turn_when_one_client_sends_thousands_of_requests_at_once() -> None:
    many = 4_000

    async def use() -> list[str]:
        async with serving() as (server, port):
            greedy = await asyncio.open_connection("127.0.0.1", port)
            modest = await asyncio.open_connection("127.0.0.1", port)
            for _, writer in (greedy, modest):  # both are known to the server from here on
                writer.write(ONE_MORE)
            await answer(greedy[0])
            await answer(modest[0])
            server.requests.clear()
            greedy[1].write(ALL_TOPICS * many)
            modest[1].write(ONE_MORE)
            for _ in range(many):
                await answer(greedy[0])
            await answer(modest[0])
            for _, writer in (greedy, modest):
                writer.close()
                await writer.wait_closed()
            return [context.client_id for context, _ in server.requests.of()]

    order = asyncio.run(use())
    assert len(order) == many + 1
    assert order.index("one") <= 10 * MAX_REQUESTS_PER_TURN


def test_a_connection_is_closed_when_the_rest_of_a_request_does_not_come() -> None:
    async def use() -> None:
        async with serving(half_request_ms=10) as (_, port):
            idle = await asyncio.open_connection("127.0.0.1", port)
            for sent in (b"\0\0", ONE_MORE[:-1], ONE_MORE + b"\0"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                assert len(await reader.read()) == (len(await whole(port)) + 4 if len(sent) > len(ONE_MORE) else 0)
                writer.close()
            idle[1].write(ONE_MORE)  # nothing was half sent there
            assert await answer(idle[0])
            idle[1].close()
            await idle[1].wait_closed()

    async def whole(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ONE_MORE)
        found = await answer(reader)
        writer.close()
        return found

    asyncio.run(use())


def test_the_largest_is_closed_when_half_requests_take_too_much_memory_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A request that fits beside them is answered, whatever the others hold."""
    announced = (1_000_000).to_bytes(4, "big")

    async def use() -> None:
        async with serving(requests_bytes=100_000) as (_, port):
            modest = await asyncio.open_connection("127.0.0.1", port)
            modest[1].write(ONE_MORE[:-1])
            greedy = await asyncio.open_connection("127.0.0.1", port)
            greedy[1].write(announced + bytes(60_000))
            other = await asyncio.open_connection("127.0.0.1", port)
            other[1].write(announced + bytes(50_000))
            assert await greedy[0].read() == b""
            modest[1].write(ONE_MORE[-1:])
            assert await answer(modest[0])
            other[1].write(bytes(45_000))
            third = await asyncio.open_connection("127.0.0.1", port)
            third[1].write(announced + bytes(10_000))
            assert await other[0].read() == b""  # what the first one held is free again, and not counted twice
            for _, writer in (modest, greedy, other, third):
                writer.close()

    asyncio.run(use())
    said = [record.getMessage() for record in caplog.records if record.name == "kafka_share.broker.connection"]
    assert said == ["closing the connection of 127.0.0.1: requests without an answer take too much memory"] * 2


def test_text_of_others_forges_no_line_of_the_log_when_no_answer_can_be_sent(
    share_broker: ReferenceBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bytes:
        raise LocalProtocolError("the name a\n2026-01-01 CRITICAL \x1b[31mforged")

    monkeypatch.setattr(connection, "encode_response", refuse)
    with WireConnection(share_broker.bootstrap_servers) as client:
        client.send(all_topics(), 12)
        assert client.is_closed_by_broker()
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        r"closing the connection of 127.0.0.1: no answer can be sent: the name a\n2026-01-01 CRITICAL \x1b[31mforged"
    ]


# ---- records that take long to check


@pytest.mark.share_broker(clock=BrokerClock(manual=True))
def test_records_that_take_several_turns_are_checked_while_the_clock_stands_still(
    share_broker: ReferenceBroker, share_topic: ShareTopicFactory
) -> None:
    topic = share_topic()
    large = encode_batch([(0, 1, None, bytes(8 * AT_ONCE_BYTES), [])], codec="zstd")
    data = ProduceRequest.TopicProduceData
    parts = [data(name=topic, partition_data=[data.PartitionProduceData(index=0, records=large)])]
    with WireConnection(share_broker.bootstrap_servers) as client:
        unanswered = ProduceRequest(acks=0, timeout_ms=1_000, topic_data=parts)
        client.send_bytes(encode_request(unanswered, 9, 0, "wire"))
        client.send(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=parts), 9)
        assert client.receive().responses[0].partition_responses[0].base_offset == 1
    assert len(share_broker.records(topic)) == 2
