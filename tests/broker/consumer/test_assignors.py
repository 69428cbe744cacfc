"""The assignors of consumer groups: each partition has one owner, sizes are even, nothing moves in vain."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kafka_share.broker.consumer.assignors import ASSIGNORS, Subscriber, assign_range, assign_uniform

T1, T2, T3 = UUID(int=1), UUID(int=2), UUID(int=3)
_topics = st.frozensets(st.sampled_from([T1, T2, T3]))
_groups = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), _topics, min_size=1)
_counts = st.fixed_dictionaries(dict.fromkeys([T1, T2, T3], st.integers(1, 7)))


@given(st.sampled_from(sorted(ASSIGNORS)), _groups, _counts)
def test_every_partition_has_one_owner_among_its_subscribers(
    assignor: str, groups: dict[str, frozenset[UUID]], counts: dict[UUID, int]
) -> None:
    target = ASSIGNORS[assignor]({member: Subscriber(topics) for member, topics in groups.items()}, counts)
    owners = Counter(partition for partitions in target.values() for partition in partitions)
    subscribed = frozenset().union(*groups.values())
    assert owners == Counter((topic, index) for topic in subscribed for index in range(counts[topic]))
    assert all(partition[0] in groups[member] for member, found in target.items() for partition in found)


@given(st.lists(st.integers(1, 5), min_size=2, max_size=6), _counts)
def test_uniform_is_even_and_moves_no_more_than_it_must(sizes: list[int], counts: dict[UUID, int]) -> None:
    """As members come and go, with one subscription."""
    topics = frozenset(counts)
    target: dict[str, frozenset[tuple[UUID, int]]] = {}
    for size in sizes:
        members = [f"m{i}" for i in range(size)]
        before, target = target, {}
        target = assign_uniform({m: Subscriber(topics, before.get(m, frozenset())) for m in members}, counts)
        lengths = sorted(len(found) for found in target.values())
        assert lengths[-1] - lengths[0] <= 1
        kept = sum(len(target[m] & before.get(m, frozenset())) for m in members)
        most = sum(min(len(target[m]), len(before.get(m, ()))) for m in members)
        assert kept == most


@given(_groups, _counts)
def test_uniform_leaves_an_assignment_alone_that_it_made(
    groups: dict[str, frozenset[UUID]], counts: dict[UUID, int]
) -> None:
    first = assign_uniform({member: Subscriber(topics) for member, topics in groups.items()}, counts)
    again = assign_uniform({member: Subscriber(topics, first[member]) for member, topics in groups.items()}, counts)
    assert again == first


def test_uniform_deals_out_what_has_no_owner_in_a_row() -> None:
    """As a topic that several members wait for is made, and as it grows; seen on Kafka 4.3.1."""
    topics = frozenset((T1,))
    first = assign_uniform({member: Subscriber(topics) for member in "abc"}, {T1: 7})
    assert {member: sorted(index for _, index in found) for member, found in first.items()} == {
        "a": [0, 1],
        "b": [2, 3],
        "c": [4, 5, 6],
    }
    grown = assign_uniform({member: Subscriber(topics, first[member]) for member in "abc"}, {T1: 12})
    assert {member: sorted(index for _, index in found) for member, found in grown.items()} == {
        "a": [0, 1, 7, 8],
        "b": [2, 3, 9, 10],
        "c": [4, 5, 6, 11],
    }


def test_range_gives_the_same_ranges_of_every_topic_and_static_members_come_first() -> None:
    members = {
        "a": Subscriber(frozenset((T1, T2))),
        "z": Subscriber(frozenset((T1, T2)), instance_id="i"),
        "b": Subscriber(frozenset((T1,))),
    }
    target = assign_range(members, {T1: 4, T2: 2})
    assert {member: sorted(found) for member, found in target.items()} == {
        "z": [(T1, 0), (T1, 1), (T2, 0)],
        "a": [(T1, 2), (T2, 1)],
        "b": [(T1, 3)],
    }
