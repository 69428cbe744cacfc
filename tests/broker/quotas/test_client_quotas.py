"""Client quotas: what is set, whose it is, and how long it throttles. Codes and times are those of Kafka 4.3.1."""

from __future__ import annotations

import math
from typing import Any

import pytest
from broker.cluster_world import World, batch

from kafka_share.broker.quotas.client_quotas import ClientQuotas
from kafka_share.broker.quotas.entity import entity_of, key_of
from kafka_share.broker.quotas.rate import Rate
from kafka_share.errors import InvalidRequestError, UnsupportedVersionError
from kafka_share.protocol.logs import FetchRequest, ProduceRequest
from kafka_share.protocol.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest

INVALID = InvalidRequestError.code
INFINITY, NAN = math.inf, math.nan
Names = dict[str, str | None]


def alter(world: World, entity: list[tuple[str, str | None]], *, only: Any = False, **values: float | None) -> int:
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[
                    entry.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in values.items()
                ],
            )
        ],
        validate_only=only,
    )
    return int(world.ask(request).entries[0].error_code)


def described(world: World, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """The error code, or what was found: (entity, values)."""
    component = DescribeClientQuotasRequest.ComponentData
    answer = world.ask(
        DescribeClientQuotasRequest(
            components=[component(entity_type=kind, match_type=how, match=name) for kind, how, name in components],
            strict=strict,
        )
    )
    if answer.error_code:
        assert answer.entries is None
        return answer.error_code
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries
    ]


def test_quotas_are_set_described_and_removed() -> None:
    world = World()
    assert alter(world, [("user", "u")], producer_byte_rate=1000.0, request_percentage=12.5) == 0
    assert alter(world, [("user", "u"), ("client-id", None)], consumer_byte_rate=5.0) == 0
    assert alter(world, [("ip", "127.0.0.1")], connection_creation_rate=50.0) == 0
    assert alter(world, [("user", "only")], only=True, producer_byte_rate=1.0) == 0
    of_user: tuple[Names, dict[str, float]]
    of_user = {"user": "u"}, {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    of_both: tuple[Names, dict[str, float]] = {"client-id": None, "user": "u"}, {"consumer_byte_rate": 5.0}
    assert described(world, ("user", 0, "u")) == [of_user, of_both]
    assert described(world, ("user", 2, None)) == [of_user, of_both]
    assert described(world, ("user", 0, "u"), strict=True) == [of_user]
    assert described(world, ("user", 0, "u"), ("client-id", 1, None)) == [of_both]
    assert described(world, strict=True) == described(world, ("user", 1, None)) == []
    assert len(described(world)) == 3
    assert alter(world, [("user", "u")], producer_byte_rate=None, nosuch=None) == 0
    assert alter(world, [("user", "u")], request_percentage=None) == 0
    assert described(world, ("user", 0, "u")) == [of_both]


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ([], {"producer_byte_rate": 5.0}),
        ([("group", "g")], {"producer_byte_rate": 5.0}),
        ([("user", "")], {"producer_byte_rate": 5.0}),
        ([("user", "u")], {"nosuch": 5.0}),
        ([("user", "u")], {"connection_creation_rate": 5.0}),
        ([("user", "u")], {"producer_byte_rate": 5.5}),
        ([("user", "u")], {"producer_byte_rate": 0.0}),
        ([("user", "u")], {"request_percentage": -1.0}),
        ([("user", "u")], {"request_percentage": -INFINITY}),
        ([("ip", "127.0.0.1")], {"connection_creation_rate": INFINITY}),
        ([("user", "u")], {"producer_byte_rate": 2.0**63 + 2.0**11}),
        ([("user", "u")], {"producer_byte_rate": INFINITY}),
        ([("ip", "127.0.0.1")], {"producer_byte_rate": 5.0}),
        ([("ip", "127.0.0.1"), ("user", "u")], {"connection_creation_rate": 5.0}),
        ([("ip", "not an ip!")], {"connection_creation_rate": 5.0}),
        ([("user", "u")], {"producer_byte_rate": 5.0, "nosuch": 1.0}),
    ],
)
def test_a_quota_is_refused_as_a_whole_when_it_makes_no_sense(
    entity: list[tuple[str, str | None]], values: dict[str, float | None]
) -> None:
    world = World()
    assert alter(world, entity, **values) == INVALID
    assert described(world) == []


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        *(("user", key, NAN) for key in ("producer_byte_rate", "request_percentage", "controller_mutation_rate")),
        *(("user", key, INFINITY) for key in ("request_percentage", "controller_mutation_rate")),
        ("user", "consumer_byte_rate", 2.0**63),
        ("user", "producer_byte_rate", 1e-7),
        ("ip", "connection_creation_rate", 2.0**31 - 1),
    ],
)
def test_a_value_at_the_border_is_taken_and_described(entity: str, key: str, value: float) -> None:
    world = World()
    assert alter(world, [(entity, "10.0.0.1")], **{key: value}) == 0
    ((_, found),) = described(world)
    assert found == pytest.approx({key: value}, rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("value", [NAN, INFINITY])
def test_nobody_exceeds_what_is_no_number(value: float) -> None:
    quotas, whose = ClientQuotas(), (("user", "u"),)
    quotas.alter(whose, {"controller_mutation_rate": value, "request_percentage": value})
    assert [quotas.mutate("u", "c", 10**6, 0, strict=True) for _ in range(3)] == [0, 0, 0]
    assert quotas.worked("u", "c", 10**12, 0) == 0
    quotas.alter(whose, {"controller_mutation_rate": 1.0, "producer_byte_rate": NAN})
    assert [quotas.mutate("u", "c", 12, 0, strict=True) for _ in range(2)] == [0, 1_000]
    assert quotas.take("producer_byte_rate", "u", "c", 10**12, 0) == 0


@pytest.mark.parametrize("value", [NAN, INFINITY])
def test_kafka_4_4_demands_a_finite_number(value: float) -> None:
    world = World(kafka_version="4.4")
    assert alter(world, [("user", "u")], request_percentage=value) == INVALID
    assert alter(world, [("ip", "10.0.0.1")], connection_creation_rate=value) == INVALID


@pytest.mark.parametrize("rate", [NAN, 1e-7])
def test_nobody_may_connect_when_the_rate_is_no_whole_number_above_zero(rate: float) -> None:
    quotas = ClientQuotas()
    quotas.alter((("ip", "10.0.0.1"),), {"connection_creation_rate": rate})
    assert (quotas.connect("10.0.0.1", 0), quotas.connect("10.0.0.2", 0)) == (1_000, 0)


KAFKAS_ADDRESSES = (
    "localhost",
    "LOCALHOST",
    "1",
    "127.1",
    "1.2.3",
    "[::1]",
    "::1",
    "::ffff:1.2.3.4",
    "4294967295",
    "1.16777215",
)
NO_ADDRESSES = (
    *(
        "nohost.invalid",
        "256.1.1.1",
        "1.2.3.4.5",
        "a b",
        "0x7f.1",
        "fe80::1%lo",
        "4294967296",
        "1..2",
        "9" * 5_000,
        "[::1",
    ),
)


@pytest.mark.parametrize(
    ("address", "code"), [*((one, 0) for one in KAFKAS_ADDRESSES), *((one, INVALID) for one in NO_ADDRESSES)]
)
def test_an_address_is_written_as_kafka_reads_it(address: str, code: int) -> None:
    world = World()
    assert alter(world, [("ip", address)], connection_creation_rate=5.0) == code
    assert len(described(world)) == (code == 0)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("group", 2, None)], UnsupportedVersionError.code),
        ([("", 2, None)], INVALID),
        ([("user", 7, None)], INVALID),
        ([("user", 0, None)], INVALID),
        ([("user", 1, "x")], INVALID),
        ([("user", 2, "x")], INVALID),
        ([("user", 2, None), ("user", 0, "u")], INVALID),
        ([("user", 2, None), ("ip", 2, None)], INVALID),
    ],
)
def test_a_filter_is_refused_when_it_makes_no_sense(components: list[tuple[str, int, str | None]], code: int) -> None:
    assert described(World(), *components) == code


def test_the_nearest_quota_counts_and_those_who_share_it_share_their_rate() -> None:
    quotas = ClientQuotas()
    entities: list[tuple[tuple[str, str | None], ...]] = [
        (("client-id", None),),
        (("client-id", "c"),),
        (("user", None),),
        (("client-id", None), ("user", None)),
        (("client-id", "c"), ("user", None)),
        (("user", "u"),),
        (("client-id", None), ("user", "u")),
        (("client-id", "c"), ("user", "u")),
    ]
    assert quotas.limit("producer_byte_rate", "u", "c") is None
    for rate, entity in enumerate(entities, 1):
        quotas.alter(entity, {"producer_byte_rate": rate})
        assert entity_of(key_of(entity)) == entity
        found = quotas.limit("producer_byte_rate", "u", "c")
        assert found is not None
        assert found[0] == rate
    assert quotas.limit("consumer_byte_rate", "u", "c") is None
    quotas = ClientQuotas()
    quotas.alter((("user", "u"),), {"producer_byte_rate": 100.0})
    assert quotas.take("producer_byte_rate", "u", "one", 1_000, 0) == 0
    assert quotas.take("producer_byte_rate", "u", "two", 100, 0) == 1_000
    assert quotas.take("producer_byte_rate", "v", "two", 10_000, 0) == 0


def test_a_rate_is_taken_over_ten_seconds_and_forgets_the_oldest() -> None:
    rate = Rate()
    rate.take(11_210, 0)
    assert rate.throttle_ms(1_000, 0) == 1_210
    assert rate.throttle_ms(1_000, 300) == 910
    assert rate.throttle_ms(1_000, 9_300) == 910
    assert rate.throttle_ms(1_000, 10_500) == 710
    assert rate.throttle_ms(1_000, 11_000) == 0
    rate.take(20_000, 11_000)
    rate.take(-20_000, 11_000)
    assert rate.throttle_ms(1, 11_000) == 0


def produce(world: World, topic: Any, count: int) -> int:
    data = ProduceRequest.TopicProduceData
    records = [data.PartitionProduceData(index=0, records=batch(count))]
    answer = world.ask(
        ProduceRequest(
            transactional_id=None,
            acks=1,
            timeout_ms=1,
            topic_data=[data(topic_id=topic.id, partition_data=records)],
        )
    )
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def fetch(world: World, topic: Any, max_wait_ms: int = 0, min_bytes: int = 1) -> Any:
    """How long to wait, and how many bytes of records came; None if the answer is still to come."""
    asked = FetchRequest.FetchTopic
    answer = world.ask(
        FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            topics=[
                asked(
                    topic_id=topic.id,
                    partitions=[asked.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)],
                )
            ],
            forgotten_topics_data=[],
        ),
        13,
    )
    if answer is None:
        return None
    return answer.throttle_time_ms, sum(len(p.records or b"") for t in answer.responses for p in t.partitions)


def test_a_producer_is_told_to_wait_and_what_it_sent_is_there() -> None:
    world = World()
    topic = world.topic("t")
    assert alter(world, [("client-id", "test")], producer_byte_rate=100.0) == 0
    assert produce(world, topic, 30) == 0
    wait_ms = produce(world, topic, 60)
    assert wait_ms > 0
    assert topic.partitions[0].log.high_watermark == 90
    world.advance(11_000)
    assert produce(world, topic, 1) == 0
    assert alter(world, [("client-id", "test")], producer_byte_rate=None) == 0
    assert produce(world, topic, 60) == 0


def test_a_fetch_brings_one_batch_when_its_quota_is_no_number() -> None:
    world = World()
    topic = world.topic("t")
    for _ in range(3):
        produce(world, topic, 10)
    _, everything = fetch(world, topic)
    assert alter(world, [("client-id", "test")], consumer_byte_rate=NAN) == 0
    assert fetch(world, topic) == (0, everything // 3)


def test_a_fetch_waits_for_no_more_than_its_quota_allows_at_once() -> None:
    world = World()
    topic = world.topic("t")
    for _ in range(4):
        produce(world, topic, 10)
    assert fetch(world, topic, max_wait_ms=500, min_bytes=100_000) is None
    assert alter(world, [("client-id", "test")], consumer_byte_rate=50.0) == 0
    wait_ms, size = fetch(world, topic, max_wait_ms=500, min_bytes=100_000)
    assert (wait_ms, 0 < size < 500) == (0, True)


def test_a_throttled_fetch_brings_nothing_and_does_not_count() -> None:
    world = World()
    topic = world.topic("t")
    for _ in range(5):
        produce(world, topic, 10)
    _, everything = fetch(world, topic)
    assert alter(world, [("user", "ANONYMOUS")], consumer_byte_rate=everything // 10 + 1) == 0
    first_wait_ms, size = fetch(world, topic)
    assert (0 < first_wait_ms < 2_000, size) == (True, 0)
    wait_until_served(world, topic, first_wait_ms, everything)
    wait_ms, size = fetch(world, topic)
    assert (wait_ms > 5_000, size) == (True, 0)
    wait_until_served(world, topic, wait_ms, everything)


def wait_until_served(world: World, topic: Any, wait_ms: int, expected: int) -> None:
    """As long as a client is told to."""
    while wait_ms:
        world.advance(wait_ms)
        wait_ms, size = fetch(world, topic)
        assert size == (0 if wait_ms else expected)
