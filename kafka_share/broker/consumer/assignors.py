"""The assignors of consumer groups: "uniform" and "range". Pure functions of members, topics and the present target.

Called by `ConsumerGroup` when the group epoch has moved. Every partition of a topic that someone subscribes to has one
owner among the subscribers. Uniform makes the sizes of the members' assignments even (where subscriptions differ, as
even as moving single partitions can make them) and then moves as little as it can; where they do not differ, what has
no owner is dealt out in a row, as much as is missing to each. Range gives each member the same range of every topic and
does not care what moves. Members without an instance id come in the order of their ids, in
range after those that have one.

Source: Kafka 4.3's `UniformAssignor` and `RangeAssignor` as seen from outside; Kafka orders the members of uniform by a
hash map.
"""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set
    from uuid import UUID

    from kafka_share.broker.server_assigned_group import Partition

    Assignor = Callable[[Mapping[str, "Subscriber"], Mapping[UUID, int]], dict[str, frozenset[Partition]]]

_MAX_ROUNDS: Final = 16
"""Of balancing, where subscriptions differ."""


@attrs.frozen
class Subscriber:
    """What an assignor knows of a member. `topics` are ids of topics that exist."""

    topics: Set[UUID]
    current: Set[Partition] = frozenset()
    """Its present target."""
    instance_id: str | None = None


def assign_range(members: Mapping[str, Subscriber], counts: Mapping[UUID, int]) -> dict[str, frozenset[Partition]]:
    """The target of every member; `counts` has the partition count of each topic."""
    order = sorted(
        members, key=lambda member: (members[member].instance_id is None, members[member].instance_id, member)
    )
    found: dict[str, set[Partition]] = {member: set() for member in order}
    for topic, count in sorted(counts.items()):
        subscribers = [member for member in order if topic in members[member].topics]
        start = 0
        for place, member in enumerate(subscribers):
            size = count // len(subscribers) + (place < count % len(subscribers))
            found[member].update((topic, index) for index in range(start, start + size))
            start += size
    return {member: frozenset(partitions) for member, partitions in found.items()}


def assign_uniform(members: Mapping[str, Subscriber], counts: Mapping[UUID, int]) -> dict[str, frozenset[Partition]]:
    """The target of every member; `counts` has the partition count of each topic."""
    wanted = [subscriber.topics for subscriber in members.values()]
    if wanted and all(topics == wanted[0] for topics in wanted):
        return _assign_evenly(members, {topic: count for topic, count in counts.items() if topic in wanted[0]})
    subscribers = {topic: [member for member in sorted(members) if topic in members[member].topics] for topic in counts}
    # What leaves the least choice is dealt out first.
    topics = sorted(
        (topic for topic in counts if subscribers[topic]),
        key=lambda topic: (-counts[topic] / len(subscribers[topic]), len(subscribers[topic]), topic),
    )
    found: dict[str, set[Partition]] = {member: set() for member in sorted(members)}
    unassigned = {(topic, index): None for topic in topics for index in range(counts[topic])}
    for member, partitions in found.items():
        for partition in sorted(members[member].current):
            if partition in unassigned and partition[0] in members[member].topics:
                partitions.add(partition)
                del unassigned[partition]
    for partition in unassigned:
        least = min(subscribers[partition[0]], key=lambda member: len(found[member]))
        found[least].add(partition)
    pools: dict[tuple[str, ...], set[UUID]] = {}
    for topic in topics:
        pools.setdefault(tuple(subscribers[topic]), set()).add(topic)
    for _ in range(_MAX_ROUNDS):
        moved = [pool for pool, of_pool in pools.items() if _balance(of_pool, pool, found)]
        if not moved:
            break
    return {member: frozenset(partitions) for member, partitions in found.items()}


def _assign_evenly(members: Mapping[str, Subscriber], counts: Mapping[UUID, int]) -> dict[str, frozenset[Partition]]:
    """For members that all subscribe to these topics."""
    free = {(topic, index): None for topic in sorted(counts) for index in range(counts[topic])}
    share, more = divmod(len(free), len(members))
    found: dict[str, list[Partition]] = {}
    for member in sorted(members):
        found[member] = sorted(partition for partition in members[member].current if partition in free)
        for partition in found[member]:
            del free[partition]
    largest = sorted(found, key=lambda member: (len(found[member]), member), reverse=True)
    quotas = {member: share + (place < more) for place, member in enumerate(largest)}
    for member, kept in found.items():
        free.update(dict.fromkeys(kept[quotas[member] :]))
        del kept[quotas[member] :]
    rest = iter(free)
    for member, kept in found.items():
        kept += islice(rest, quotas[member] - len(kept))
    return {member: frozenset(partitions) for member, partitions in found.items()}


def _balance(topics: Set[UUID], subscribers: Sequence[str], found: dict[str, set[Partition]]) -> bool:
    """Move partitions from the subscribers that have most to those that have least; returns whether any moved.

    The topics have these subscribers in common.
    """
    movable = {member: sorted(p for p in found[member] if p[0] in topics) for member in subscribers}
    moved = False
    while givers := [member for member in subscribers if movable[member]]:
        most = max(givers, key=lambda member: len(found[member]))
        least = min(subscribers, key=lambda member: len(found[member]))
        if len(found[most]) - len(found[least]) < 2:
            break
        partition = movable[most].pop()
        found[most].remove(partition)
        found[least].add(partition)
        moved = True
    return moved


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""Those that Kafka brings along, the default first."""
