"""`ReferenceBroker` on real sockets: its life, its faults and what tests may do to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from support.share_requests import Limits, Topic, fetch_request
from support.waiting import wait_until
from support.wire_connection import CLIENT_ID, Awaited, WireConnection

from kafka_share.broker import BrokerClock, ReferenceBroker
from kafka_share.errors import (
    ConfigurationError,
    IllegalStateError,
    InvalidArgumentError,
    RemoteProtocolError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.logs import ListOffsetsRequest
from kafka_share.protocol.messages import decode_response, encode_request
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

METADATA, HEARTBEAT = 3, 76


def connect(broker: ReferenceBroker, node: int = 1) -> WireConnection:
    """A connection to one node."""
    return WireConnection(broker.bootstrap_servers.split(",")[node - 1])


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(nodes=2, clock=BrokerClock(manual=True)) as running:
        yield running


@pytest.fixture
def client(broker: ReferenceBroker) -> Iterator[WireConnection]:
    with connect(broker) as connected:
        yield connected


def all_topics() -> MetadataRequest:
    return MetadataRequest(topics=None)


def heartbeat(member: str, epoch: int = 0) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, subscribed_topic_names=["t"] if epoch == 0 else None
    )


def test_no_thread_is_left_when_the_broker_has_been_closed() -> None:
    before = threading.active_count()
    with ReferenceBroker() as broker:
        assert threading.active_count() == before + 1
        connect(broker).close()
    assert threading.active_count() == before
    with pytest.raises(IllegalStateError):
        broker.create_topic("t")


def test_it_serves_clients_of_the_callers_loop_when_it_is_entered_with_async() -> None:
    async def use() -> int:
        async with ReferenceBroker() as broker:
            broker.create_topic("t")
            assert broker.produce("t", b"1") == 0
            host, port = broker.bootstrap_servers.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode_request(all_topics(), 12, 5, "c"))
            size = int.from_bytes(await reader.readexactly(4), "big")
            correlation_id, _ = decode_response(METADATA, 12, await reader.readexactly(size))
            writer.close()
            await writer.wait_closed()
            return correlation_id

    before = threading.active_count()
    assert asyncio.run(use()) == 5
    assert threading.active_count() == before


def test_the_port_is_said_to_be_taken_when_another_broker_has_it() -> None:
    before = threading.active_count()
    with ReferenceBroker() as broker:
        port = int(broker.bootstrap_servers.split(":")[1])
        with pytest.raises(OSError, match=r"(?i)address already in use"), ReferenceBroker(port=port):
            pass
    assert threading.active_count() == before


def test_answers_come_in_the_order_of_the_requests_when_they_are_sent_all_at_once(client: WireConnection) -> None:
    for _ in range(200):
        client.send(all_topics(), 12)
    for awaited, frame in [client.receive_frame() for _ in range(200)]:
        assert int.from_bytes(frame[:4], "big") == awaited.correlation_id


def test_an_unsupported_version_of_api_versions_is_answered_in_version_0(client: WireConnection) -> None:
    frame = bytearray(
        encode_request(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 4, 77, "c")
    )
    frame[6:8] = (99).to_bytes(2, "big")
    client.send_bytes(bytes(frame), Awaited(api_key=18, version=0, correlation_id=77))
    answer = client.receive()
    assert answer.error_code == 35
    assert any(key.api_key == HEARTBEAT for key in answer.api_keys)
    assert client.call(all_topics(), 12).topics == []


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff" + b"x" * 16,
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x03abc",
        b"\x00\x00\x00\x0c" + b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x7f??",
        b"\x00\x00\x00\x0a" + b"\x00\x0b\x00\x00\x00\x00\x00\x01\xff\xff",
    ],
    ids=["too long", "negative", "empty", "short", "bad header", "api not offered"],
)
def test_the_connection_closes_and_others_live_on_when_a_frame_is_no_request(
    broker: ReferenceBroker, client: WireConnection, data: bytes
) -> None:
    other = connect(broker)
    client.send_bytes(data)
    assert client.is_closed_by_broker()
    assert other.call(all_topics(), 12).topics == []
    other.close()


# ---- faults


def test_the_next_answers_carry_an_error_when_that_was_planned(broker: ReferenceBroker, client: WireConnection) -> None:
    broker.faults.fail(HEARTBEAT, 15, times=2)
    assert [client.call(heartbeat("m"), 1).error_code for _ in range(2)] == [15, 15]
    assert broker.share_group("g") is None
    assert broker.faults.pending() == 0
    assert client.call(heartbeat("m"), 1).error_code != 15


def test_only_the_chosen_node_or_client_suffers_when_a_fault_names_one(
    broker: ReferenceBroker, client: WireConnection
) -> None:
    broker.faults.fail(METADATA, 7, node_id=2)
    broker.faults.fail(METADATA, 7, client_id="somebody")
    assert client.call(all_topics(), 13).error_code == 0
    other = connect(broker, node=2)
    assert other.call(all_topics(), 13).error_code == 7
    other.close()
    assert broker.faults.pending() == 1
    broker.faults.clear()
    assert broker.faults.pending() == 0


def test_the_request_takes_effect_when_only_its_reply_is_lost(broker: ReferenceBroker) -> None:
    node = broker.coordinator("g")
    broker.faults.lose_reply(HEARTBEAT)
    client, other = connect(broker, node), connect(broker, node)
    client.send(heartbeat("m"), 1)
    client.send(all_topics(), 12)
    assert other.call(heartbeat("n"), 1).error_code == 0
    snapshot = broker.share_group("g")
    assert snapshot is not None
    assert list(snapshot.members) == ["m", "n"]
    broker.drop_connections(node)
    assert client.is_closed_by_broker()
    other.close()
    client.close()


@pytest.mark.parametrize("applied", [False, True])
def test_the_connection_drops_before_or_after_the_effect_when_that_was_planned(
    broker: ReferenceBroker, applied: bool
) -> None:
    broker.faults.drop(HEARTBEAT, applied=applied)
    client = connect(broker, broker.coordinator("g"))
    client.send(heartbeat("m"), 1)
    assert client.is_closed_by_broker()
    client.close()
    assert (broker.share_group("g") is not None) == applied


def test_an_answer_is_held_back_until_the_clock_has_advanced_when_it_is_delayed(
    broker: ReferenceBroker, client: WireConnection
) -> None:
    broker.faults.delay(METADATA, 1_000)
    client.send(all_topics(), 12)
    client.send(all_topics(), 12)
    wait_until(lambda: broker.requests(METADATA))
    broker.advance(999)
    assert len(broker.requests(METADATA)) == 1
    broker.advance(1)
    assert [client.receive().topics, client.receive().topics] == [[], []]


def test_garbage_or_half_a_frame_comes_when_that_was_planned(broker: ReferenceBroker, client: WireConnection) -> None:
    broker.faults.garbage(METADATA)
    broker.faults.cut_frame(METADATA)
    with pytest.raises(RemoteProtocolError):
        client.call(all_topics(), 12)
    with pytest.raises(ConnectionError):
        client.call(all_topics(), 12)


def test_requests_are_counted_when_they_have_arrived(broker: ReferenceBroker, client: WireConnection) -> None:
    client.call(all_topics(), 12)
    ((context, request),) = broker.requests(METADATA)
    assert (context.client_id, context.node_id, context.api_version, request.topics) == (CLIENT_ID, 1, 12, None)
    broker.clear_requests()
    assert broker.requests() == []


def test_a_fault_is_refused_when_it_can_never_happen(broker: ReferenceBroker) -> None:
    for plan in (
        lambda: broker.faults.fail(9_999, 1),
        lambda: broker.faults.drop(METADATA, times=0),
        lambda: broker.faults.delay(METADATA, -1),
    ):
        with pytest.raises(ValueError, match=r"no API 9999|at least once"):
            plan()  # type: ignore[no-untyped-call]


# ---- what tests may do to it


def test_a_silent_member_is_gone_when_the_clock_has_advanced(broker: ReferenceBroker) -> None:
    broker.create_topic("t")
    client = connect(broker, broker.coordinator("g"))
    epoch = client.call(heartbeat("m"), 1).member_epoch
    assert len(client.call(heartbeat("m", epoch), 1).assignment.topic_partitions) == 1
    snapshot = broker.share_group("g")
    assert snapshot is not None
    assert [str(p) for p in snapshot.members["m"].assigned] == ["t-0"]
    broker.advance(45_000)
    snapshot = broker.share_group("g")
    assert snapshot is not None
    assert (snapshot.state, snapshot.members) == ("Empty", {})
    client.close()


def test_records_and_their_states_can_be_seen_when_a_member_has_fetched(broker: ReferenceBroker) -> None:
    topic_id = broker.create_topic("t", replication_factor=2)
    broker.set_group_config("g", share_auto_offset_reset="earliest")
    broker.produce_batch("t", [b"a", b"b"])
    coordinator = connect(broker, broker.coordinator("g"))
    coordinator.call(heartbeat("m"), 1)
    coordinator.close()
    assert broker.share_partition("g", "t") is None
    request = fetch_request(Topic("t", topic_id, "g", 1), "m", 0, Limits(max_wait_ms=1_000), ())
    leader = connect(broker, broker.leader("t"))
    partition = leader.call(request, 2).responses[0].partitions[0]
    assert [(r.first_offset, r.last_offset) for r in partition.acquired_records] == [(0, 1)]
    snapshot = broker.share_partition("g", "t")
    assert snapshot is not None
    assert (snapshot.start_offset, snapshot.end_offset) == (0, 1)
    assert broker.share_session_count(broker.leader("t")) == 1
    assert broker.stored_offset("g", "t") == -1
    broker.check()
    leader.close()


def test_another_node_leads_and_the_port_comes_back_when_a_node_stops_and_starts(broker: ReferenceBroker) -> None:
    broker.create_topic("t", replication_factor=2)
    first = broker.leader("t")
    client = connect(broker, first)
    broker.stop_node(first)
    assert client.is_closed_by_broker()
    client.close()
    assert broker.leader("t") == 3 - first
    with pytest.raises(IllegalStateError):
        broker.stop_node(first)
    with pytest.raises(OSError, match="refused"):
        connect(broker, first)
    broker.start_node(first)
    again = connect(broker, first)
    assert len(again.call(all_topics(), 12).brokers) == 2
    again.close()
    broker.move_leader("t", 0, first)
    assert broker.leader("t") == first
    with pytest.raises(InvalidArgumentError):
        broker.stop_node(9)


def test_the_bytes_of_large_requests_are_bounded_when_the_setting_says_so() -> None:
    with ReferenceBroker(config={"socket.request.max.bytes": 100}) as broker:
        client = connect(broker)
        client.send_bytes((101).to_bytes(4, "big"))
        assert client.is_closed_by_broker()
        client.close()


def test_records_can_be_produced_and_deleted_by_hand(broker: ReferenceBroker, client: WireConnection) -> None:
    broker.create_topic("t", replication_factor=2)
    broker.move_leader("t", 0, 1)
    assert [broker.produce("t", b"v", b"k", headers=[("h", None)]) for _ in range(3)] == [0, 1, 2]
    assert broker.end_offset("t") == 3
    assert broker.delete_records("t", 0, 2) == 2
    asked = ListOffsetsRequest.ListOffsetsTopic
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[asked(name="t", partitions=[asked.ListOffsetsPartition(partition_index=0, timestamp=-2)])],
    )
    assert client.call(request, 7).topics[0].partitions[0].offset == 2
    broker.delete_topic("t")
    answer = client.call(request, 7)
    assert answer.topics[0].partitions[0].error_code == UnknownTopicOrPartitionError.code


def test_a_wrong_argument_is_the_callers_error(broker: ReferenceBroker) -> None:
    broker.create_topic("t")
    for call in (
        lambda: broker.create_topic("t"),
        lambda: broker.create_topic("a b"),
        lambda: broker.create_topic("u", partitions=0),
        lambda: broker.create_topic("u", replication_factor=3),
        lambda: broker.produce("nosuch", b""),
        lambda: broker.delete_topic("nosuch"),
        lambda: ReferenceBroker(nodes=0),
    ):
        with pytest.raises(InvalidArgumentError):
            call()
    with pytest.raises(ConfigurationError, match=r"share\.nosuch"):
        broker.set_group_config("g", share_nosuch=1)
    with pytest.raises(ConfigurationError, match="nosuch"):
        ReferenceBroker(config={"nosuch": 1})
    with pytest.raises(ValueError, match="back"):
        broker.advance(-1)


def test_settings_can_change_while_it_runs(broker: ReferenceBroker) -> None:
    broker.set_broker_config({"group.share.heartbeat.interval.ms": 7_000})
    client = connect(broker, broker.coordinator("g"))
    assert client.call(heartbeat("m"), 1).heartbeat_interval_ms == 7_000
    client.close()


def test_the_clock_follows_real_time_and_what_was_advanced_unless_it_is_manual() -> None:
    manual = BrokerClock(manual=True, start_ms=5)
    manual.advance(3)
    assert manual.now_ms() == 8
    running = BrokerClock(start_ms=5)
    running.advance(3)
    assert running.now_ms() >= 8
