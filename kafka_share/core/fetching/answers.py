"""Reads the answers to ShareFetch and ShareAcknowledge: what is in them about each partition that was asked for.

Pure functions, used by `node_exchange`. Answers may be hostile: what cannot be is left out, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import attrs

from kafka_share.core.fetching.reactions import LEADER_CHANGES
from kafka_share.core.metadata import usable_node
from kafka_share.errors import BrokerError, error_for_code
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import Node, TopicIdPartition

if TYPE_CHECKING:
    from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
    from kafka_share.protocol.share_fetch import ShareFetchResponse

Find: TypeAlias = Callable[[UUID, int], TopicIdPartition | None]
"""The partition that a topic id and a number mean, if it was asked for."""

MAX_ACQUIRED_OFFSETS = 1 << 24
"""More offsets in one partition of one answer cannot be real: brokers lock at most some ten thousand records."""


@attrs.frozen
class NewLeader:
    node_id: int
    epoch: int


@attrs.frozen
class PartitionAnswer:
    where: TopicIdPartition
    acknowledge_error: BrokerError | None
    fetch_error: BrokerError | None = None
    fetch_message: str | None = None
    """The broker's own text about `fetch_error`."""
    new_leader: NewLeader | None = None
    records: bytes | memoryview = b""
    acquired: tuple[AcquiredRange, ...] = ()
    has_impossible_ranges: bool = False


def read_fetch(response: ShareFetchResponse, find: Find) -> Iterator[PartitionAnswer]:
    for where, answer in _asked_for(response.responses, find):
        fetch_error = error_for_code(answer.error_code, answer.error_message)
        acknowledge_error = error_for_code(answer.acknowledge_error_code, answer.acknowledge_error_message)
        acquired, has_impossible_ranges = clean_acquired(
            AcquiredRange(r.first_offset, r.last_offset, r.delivery_count) for r in answer.acquired_records or ()
        )
        yield PartitionAnswer(
            where,
            acknowledge_error,
            fetch_error,
            answer.error_message,
            _new_leader(answer.current_leader, fetch_error, acknowledge_error),
            answer.records or b"",
            acquired,
            has_impossible_ranges,
        )


def clean_acquired(ranges: Iterable[AcquiredRange]) -> tuple[tuple[AcquiredRange, ...], bool]:
    """What a broker said it acquired → ascending ranges without overlap, and whether anything was impossible.

    Of an offset that is named twice the first mention counts (KAFKA-19789). Negative or reversed ranges, and ranges
    beyond `MAX_ACQUIRED_OFFSETS` in all, are left out and make the second value true.
    """
    kept: list[AcquiredRange] = []
    room = MAX_ACQUIRED_OFFSETS
    impossible = False
    for first, last, count in ranges:
        if first < 0 or last < first or last - first >= room:
            impossible = True
            continue
        new = AcquiredRange(first, last, max(count, 1))
        if not kept or kept[-1].last < first:
            parts = [new]
            kept.append(new)
        else:
            parts = _outside(new, kept)
            kept = sorted(kept + parts)
        room -= sum(part.last - part.first + 1 for part in parts)
    return tuple(kept), impossible


def _outside(new: AcquiredRange, kept: list[AcquiredRange]) -> list[AcquiredRange]:
    """The parts of a range that ascending, disjoint ranges do not cover."""
    parts: list[AcquiredRange] = []
    first = new.first
    for other in kept:
        if other.last < first:
            continue
        if other.first > new.last:
            break
        if other.first > first:
            parts.append(AcquiredRange(first, other.first - 1, new.delivery_count))
        first = other.last + 1
    if first <= new.last:
        parts.append(AcquiredRange(first, new.last, new.delivery_count))
    return parts


def read_acknowledge(response: ShareAcknowledgeResponse, find: Find) -> Iterator[PartitionAnswer]:
    for where, answer in _asked_for(response.responses, find):
        error = error_for_code(answer.error_code, answer.error_message)
        yield PartitionAnswer(where, error, new_leader=_new_leader(answer.current_leader, error))


def _asked_for(topics: Iterable[Any], find: Find) -> Iterator[tuple[TopicIdPartition, Any]]:
    """The partitions that were asked for, each once."""
    seen: dict[TopicIdPartition, None] = {}
    for topic in topics:
        for answer in topic.partitions:
            where = None if topic.topic_id is None else find(topic.topic_id, answer.partition_index)
            if where is not None and where not in seen:
                seen[where] = None
                yield where, answer


def _new_leader(named: Any, *errors: BrokerError | None) -> NewLeader | None:
    if any(isinstance(error, LEADER_CHANGES) for error in errors):
        return NewLeader(named.leader_id, named.leader_epoch)
    return None


def node_endpoints(response: ShareFetchResponse | ShareAcknowledgeResponse) -> list[Node]:
    """The addresses that an answer brings along for new leaders."""
    nodes = [usable_node(e.node_id, e.host, e.port, e.rack) for e in response.node_endpoints]
    return [node for node in nodes if node is not None]
