"""Consumer groups (KIP-848) through the cluster: epochs, reconciliation, static members, patterns, offsets, types.

Where they were compared, the answers are those of Apache Kafka 4.3.1 to the same requests; time limits and what is
different in 4.1 and 4.2 are from its sources.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from broker.cluster_world import World
from broker.consumer_peer import Peer

from kafka_share.errors import (
    ConfigurationError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidConfigError,
    InvalidGroupIdError,
    InvalidRequestError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from kafka_share.protocol.classic_group import LeaveGroupRequest
from kafka_share.protocol.committed_offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka_share.protocol.configs import IncrementalAlterConfigsRequest
from kafka_share.protocol.consumer_group import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kafka_share.protocol.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

FENCED_INSTANCE, UNRELEASED, NO_ASSIGNOR, STALE, NO_REGEX, SUBSCRIBED = 82, 111, 112, 113, 128, 86
REBALANCE_MS = 5_000


def quick_world(**more: Any) -> World:
    version = more.get("kafka_version", "4.3")
    config = {} if version < "4.3" else {"group.consumer.assignment.interval.ms": "0"}
    return World(**{"config": {**config, **more.pop("config", {})}, **more})


@attrs.define
class Member:
    """One member, heartbeat by heartbeat. It gives back at once what it is no longer assigned if `obedient`."""

    world: World
    id: str = "a"
    group: str = "g"
    instance_id: str | None = None
    epoch: int = 0
    owned: dict[Any, list[int]] = attrs.Factory(dict)

    def beat(self, *, version: int = 1, says_owned: bool = False, **fields: Any) -> Any:
        struct = ConsumerGroupHeartbeatRequest.TopicPartitions
        owned = [struct(topic_id=topic, partitions=indexes) for topic, indexes in self.owned.items()]
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            "topic_partitions": owned if says_owned else None,
            **fields,
        }
        answer = self.world.ask(ConsumerGroupHeartbeatRequest(**values), version)
        if answer.error_code == 0:
            self.id, self.epoch = answer.member_id, answer.member_epoch
            if answer.assignment is not None:
                self.owned = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
        return answer

    def join(self, *names: str, **fields: Any) -> Any:
        values = {"member_epoch": 0, "rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": [], **fields}
        return self.beat(subscribed_topic_names=list(names) if names else None, **values)

    def give_back(self) -> Any:
        """Say what it owns after it has given back what it was told to."""
        return self.beat(says_owned=True)

    @property
    def indexes(self) -> list[int]:
        return sorted(index for indexes in self.owned.values() for index in indexes)


def describe(world: World, group: str = "g") -> Any:
    return world.ask(ConsumerGroupDescribeRequest(group_ids=[group])).groups[0]


def epochs(world: World) -> tuple[str, int, int]:
    found = describe(world)
    return found.group_state, found.group_epoch, found.assignment_epoch


def commit(world: World, member: str, epoch: int, *indexes: int, version: int = 9, topic: str = "t") -> list[int]:
    struct = OffsetCommitRequest.OffsetCommitRequestTopic
    one = struct.OffsetCommitRequestPartition
    partitions = [one(partition_index=i, committed_offset=5, committed_metadata="") for i in indexes]
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=[struct(name=topic, partitions=partitions)],
    )
    return [p.error_code for t in world.ask(request, version).topics for p in t.partitions]


def fetched(world: World, member: str | None, epoch: int) -> tuple[int, list[int]]:
    struct = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [struct.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    asked = struct(group_id="g", member_id=member, member_epoch=epoch, topics=topics)
    group = world.ask(OffsetFetchRequest(groups=[asked], require_stable=True), 9).groups[0]
    return group.error_code, [p.committed_offset for t in group.topics for p in t.partitions]


def alter(world: World, values: dict[str, str]) -> int:
    """Set configs of the group; the error code."""
    struct = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [struct.AlterableConfig(name=name, config_operation=0, value=value) for name, value in values.items()]
    resource = struct(resource_type=32, resource_name="g", configs=configs)
    answer = world.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    code: int = answer.responses[0].error_code
    return code


def two_members(world: World) -> tuple[Member, Member]:
    """Two members that share the four partitions of topic "t"."""
    world.topic("t", 4)
    first, second = Member(world, "a"), Member(world, "b")
    first.join("t")
    second.join("t")
    first.beat()
    first.give_back()
    second.beat()
    return first, second


# ---- joining, reconciliation


def test_a_member_has_everything_with_its_first_heartbeat_when_it_is_alone() -> None:
    world = quick_world()
    world.topic("t", 4)
    member = Member(world)
    answer = member.join("t")
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5_000)
    assert member.indexes == [0, 1, 2, 3]
    assert epochs(world) == ("Stable", 2, 2)
    assert member.beat().assignment is None
    full = member.beat(says_owned=True, rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=["t"])
    assert len(full.assignment.topic_partitions) == 1


def test_a_partition_moves_when_its_owner_has_given_it_back() -> None:
    world = quick_world()
    world.topic("t", 4)
    first, second = Member(world, "a"), Member(world, "b")
    first.join("t")
    assert second.join("t").assignment.topic_partitions == []
    assert (second.epoch, epochs(world)) == (3, ("Reconciling", 3, 3))
    first.beat()
    assert (first.epoch, first.indexes) == (2, [0, 1])
    assert first.beat().member_epoch == 2
    assert second.beat().assignment is None
    first.give_back()
    assert first.epoch == 3
    second.beat()
    assert (second.indexes, epochs(world)) == ([2, 3], ("Stable", 3, 3))


def test_a_member_is_fenced_when_it_does_not_give_partitions_back_in_time() -> None:
    world = quick_world()
    world.topic("t", 4)
    first, second = Member(world, "a"), Member(world, "b")
    first.join("t")
    second.join("t")
    first.beat()
    world.advance(REBALANCE_MS)
    assert first.beat().error_code == UnknownMemberIdError.code
    second.beat()
    assert second.indexes == [0, 1, 2, 3]


def test_a_member_is_out_when_its_session_ends() -> None:
    world = quick_world()
    first, second = two_members(world)
    world.advance(44_999)
    second.beat()
    world.advance(1)
    assert [member.member_id for member in describe(world).members] == ["b"]
    second.beat()
    assert second.indexes == [0, 1, 2, 3]
    assert first.beat().error_code == UnknownMemberIdError.code


def test_the_next_assignment_waits_for_the_interval() -> None:
    world = World()
    world.topic("t", 4)
    first, second = Member(world, "a"), Member(world, "b")
    first.join("t")
    second.join("t")
    assert (second.epoch, epochs(world)) == (2, ("Assigning", 3, 2))
    world.advance(1_000)
    second.beat()
    assert epochs(world) == ("Reconciling", 3, 3)


def test_partitions_of_a_topic_that_grows_are_assigned_with_the_next_heartbeat() -> None:
    world = quick_world()
    topic = world.topic("t", 1)
    member = Member(world)
    member.join("t")
    world.cluster.topics.grow(topic, [(1,), (1,)])
    member.beat()
    assert member.indexes == [0, 1, 2]


@pytest.mark.parametrize(("version", "keeps"), [("4.1", True), ("4.3", False)])
def test_a_member_gives_back_the_topics_that_it_leaves(version: str, keeps: bool) -> None:
    """At once; as Kafka 4.1 with the next target, which is computed at once too."""
    world = quick_world(kafka_version=version)
    world.topic("t", 2)
    world.topic("u", 1)
    member = Member(world)
    member.join("t")
    member.beat(says_owned=True, subscribed_topic_names=["u"])
    assert member.indexes == []
    member.give_back()
    assert member.indexes == [0]
    assert world.cluster.behaviour.revokes_unsubscribed is not keeps


# ---- epochs and validation


def test_a_member_is_fenced_by_a_wrong_epoch_but_not_by_a_lost_answer() -> None:
    world = quick_world()
    first, _ = two_members(world)
    assert first.beat(member_epoch=4).error_code == FencedMemberEpochError.code
    assert first.beat(member_epoch=1).error_code == FencedMemberEpochError.code
    assert first.beat(member_epoch=2).error_code == FencedMemberEpochError.code
    assert first.beat(member_epoch=2, says_owned=True).member_epoch == 3
    again = first.join("t")
    assert (again.error_code, again.member_epoch, first.indexes) == (0, 3, [0, 1])


def test_epoch_0_of_a_member_is_refused_when_the_version_is_4_1() -> None:
    world = quick_world(kafka_version="4.1")
    first, _ = two_members(world)
    assert first.join("t").error_code == FencedMemberEpochError.code


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"group_id": ""}, InvalidRequestError.code),
        ({"member_id": ""}, InvalidRequestError.code),
        ({"rebalance_timeout_ms": -1}, InvalidRequestError.code),
        ({"topic_partitions": None}, InvalidRequestError.code),
        ({"subscribed_topic_names": None}, InvalidRequestError.code),
        ({"member_epoch": -3}, InvalidRequestError.code),
        ({"member_epoch": -2}, InvalidRequestError.code),
        ({"instance_id": ""}, InvalidRequestError.code),
        ({"rack_id": ""}, InvalidRequestError.code),
        ({"server_assignor": "nope"}, NO_ASSIGNOR),
        ({"subscribed_topic_regex": "a("}, NO_REGEX),
        ({"member_epoch": -1}, GroupIdNotFoundError.code),
        ({"member_epoch": 1}, GroupIdNotFoundError.code),
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused_and_leaves_no_group(fields: dict[str, Any], expected: int) -> None:
    world = quick_world()
    values: dict[str, Any] = {
        "group_id": "g",
        "member_id": "a",
        "rebalance_timeout_ms": 1,
        "topic_partitions": [],
        "subscribed_topic_names": ["t"],
        **fields,
    }
    answer = world.ask(ConsumerGroupHeartbeatRequest(**values))
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (expected, None, 0)
    assert world.ask(ListGroupsRequest(states_filter=[], types_filter=[])).groups == []


def test_a_member_without_an_id_is_given_one_when_its_version_is_0() -> None:
    world = quick_world()
    world.topic("t")
    answer = Member(world, "").join("t", version=0)
    assert (answer.error_code, len(answer.member_id)) == (0, 22)


def test_a_full_group_takes_nobody_else() -> None:
    world = quick_world(config={"group.consumer.max.size": "1"})
    world.topic("t")
    first = Member(world)
    first.join("t")
    assert Member(world, "b").join("t").error_code == GroupMaxSizeReachedError.code
    assert first.join("t").error_code == 0


# ---- static members


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance() -> None:
    world = quick_world()
    world.topic("t", 2)
    first, second = (Member(world, name, instance_id="i") for name in ("a", "b"))
    first.join("t")
    assert second.join("t").error_code == UNRELEASED
    assert first.beat(member_epoch=-2).member_epoch == -2
    assert [member.member_epoch for member in describe(world).members] == [-2]
    assert second.join("t").error_code == 0
    assert (second.epoch, second.indexes, epochs(world)) == (2, [0, 1], ("Stable", 2, 2))
    assert first.beat(member_epoch=2).error_code == FENCED_INSTANCE
    assert second.beat(instance_id="j").error_code == UnknownMemberIdError.code
    assert second.beat(member_epoch=-1).error_code == 0
    assert describe(world).members == []


def test_a_static_member_that_stays_away_is_out_when_its_session_ends() -> None:
    world = quick_world()
    world.topic("t")
    member = Member(world, instance_id="i")
    member.join("t")
    member.beat(member_epoch=-2)
    world.advance(45_000)
    assert describe(world).members == []


# ---- patterns, assignors


def test_members_of_any_protocol_are_removed_by_leave_group_in_one_step() -> None:
    world = quick_world()
    two_members(world)
    static = Member(world, "c", instance_id="i")
    static.join("t")
    _, before, _ = epochs(world)
    struct = LeaveGroupRequest.MemberIdentity
    named = [("a", None), ("", "i"), ("none", None), ("", "j"), ("b", "i")]
    members = [struct(member_id=member_id, group_instance_id=instance) for member_id, instance in named]
    answer = world.ask(LeaveGroupRequest(group_id="g", members=members))
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members] == [
        (*named[0], 0),
        (*named[1], 0),
        (*named[2], UnknownMemberIdError.code),
        (*named[3], UnknownMemberIdError.code),
        (*named[4], FENCED_INSTANCE),
    ]
    assert epochs(world)[1] == before + 1
    (left,) = describe(world).members
    assert left.member_id == "b"
    assert world.ask(LeaveGroupRequest(group_id="g", member_id="b"), 2).error_code == 0
    assert world.ask(LeaveGroupRequest(group_id="g", member_id="b"), 2).error_code == UnknownMemberIdError.code


def test_a_pattern_brings_its_topics_with_the_second_heartbeat_and_new_ones_after_a_pause() -> None:
    world = quick_world()
    for name in ("t1", "t2", "other"):
        world.topic(name)
    member = Member(world)
    assert member.join(subscribed_topic_regex="t[0-9]").assignment.topic_partitions == []
    assert epochs(world) == ("Assigning", 2, 1)
    member.beat()
    assert len(member.owned) == 2
    world.topic("t3")
    member.beat()
    assert len(member.owned) == 2
    world.advance(10_001)
    member.beat()
    member.beat()
    assert len(member.owned) == 3
    member.beat(says_owned=True, subscribed_topic_regex="")
    assert member.owned == {}


def test_the_assignor_is_the_one_that_most_members_ask_for() -> None:
    world = quick_world()
    world.topic("t", 2)
    Member(world, "a").join("t", server_assignor="range")
    assert describe(world).assignor_name == "range"
    Member(world, "b").join("t")
    Member(world, "c").join("t", server_assignor="uniform")
    Member(world, "d").join("t", server_assignor="uniform")
    assert describe(world).assignor_name == "uniform"


def test_only_the_configured_assignors_may_be_asked_for_and_the_first_is_the_default() -> None:
    world = quick_world(config={"group.consumer.assignors": "range"})
    world.topic("t")
    member = Member(world)
    assert member.join("t", server_assignor="uniform").error_code == NO_ASSIGNOR
    member.join("t")
    assert describe(world).assignor_name == "range"
    for wrong in ("", "range,range", "uniform,simple"):
        with pytest.raises(ConfigurationError):
            World(config={"group.consumer.assignors": wrong})


# ---- settings


def test_a_group_has_timeouts_of_its_own_within_the_brokers_bounds() -> None:
    world = quick_world()
    world.topic("t")
    assert alter(world, {"consumer.session.timeout.ms": "44999"}) == InvalidConfigError.code
    assert alter(world, {"consumer.heartbeat.interval.ms": "15001"}) == InvalidConfigError.code
    assert alter(world, {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}) == 0
    member = Member(world)
    assert member.join("t").heartbeat_interval_ms == 6_000
    world.advance(49_999)
    assert len(describe(world).members) == 1
    world.advance(1)
    assert describe(world).members == []


# ---- offsets


def test_a_member_commits_with_its_epoch_or_for_partitions_that_it_has_had_since_an_older_one() -> None:
    world = quick_world()
    two_members(world)
    assert commit(world, "a", 3, 0, 1) == [0, 0]
    assert commit(world, "a", 2, 0, 1) == [0, 0]
    assert commit(world, "a", 2, 2) == [STALE]
    assert commit(world, "b", 2, 2) == [STALE]
    assert commit(world, "a", 1, 0) == [STALE]
    assert commit(world, "a", 4, 0) == [STALE]
    assert commit(world, "a", 3, 0, version=8) == [UnsupportedVersionError.code]
    assert commit(world, "x", 3, 0) == [UnknownMemberIdError.code]
    assert commit(world, "", -1, 0) == [UnknownMemberIdError.code]
    assert fetched(world, "a", 3) == (0, [5])
    assert fetched(world, "a", 2) == (STALE, [])
    assert fetched(world, "x", 3) == (UnknownMemberIdError.code, [])
    assert fetched(world, None, -1) == (0, [5])


def test_only_the_present_epoch_commits_when_the_version_is_4_2() -> None:
    world = quick_world(kafka_version="4.2")
    first, _ = two_members(world)
    assert commit(world, "a", first.epoch, 0) == [0]
    assert commit(world, "a", first.epoch - 1, 0) == [STALE]


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    world = quick_world()
    two_members(world)
    world.topic("u")
    struct = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partitions = [struct.OffsetDeleteRequestPartition(partition_index=0)]
    topics = [struct(name=name, partitions=partitions) for name in ("t", "u")]
    answer = world.ask(OffsetDeleteRequest(group_id="g", topics=topics))
    assert [p.error_code for topic in answer.topics for p in topic.partitions] == [SUBSCRIBED, 0]


# ---- one namespace


def test_groups_are_listed_described_and_deleted_by_their_type() -> None:
    world = quick_world()
    first, second = two_members(world)
    listed = world.ask(ListGroupsRequest(states_filter=["stable"], types_filter=["Consumer"])).groups
    assert [(group.group_id, group.protocol_type, group.group_type) for group in listed] == [
        ("g", "consumer", "consumer")
    ]
    assert world.ask(DescribeGroupsRequest(groups=["g"])).groups[0].error_code == GroupIdNotFoundError.code
    assert (describe(world, "").error_code, describe(world, "x").error_code) == (
        InvalidGroupIdError.code,
        GroupIdNotFoundError.code,
    )
    assert world.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == NonEmptyGroupError.code
    first.beat(member_epoch=-1)
    assert epochs(world) == ("Assigning", 4, 3)
    second.beat(member_epoch=-1)
    assert describe(world).group_state == "Empty"
    assert world.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == 0
    assert describe(world).error_code == GroupIdNotFoundError.code


def test_a_group_with_members_keeps_its_type_and_a_share_group_always() -> None:
    disabled = {"group.consumer.migration.policy": "disabled"}
    world = quick_world(config={"group.initial.rebalance.delay.ms": "0", **disabled})
    world.topic("t")
    member = Member(world)
    member.join("t")
    share = ShareGroupHeartbeatRequest(group_id="g", member_id="s", member_epoch=0, subscribed_topic_names=["t"])
    assert world.ask(share).error_code == GroupIdNotFoundError.code
    assert Peer(world, 2).join(protocol_type="connect").error_code == 23
    share.group_id = "sh"
    world.ask(share)
    assert Member(world, group="sh").join("t").error_code == GroupIdNotFoundError.code
    Peer(world, 3, "classic").join_whole()
    assert Member(world, group="classic").join("t").error_code == GroupIdNotFoundError.code


def test_an_empty_group_changes_its_type_and_keeps_its_offsets() -> None:
    world = quick_world(config={"group.initial.rebalance.delay.ms": "0"})
    world.topic("t")
    assert commit(world, "", -1, 0) == [0]
    member = Member(world)
    assert member.join("t").error_code == 0
    assert fetched(world, None, -1) == (0, [5])
    member.beat(member_epoch=-1)
    peer = Peer(world, 2)
    assert peer.join_whole().generation_id == 1
    assert fetched(world, None, -1) == (0, [5])
