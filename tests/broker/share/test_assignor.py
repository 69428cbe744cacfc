from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.broker.share.assignor import assign

T1, T2 = UUID(int=1), UUID(int=2)


def partitions(topic: UUID, count: int) -> list[tuple[UUID, int]]:
    return [(topic, index) for index in range(count)]


def grown(members: int, count: int) -> dict[str, frozenset[tuple[UUID, int]]]:
    """The assignment after the members joined one by one."""
    current: dict[str, frozenset[tuple[UUID, int]]] = {}
    for size in range(1, members + 1):
        current = assign({f"m{i}": {T1} for i in range(size)}, partitions(T1, count), current)
    return current


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize(
    ("members", "count", "sizes", "sizes_after_leave"),
    [
        (2, 3, [1, 2], [3]),
        (3, 2, [1, 1, 2], [1, 1]),
        (4, 2, [1, 1, 1, 1], [1, 1, 2]),
        (2, 4, [2, 2], [4]),
        (3, 7, [2, 2, 3], [3, 4]),
        (5, 3, [1, 1, 1, 1, 2], [1, 1, 2, 2]),
    ],
)
def test_sizes_are_those_of_kafka_when_members_join_one_by_one_and_the_first_leaves(
    members: int, count: int, sizes: list[int], sizes_after_leave: list[int]
) -> None:
    """Partitions are dealt out evenly, shared where members are more, and every one has an owner."""
    current = grown(members, count)
    assert sorted(map(len, current.values())) == sizes
    assert frozenset().union(*current.values()) == set(partitions(T1, count))
    rest = assign({f"m{i}": {T1} for i in range(1, members)}, partitions(T1, count), current)
    assert sorted(map(len, rest.values())) == sizes_after_leave


def test_nothing_moves_when_nothing_changes() -> None:
    current = grown(3, 7)
    assert assign({f"m{i}": {T1} for i in range(3)}, partitions(T1, 7), current) == current


@pytest.mark.behaviour("membership")
def test_only_what_has_to_moves_when_a_member_joins() -> None:
    """When a member joins, the others only give up what it gets."""
    before = grown(2, 4)
    after = assign({"m0": {T1}, "m1": {T1}, "m2": {T1}}, partitions(T1, 4), before)
    assert sorted(map(len, after.values())) == [1, 1, 2]
    assert all(after[member] <= before[member] for member in before)


@pytest.mark.behaviour("membership")
def test_nobody_gets_anything_when_there_is_nothing_to_give() -> None:
    """No partitions or no members: nothing is assigned."""
    assert assign({"a": {T1}}, [], {}) == {"a": frozenset()}
    assert assign({}, partitions(T1, 2), {}) == {}


subscriptions = st.dictionaries(
    st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from([T1, T2])), min_size=1, max_size=8
)


@pytest.mark.behaviour("membership")
@given(subscriptions, st.integers(0, 6), st.integers(0, 6), subscriptions)
def test_every_partition_has_an_owner_and_every_subscriber_something_when_topics_differ(
    subscribed: dict[str, frozenset[UUID]], first: int, second: int, earlier: dict[str, frozenset[UUID]]
) -> None:
    """Members with different topics get their own only, each partition has an owner, each subscriber something."""
    assignable = partitions(T1, first) + partitions(T2, second)
    current = assign(earlier, assignable, {})
    target = assign(subscribed, assignable, current)
    assert target.keys() == subscribed.keys()
    wanted = frozenset().union(*subscribed.values())
    assert frozenset().union(*target.values()) == {p for p in assignable if p[0] in wanted}
    for member, owned in target.items():
        assert {topic for topic, _ in owned} <= subscribed[member]
        assert bool(owned) == any(topic in subscribed[member] for topic, _ in assignable)
    for topic in (T1, T2):
        sizes = [len([p for p in target[m] if p[0] == topic]) for m in subscribed if topic in subscribed[m]]
        if len(set(subscribed.values())) > 1 and sizes:
            assert max(sizes) - min(sizes) <= 1
    if len(set(subscribed.values())) == 1:
        sizes = [len(owned) for owned in target.values()]
        assert max(sizes) - min(sizes) <= 1
    assert assign(subscribed, list(reversed(assignable)), target) == target
