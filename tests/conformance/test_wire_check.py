"""Our bytes and a real broker's: it reads what we write, and we write again what we have read from it.

A broker that cannot decode a request closes the connection; whatever it answers instead shows that it could.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conformance.differential_brokers import Broker
from conformance.kafka_targets import Target
from conformance.share_values import Known, requests
from hypothesis import HealthCheck, given, settings
from support.share_requests import Limits, acknowledge_request, describe_request, fetch_request, produce_request
from support.wire_connection import WireConnection

from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.messages import MESSAGES, decode_response, encode_response
from kafka_share.protocol.schema import schema_of
from kafka_share.protocol.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from kafka_share.protocol.share_offsets import DescribeShareGroupOffsetsRequest

CONTROL_KEYS = (3, 10, 18)
"""Metadata, FindCoordinator, ApiVersions: the other requests of our consumer."""
SHARE_KEYS = (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92)
SPOKEN = [
    (MESSAGES[key][0], version)
    for key in (*CONTROL_KEYS, *SHARE_KEYS)
    for version in range(MESSAGES[key][0].valid_versions[0], MESSAGES[key][0].valid_versions[1] + 1)
]
EXAMPLES = 40
SLOW_EXAMPLES = 8
"""For DescribeShareGroupOffsets: about partitions that it does not know, a real broker asks its share coordinator
again and again, so that an answer takes seconds."""
RECORDS = 5
MEMBER = "MbVbHqqGQ2uZ6ZbHnhoZ0g"


@pytest.fixture(scope="module")
def broker(real_kafka: Target) -> Iterator[Broker]:
    """A topic with records, and a group that may fetch them."""
    if not real_kafka.speaks_v2:
        pytest.skip("the check prepares its group by altering offsets, which Kafka 4.1 does not do")
    broker = Broker(real_kafka.bootstrap_servers)
    broker.prepare("wire-check", 2, {"share.auto.offset.reset": "earliest"})
    for partition in (0, 1):
        answer = broker.control(produce_request(broker.topic, partition, RECORDS), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def offered(broker: Broker) -> dict[int, range]:
    hello = ApiVersionsRequest(client_software_name="wire-check", client_software_version="1")
    return {api.api_key: range(api.min_version, api.max_version + 1) for api in broker.control(hello, 3).api_keys}


def ask(connection: WireConnection, request: Any, version: int) -> Any:
    """The answer, after it has been encoded again to the bytes that it came in."""
    connection.send(request, version)
    try:
        awaited, frame = connection.receive_frame()
    except ConnectionError:
        pytest.fail(f"the broker closed the connection after {request}", pytrace=False)
    correlation_id, response = decode_response(awaited.api_key, awaited.version, frame)
    again = encode_response(correlation_id, response, version)
    assert again[4:] == frame, f"{response} has other bytes when it is written again"
    return response


def name_of(value: Any) -> str:
    return schema_of(value).name.removesuffix("Request") if isinstance(value, type) else f"v{value}"


@pytest.mark.parametrize(("request_class", "version"), SPOKEN, ids=name_of)
def test_a_real_broker_reads_our_request_when_its_values_are_random(
    broker: Broker, offered: dict[int, range], request_class: Any, version: int
) -> None:
    if version not in offered[request_class.API_KEY]:
        pytest.skip("this version of Kafka does not offer it")
    known = Known(broker.topic.group, broker.topic.name, broker.topic.topic_id)

    with WireConnection(broker.address) as connection:

        @settings(
            max_examples=SLOW_EXAMPLES if request_class is DescribeShareGroupOffsetsRequest else EXAMPLES,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(requests(request_class, version, known))
        def check(request: Any) -> None:
            ask(connection, request, version)

        check()


def test_answers_keep_their_bytes_when_they_are_full(broker: Broker, offered: dict[int, range]) -> None:
    """Records, acquired ranges, errors of partitions, members with assignments, offsets."""
    name = "wire-check-full"
    broker.prepare(name, 2, {"share.auto.offset.reset": "earliest"})
    for partition in (0, 1):
        broker.control(produce_request(broker.topic, partition, RECORDS), 9)
    version = offered[78][-1]
    topic = broker.topic
    with WireConnection(broker.address) as connection:
        fetched = ask(connection, fetch_request(topic, MEMBER, 0, Limits(max_wait_ms=500), ()), version)
        found = {p.partition_index: p.acquired_records for t in fetched.responses for p in t.partitions}
        assert any(found.values()), fetched
        said = [(partition, 90, 95, 1) for partition in found]
        refused = ask(connection, acknowledge_request(topic, MEMBER, 1, said), version)
        assert {p.error_code for t in refused.responses for p in t.partitions} - {0}, refused
        ask(connection, describe_request(topic), offered[90][-1])
        beat = ShareGroupHeartbeatRequest(
            group_id=topic.group,
            member_id="KvRkX1TzTJ2dMWHHZqYHtQ",
            member_epoch=0,
            rack_id=None,
            subscribed_topic_names=[topic.name],
        )
        assert ask(connection, beat, 1).error_code == 0
        described = ask(
            connection, ShareGroupDescribeRequest(group_ids=[topic.group], include_authorized_operations=True), 1
        )
        assert described.groups[0].members, described
