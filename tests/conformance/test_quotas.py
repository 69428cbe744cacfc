"""Quotas of partitions, connections and time: the same on the reference broker and on real Apache Kafka."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from conformance.kafka_targets import Target
from support.waiting import rest, wait_until
from support.wire_connection import WireConnection

from kafka_share.errors import InvalidRequestError, ThrottlingQuotaExceededError, UnknownTopicOrPartitionError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from kafka_share.protocol.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(90)]  # quotas are rates over ten seconds

EXCEEDED = ThrottlingQuotaExceededError.code
INVALID = InvalidRequestError.code
Names = Callable[[str], str]
Entity = list[tuple[str, str | None]]
_TAKES_EFFECT_S = 1.0
"""Real brokers describe what their controller knows, and act on it a moment later."""


class Quotas:
    """What an admin does about quotas, on a connection of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.connection = WireConnection(bootstrap, client_id="quota-admin")

    def alter(self, entity: Entity, **values: float | None) -> int:
        """The error code."""
        entry = AlterClientQuotasRequest.EntryData
        asked = entry(
            entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[
                entry.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                for key, value in values.items()
            ],
        )
        request = AlterClientQuotasRequest(entries=[asked], validate_only=False)
        return int(self.connection.call(request, 1).entries[0].error_code)

    def limit(self, entity: Entity, **values: float | None) -> None:
        """The same, and wait until each node acts on it."""
        assert self.alter(entity, **values) == 0
        expected = {key: value for key, value in values.items() if value is not None}
        wait_until(lambda: self.described(entity) == expected or None, "the quota is not there")
        rest(_TAKES_EFFECT_S)

    def described(self, entity: Entity) -> dict[str, float]:
        component = DescribeClientQuotasRequest.ComponentData
        components = [component(entity_type=kind, match_type=int(name is None), match=name) for kind, name in entity]
        answer = self.connection.call(DescribeClientQuotasRequest(components=components, strict=True), 1)
        assert answer.error_code == 0, answer
        return {value.key: value.value for entry in answer.entries for value in entry.values}


@pytest.fixture
def quotas(kafka: Target) -> Iterator[Quotas]:
    made = Quotas(kafka.bootstrap_servers)
    yield made
    made.connection.close()


@pytest.mark.parametrize(
    ("entity", "values", "code"),
    [
        ([("user", "q")], {"request_percentage": 12.5, "controller_mutation_rate": 0.5}, 0),
        ([("client-id", None), ("user", None)], {"controller_mutation_rate": 1.0}, 0),
        ([("user", "q")], {"producer_byte_rate": 5.000_000_1}, 0),
        ([("user", "q")], {"producer_byte_rate": 5.000_01}, INVALID),
        ([("user", "q")], {"consumer_byte_rate": 1e19}, INVALID),
        ([("user", "q")], {"request_percentage": 0.0}, INVALID),
        ([("user", "q")], {"consumer_byte_rate": 2.0**63, "producer_byte_rate": 1e-7}, 0),
        ([("user", "q")], {"consumer_byte_rate": math.inf}, INVALID),
        ([("user", "q")], {"connection_creation_rate": 5.0}, INVALID),
        ([("ip", "10.0.0.1")], {"connection_creation_rate": float(2**31 - 1)}, 0),
        ([("ip", "10.0.0.1")], {"connection_creation_rate": float(2**31)}, INVALID),
        ([("ip", "10.0.0.1")], {"connection_creation_rate": 1.5}, INVALID),
        ([("ip", "10.0.0.1")], {"request_percentage": 5.0}, INVALID),
        ([("ip", "no host")], {"connection_creation_rate": None}, INVALID),
        ([("ip", "10.0.0.1"), ("user", "q")], {"connection_creation_rate": 5.0}, INVALID),
        ([("ip", "10.0.0.1"), ("client-id", None)], {"connection_creation_rate": 5.0}, INVALID),
        ([("user", "q")], {}, 0),
    ],
)
def test_a_quota_is_taken_or_refused(
    quotas: Quotas, entity: Entity, values: dict[str, float | None], code: int
) -> None:
    assert quotas.alter(entity, **values) == code
    quotas.alter(entity, **dict.fromkeys(values))


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ([("user", "q")], {"consumer_byte_rate": math.nan, "controller_mutation_rate": math.nan}),
        ([("user", "q")], {"request_percentage": math.inf, "controller_mutation_rate": math.inf}),
        ([("ip", "10.0.0.1")], {"connection_creation_rate": math.nan}),
    ],
)
def test_what_is_no_finite_number_is_taken_up_to_4_3(
    kafka: Target, quotas: Quotas, entity: Entity, values: dict[str, float | None]
) -> None:
    assert quotas.alter(entity, **values) == (INVALID if kafka.demands_finite_quotas else 0)
    quotas.alter(entity, **dict.fromkeys(values))


def test_of_an_entity_that_a_request_names_twice_the_first_counts_and_the_answer_is_an_error(quotas: Quotas) -> None:
    entry = AlterClientQuotasRequest.EntryData
    entries = [
        entry(
            entity=[entry.EntityData(entity_type="user", entity_name="twice")],
            ops=[entry.OpData(key="producer_byte_rate", value=value, remove=False)],
        )
        for value in (7.0, 8.0)
    ]
    answer = quotas.connection.call(AlterClientQuotasRequest(entries=entries, validate_only=False), 1)
    assert [one.error_code for one in answer.entries] == [INVALID]
    wait_until(lambda: quotas.described([("user", "twice")]) == {"producer_byte_rate": 7.0} or None)
    quotas.limit([("user", "twice")], producer_byte_rate=None)


# ---- partitions


def create(client: WireConnection, names: list[str], partitions: int, version: int = 7) -> tuple[list[int], int]:
    asked = [
        CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        for name in names
    ]
    answer = client.call(CreateTopicsRequest(topics=asked, timeout_ms=10_000, validate_only=False), version)
    return [topic.error_code for topic in answer.topics], answer.throttle_time_ms


def delete(client: WireConnection, name: str) -> tuple[int, int]:
    state = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=None)
    answer = client.call(DeleteTopicsRequest(topics=[state], timeout_ms=10_000), 6)
    return answer.responses[0].error_code, answer.throttle_time_ms


def grow(client: WireConnection, name: str, count: int, version: int) -> tuple[int, int]:
    asked = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[asked], timeout_ms=10_000, validate_only=False)
    answer = client.call(request, version)
    return answer.results[0].error_code, answer.throttle_time_ms


def existing(client: WireConnection, *names: str, make: bool = False) -> list[int]:
    topics = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None) for name in names]
    answer = client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=make), 12)
    codes = {topic.name: topic.error_code for topic in answer.topics}
    return [codes[name] for name in names]


def _exists(client: WireConnection, name: str) -> bool | None:
    return existing(client, name) == [0] or None


def test_who_makes_too_many_partitions_is_refused_and_waits(kafka: Target, quotas: Quotas, unique: Names) -> None:
    name = unique("mutations")
    quotas.limit([("client-id", name)], controller_mutation_rate=1.0)
    with (
        WireConnection(kafka.bootstrap_servers, client_id=name) as client,
        WireConnection(kafka.bootstrap_servers, client_id=name) as same,
    ):
        assert create(client, [f"{name}-a"], 21) == ([0], 0)
        codes, wait_ms = create(client, [f"{name}-b", f"{name}-c"], 1)
        assert (codes, 5_000 < wait_ms <= 10_000) == ([EXCEEDED, EXCEEDED], True)
        code, wait_ms = delete(same, f"{name}-a")
        assert (code, 0 < wait_ms <= 10_000) == (EXCEEDED, True)
        wait_until(partial(_exists, quotas.connection, f"{name}-a"))
        # Older versions do not know the error; what is asked for is done. These connections wait by now.
        with WireConnection(kafka.bootstrap_servers, client_id=name) as older:
            code, wait_ms = grow(older, f"{name}-a", 22, 2)
            assert (code, wait_ms > 0) == (0, True)
    quotas.limit([("client-id", name)], controller_mutation_rate=None)


def test_topics_that_are_made_by_asking_for_them_count(kafka: Target, quotas: Quotas, unique: Names) -> None:
    name = unique("auto")
    topics = [f"{name}-{number}" for number in range(3)]
    quotas.limit([("client-id", name)], controller_mutation_rate=0.1)
    with WireConnection(kafka.bootstrap_servers, client_id=name) as client:
        for topic in topics[:2]:
            existing(client, topic, make=True)
            wait_until(partial(_exists, quotas.connection, topic))
        existing(client, topics[2], make=True)
        rest(_TAKES_EFFECT_S)
        assert existing(quotas.connection, *topics) == [0, 0, UnknownTopicOrPartitionError.code]
    quotas.limit([("client-id", name)], controller_mutation_rate=None)


# ---- connections and time


def answered(clients: list[WireConnection]) -> list[bool]:
    """Which of these clients are served; the others are turned away, later."""
    found = []
    for client in clients:
        try:
            client.send(MetadataRequest(topics=[]), 12)
            found.append(bool(client.receive().brokers))
        except OSError:
            found.append(False)
    return found


def test_who_connects_too_often_is_turned_away(kafka: Target, quotas: Quotas) -> None:
    quotas.limit([("ip", "localhost")], connection_creation_rate=1.0)
    clients = [WireConnection(kafka.bootstrap_servers) for _ in range(12)]
    served = answered(clients)
    quotas.limit([("ip", "localhost")], connection_creation_rate=None)
    clients += [WireConnection(kafka.bootstrap_servers)]
    assert (served.count(True), answered(clients[-1:])) == (10, [True])
    for client in clients:
        client.close()


def test_whose_requests_take_too_much_time_waits_for_a_second(kafka: Target, quotas: Quotas, unique: Names) -> None:
    name = unique("time")
    quotas.limit([("client-id", name)], request_percentage=0.000_01)
    with WireConnection(kafka.bootstrap_servers, client_id=name) as client:
        assert client.call(MetadataRequest(topics=[]), 12).throttle_time_ms == 1_000
    quotas.limit([("client-id", name)], request_percentage=None)
