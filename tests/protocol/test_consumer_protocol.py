"""Embedded subscriptions and assignments: the bytes of Kafka's consumers, older and newer ones, and damaged ones."""

from __future__ import annotations

import pytest

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode,
    encode,
    version_in,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["t"],
    user_data=b"u",
    owned_partitions=[ConsumerProtocolSubscription.TopicPartition(topic="t", partitions=[0, 3])],
    generation_id=7,
    rack_id="r",
)
KAFKAS_BYTES = bytes.fromhex(
    "0003 00000001 0001 74 00000001 75 00000001 0001 74 00000002 00000000 00000003 00000007 0001 72"
)


def test_a_subscription_has_the_bytes_that_kafka_gives_it() -> None:
    assert encode(SUBSCRIPTION, 3) == KAFKAS_BYTES
    assert decode(ConsumerProtocolSubscription, KAFKAS_BYTES) == SUBSCRIPTION


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_what_a_version_lacks_is_left_out(version: int) -> None:
    found = decode(ConsumerProtocolSubscription, encode(SUBSCRIPTION, version))
    assert found.topics == ["t"]
    assert (found.owned_partitions != [], found.generation_id, found.rack_id) == (
        version >= 1,
        7 if version >= 2 else -1,
        "r" if version >= 3 else None,
    )


def test_a_newer_version_is_read_as_the_newest_that_is_known() -> None:
    newer = b"\0\x09" + KAFKAS_BYTES[2:] + b"more"
    assert version_in(newer) == 3
    assert decode(ConsumerProtocolSubscription, newer) == SUBSCRIPTION


def test_an_assignment_is_read_as_it_was_written() -> None:
    partitions = [ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[1])]
    assignment = ConsumerProtocolAssignment(assigned_partitions=partitions)
    assert decode(ConsumerProtocolAssignment, encode(assignment, 1)) == assignment


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff\xff" + KAFKAS_BYTES[2:], *(KAFKAS_BYTES[:n] for n in (5, 9, 20, 34))]
)
def test_damaged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(ConsumerProtocolSubscription, data)
