"""The requests of the application's thread have the bytes of the general codec."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.protocol.direct_fetch import Template, acknowledge_template, fetch_template
from kafka_share.protocol.messages import encode_request
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

TOPICS = (uuid.UUID(int=1), uuid.UUID(int=2 << 100))
LIMITS = (500, 1, 52_428_800, 500)

FETCH, ACKNOWLEDGE = fetch_template(2, "client", "group", "member", LIMITS), acknowledge_template(2, "c", "g", "m")
both = pytest.mark.parametrize("template", [FETCH, ACKNOWLEDGE], ids=["fetch", "acknowledge"])

PIECES = st.lists(
    st.tuples(
        st.integers(0, 1 << 40),
        st.integers(0, 1 << 20),
        st.lists(st.integers(0, 4), min_size=1, max_size=126),
    ),
    max_size=5,
)


def topics_of(named: list[tuple[uuid.UUID, int, Any]], topic_type: Any, partition_type: Any) -> list[Any]:
    topics = []
    for topic_id in dict.fromkeys(topic_id for topic_id, _, _ in named):
        partitions = [
            partition_type(
                partition_index=partition,
                acknowledgement_batches=[
                    partition_type.AcknowledgementBatch(first_offset=f, last_offset=last, acknowledge_types=types)
                    for f, last, types in pieces
                ],
            )
            for found, partition, pieces in named
            if found == topic_id
        ]
        topics.append(topic_type(topic_id=topic_id, partitions=partitions))
    return topics


def fetch(epoch: int, named: list[tuple[uuid.UUID, int, Any]], group: str) -> ShareFetchRequest:
    topic = ShareFetchRequest.FetchTopic
    return ShareFetchRequest(
        group_id=group,
        member_id="member",
        share_session_epoch=epoch,
        max_wait_ms=LIMITS[0],
        min_bytes=LIMITS[1],
        max_bytes=LIMITS[2],
        max_records=LIMITS[3],
        batch_size=LIMITS[3],
        topics=topics_of(named, topic, topic.FetchPartition),
        forgotten_topics_data=[],
    )


def acknowledge(epoch: int, named: list[tuple[uuid.UUID, int, Any]], group: str) -> ShareAcknowledgeRequest:
    topic = ShareAcknowledgeRequest.AcknowledgeTopic
    topics = topics_of(named, topic, topic.AcknowledgePartition)
    return ShareAcknowledgeRequest(group_id=group, member_id="member", share_session_epoch=epoch, topics=topics)


@given(
    version=st.sampled_from((1, 2)),
    correlation_id=st.integers(0, (1 << 31) - 1),
    epoch=st.integers(0, (1 << 31) - 1),
    group=st.text(max_size=200).filter(lambda text: text.isprintable()),
    pieces=st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.integers(0, 1 << 20)), PIECES, max_size=4),
)
def test_the_bytes_are_those_of_the_general_codec(
    version: int, correlation_id: int, epoch: int, group: str, pieces: dict[tuple[uuid.UUID, int], Any]
) -> None:
    named = [(topic_id, partition, own) for (topic_id, partition), own in pieces.items()]
    fetched = fetch_template(version, "client", group, "member", LIMITS).frame(correlation_id, epoch, named)
    assert fetched == encode_request(fetch(epoch, named, group), version, correlation_id, "client")
    acknowledged = acknowledge_template(version, "client", group, "member").frame(correlation_id, epoch, named)
    assert acknowledged == encode_request(acknowledge(epoch, named, group), version, correlation_id, "client")


@both
def test_more_than_a_short_message_holds_is_left_to_the_general_codec(
    template: Template,
) -> None:
    assert template.frame(1, 1, [(TOPICS[0], 0, [(0, 126, [1] * 127)])]) is None
    assert template.frame(1, 1, [(TOPICS[0], 0, [(9 * i, 9 * i, [1]) for i in range(127)])]) is None
    assert template.frame(1, 1, [(TOPICS[0], partition, []) for partition in range(127)]) is None
    assert template.frame(1, 1, [(uuid.UUID(int=i + 1), 0, []) for i in range(127)]) is None
