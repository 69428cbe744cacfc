"""Requests of the share APIs about one topic, and their answers as short texts that two brokers can be compared by."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from kafka_share.errors import ERRORS
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.record_batches import iter_batches
from kafka_share.protocol.record_encoder import encode_batch
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_offsets import AlterShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequest

PRODUCE_VERSION: Final = 9
"""The last version that names topics."""
SHARE_VERSION: Final = 2
ALTER_VERSION: Final = 0
DESCRIBE_VERSION: Final = 1

Acknowledged = Sequence[tuple[int, int, int, int]]
"""(partition, first offset, last offset, type)."""


@attrs.frozen(kw_only=True)
class Limits:
    """What a ShareFetch asks for, by its names."""

    max_wait_ms: int = 0
    max_records: int = 500
    batch_size: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    share_acquire_mode: int = 0
    is_renew_ack: bool = False


@attrs.frozen
class Topic:
    """A topic of one broker and the share group that reads it there."""

    name: str
    topic_id: UUID
    group: str
    partitions: int


def fetch_request(
    topic: Topic, member_id: str, epoch: int, limits: Limits, acknowledged: Acknowledged
) -> ShareFetchRequest:
    """All partitions are named when the session begins, afterwards those that have acknowledgements."""
    partition = ShareFetchRequest.FetchTopic.FetchPartition
    batches = {
        index: [
            partition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
            for first, last, kind in found
        ]
        for index, found in _by_partition(topic, acknowledged, everything=epoch == 0)
    }
    partitions = [partition(partition_index=i, acknowledgement_batches=found) for i, found in batches.items()]
    topics = [ShareFetchRequest.FetchTopic(topic_id=topic.topic_id, partitions=partitions)]
    return ShareFetchRequest(
        group_id=topic.group,
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        max_records=limits.max_records,
        batch_size=limits.batch_size,
        share_acquire_mode=limits.share_acquire_mode,
        is_renew_ack=limits.is_renew_ack,
        topics=topics if partitions else [],
        forgotten_topics_data=[],
    )


def acknowledge_request(
    topic: Topic, member_id: str, epoch: int, acknowledged: Acknowledged, *, is_renew_ack: bool = False
) -> ShareAcknowledgeRequest:
    partition = ShareAcknowledgeRequest.AcknowledgeTopic.AcknowledgePartition
    partitions = [
        partition(
            partition_index=index,
            acknowledgement_batches=[
                partition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
                for first, last, kind in found
            ],
        )
        for index, found in _by_partition(topic, acknowledged, everything=False)
    ]
    topics = [ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=topic.topic_id, partitions=partitions)]
    return ShareAcknowledgeRequest(
        group_id=topic.group,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=is_renew_ack,
        topics=topics if partitions else [],
    )


def _by_partition(
    topic: Topic, acknowledged: Acknowledged, *, everything: bool
) -> Iterable[tuple[int, list[tuple[int, int, int]]]]:
    for index in range(topic.partitions):
        found = [(first, last, kind) for partition, first, last, kind in acknowledged if partition == index]
        if found or everything:
            yield index, found


def produce_request(topic: Topic, partition: int, count: int) -> ProduceRequest:
    """One record batch of `count` records, of now: a broker refuses those from the future."""
    data = ProduceRequest.TopicProduceData
    records = encode_batch([(i, time.time_ns() // 1_000_000, None, b"0123456789", []) for i in range(count)])
    entry = data.PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[data(name=topic.name, partition_data=[entry])],
    )


def alter_request(topic: Topic, starts: dict[int, int]) -> AlterShareGroupOffsetsRequest:
    named = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    entry = named.AlterShareGroupOffsetsRequestPartition
    partitions = [entry(partition_index=index, start_offset=start) for index, start in starts.items()]
    return AlterShareGroupOffsetsRequest(
        group_id=topic.group, topics=[named(topic_name=topic.name, partitions=partitions)]
    )


def describe_request(topic: Topic) -> DescribeShareGroupOffsetsRequest:
    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    named = group.DescribeShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=list(range(topic.partitions)))
    return DescribeShareGroupOffsetsRequest(groups=[group(group_id=topic.group, topics=[named])])


# ---- answers as texts


def error_text(code: int) -> str:
    return "0" if code == 0 else ERRORS[code].name


def share_text(answer: Any) -> str:
    """A ShareFetch or ShareAcknowledge answer; partitions in the order of their numbers."""
    partitions = sorted(
        (partition for topic in answer.responses for partition in topic.partitions), key=lambda p: p.partition_index
    )
    found = " ".join(_partition_text(partition) for partition in partitions)
    return f"error={error_text(answer.error_code)} lock={answer.acquisition_lock_timeout_ms} [{found}]"


def _partition_text(partition: Any) -> str:
    text = f"{partition.partition_index}: error={error_text(partition.error_code)}"
    if not hasattr(partition, "records"):
        return f"({text})"
    text += f" acknowledge_error={error_text(partition.acknowledge_error_code)}"
    acquired = [f"{a.first_offset}-{a.last_offset}x{a.delivery_count}" for a in partition.acquired_records]
    batches = [f"{b.base_offset}-{b.last_offset}" for b in iter_batches(partition.records or b"")]
    return f"({text} acquired={','.join(acquired)} batches={','.join(batches)})"


def acquired_in(answer: Any) -> dict[int, list[tuple[int, int]]]:
    """Partition -> acquired ranges of a ShareFetch answer."""
    return {
        partition.partition_index: [(a.first_offset, a.last_offset) for a in partition.acquired_records]
        for topic in answer.responses
        for partition in topic.partitions
        if partition.acquired_records
    }


def offsets_text(answer: Any) -> str:
    group = answer.groups[0]
    found = [
        f"({p.partition_index}: start={p.start_offset} lag={p.lag} error={error_text(p.error_code)})"
        for topic in group.topics
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    ]
    return f"error={error_text(group.error_code)} [{' '.join(found)}]"


def altered_text(answer: Any) -> str:
    found = [f"({p.partition_index}: error={error_text(p.error_code)})" for t in answer.responses for p in t.partitions]
    return f"error={error_text(answer.error_code)} [{' '.join(found)}]"
