"""The admin core finds out which share partitions leaders hold in memory."""

from __future__ import annotations

from typing import Any

import pytest
from core.admin.scripted_admin import Cluster, run, script

from kafka_share.core.admin.loaded import loaded_share_partitions
from kafka_share.errors import (
    BrokerUnreachableError,
    GroupAuthorizationFailedError,
    LeaderNotAvailableError,
    RemoteProtocolError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_share.records import TopicPartition

T0, T1, T2, U0 = (TopicPartition(*where) for where in (("t", 0), ("t", 1), ("t", 2), ("u", 0)))
_Topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse


def opened(request: ShareFetchRequest, _: int) -> ShareFetchResponse:
    assert (request.group_id, request.member_id, request.share_session_epoch) == ("g", "me", 0)
    assert (request.topics, request.max_bytes, request.max_records) == ([], 0, 0), "nothing may be loaded or acquired"
    return ShareFetchResponse(responses=[], node_endpoints=[])


def answering(*codes: int, whole: int = 0) -> Any:
    """Each partition number is answered with the code at its place; without one, nothing is said about it."""

    def answer(request: ShareAcknowledgeRequest, _: int) -> ShareAcknowledgeResponse:
        topics = [
            _Topic(
                topic_id=topic.topic_id,
                partitions=[
                    _Topic.PartitionData(
                        partition_index=p.partition_index,
                        error_code=codes[p.partition_index],
                        current_leader=_Topic.PartitionData.LeaderIdAndEpoch(),
                    )
                    for p in topic.partitions
                    if p.partition_index < len(codes)
                ],
            )
            for topic in request.topics
        ]
        return ShareAcknowledgeResponse(error_code=whole, responses=topics, node_endpoints=[])

    return answer


def loaded(acknowledged: Any, *wanted: TopicPartition, fetched: Any = opened, cluster: Cluster | None = None) -> Any:
    operation = loaded_share_partitions("g", wanted, "me")
    return run(operation, script((ShareFetchRequest, fetched), (ShareAcknowledgeRequest, acknowledged)), cluster)


@pytest.mark.parametrize(("code", "expected"), [(3, False), (0, True), (42, True), (121, True)])
def test_what_a_leader_does_not_host_is_not_loaded(code: int, expected: bool) -> None:
    """As seen on Kafka 4.3.1: "does not host this topic-partition" for what is not loaded, anything else if it is."""
    assert loaded(answering(code), T0) == {T0: expected}


def test_the_session_is_closed_again_and_no_record_is_touched() -> None:
    """An offset that no log reaches is acknowledged, in one request per leader; then the session ends."""
    cluster = Cluster()
    assert loaded(answering(42, 42, 3), T2, T0, T1, cluster=cluster) == {T2: False, T0: True, T1: True}
    sent = cluster.requests(ShareAcknowledgeRequest)
    assert [(request.share_session_epoch, node) for request, node in sent] == [
        (1, 3), (-1, 3), (1, 1), (-1, 1), (1, 2), (-1, 2),
    ]  # fmt: skip
    batches = [
        b for request, _ in sent for t in request.topics for p in t.partitions for b in p.acknowledgement_batches
    ]
    assert {(batch.first_offset, batch.last_offset) for batch in batches} == {(2**62, 2**62)}


def test_what_a_leader_refuses_to_tell_is_an_error() -> None:
    """Missing rights, lost connections and answers that leave a partition out are no answer."""
    refused = ShareFetchResponse(error_code=30, responses=[], node_endpoints=[])
    lost = BrokerUnreachableError("it broke")
    found = [
        loaded(answering(29), T0)[T0],
        loaded(answering(0, whole=30), T0)[T0],
        loaded(answering(), T0)[T0],
        loaded(lambda *_: lost, T0)[T0],
        loaded(answering(0), T0, fetched=lambda *_: refused)[T0],
        loaded(answering(0), T0, fetched=lambda *_: lost)[T0],
    ]
    assert [type(error) for error in found] == [
        TopicAuthorizationFailedError,
        GroupAuthorizationFailedError,
        RemoteProtocolError,
        BrokerUnreachableError,
        GroupAuthorizationFailedError,
        BrokerUnreachableError,
    ]


def test_partitions_without_a_leader_and_those_that_are_not_there_are_not_asked() -> None:
    cluster = Cluster()
    cluster.leaders["t", 0] = -1
    missing, ninth = TopicPartition("nix", 0), TopicPartition("t", 9)
    found = loaded(answering(0), T0, missing, ninth, U0, cluster=cluster)
    assert [type(found[where]) for where in (T0, missing, ninth)] == [
        LeaderNotAvailableError, UnknownTopicOrPartitionError, UnknownTopicOrPartitionError,
    ]  # fmt: skip
    assert found[U0] is True
    assert loaded(answering()) == {}
