"""The share assignor "simple": which member of a share group gets which partitions.

Called by the group coordinator when the group epoch has moved. A pure function: the same arguments give the same
answer, whatever the order of the dictionaries. What it promises: every partition that someone subscribes to has an
owner; every member owns something if its topics have partitions; the sizes are even; nothing moves without need.

Source: Kafka's `SimpleAssignor`, in the behaviour that can be seen from outside. A partition is shared by
ceil(members / partitions) members, and the members together own exactly that many copies of all partitions, so that
their sizes differ by one at most. Kafka orders members by a hash map, here the order is that of what a member already
holds and then of its id. With differing subscriptions the topics are dealt out one after another, the larger share
going to the member that has least so far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from uuid import UUID

    from kafka_share.broker.server_assigned_group import Partition


def assign(
    subscriptions: Mapping[str, Set[UUID]],
    assignable: Sequence[Partition],
    current: Mapping[str, Set[Partition]],
    *,
    evens_out_copies: bool = True,
) -> dict[str, frozenset[Partition]]:
    """The target assignment of every member.

    `subscriptions` has each member's topic ids, `assignable` the partitions whose share state is initialised, `current`
    the target that is in force (members and partitions that are gone are ignored). Without `evens_out_copies` (Kafka
    4.1) no member gets more than the whole part of its share of partitions that several members own.
    """
    members = sorted(subscriptions)
    owned: dict[str, set[Partition]] = {member: set() for member in members}
    if len({frozenset(subscriptions[member]) for member in members}) == 1:
        topics = subscriptions[members[0]]
        _deal([p for p in sorted(assignable) if p[0] in topics], members, current, owned, even=evens_out_copies)
    else:
        for topic in sorted({partition[0] for partition in assignable}):
            subscribers = [member for member in members if topic in subscriptions[member]]
            found = [p for p in sorted(assignable) if p[0] == topic]
            _deal(found, subscribers, current, owned, even=evens_out_copies)
    return {member: frozenset(owned[member]) for member in members}


def _deal(
    partitions: Sequence[Partition],
    members: Sequence[str],
    current: Mapping[str, Set[Partition]],
    owned: dict[str, set[Partition]],
    *,
    even: bool,
) -> None:
    """Deal `partitions` out to `members`, on top of what `owned` has from earlier topics."""
    if not members or not partitions:
        return
    sharing = -(-len(members) // len(partitions))
    held = {member: [p for p in partitions if p in current.get(member, ())] for member in members}
    quota = _quotas(len(partitions), members, sharing, held, owned)
    if sharing > 1 and not even:
        quota = dict.fromkeys(members, sharing * len(partitions) // len(members))
    spare = sum(quota.values()) - len(partitions)
    sharers = dict.fromkeys(partitions, 0)
    kept: dict[str, set[Partition]] = {}
    for member in members:
        kept[member] = set()
        for partition in held[member]:
            is_extra = sharers[partition] > 0
            if len(kept[member]) < quota[member] and sharers[partition] < sharing and spare >= is_extra:
                kept[member].add(partition)
                sharers[partition] += 1
                spare -= is_extra
    _fill(partitions, members, quota, kept, sharers)
    for member in members:
        owned[member] |= kept[member]


def _quotas(
    partition_count: int,
    members: Sequence[str],
    sharing: int,
    held: Mapping[str, Sequence[Partition]],
    owned: Mapping[str, Set[Partition]],
) -> dict[str, int]:
    """How many partitions each member should get; the larger numbers go where they move least and even out most."""
    copies = sharing * partition_count
    count = len(members)
    sizes = sorted((-(-copies * (i + 1) // count) - -(-copies * i // count) for i in range(count)), reverse=True)
    order = sorted(members, key=lambda member: (len(owned[member]), -len(held[member]), member))
    return dict(zip(order, sizes, strict=True))


def _fill(
    partitions: Sequence[Partition],
    members: Sequence[str],
    quota: Mapping[str, int],
    kept: dict[str, set[Partition]],
    sharers: dict[Partition, int],
) -> None:
    """Give members below their quota the least shared partitions, in turns, never one partition twice to a member."""
    hungry = [member for member in members if len(kept[member]) < quota[member]]
    while hungry:
        for member in hungry:
            least = min(sharers[partition] for partition in partitions)
            free = [p for p in partitions if p not in kept[member] and sharers[p] == least]
            if free or not _swap(member, [p for p in partitions if sharers[p] == least], members, kept, sharers):
                choice = free[0] if free else min(set(partitions) - kept[member], key=lambda p: (sharers[p], p))
                kept[member].add(choice)
                sharers[choice] += 1
        hungry = [member for member in hungry if len(kept[member]) < quota[member]]


def _swap(
    member: str,
    least_shared: Sequence[Partition],
    members: Sequence[str],
    kept: dict[str, set[Partition]],
    sharers: dict[Partition, int],
) -> bool:
    """The member has all the least shared partitions already: let somebody else take one and give it another.

    Without this, a partition would be shared by more members than the others, and the next assignment would move it.
    """
    for other in members:
        wanted = [partition for partition in least_shared if partition not in kept[other]]
        given = sorted(kept[other] - kept[member])
        if wanted and given:
            kept[other].remove(given[0])
            kept[other].add(wanted[0])
            kept[member].add(given[0])
            sharers[wanted[0]] += 1
            return True
    return False
