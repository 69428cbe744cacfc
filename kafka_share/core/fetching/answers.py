"""Reads the answers to ShareFetch and ShareAcknowledge: what is in them about each partition that was asked for.

Pure functions, used by `node_exchange`. Answers may be hostile: what cannot be is left out, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import accumulate, pairwise
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

MAX_ACQUIRED_OFFSETS = 1 << 21
"""More offsets in one partition of one answer cannot be real.

Brokers lock ten thousand records at most (share.partition.max.record.locks), rounded up to the end of a record batch,
and no producer makes one of two million.
"""


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


def read_fetch(response: ShareFetchResponse, find: Find) -> list[PartitionAnswer]:
    """What the answer says about each partition that was asked for."""
    answers: list[PartitionAnswer] = []
    for where, answer in _asked_for(response.responses, find):
        fetch_error = acknowledge_error = new_leader = None
        if answer.error_code or answer.acknowledge_error_code:
            fetch_error = error_for_code(answer.error_code, answer.error_message)
            acknowledge_error = error_for_code(answer.acknowledge_error_code, answer.acknowledge_error_message)
            new_leader = _new_leader(answer.current_leader, fetch_error, acknowledge_error)
        acquired, has_impossible_ranges = clean_acquired(
            [AcquiredRange(r.first_offset, r.last_offset, r.delivery_count) for r in answer.acquired_records or ()]
        )
        answers.append(
            PartitionAnswer(
                where,
                acknowledge_error,
                fetch_error,
                answer.error_message,
                new_leader,
                answer.records or b"",
                acquired,
                has_impossible_ranges,
            )
        )
    return answers


def clean_acquired(ranges: Iterable[AcquiredRange]) -> tuple[tuple[AcquiredRange, ...], bool]:
    """What a broker said it acquired → ascending ranges without overlap, and whether anything was impossible.

    Of an offset that is named twice the first mention counts (KAFKA-19789). Negative or reversed ranges, and what is
    beyond `MAX_ACQUIRED_OFFSETS` in all, are left out and make the second value true.
    """
    named = list(ranges)
    if len(named) == 1:  # the rule, and all that can be wrong with it
        first, last, count = named[0]
        if 0 <= first <= last < first + MAX_ACQUIRED_OFFSETS and count >= 1:
            return (named[0],), False
    possible = [
        AcquiredRange(first, last, max(count, 1))
        for first, last, count in named
        if 0 <= first <= last < first + MAX_ACQUIRED_OFFSETS
    ]
    has_impossible = len(possible) < len(named)
    if any(before.last >= after.first for before, after in pairwise(possible)):
        possible = _disjoint(possible)
    kept = possible[: _count_within(possible, MAX_ACQUIRED_OFFSETS)]
    return tuple(kept), has_impossible or len(kept) < len(possible)


def _disjoint(ranges: list[AcquiredRange]) -> list[AcquiredRange]:
    """Ascending ranges with the same offsets, each from the first range that names it.

    One walk over the offsets at which something begins or ends: a hostile answer has a hundred thousand ranges.
    """
    by_first = sorted(range(len(ranges)), key=lambda index: ranges[index].first)
    reached: list[int] = []
    """A heap of those that begin at or before `offset`: the first mention is at the top."""
    parts: list[AcquiredRange] = []
    sources: list[int] = []
    at = offset = 0
    while at < len(by_first) or reached:
        if not reached:
            offset = max(offset, ranges[by_first[at]].first)
        while at < len(by_first) and ranges[by_first[at]].first <= offset:
            heappush(reached, by_first[at])
            at += 1
        index = reached[0]
        last = ranges[index].last
        if last < offset:
            heappop(reached)
            continue
        if at < len(by_first):
            last = min(last, ranges[by_first[at]].first - 1)
        if sources and sources[-1] == index and parts[-1].last == offset - 1:
            parts[-1] = parts[-1]._replace(last=last)
        else:
            parts.append(AcquiredRange(offset, last, ranges[index].delivery_count))
            sources.append(index)
        offset = last + 1
    return parts


def _count_within(ranges: list[AcquiredRange], limit: int) -> int:
    """How many of the ranges have no more than `limit` offsets together."""
    sizes = accumulate(r.last - r.first + 1 for r in ranges)
    return next((at for at, size in enumerate(sizes) if size > limit), len(ranges))


def read_acknowledge(response: ShareAcknowledgeResponse, find: Find) -> Iterator[PartitionAnswer]:
    for where, answer in _asked_for(response.responses, find):
        error = error_for_code(answer.error_code, answer.error_message)
        yield PartitionAnswer(where, error, new_leader=_new_leader(answer.current_leader, error))


def _asked_for(topics: Iterable[Any], find: Find) -> list[tuple[TopicIdPartition, Any]]:
    """The partitions that were asked for, each once."""
    found: dict[tuple[int, int], tuple[TopicIdPartition, Any]] = {}
    for topic in topics:
        topic_id = topic.topic_id
        if topic_id is None:
            continue
        for answer in topic.partitions:
            where = find(topic_id, answer.partition_index)
            if where is not None:
                found.setdefault((where.topic_id.int, where.partition), (where, answer))
    return list(found.values())


def _new_leader(named: Any, *errors: BrokerError | None) -> NewLeader | None:
    if any(isinstance(error, LEADER_CHANGES) for error in errors):
        return NewLeader(named.leader_id, named.leader_epoch)
    return None


def node_endpoints(response: ShareFetchResponse | ShareAcknowledgeResponse) -> list[Node]:
    """The addresses that an answer brings along for new leaders."""
    if not response.node_endpoints:
        return []
    nodes = [usable_node(e.node_id, e.host, e.port, e.rack) for e in response.node_endpoints]
    return [node for node in nodes if node is not None]
