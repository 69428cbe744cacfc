"""The quotas of new connections (by address), and of the time that requests take. Times are those of Kafka 4.3.1."""

from __future__ import annotations

import pytest
from broker.cluster_world import World, batch

from kafka_share.broker.events import ConnectionClosed
from kafka_share.broker.quotas.client_quotas import ClientQuotas
from kafka_share.broker.quotas.entity import address_of
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.logs import FetchRequest
from kafka_share.protocol.messages import encode_response

HERE = "127.0.0.1"
MS = 1_000_000


def limited(*names: str | None) -> ClientQuotas:
    """A connection a second from these addresses."""
    quotas = ClientQuotas()
    for name in names:
        quotas.alter((("ip", name),), {"connection_creation_rate": 1.0})
    return quotas


def test_a_client_is_turned_away_when_its_address_connects_too_often() -> None:
    quotas = limited(HERE)
    assert [quotas.connect(HERE, 0) for _ in range(12)] == [0] * 10 + [1_000] * 2
    assert [quotas.connect(HERE, 10_500), quotas.connect("127.0.0.2", 10_500)] == [500, 0]
    assert [quotas.connect(HERE, 11_000) for _ in range(11)] == [0] * 10 + [500]


def test_the_default_holds_for_each_address_that_has_no_quota_of_its_own() -> None:
    quotas = limited(None)
    quotas.alter((("ip", "10.0.0.1"),), {"connection_creation_rate": 2.0})
    waits = {host: [quotas.connect(host, 0) for _ in range(21)] for host in (HERE, "10.0.0.1", "::1")}
    assert {host: found.count(0) for host, found in waits.items()} == {HERE: 10, "10.0.0.1": 20, "::1": 10}
    quotas.alter((("ip", None),), {"connection_creation_rate": None})
    assert quotas.connect(HERE, 0) == 0


def test_what_was_set_last_counts_when_an_address_has_two_names() -> None:
    quotas = limited("127.1")
    quotas.alter((("ip", HERE),), {"connection_creation_rate": 3.0})
    assert [quotas.connect(HERE, 0) for _ in range(31)].count(0) == 30
    quotas.alter((("ip", "127.1"),), {"connection_creation_rate": None})
    assert quotas.connect(HERE, 0) == 0


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("1", "0.0.0.1"),
        ("127.1", HERE),
        ("1.2.3", "1.2.0.3"),
        ("1.16777215", "1.255.255.255"),
        ("4294967295", "255.255.255.255"),
        ("[::1]", "::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("localhost", None),
        ("1.2.3.4.5", None),
    ],
)
def test_an_address_is_known_by_each_of_its_spellings(name: str, address: str | None) -> None:
    assert address_of(name) == address


# ---- time


def test_a_client_waits_up_to_a_second_when_its_requests_take_too_much_time() -> None:
    world = World()
    world.cluster.client_quotas.alter((("user", "ANONYMOUS"),), {"request_percentage": 1.0})
    assert world.cluster.client_quotas.limit_time
    metadata = MetadataRequest(topics=[])
    assert world.ask(metadata, 12, spent_ns=100 * MS).throttle_time_ms == 0
    assert world.ask(metadata, 12, spent_ns=5 * MS).throttle_time_ms == 500
    assert world.ask(metadata, 12, spent_ns=500 * MS).throttle_time_ms == 1_000
    world.advance(11_000)
    assert world.ask(metadata, 12, spent_ns=100 * MS).throttle_time_ms == 0
    world.cluster.client_quotas.alter((("user", "ANONYMOUS"),), {"request_percentage": None})
    assert not world.cluster.client_quotas.limit_time


def test_a_fetch_that_is_throttled_for_its_time_brings_nothing_and_its_bytes_do_not_count() -> None:
    world = World()
    world.topic("t").partitions[0].log.append(batch(10), 0, world.now_ms)
    topic = FetchRequest.FetchTopic
    partitions = [topic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)]
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[topic(topic="t", partitions=partitions)], forgotten_topics_data=[]
    )
    whole = world.ask(fetch, 12, spent_ns=0)
    size = len(encode_response(1, whole, 12))
    limits = {"request_percentage": 1.0, "consumer_byte_rate": float(size // 3)}
    world.cluster.client_quotas.alter((("client-id", "test"),), limits)
    assert (world.ask(fetch, 12, spent_ns=0).throttle_time_ms, world.ask(fetch, 12, spent_ns=0).throttle_time_ms) == (
        0,
        0,
    )
    throttled = world.ask(fetch, 12, spent_ns=500 * MS)
    assert (throttled.throttle_time_ms, throttled.responses) == (1_000, [])
    world.cluster.client_quotas.alter((("client-id", "test"),), {"request_percentage": None})
    assert world.ask(fetch, 12).throttle_time_ms == 0
    assert world.ask(fetch, 12).throttle_time_ms > 0


def test_the_time_of_a_request_whose_client_has_gone_is_forgotten() -> None:
    world = World()
    world.cluster.client_quotas.alter((("user", None),), {"request_percentage": 1.0})
    world.topic("t")
    topic = FetchRequest.FetchTopic
    partitions = [topic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)]
    fetch = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, topics=[topic(topic="t", partitions=partitions)], forgotten_topics_data=[]
    )
    assert world.ask(fetch, 12, spent_ns=500 * MS) is None
    world.machine.handle(ConnectionClosed(1), world.now_ms)
    world.advance(60_000)
    assert world.ask(MetadataRequest(topics=[]), 12, spent_ns=0).throttle_time_ms == 0
