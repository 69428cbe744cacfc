"""Classic consumer groups through the cluster: agreement, sessions, static members, offsets, clashes of types."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from broker.cluster_world import World, batch
from broker.consumer_peer import (
    REBALANCE_MS,
    SESSION_MS,
    Peer,
    describe,
    fetch_offsets,
    finish_sync,
    group_whose_leader_has_to_sync,
    stable_group,
)

from kafka_share.broker.handlers.committed_offsets import subscribed_topics
from kafka_share.errors import (
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.classic_group import HeartbeatRequest, LeaveGroupRequest
from kafka_share.protocol.committed_offsets import OffsetDeleteRequest, OffsetFetchRequest
from kafka_share.protocol.groups import DeleteGroupsRequest, ListGroupsRequest
from kafka_share.protocol.logs import OffsetForLeaderEpochRequest
from kafka_share.protocol.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from kafka_share.protocol.share_offsets import AlterShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequest

ILLEGAL_GENERATION, INCONSISTENT, INVALID_TIMEOUT, REBALANCING = 22, 23, 26, 27
MEMBER_ID_REQUIRED, FENCED_INSTANCE, SUBSCRIBED, TOO_LARGE = 79, 82, 86, 12


def quick_world(nodes: int = 1, **config: str) -> World:
    settings = {"group.initial.rebalance.delay.ms": "0", **{k.replace("_", "."): v for k, v in config.items()}}
    return World(nodes, settings)


# ---- joining and agreeing


def test_a_member_is_told_its_id_before_it_joins_when_its_version_is_new() -> None:
    world = quick_world()
    new = Peer(world, 1)
    answer = new.join()
    assert (answer.error_code, answer.member_id[:5]) == (MEMBER_ID_REQUIRED, "test-")
    assert describe(world, "g").members == []
    joined = new.join()
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, new.member_id)
    old = Peer(world, 2, "other")
    assert old.join(3).error_code == 0


def test_everybody_gets_what_the_leader_dealt_when_all_have_synced() -> None:
    world = quick_world()
    first, second = stable_group(world)
    described = describe(world, "g")
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert {m.member_id: bytes(m.member_assignment) for m in described.members} == {
        first.member_id: b"for 1",
        second.member_id: b"for 2",
    }
    assert first.generation == second.generation == 2
    assert first.heartbeat() == second.heartbeat() == 0


def test_only_the_leader_learns_the_subscriptions_when_a_round_completes() -> None:
    world = quick_world()
    first, second = stable_group(world)
    assert first.join() is None
    answers = [second.join(), first.late()]
    assert [len(answer.members) for answer in answers] == [0, 2]
    assert {m.member_id for m in answers[1].members} == {first.member_id, second.member_id}
    assert {bytes(m.metadata) for m in answers[1].members} == {b"meta"}


def test_a_sync_waits_for_the_leader_and_is_called_off_when_another_member_joins() -> None:
    world = quick_world()
    first, second = group_whose_leader_has_to_sync(world)
    third = Peer(world, 3)
    assert third.join_whole() is None
    assert second.late().error_code == REBALANCING
    assert first.heartbeat() == REBALANCING
    assert first.sync().error_code == REBALANCING


def test_a_lost_answer_is_given_again_when_nothing_has_changed() -> None:
    world = quick_world()
    first, second = stable_group(world)
    again = second.join()
    assert (again.error_code, again.generation_id) == (0, 2)
    assert bytes(second.sync().assignment) == b"for 2"
    second.metadata = b"other topics"
    assert second.join() is None, "another subscription needs another agreement"
    assert first.heartbeat() == REBALANCING


def test_the_protocol_that_most_members_prefer_is_chosen_when_all_know_it() -> None:
    world = quick_world(group_initial_rebalance_delay_ms="100")
    peers = [
        Peer(world, 1, protocols=("range", "sticky", "own")),
        Peer(world, 2, protocols=("sticky", "range")),
        Peer(world, 3, protocols=("sticky", "range", "third")),
    ]
    for peer in peers:
        assert peer.join_whole() is None
    world.advance(200)
    assert [peer.late().protocol_name for peer in peers] == ["sticky"] * 3


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocol_type": ""}, {"protocols": []}, {"group_id": "share"}]
)
def test_a_member_is_refused_when_it_has_no_protocol_in_common_with_the_group(fields: dict[str, Any]) -> None:
    world = quick_world()
    stable_group(world, 1)
    share_member(world, "share")
    assert Peer(world, 2).join(**fields).error_code == INCONSISTENT
    assert Peer(world, 2, protocols=("foreign",)).join().error_code == INCONSISTENT


def test_a_join_is_refused_when_its_values_cannot_be() -> None:
    world = quick_world(group_max_size="1")
    assert Peer(world, 1, group="").join().error_code == InvalidGroupIdError.code
    assert Peer(world, 1).join(session_timeout_ms=5_999).error_code == INVALID_TIMEOUT
    assert Peer(world, 1).join(member_id="nobody").error_code == UnknownMemberIdError.code
    stable_group(world, 1)
    assert Peer(world, 2).join().error_code == GroupMaxSizeReachedError.code
    assert Peer(world, 2).join(member_id="nobody").error_code == UnknownMemberIdError.code


def test_another_generation_or_protocol_is_refused() -> None:
    world = quick_world()
    (peer,) = stable_group(world, 1)
    assert peer.heartbeat(generation_id=7) == ILLEGAL_GENERATION
    assert peer.heartbeat(member_id="nobody") == UnknownMemberIdError.code
    assert peer.heartbeat(group_id="none") == UnknownMemberIdError.code
    assert peer.sync(generation_id=7).error_code == ILLEGAL_GENERATION
    assert peer.sync(protocol_name="sticky").error_code == INCONSISTENT
    assert peer.sync(protocol_name="ignored", version=4).error_code == 0


# ---- time


def test_members_that_start_together_meet_in_one_generation_when_the_first_rebalance_is_delayed() -> None:
    world = World(config={"group.initial.rebalance.delay.ms": "3000"})
    first, second = Peer(world, 1), Peer(world, 2)
    assert first.join_whole() is None
    world.advance(2_999)
    assert second.join_whole() is None
    world.advance(1)
    assert first.late() is None, "a newcomer lengthens the delay"
    world.advance(3_000)
    assert [first.late().generation_id, second.late().generation_id] == [1, 1]


def test_a_member_is_out_when_it_is_silent_for_its_session_timeout() -> None:
    world = quick_world()
    first, second = stable_group(world)
    world.advance(SESSION_MS - 1)
    assert first.heartbeat() == 0
    world.advance(1)
    assert first.heartbeat() == REBALANCING
    assert second.heartbeat() == UnknownMemberIdError.code
    assert first.join().generation_id == 3


def test_a_member_is_out_when_it_does_not_join_before_the_rebalance_timeout() -> None:
    world = quick_world()
    first, second = stable_group(world)
    assert first.join() is None
    for _ in range(REBALANCE_MS // 5_000 - 1):
        world.advance(5_000)
        assert second.heartbeat() == REBALANCING
    assert first.late() is None
    world.advance(5_000)
    assert first.late().generation_id == 3
    assert second.heartbeat() == UnknownMemberIdError.code


def test_those_who_never_sync_are_out_when_the_rebalance_timeout_is_over() -> None:
    world = quick_world()
    first, second = group_whose_leader_has_to_sync(world)
    for _ in range(REBALANCE_MS // 5_000):
        assert first.heartbeat() == 0
        assert second.late() is None
        world.advance(5_000)
    assert second.late().error_code == REBALANCING
    assert first.heartbeat() == UnknownMemberIdError.code
    assert second.join().leader == second.member_id


def test_an_id_that_was_given_out_is_forgotten_when_nobody_joins_with_it() -> None:
    world = quick_world()
    first = stable_group(world, 1)[0]
    new = Peer(world, 2)
    new.join()
    world.advance(SESSION_MS // 2)
    assert first.heartbeat() == 0, "an id alone does not disturb the group"
    world.advance(SESSION_MS // 2)
    assert first.heartbeat() == 0
    assert new.join().error_code == UnknownMemberIdError.code


def test_the_members_keep_their_places_when_the_coordinator_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    world = quick_world(nodes=2)
    home = world.cluster.coordinator_of("g").id
    other = 3 - home
    assert world.ask(HeartbeatRequest(group_id="g", member_id="m"), node=other).error_code == NotCoordinatorError.code
    assert world.ask(ListGroupsRequest(), node=other).groups == []
    asked = LeaveGroupRequest(group_id="g", members=[])
    assert world.ask(asked, node=other).error_code == NotCoordinatorError.code
    join = Peer(world, 1)
    monkeypatch.setattr(world, "ask", partial(world.ask, node=home))
    assert join.join_whole().error_code == 0
    finish_sync([join])
    world.advance(SESSION_MS - 1)
    world.cluster.stop_node(home, world.now_ms)
    world.take_answers()
    world.advance(SESSION_MS - 1)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=join.member_id)
    assert world.ask(beat, node=other).error_code == 0


# ---- leaving


def test_the_others_share_anew_when_a_member_leaves() -> None:
    world = quick_world()
    first, second = stable_group(world)
    (left,) = second.leave().members
    assert (left.error_code, left.member_id) == (0, second.member_id)
    assert second.leave().members[0].error_code == UnknownMemberIdError.code
    assert first.heartbeat() == REBALANCING
    assert first.join().generation_id == 3
    first.generation = 3
    assert finish_sync([first]) == [b"for 1"]


def test_the_group_is_empty_when_the_last_member_has_left() -> None:
    world = quick_world()
    (peer,) = stable_group(world, 1)
    old = LeaveGroupRequest(group_id="g", member_id=peer.member_id)
    assert world.ask(old, 2).error_code == 0
    assert describe(world, "g").group_state == "Empty"
    assert world.ask(LeaveGroupRequest(group_id="g", member_id="nobody"), 2).error_code == UnknownMemberIdError.code
    assert world.ask(LeaveGroupRequest(group_id="", members=[])).error_code == InvalidGroupIdError.code


# ---- static members


def test_a_static_member_takes_over_without_a_rebalance_when_it_restarts() -> None:
    world = quick_world()
    first, second = Peer(world, 1, instance="a"), Peer(world, 2, instance="b")
    assert first.join().error_code == 0, "a static member needs no id first"
    assert second.join() is None
    first.join()
    second.joined(second.late())
    first.joined(first.late() or first.join())
    finish_sync([first, second])
    again = Peer(world, 3, instance="b")
    answer = again.join()
    assert (answer.error_code, answer.generation_id) == (0, second.generation)
    assert answer.member_id != second.member_id
    assert bytes(again.sync().assignment) == b"for 2"
    assert second.heartbeat() == FENCED_INSTANCE
    assert first.heartbeat() == 0
    leader = Peer(world, 4, instance="a").join()
    assert (leader.skip_assignment, len(leader.members), leader.leader) == (True, 2, leader.member_id)
    old_version = Peer(world, 5, instance="a").join(8)
    assert (old_version.members, old_version.leader) == ([], leader.member_id)


def test_a_static_member_is_out_when_it_is_named_by_its_instance_or_stays_away() -> None:
    world = quick_world()
    peer = Peer(world, 1, instance="a")
    peer.join()
    finish_sync([peer])
    changed = Peer(world, 2, instance="a", metadata=b"other topics")
    assert changed.join().generation_id == 2, "another subscription needs another agreement"
    finish_sync([changed])
    assert peer.leave().members[0].error_code == FENCED_INSTANCE
    (left,) = changed.leave(member_id="").members
    assert (left.error_code, left.member_id, left.group_instance_id) == (0, "", changed.instance)
    last = Peer(world, 3, instance="a")
    last.join()
    finish_sync([last])
    world.advance(SESSION_MS)
    assert last.heartbeat() == UnknownMemberIdError.code


# ---- offsets


def test_offsets_are_committed_by_members_and_found_by_anybody() -> None:
    world = quick_world()
    world.topic("t", 2)
    first, second = stable_group(world)
    assert first.commit({("t", 0): 5, ("t", 7): 1, ("u", 0): 1}) == [0] + [UnknownTopicOrPartitionError.code] * 2
    assert second.commit({("t", 1): 6}, note="x" * 4_097) == [TOO_LARGE]
    assert fetch_offsets(world, "g", None) == {("t", 0): (5, 0)}
    assert fetch_offsets(world, "g", {"t": [0, 1], "u": [0]}) == {
        ("t", 0): (5, 0),
        ("t", 1): (-1, 0),
        ("u", 0): (-1, 0),
    }
    assert fetch_offsets(world, "none", {"t": [0]}) == {("t", 0): (-1, 0)}
    assert fetch_offsets(world, "none", None) == {}


def test_offsets_go_by_topic_id_and_by_older_versions_too() -> None:
    world = quick_world()
    topic = world.topic("t")
    stable_group(world, 1)[0].commit({("t", 0): 5})
    asked = OffsetFetchRequest.OffsetFetchRequestGroup
    by_id = [asked.OffsetFetchRequestTopics(topic_id=topic.id, partition_indexes=[0])]
    (group,) = world.ask(OffsetFetchRequest(groups=[asked(group_id="g", topics=by_id)]), 10).groups
    assert (group.topics[0].topic_id, group.topics[0].partitions[0].committed_offset) == (topic.id, 5)
    wanted = [OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    for version in range(1, 8):
        answer = world.ask(OffsetFetchRequest(group_id="g", topics=wanted), version)
        assert answer.topics[0].partitions[0].committed_offset == 5
    refused = world.ask(OffsetFetchRequest(group_id="", topics=wanted), 1)
    assert refused.topics[0].partitions[0].error_code == InvalidGroupIdError.code
    assert world.ask(OffsetFetchRequest(group_id="", topics=wanted), 7).error_code == InvalidGroupIdError.code


def test_a_commit_is_refused_when_the_group_does_not_know_the_one_who_commits() -> None:
    world = quick_world()
    world.topic("t")
    (peer,) = stable_group(world, 1)
    offsets = {("t", 0): 1}
    assert peer.commit(offsets, generation_id_or_member_epoch=9) == [ILLEGAL_GENERATION]
    outside: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": ""}
    assert peer.commit(offsets, **outside) == [UnknownMemberIdError.code]
    assert peer.commit(offsets, group_id="none") == [GroupIdNotFoundError.code]
    assert peer.commit(offsets, 8, group_id="none") == [ILLEGAL_GENERATION]
    peer.metadata = b"changed"
    peer.join()
    peer.generation = 2
    assert peer.commit(offsets) == [REBALANCING], "there is no assignment yet"
    assert peer.commit(offsets, **outside, group_id="new") == [0]
    assert describe(world, "new").group_state == "Empty"
    assert describe(world, "new").protocol_type == ""


def test_offsets_go_with_their_topic_and_their_group() -> None:
    world = quick_world()
    topic = world.topic("t")
    (peer,) = stable_group(world, 1)
    peer.commit({("t", 0): 1})
    deleted = world.ask(DeleteGroupsRequest(groups_names=["g"])).results[0]
    assert deleted.error_code == NonEmptyGroupError.code
    peer.leave()
    world.cluster.delete_topic(topic, world.now_ms)
    world.topic("t")
    assert fetch_offsets(world, "g", None) == {}
    assert world.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == 0
    assert describe(world, "g").error_code == GroupIdNotFoundError.code
    assert share_member(world, "g") == 0, "the id is free for another type"


def delete_offsets(world: World, group: str, topic: str) -> tuple[int, list[int]]:
    asked = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = asked.OffsetDeleteRequestPartition(partition_index=0)
    answer = world.ask(OffsetDeleteRequest(group_id=group, topics=[asked(name=topic, partitions=[partition])]))
    return answer.error_code, [p.error_code for t in answer.topics for p in t.partitions]


def test_offsets_stay_when_a_member_subscribes_to_their_topic() -> None:
    world = quick_world()
    world.topic("t")
    world.topic("u")
    peer = Peer(world, 1, metadata=b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff")
    peer.join_whole()
    finish_sync([peer])
    peer.commit({("t", 0): 1, ("u", 0): 2})
    assert delete_offsets(world, "g", "t") == (0, [SUBSCRIBED])
    assert delete_offsets(world, "g", "u") == (0, [0])
    assert delete_offsets(world, "g", "v") == (0, [UnknownTopicOrPartitionError.code])
    assert fetch_offsets(world, "g", None) == {("t", 0): (1, 0)}
    peer.leave()
    assert delete_offsets(world, "g", "t") == (0, [0])
    assert delete_offsets(world, "none", "t") == (GroupIdNotFoundError.code, [])
    connect = Peer(world, 2, "c")
    connect.join(member_id="", protocol_type="connect", version=3)
    assert delete_offsets(world, "c", "t") == (NonEmptyGroupError.code, [])


@pytest.mark.parametrize(
    "damaged", [b"", b"\0\1", b"\0\1\0\0\0\2\0\1t", b"\0\1\0\0\0\1\xff\xfft", b"\0\1\0\0\0\1\0\1\xff"]
)
def test_a_subscription_names_no_topics_when_its_bytes_are_damaged(damaged: bytes) -> None:
    assert subscribed_topics(damaged) == ()


# ---- types of groups


def share_member(world: World, group: str) -> int:
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id="m" * 22, member_epoch=0, subscribed_topic_names=["t"]
    )
    return int(world.ask(request).error_code)


def test_a_share_group_is_no_classic_group_when_ordinary_consumers_come() -> None:
    world = quick_world()
    world.topic("t")
    assert share_member(world, "s") == 0
    peer = Peer(world, 1, "s")
    assert peer.join().error_code == INCONSISTENT
    assert peer.sync(member_id="m").error_code == peer.heartbeat(member_id="m") == UnknownMemberIdError.code
    left = peer.leave(member_id="m")
    assert (left.error_code, left.members[0].error_code) == (0, UnknownMemberIdError.code)
    assert world.ask(LeaveGroupRequest(group_id="s", member_id="m"), 2).error_code == 0
    assert peer.commit({("t", 0): 1}) == [GroupIdNotFoundError.code]
    assert fetch_offsets(world, "s", None) == {}
    old, new = describe(world, "s", 5), describe(world, "s")
    assert (old.error_code, old.group_state) == (0, "Dead")
    assert (new.error_code, new.group_state) == (GroupIdNotFoundError.code, "Dead")
    assert delete_offsets(world, "s", "t")[0] == GroupIdNotFoundError.code


def test_a_classic_group_is_no_share_group_when_share_consumers_come() -> None:
    world = quick_world()
    world.topic("t")
    (peer,) = stable_group(world, 1)
    for _ in ("with members", "empty"):
        for epoch in (0, 3, -1):
            beat = ShareGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=["t"]
            )
            assert world.ask(beat).error_code == GroupIdNotFoundError.code
        described = world.ask(ShareGroupDescribeRequest(group_ids=["g"])).groups[0]
        assert (described.error_code, described.error_message) == (69, "'g' is not a share group")
        assert world.ask(AlterShareGroupOffsetsRequest(group_id="g", topics=[])).error_code == GroupIdNotFoundError.code
        assert world.ask(DeleteShareGroupOffsetsRequest(group_id="g", topics=[])).error_code == 69
        peer.leave()


def test_groups_of_both_types_are_listed_and_filtered() -> None:
    world = quick_world()
    world.topic("t")
    share_member(world, "b")
    stable_group(world, 1, "c")
    Peer(world, 9, "a").commit({("t", 0): 1})
    listed = world.ask(ListGroupsRequest()).groups
    assert [(g.group_id, g.group_type, g.protocol_type, g.group_state) for g in listed] == [
        ("a", "classic", "", "Empty"),
        ("b", "share", "share", "Stable"),
        ("c", "classic", "consumer", "Stable"),
    ]
    assert [g.group_id for g in world.ask(ListGroupsRequest(types_filter=["Classic"])).groups] == ["a", "c"]
    assert [g.group_id for g in world.ask(ListGroupsRequest(states_filter=["stable"])).groups] == ["b", "c"]
    assert [g.group_id for g in world.ask(ListGroupsRequest(), 3).groups] == ["a", "b", "c"]


# ---- leader epochs


def test_an_epoch_ends_where_the_next_one_began() -> None:
    world = World(nodes=2)
    topic = world.topic("t", 1, 2)
    partition = topic.partitions[0]

    def end_of(epoch: int, current: int = -1, node: int | None = None) -> tuple[int, int, int]:
        asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        one = asked.OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[asked(topic="t", partitions=[one])])
        (found,) = world.ask(request, node=node or partition.leader_id).topics[0].partitions
        return found.error_code, found.leader_epoch, found.end_offset

    world.cluster.append(partition, batch(3), world.now_ms)
    for _ in range(2):
        world.cluster.move_leader(partition, 3 - partition.leader_id, world.now_ms)
    world.cluster.append(partition, batch(2), world.now_ms)
    assert end_of(0) == end_of(1) == (0, 0, 3)
    assert end_of(2, 2) == (0, 2, 5)
    assert end_of(3) == (0, -1, -1)
    assert end_of(0, 1)[0] == 74
    assert end_of(0, node=3 - partition.leader_id)[0] == NotLeaderOrFollowerError.code
