from __future__ import annotations

from typing import Any

import pytest
from broker.cluster_world import World

from kafka_share.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidGroupIdError,
    InvalidRequestError,
    NonEmptyGroupError,
    NotCoordinatorError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kafka_share.protocol.groups import DeleteGroupsRequest, ListGroupsRequest
from kafka_share.protocol.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from kafka_share.protocol.share_offsets import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
)
from kafka_share.protocol.topics import CreatePartitionsRequest


def beat(world: World, member: str = "m", epoch: int = 0, names: list[str] | None = None, **more: Any) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id=more.pop("group", "g"),
        member_id=member,
        member_epoch=epoch,
        rack_id=more.pop("rack", None),
        subscribed_topic_names=names,
    )
    return world.ask(request, **more)


def assigned(answer: Any) -> list[list[int]] | None:
    if answer.assignment is None:
        return None
    return [topic.partitions for topic in answer.assignment.topic_partitions]


def describe(world: World, group: str = "g", **more: Any) -> Any:
    return world.ask(ShareGroupDescribeRequest(group_ids=[group], **more)).groups[0]


@pytest.mark.behaviour("membership")
def test_the_second_heartbeat_brings_the_partitions_when_the_interval_is_zero() -> None:
    """A joining member first has no partitions; the next heartbeat brings them, and the one after it nothing new."""
    world = World(config={"group.share.assignment.interval.ms": "0"})
    world.topic("t", 2)
    first = beat(world, names=["t"])
    assert (first.error_code, first.member_epoch, assigned(first)) == (0, 2, [])
    second = beat(world, epoch=2)
    assert (second.member_epoch, assigned(second)) == (3, [[0, 1]])
    third = beat(world, epoch=3)
    assert (third.member_epoch, assigned(third)) == (3, None)


def test_the_assignment_waits_when_the_last_one_is_younger_than_the_interval() -> None:
    world = World()
    world.topic("t", 2)
    beat(world, names=["t"])
    world.advance(999)
    early = beat(world, names=["t"])
    assert (early.member_epoch, assigned(early)) == (2, [])
    world.advance(1)
    late = beat(world, epoch=2)
    assert (late.member_epoch, assigned(late)) == (3, [[0, 1]])


def joined(world: World, member: str = "m", names: list[str] | None = None) -> int:
    """A member with its assignment; answers its epoch."""
    epoch = beat(world, member, names=names or ["t"]).member_epoch
    world.advance(1_000)
    return int(beat(world, member, epoch).member_epoch)


@pytest.mark.behaviour("membership")
def test_the_previous_epoch_is_accepted_and_others_are_fenced_when_an_answer_was_lost() -> None:
    """A heartbeat with the epoch before the present one is accepted, as its answer may be lost; any other is fenced."""
    world = World()
    world.topic("t", 1)
    assert joined(world) == 3
    assert beat(world, epoch=2).member_epoch == 3
    for wrong in (1, 4):
        fenced = beat(world, epoch=wrong)
        assert fenced.error_code == FencedMemberEpochError.code
        assert (fenced.member_id, fenced.member_epoch, fenced.heartbeat_interval_ms) == (None, 0, 0)
        assert fenced.error_message


@pytest.mark.behaviour("membership")
def test_a_full_heartbeat_cuts_the_assignment_at_once_when_topics_are_dropped() -> None:
    """A heartbeat with fewer topics is answered with the assignment cut to them."""
    world = World()
    world.topic("t", 2)
    assert joined(world) == 3
    cut = beat(world, epoch=3, names=[])
    assert (cut.member_epoch, assigned(cut)) == (3, [])
    world.advance(1_000)
    after = beat(world, epoch=3)
    assert (after.member_epoch, assigned(after)) == (4, None)


@pytest.mark.behaviour("membership")
def test_a_topic_takes_effect_when_it_is_created_after_the_subscription() -> None:
    """A topic that is created after a member has subscribed to it is assigned within a few heartbeats."""
    world = World(config={"group.share.assignment.interval.ms": "0"})
    epoch = beat(world, names=["later"]).member_epoch
    world.topic("later", 1)
    found: list[list[int]] = []
    for _ in range(3):
        answer = beat(world, epoch=epoch)
        epoch, found = answer.member_epoch, assigned(answer) or found
    assert found == [[0]]


@pytest.mark.behaviour("membership")
def test_a_member_is_removed_when_it_is_silent_for_the_session_timeout() -> None:
    """A member that sends no heartbeat for the session timeout is removed, and unknown from then on."""
    world = World()
    world.topic("t", 1)
    epoch = joined(world)
    world.advance(44_999)
    assert describe(world).group_state == "Stable"
    world.advance(1)
    assert describe(world).group_state == "Empty"
    assert beat(world, epoch=epoch).error_code == UnknownMemberIdError.code
    assert world.cluster.share_groups.wake_at_ms() is None


@pytest.mark.behaviour("membership")
def test_a_heartbeat_puts_the_session_timeout_off_when_it_comes_in_time() -> None:
    """Heartbeats in time keep a member for ever."""
    world = World()
    world.topic("t", 1)
    epoch = joined(world)
    for _ in range(5):
        world.advance(40_000)
        assert beat(world, epoch=epoch).error_code == 0


@pytest.mark.behaviour("membership")
def test_the_group_epoch_moves_and_the_assignment_stays_behind_when_the_last_member_leaves() -> None:
    """The last member leaves: the group is empty, its epoch goes up, and a second leave finds nobody."""
    world = World()
    world.topic("t", 1)
    joined(world)
    left = beat(world, epoch=-1)
    assert (left.member_epoch, left.heartbeat_interval_ms, left.assignment) == (-1, 0, None)
    group = describe(world)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Empty", 4, 3)
    assert beat(world, epoch=-1).error_code == UnknownMemberIdError.code


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"names": None}, InvalidRequestError),
        ({"names": []}, InvalidRequestError),
        ({"names": ["t"], "epoch": -2}, InvalidRequestError),
        ({"names": ["t"], "group": ""}, InvalidRequestError),
        ({"names": ["t"], "group": "  "}, InvalidRequestError),
        ({"names": ["t"], "member": ""}, InvalidRequestError),
        ({"names": ["t"], "member": "x" * 37}, InvalidRequestError),
        ({"names": ["t"], "rack": ""}, InvalidRequestError),
        ({"epoch": 1}, GroupIdNotFoundError),
        ({"epoch": -1}, GroupIdNotFoundError),
    ],
)
def test_a_heartbeat_is_refused_when_it_cannot_be_right(fields: dict[str, Any], error: Any) -> None:
    """A heartbeat with an impossible id, epoch, rack or list of topics is refused, and makes no group."""
    world = World()
    assert beat(world, **fields).error_code == error.code
    assert world.ask(ListGroupsRequest()).groups == []


@pytest.mark.behaviour("membership")
def test_a_newcomer_is_refused_and_members_may_rejoin_when_the_group_is_full() -> None:
    """A full group refuses newcomers, and lets its members join again."""
    world = World(config={"group.share.max.size": "1"})
    assert beat(world, "a", names=["t"]).error_code == 0
    assert beat(world, "b", names=["t"]).error_code == GroupMaxSizeReachedError.code
    assert beat(world, "b", epoch=5).error_code == GroupMaxSizeReachedError.code
    assert beat(world, "b", epoch=-1).error_code == UnknownMemberIdError.code
    assert beat(world, "a", names=["t"]).error_code == 0


@pytest.mark.behaviour("security")
def test_a_group_is_described_with_its_members_when_it_exists() -> None:
    """A group is described with members, epochs and, if asked for, the operations that the caller may do."""
    world = World()
    topic = world.topic("t", 1)
    joined(world)
    group = describe(world, include_authorized_operations=True)
    assert (group.error_code, group.assignor_name, group.authorized_operations) == (0, "simple", 3400)
    (member,) = group.members
    assert (member.client_id, member.client_host, member.subscribed_topic_names) == ("test", "/127.0.0.1", ["t"])
    (found,) = member.assignment.topic_partitions
    assert (found.topic_id, found.topic_name, found.partitions) == (topic.id, "t", [0])
    assert describe(world, "nobody").error_code == GroupIdNotFoundError.code
    assert describe(world, "").error_code == InvalidGroupIdError.code


def test_groups_are_filtered_without_case_when_they_are_listed() -> None:
    world = World()
    beat(world, names=["t"])

    def listed(**filters: list[str]) -> list[tuple[str, str, str]]:
        groups = world.ask(ListGroupsRequest(**filters)).groups
        return [(group.group_id, group.group_type, group.group_state) for group in groups]

    assert listed() == listed(types_filter=["SHARE"]) == listed(states_filter=["stable"]) == [("g", "share", "Stable")]
    assert listed(types_filter=["consumer"]) == listed(states_filter=["Empty"]) == []


def test_another_node_refuses_when_it_does_not_coordinate_the_group() -> None:
    world = World(nodes=2)
    right = world.cluster.coordinator_of("g").id
    wrong = 3 - right
    assert beat(world, names=["t"], node=wrong).error_code == NotCoordinatorError.code
    assert beat(world, names=["t"], node=right).error_code == 0
    assert world.ask(ListGroupsRequest(), node=wrong).groups == []


@pytest.mark.behaviour("membership")
def test_members_get_a_whole_session_timeout_when_their_coordinator_stops() -> None:
    """Another node takes over as the coordinator: the members keep their places and their epochs."""
    world = World(nodes=2)
    world.topic("t", 1)
    old = world.cluster.coordinator_of("g").id
    epoch = beat(world, names=["t"], node=old).member_epoch
    world.advance(44_000)
    world.cluster.stop_node(old, world.now_ms)
    world.advance(44_000)
    assert beat(world, epoch=epoch, node=3 - old).error_code == 0


@pytest.mark.behaviour("membership")
def test_everything_is_unsupported_when_share_groups_are_off() -> None:
    """With share groups switched off heartbeats and descriptions are unsupported."""
    world = World(share_version=0)
    assert beat(world, names=["t"]).error_code == UnsupportedVersionError.code
    assert describe(world).error_code == UnsupportedVersionError.code


def names_of(world: World, answer: Any) -> dict[str | None, list[int]] | None:
    """What a heartbeat assigns, by topic name."""
    if answer.assignment is None:
        return None
    return {world.cluster.topic_name(t.topic_id): sorted(t.partitions) for t in answer.assignment.topic_partitions}


@pytest.mark.behaviour("membership")
def test_everybody_has_an_assignment_and_hears_of_no_other_when_two_members_share_a_topic() -> None:
    """Two members get a part each, at epochs that rise; a heartbeat without news carries no assignment."""
    world = World(config={"group.share.assignment.interval.ms": "0"})
    epochs = {member: beat(world, member, names=["t"]).member_epoch for member in ("a", "b")}
    assert epochs["b"] > epochs["a"]
    world.topic("t", 2)
    found: dict[str, list[list[int]]] = {}
    for _ in range(4):
        for member, epoch in epochs.items():
            answer = beat(world, member, epoch)
            epochs[member] = answer.member_epoch
            found[member] = assigned(answer) or found.get(member, [])
    assert sorted(found.values()) == [[[0]], [[1]]]
    assert assigned(beat(world, "a", epochs["a"])) is None


@pytest.mark.behaviour("membership")
def test_the_assignment_is_the_same_when_a_member_leaves_and_joins_again_with_its_id() -> None:
    """A member leaves and joins again with its old id: a higher epoch, and its partitions at once."""
    world = World(config={"group.share.assignment.interval.ms": "0"})
    world.topic("t", 2)
    epoch = joined(world)
    beat(world, epoch=-1)
    again = beat(world, names=["t"])
    assert again.member_epoch > epoch
    assert assigned(again) == [[0, 1]]


@pytest.mark.behaviour("membership")
def test_the_assignment_follows_when_topics_are_created_grow_and_are_deleted() -> None:
    """Subscribed topics appear, grow and go: each time the member's next heartbeats bring exactly what there is."""
    world = World(config={"group.share.assignment.interval.ms": "0"})
    epoch = beat(world, names=["foo", "bar", "baz"]).member_epoch
    known: dict[str | None, list[int]] = {}

    def assigned_once_stable() -> dict[str | None, list[int]]:
        nonlocal epoch, known
        for _ in range(3):
            answer = beat(world, epoch=epoch)
            assert answer.member_epoch >= epoch
            epoch, told = answer.member_epoch, names_of(world, answer)
            known = known if told is None else told
        return known

    foo = world.topic("foo", 2)
    world.topic("bar", 3)
    assert assigned_once_stable() == {"foo": [0, 1], "bar": [0, 1, 2]}
    world.topic("baz", 4)
    assert assigned_once_stable() == {"foo": [0, 1], "bar": [0, 1, 2], "baz": [0, 1, 2, 3]}
    grown = CreatePartitionsRequest.CreatePartitionsTopic(name="bar", count=6, assignments=None)
    assert world.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=1)).results[0].error_code == 0
    assert assigned_once_stable() == {"foo": [0, 1], "bar": [0, 1, 2, 3, 4, 5], "baz": [0, 1, 2, 3]}
    before = epoch
    world.cluster.delete_topic(foo, world.now_ms)
    assert assigned_once_stable() == {"bar": [0, 1, 2, 3, 4, 5], "baz": [0, 1, 2, 3]}
    assert epoch > before


# ---- offsets


def alter(world: World, *offsets: tuple[str, int, int], group: str = "g") -> Any:
    topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    partition = topic.AlterShareGroupOffsetsRequestPartition
    return world.ask(
        AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                topic(topic_name=name, partitions=[partition(partition_index=index, start_offset=offset)])
                for name, index, offset in offsets
            ],
        )
    )


def stored(world: World, group: str = "g") -> list[tuple[str, int, int, int]]:
    """Topic, partition, start offset and lag of everything that the group has stored."""
    group_of = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    answer = world.ask(DescribeShareGroupOffsetsRequest(groups=[group_of(group_id=group, topics=None)]))
    return [
        (topic.topic_name, p.partition_index, p.start_offset, p.lag)
        for topic in answer.groups[0].topics
        for p in topic.partitions
    ]


def delete_offsets(world: World, *names: str, group: str = "g") -> Any:
    topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    return world.ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=[topic(topic_name=name) for name in names]))


def test_altering_offsets_makes_the_group_and_its_state_when_there_is_none() -> None:
    world = World()
    world.topic("t", 2)
    answer = alter(world, ("t", 0, 7), ("t", 9, 0), ("nosuch", 0, 0))
    assert answer.error_code == 0
    codes = {(t.topic_name, p.partition_index): p.error_code for t in answer.responses for p in t.partitions}
    unknown = UnknownTopicOrPartitionError.code
    assert codes == {("t", 0): 0, ("t", 9): unknown, ("nosuch", 0): unknown}
    assert stored(world) == [("t", 0, 7, -7)]
    assert describe(world).group_epoch == 1


def test_offsets_cannot_be_changed_when_the_group_has_members() -> None:
    world = World()
    world.topic("t", 1)
    beat(world, names=["t"])
    assert alter(world, ("t", 0, 0)).error_code == NonEmptyGroupError.code
    assert delete_offsets(world, "t").error_code == NonEmptyGroupError.code
    deleted = world.ask(DeleteGroupsRequest(groups_names=["g", "nobody"]))
    assert [result.error_code for result in deleted.results] == [NonEmptyGroupError.code, GroupIdNotFoundError.code]


def test_deleting_offsets_names_the_topics_that_had_none() -> None:
    world = World()
    world.topic("t", 1)
    world.topic("u", 1)
    alter(world, ("t", 0, 0))
    answer = delete_offsets(world, "t", "u")
    assert [(r.topic_name, r.error_code) for r in answer.responses] == [
        ("t", 0),
        ("u", UnknownTopicOrPartitionError.code),
    ]
    assert stored(world) == []
    assert delete_offsets(world, "t", group="nobody").error_code == GroupIdNotFoundError.code
    assert delete_offsets(world, "t", group="").error_code == InvalidGroupIdError.code


def test_the_stored_state_goes_when_its_group_or_its_topic_is_deleted() -> None:
    world = World()
    world.topic("t", 1)
    topic = world.topic("u", 1)
    alter(world, ("t", 0, 0), ("u", 0, 0))
    world.cluster.delete_topic(topic, world.now_ms)
    assert stored(world) == [("t", 0, 0, 0)]
    assert world.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == 0
    assert stored(world) == []
    assert world.cluster.share_states.keys("g") == []
