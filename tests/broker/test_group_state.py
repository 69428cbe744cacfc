"""What group coordinators write to `__consumer_offsets`, and that reading it brings groups and offsets back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from broker.classic.test_transactions import Producer
from broker.cluster_world import World
from broker.consumer.test_consumer_groups import Member, quick_world
from broker.consumer_peer import REBALANCE_MS, SESSION_MS, Peer, finish_sync, stable_group
from broker.group_snapshot import kinds, snapshot
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.broker.classic.committed_offsets import CommittedOffset
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.topics import CONSUMER_OFFSETS
from kafka_share.errors import CoordinatorNotAvailableError, KafkaStorageError
from kafka_share.protocol.committed_offsets import OffsetDeleteRequest
from kafka_share.protocol.groups import DeleteGroupsRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest
from kafka_share.protocol.topics import DeleteTopicsRequest

WRITTEN, GONE = True, False


def reloaded(world: World) -> dict[str, Any]:
    """What there is when everything was read again; it has to be what there was."""
    before = snapshot(world.cluster)
    world.cluster.load_coordinators(world.now_ms)
    world.machine.check()
    assert snapshot(world.cluster) == before
    return before


class Sharer:
    """A member of a share group, heartbeat by heartbeat."""

    def __init__(self, world: World, member_id: str, group: str = "s") -> None:
        self.world, self.id, self.group, self.epoch = world, member_id, group, 0

    def beat(self, *names: str, epoch: int | None = None) -> Any:
        answer = self.world.ask(
            ShareGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.id,
                member_epoch=self.epoch if epoch is None else epoch,
                subscribed_topic_names=list(names) or None,
            )
        )
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        return answer


def delete_group(world: World, group: str) -> int:
    (result,) = world.ask(DeleteGroupsRequest(groups_names=[group])).results
    code: int = result.error_code
    return code


@pytest.fixture
def world() -> World:
    config = {"group.share.assignment.interval.ms": "0", "group.initial.rebalance.delay.ms": "0"}
    world = quick_world(config=config)
    world.topic("t", partitions=2)
    return world


def test_a_share_group_comes_back_when_its_log_is_read(world: World) -> None:
    one, other = Sharer(world, "one"), Sharer(world, "other")
    one.beat("t")
    one.beat()
    assert kinds(world.cluster, "s") == [
        ("ShareGroupMemberMetadata", WRITTEN),
        ("ShareGroupCurrentMemberAssignment", WRITTEN),
        ("ShareGroupTargetAssignmentMember", WRITTEN),
        ("ShareGroupMetadata", WRITTEN),
        ("ShareGroupTargetAssignmentMetadata", WRITTEN),
        ("ShareGroupStatePartitionMetadata", WRITTEN),  # being initialised
        ("ShareGroupStatePartitionMetadata", WRITTEN),  # initialised
        ("ShareGroupCurrentMemberAssignment", WRITTEN),
        ("ShareGroupTargetAssignmentMember", WRITTEN),
        ("ShareGroupMetadata", WRITTEN),
        ("ShareGroupTargetAssignmentMetadata", WRITTEN),
    ]
    other.beat("t")
    held = reloaded(world)
    assert held["share"]["s"][2]
    assert other.beat().error_code == 0
    assert one.beat(epoch=-1).error_code == 0
    reloaded(world)
    world.advance(44_999)
    assert reloaded(world)["share"]["s"][3]
    world.advance(45_000)  # sessions have begun anew
    assert not reloaded(world)["share"]["s"][3]


def test_a_heartbeat_writes_nothing_when_nothing_has_changed(world: World) -> None:
    member = Sharer(world, "one")
    member.beat("t")
    member.beat()
    consumer = Member(world, group="c")
    consumer.join("t")
    consumer.beat()
    before = kinds(world.cluster, "s"), kinds(world.cluster, "c")
    member.beat()
    consumer.beat()
    assert (kinds(world.cluster, "s"), kinds(world.cluster, "c")) == before


def test_a_group_leaves_only_tombstones_when_it_is_deleted(world: World) -> None:
    member = Sharer(world, "one")
    member.beat("t")
    member.beat()
    member.beat(epoch=-1)
    before = len(kinds(world.cluster, "s"))
    assert delete_group(world, "s") == 0
    assert kinds(world.cluster, "s")[before:] == [
        ("ShareGroupStatePartitionMetadata", WRITTEN),  # being deleted
        ("ShareGroupMetadata", GONE),
        ("ShareGroupTargetAssignmentMetadata", GONE),
        ("ShareGroupStatePartitionMetadata", GONE),
    ]
    assert reloaded(world)["share"] == {}


def test_a_consumer_group_comes_back_when_its_log_is_read(world: World) -> None:
    """Owned, wanted and pending partitions, static members that are away, and what patterns stood for."""
    world.topic("u", partitions=3)
    one, other = Member(world, "one", instance_id="i"), Member(world, "other")
    one.join("t", "u")
    other.join(subscribed_topic_regex="u.*")
    reloaded(world)
    for _ in range(3):
        one.beat()
        other.beat()
    held = reloaded(world)["consumer"]["g"]
    assert held[2]["u.*"].topics == ("u",)
    assert held[4] == "Reconciling"
    one.beat(says_owned=True)
    one.beat(member_epoch=-2)
    reloaded(world)
    successor = Member(world, "successor", instance_id="i")
    successor.join("t")
    other.beat(subscribed_topic_regex="", subscribed_topic_names=["t"])
    held = reloaded(world)["consumer"]["g"]
    assert held[2] == {}
    assert set(held[3]) == {"successor", "other"}
    for member in (successor, other):
        member.beat(member_epoch=-1)
    assert delete_group(world, "g") == 0
    assert reloaded(world)["consumer"] == {}


def test_a_classic_group_comes_back_stable_when_its_log_is_read(world: World) -> None:
    leader, follower = stable_group(world)
    held = reloaded(world)["classic"]["g"]
    assert [assignment for _, assignment in held[5].values()] == [b"for 1", b"for 2"]
    assert (leader.heartbeat(), follower.heartbeat()) == (0, 0)
    leader.leave()
    assert follower.heartbeat() == 27
    world.cluster.load_coordinators(world.now_ms)  # the rebalance is not kept
    assert follower.heartbeat() == 0
    world.advance(SESSION_MS + REBALANCE_MS)
    state, generation, *_, members = reloaded(world)["classic"]["g"]
    assert (state.value, generation, members) == ("Empty", held[1] + 1, {})


def test_a_successor_of_a_static_member_comes_back_in_its_place(world: World) -> None:
    first = Peer(world, 1, instance="i")
    first.join()
    finish_sync([first])
    second = Peer(world, 2, instance="i")
    assert second.join().error_code == 0
    held = reloaded(world)["classic"]["g"]
    assert list(held[5]) == [second.member_id]
    assert held[4] == second.member_id


def test_a_new_classic_group_is_written_and_an_empty_one_gives_way_to_a_consumer_group(world: World) -> None:
    assert Peer(world, 1, "x").join().error_code == 79
    assert kinds(world.cluster, "x") == [("GroupMetadata", WRITTEN)]
    assert list(reloaded(world)["classic"]) == ["x"]
    Member(world, group="x").join("t")
    assert kinds(world.cluster, "x")[1] == ("GroupMetadata", GONE)
    held = reloaded(world)
    assert (list(held["classic"]), list(held["consumer"])) == ([], ["x"])


def test_committed_offsets_come_back_until_they_are_deleted(world: World) -> None:
    assert Peer(world, 1).commit({("t", 0): 5, ("t", 1): 7}) == [0, 0]
    held = reloaded(world)
    assert [offset.offset for offset in held["offsets"]["g"].values()] == [5, 7]
    assert list(held["classic"]) == ["g"]
    kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = kind.OffsetDeleteRequestPartition(partition_index=0)
    world.ask(OffsetDeleteRequest(group_id="g", topics=[kind(name="t", partitions=[partition])]))
    assert len(reloaded(world)["offsets"]["g"]) == 1
    state = DeleteTopicsRequest.DeleteTopicState(name="t")
    world.ask(DeleteTopicsRequest(topics=[state], timeout_ms=1_000))
    assert not world.cluster.offsets.of_group("g")
    world.cluster.load_coordinators(world.now_ms)
    assert snapshot(world.cluster)["classic"] == {}  # nothing speaks of the group any more
    assert kinds(world.cluster, "g") == [("OffsetCommit", WRITTEN)] * 2 + [("OffsetCommit", GONE)] * 2


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_a_transaction_are_pending_until_its_marker_is_read(world: World, committed: bool) -> None:
    producer = Producer(world)
    producer.init()
    producer.add_group("g")
    producer.commit_offset("g", 5)
    reloaded(world)
    (topic,) = world.cluster.topics.public()
    assert world.cluster.offsets.is_pending("g", (topic.id, 0))
    assert Peer(world, 1).commit({("t", 1): 9}) == [0]
    assert producer.end(committed=committed) == 0
    held = reloaded(world)["offsets"]["g"]
    assert not world.cluster.offsets.is_pending("g", (topic.id, 0))
    assert {key[1]: offset.offset for key, offset in held.items()} == ({0: 5, 1: 9} if committed else {1: 9})


def test_an_offset_that_was_committed_after_it_stays_when_a_transaction_is_committed(world: World) -> None:
    producer = Producer(world)
    producer.init()
    producer.add_group("g")
    producer.commit_offset("g", 5)
    assert Peer(world, 1).commit({("t", 0): 9}) == [0]
    assert producer.end(committed=True) == 0
    (offset,) = reloaded(world)["offsets"]["g"].values()
    assert offset.offset == 9


def test_the_log_of_offsets_stays_short_when_the_same_ones_are_committed_again_and_again(world: World) -> None:
    Sharer(world, "one", "g").beat("t")  # lies beside them
    consumer = Peer(world, 1, "BB")
    assert consumer.commit({("t", 1): 1}) == [0]
    (topic,) = world.cluster.topics.public()
    longest = 0
    log = _log_of(world, "BB")
    for offset in range(25_000):
        world.cluster.offsets.commit("BB", {(topic.id, 0): CommittedOffset(offset, -1, "")}, world.now_ms)
        world.cluster.group_records.poll(world.now_ms)
        longest = max(longest, log.high_watermark - log.start_offset)
    assert 10_000 <= longest < 10_010
    assert {key[1]: one.offset for key, one in reloaded(world)["offsets"]["BB"].items()} == {0: 24_999, 1: 1}


def _log_of(world: World, group: str) -> Any:
    topic = world.cluster.topics.by_name(CONSUMER_OFFSETS)
    assert topic is not None
    return topic.partitions[world.cluster.group_records.home_of(group)].log


# ---- a log that refuses


@pytest.fixture
def broken(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Makes the coordinators' logs refuse everything, or ends that."""
    host = world.cluster
    append = host.append_batch_of_coordinator

    def refuse(*_: Any) -> int:
        raise Refusal(KafkaStorageError, "the disk is full")

    def set_broken(is_broken: bool) -> None:
        monkeypatch.setattr(host, "append_batch_of_coordinator", refuse if is_broken else append)

    return set_broken


def test_nothing_has_happened_when_the_log_refuses(world: World, broken: Callable[[bool], None]) -> None:
    sharer, consumer = Sharer(world, "one"), Member(world, group="c")
    sharer.beat("t")
    sharer.beat()
    consumer.join("t")
    (peer,) = stable_group(world, 1)
    assert peer.commit({("t", 0): 5}) == [0]
    before = snapshot(world.cluster)
    broken(True)
    storage = KafkaStorageError.code
    assert Sharer(world, "new").beat("t").error_code == storage
    assert Sharer(world, "new", "another").beat("t").error_code == storage
    assert sharer.beat(epoch=-1).error_code == storage
    assert Member(world, "new", group="c").join("t").error_code == storage
    assert consumer.beat(member_epoch=-1).error_code == storage
    assert Peer(world, 7, "another").join().error_code == storage
    assert peer.commit({("t", 0): 6}) == [storage]
    assert snapshot(world.cluster) == before
    broken(False)
    assert snapshot(world.cluster) == before == reloaded(world)
    assert sharer.beat(epoch=-1).error_code == 0


def test_members_whose_end_cannot_be_written_stay_for_another_session(
    world: World, broken: Callable[[bool], None]
) -> None:
    Sharer(world, "one").beat("t")
    Member(world, group="c").join("t")
    broken(True)
    world.advance(45_000)
    held = snapshot(world.cluster)
    assert held["share"]["s"][3]
    assert held["consumer"]["c"][3]
    broken(False)
    world.advance(45_000)
    held = reloaded(world)
    assert not held["share"]["s"][3]
    assert not held["consumer"]["c"][3]


def test_everybody_joins_again_when_a_generation_cannot_be_written(
    world: World, broken: Callable[[bool], None]
) -> None:
    peer = Peer(world, 1)
    peer.join_whole()
    peer.joined(peer.late())
    broken(True)
    assert peer.sync({peer.member_id: b"x"}).error_code == KafkaStorageError.code
    assert peer.heartbeat() == 27
    broken(False)
    peer.join()
    finish_sync([peer])
    reloaded(world)


def test_no_leader_of_the_log_is_no_coordinator(world: World) -> None:
    Sharer(world, "one").beat("t")
    topic = world.cluster.topics.by_name(CONSUMER_OFFSETS)
    assert topic is not None
    topic.partitions[world.cluster.group_records.home_of("s")].leader_id = -1
    assert Sharer(world, "two").beat("t").error_code == CoordinatorNotAvailableError.code


# ---- any history

_GROUPS = st.sampled_from(["s", "c", "g"])
_steps = st.lists(
    st.tuples(st.sampled_from(["join", "beat", "leave", "commit", "wait", "grow"]), st.integers(0, 3), _GROUPS),
    max_size=25,
)


@given(_steps)
def test_reading_the_log_brings_the_same_state_after_any_history(steps: list[tuple[str, int, str]]) -> None:
    world = quick_world()
    world.topic("t", partitions=2)
    world.topic("u", partitions=1)
    sharers = [Sharer(world, f"s{number}") for number in range(4)]
    members = [Member(world, f"c{number}", "c", instance_id="i" if number == 3 else None) for number in range(4)]
    for kind, number, group in steps:
        sharer, member = sharers[number], members[number]
        if kind == "join" and group == "s":
            sharer.beat(*(("t", "u")[: 1 + number % 2]), epoch=0)
        elif kind == "join":
            member.join(*(["t"] if number % 2 else []), subscribed_topic_regex="[tu]" if number % 2 == 0 else None)
        elif kind == "beat":
            sharer.beat()
            member.beat(says_owned=number % 2 == 0)
        elif kind == "leave":
            sharer.beat(epoch=-1) if group == "s" else member.beat(member_epoch=-2 if number == 3 else -1)
        elif kind == "commit":
            Peer(world, 9, "g").commit({("t", number % 2): number})
        elif kind == "grow":
            topic = world.cluster.topics.by_name("u")
            assert topic is not None
            world.cluster.topics.grow(topic, [[1]])
        else:
            world.advance(number * 20_000)
    reloaded(world)
