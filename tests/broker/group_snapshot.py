"""Everything about groups and their offsets that is to be the same when coordinators have read their logs again."""

from __future__ import annotations

from typing import Any

from kafka_share.broker.classic.classic_group import ClassicGroup
from kafka_share.broker.cluster import Cluster
from kafka_share.broker.consumer.consumer_group import ConsumerGroup
from kafka_share.broker.group_journal import TYPES, group_of
from kafka_share.broker.share.share_group import ShareGroup
from kafka_share.protocol.api_message import RecordMessage
from kafka_share.protocol.coordinator_records import decode_key
from kafka_share.protocol.record_batches import iter_batches


def snapshot(cluster: Cluster) -> dict[str, Any]:
    """By the part of the cluster."""
    cluster.check()
    return {
        "share": {group.id: _share(group) for group in cluster.share_groups.groups()},
        "consumer": {group.id: _consumer(group) for group in cluster.consumer_groups.groups()},
        "classic": {group.id: _classic(group) for group in cluster.classic_groups.groups()},
        "offsets": {group_id: dict(cluster.offsets.of_group(group_id)) for group_id in cluster.group_ids},
    }


def _share(group: ShareGroup) -> Any:
    initialised = {topic_id: set(indexes) for topic_id, indexes in group.initialised.items()}
    return group.stamp(), dict(group.target), initialised, {m.id: m.stamp() for m in group.members.values()}


def _consumer(group: ConsumerGroup) -> Any:
    return group.stamp(), dict(group.target), dict(group.patterns), dict(group.members), group.state


def _classic(group: ClassicGroup) -> Any:
    """A rebalance is not kept: the members of the last generation are."""
    members = {one.id: (one.join.instance_id, one.assignment) for one in group.members.values()}
    return group.state, group.generation, group.protocol_type, group.protocol, group.leader, members


def kinds(cluster: Cluster, group_id: str) -> list[tuple[str, bool]]:
    """What was written about a group, in order: the kind of each record, and whether it has a value."""
    topic = cluster.topics.by_name("__consumer_offsets")
    if topic is None:
        return []
    found = []
    for partition in topic.partitions:
        log = partition.log
        if log.start_offset == log.high_watermark:
            continue
        for stored in log.read(log.start_offset, 1 << 30, log.high_watermark):
            found += _kinds(stored.data, group_id)
    return found


def _kinds(data: bytes, group_id: str) -> list[tuple[str, bool]]:
    found = []
    for batch in iter_batches(data):
        for _, _, key, value, *_ in batch.records() if not batch.is_control else ():
            decoded: RecordMessage = decode_key(key or b"", TYPES)
            if group_of(decoded) == group_id:
                found.append((type(decoded).__name__.removesuffix("Key"), value is not None))
    return found
