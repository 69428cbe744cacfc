"""Online migration of groups (KIP-848): classic members in consumer groups, upgrades, downgrades, what forbids them.

The same steps were taken with Apache Kafka 4.3.1; which partition goes to whom is our assignor's choice.
"""

from __future__ import annotations

from typing import Any

import pytest
from broker.cluster_world import World
from broker.consumer.test_consumer_groups import Member, describe, epochs, fetched, quick_world
from broker.consumer_peer import REBALANCE_MS, SESSION_MS, Peer
from broker.group_snapshot import kinds, snapshot

from kafka_share.broker.storage.topics import CONSUMER_OFFSETS
from kafka_share.errors import GroupIdNotFoundError, KafkaStorageError, UnknownMemberIdError, UnknownServerError
from kafka_share.protocol.committed_offsets import OffsetFetchRequest
from kafka_share.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode,
    encode,
)
from kafka_share.protocol.groups import DescribeGroupsRequest, ListGroupsRequest

ILLEGAL_GENERATION, INCONSISTENT, REBALANCE, MEMBER_ID_REQUIRED = 22, 23, 27, 79
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
CLASSIC, CONSUMER = 0, 1


def subscription(*topics: str, owned: dict[str, list[int]] | None = None, version: int = 1) -> bytes:
    struct = ConsumerProtocolSubscription.TopicPartition
    structs = [struct(topic=topic, partitions=indexes) for topic, indexes in (owned or {}).items()]
    return encode(ConsumerProtocolSubscription(topics=list(topics), owned_partitions=structs), version)


def assignment(user_data: bytes | None = None, **partitions: list[int]) -> bytes:
    struct = ConsumerProtocolAssignment.TopicPartition
    structs = [struct(topic=topic, partitions=indexes) for topic, indexes in partitions.items()]
    return encode(ConsumerProtocolAssignment(assigned_partitions=structs, user_data=user_data), 1)


def indexes_of(peer: Peer, answer: Any = None) -> list[int]:
    """The partitions of topic "t" that a SyncGroup brings."""
    answer = peer.sync() if answer is None else answer
    assert answer.error_code == 0
    found = decode(ConsumerProtocolAssignment, bytes(answer.assignment)).assigned_partitions
    return [index for one in found for index in one.partitions]


def types(world: World, group: str = "g") -> list[tuple[str, str]]:
    found = world.ask(ListGroupsRequest(states_filter=[], types_filter=[])).groups
    return [(one.group_type, one.group_state) for one in found if one.group_id == group]


@pytest.fixture
def world() -> World:
    world = quick_world(config=NO_DELAY)
    world.topic("t", 4)
    return world


def classic(world: World, connection: int = 1, **fields: Any) -> Peer:
    return Peer(world, connection, metadata=fields.pop("metadata", subscription("t")), **fields)


def stable_consumers(world: World, size: int = 1, everybody_has: list[int] | None = None) -> list[Peer]:
    """A stable classic group whose members have the partitions of "t" in turns, or all these; the first one leads."""
    peers: list[Peer] = []
    for number in range(1, size + 1):
        peer = classic(world, number)
        answer = peer.join_whole()
        for one in peers:
            one.join()
        peers.append(peer)
        for one in peers:
            late = one.late()
            one.joined(answer if late is None and one is peer else late)
    shares = {peer.member_id: assignment(t=everybody_has or list(range(4))[at::size]) for at, peer in enumerate(peers)}
    for peer in peers[1:]:
        peer.sync()
    assert peers[0].sync(shares).error_code == 0
    for peer in peers[1:]:
        assert peer.late().error_code == 0
    return peers


def test_a_classic_group_is_upgraded_when_a_member_of_the_consumer_protocol_joins(world: World) -> None:
    (peer,) = stable_consumers(world)
    assert peer.commit({("t", 0): 7}) == [0]
    member = Member(world, "k")
    answer = member.join("t")
    assert (answer.error_code, answer.member_epoch, member.indexes) == (0, 2, [])
    assert types(world) == [("consumer", "Reconciling")]
    found = {one.member_id: one for one in describe(world).members}
    assert (found["k"].member_type, found[peer.member_id].member_type) == (CONSUMER, CLASSIC)
    held = found[peer.member_id].assignment.topic_partitions
    assert [(one.topic_name, one.partitions) for one in held] == [("t", [0, 1, 2, 3])]
    assert fetched(world, None, -1) == (0, [7])
    assert kinds(world.cluster, "g")[-1] != ("GroupMetadata", True)
    (described,) = world.ask(DescribeGroupsRequest(groups=["g"])).groups
    assert described.error_code == GroupIdNotFoundError.code


def test_a_classic_member_gives_partitions_back_by_joining_again(world: World) -> None:
    (peer,) = stable_consumers(world)
    member = Member(world, "k")
    member.join("t")
    assert peer.heartbeat() == REBALANCE
    peer.metadata = subscription("t", owned={"t": [0, 1, 2, 3]})
    joined = peer.join()
    assert (joined.generation_id, joined.leader, joined.members, joined.protocol_name) == (1, "", [], "range")
    kept = indexes_of(peer)
    assert len(kept) == 2
    assert peer.heartbeat() == REBALANCE, "it has to give the others back"
    assert member.beat().assignment is None
    peer.metadata = subscription("t", owned={"t": kept})
    assert peer.join().generation_id == 2
    assert indexes_of(peer) == kept
    assert peer.heartbeat() == 0
    member.beat()
    assert sorted(kept + member.indexes) == [0, 1, 2, 3]
    assert epochs(world) == ("Stable", 2, 2)


def test_an_eager_classic_member_has_given_back_what_it_does_not_name(world: World) -> None:
    """A subscription of version 0 names nothing."""
    (peer,) = stable_consumers(world)
    Member(world, "k").join("t")
    peer.metadata = subscription("t", version=0)
    assert peer.join().generation_id == 2
    assert len(indexes_of(peer)) == 2
    assert bytes(peer.sync().assignment)[:2] == b"\0\0", "in the version of the subscription"


def test_a_classic_member_is_refused_what_is_wrong(world: World) -> None:
    (peer,) = stable_consumers(world)
    member = Member(world, "k")
    member.join("t")
    unknown = UnknownMemberIdError.code
    assert peer.heartbeat(member_id="nobody") == unknown
    assert peer.heartbeat(generation_id=9) == ILLEGAL_GENERATION
    assert peer.heartbeat(member_id="k", generation_id=member.epoch) == unknown
    assert peer.sync(generation_id=9).error_code == ILLEGAL_GENERATION
    assert peer.sync(protocol_name="other").error_code == INCONSISTENT
    assert peer.sync(protocol_type="other").error_code == INCONSISTENT
    assert peer.sync().error_code == REBALANCE
    assert classic(world, 2, protocols=("other",)).join().error_code == INCONSISTENT
    assert classic(world, 2).join(protocol_type="other").error_code == INCONSISTENT
    assert classic(world, 2, protocols=()).join().error_code == INCONSISTENT
    malformed = classic(world, 2, metadata=b"\0")
    assert malformed.join().error_code == MEMBER_ID_REQUIRED
    answer = malformed.join()
    assert (answer.error_code, answer.member_id) == (UnknownServerError.code, "")
    assert len(describe(world).members) == 2


def test_a_classic_member_commits_and_fetches_with_its_generation(world: World) -> None:
    (peer,) = stable_consumers(world)
    Member(world, "k").join("t")
    assert peer.commit({("t", 0): 1}) == [0]
    assert peer.commit({("t", 0): 1}, 8) == [0], "it may not know of member epochs"
    assert peer.commit({("t", 0): 1}, generation_id_or_member_epoch=9) == [ILLEGAL_GENERATION]
    asked = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [asked.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    for generation, code in ((1, 0), (2, ILLEGAL_GENERATION)):
        group = asked(group_id="g", member_id=peer.member_id, member_epoch=generation, topics=topics)
        assert world.ask(OffsetFetchRequest(groups=[group]), 9).groups[0].error_code == code


def test_a_classic_member_joins_a_group_of_the_consumer_protocol(world: World) -> None:
    member = Member(world, "k")
    member.join("t")
    peer = classic(world)
    joined = peer.join_whole()
    assert (joined.error_code, joined.generation_id) == (0, member.epoch + 1)
    assert indexes_of(peer) == []
    assert peer.heartbeat() == 0, "it waits for what the other one has"
    member.beat()
    member.give_back()
    assert peer.heartbeat() == REBALANCE
    peer.join()
    assert sorted(indexes_of(peer) + member.indexes) == [0, 1, 2, 3]
    assert [one.error_code for one in peer.leave().members] == [0]
    assert [one.member_id for one in describe(world).members] == ["k"]


@pytest.mark.parametrize("late_with", ["join", "sync", "session"])
def test_a_classic_member_is_out_when_it_is_late(world: World, late_with: str) -> None:
    member = Member(world, "k")
    member.join("t")
    peer = classic(world)
    assert peer.join(4, rebalance_timeout_ms=1_000).error_code == MEMBER_ID_REQUIRED
    peer.join(4, rebalance_timeout_ms=1_000)
    if late_with != "sync":
        indexes_of(peer)
    if late_with == "join":
        member.beat()
        member.give_back()
        assert peer.heartbeat() == REBALANCE
    waits_ms = SESSION_MS if late_with == "session" else 1_000
    world.advance(waits_ms - 1)
    assert len(describe(world).members) == 2
    world.advance(1)
    assert [one.member_id for one in describe(world).members] == ["k"]


def test_members_that_wait_join_the_consumer_group_when_theirs_is_upgraded(world: World) -> None:
    (peer,) = stable_consumers(world)
    waiting = classic(world, 2)
    assert waiting.join_whole() is None
    Member(world, "k").join("t")
    assert waiting.late().error_code == REBALANCE
    assert waiting.join().generation_id == 2
    assert len(describe(world).members) == 3
    assert peer.heartbeat() == REBALANCE


# ---- downgrade


def test_the_group_is_classic_again_when_the_last_member_of_the_consumer_protocol_leaves(world: World) -> None:
    first, second = stable_consumers(world, 2)
    assert first.commit({("t", 0): 7}) == [0]
    member = Member(world, "k")
    member.join("t")
    assert member.beat(member_epoch=-1).error_code == 0
    assert types(world) == [("classic", "PreparingRebalance")]
    assert fetched(world, None, -1) == (0, [7])
    assert first.heartbeat() == ILLEGAL_GENERATION, "the generation is the group epoch now"
    first.join()
    second.joined(second.join())
    first.joined(first.late())
    assert (first.generation, second.generation) == (4, 4)
    assert kinds(world.cluster, "g").count(("ConsumerGroupMetadata", False)) == 1
    before = snapshot(world.cluster)["offsets"]
    world.cluster.load_coordinators(world.now_ms)
    world.machine.check()
    assert types(world) == [("classic", "Stable")]
    assert snapshot(world.cluster)["offsets"] == before


def test_the_group_is_classic_again_when_the_session_of_the_last_one_ends(world: World) -> None:
    (peer,) = stable_consumers(world)
    Member(world, "k").join("t")
    peer.metadata = subscription("t", version=0)
    peer.join()
    indexes_of(peer)
    for _ in range(9):
        assert types(world)[0][0] == "consumer"
        world.advance(5_000)
        peer.heartbeat()
    assert types(world) == [("classic", "PreparingRebalance")]


def test_a_group_without_classic_members_is_left_a_consumer_group(world: World) -> None:
    member = Member(world, "k")
    member.join("t")
    member.beat(member_epoch=-1)
    assert types(world) == [("consumer", "Empty")]


def test_a_classic_process_takes_the_place_of_the_last_static_member_without_a_rebalance(world: World) -> None:
    (peer,) = stable_consumers(world)
    member = Member(world, "k", instance_id="i")
    member.join("t")
    peer.metadata = subscription("t")
    peer.join()
    kept = indexes_of(peer)
    member.beat()
    member.beat(member_epoch=-2)
    successor = classic(world, 2, instance="i")
    answer = successor.join()
    assert (answer.error_code, answer.generation_id, answer.members) == (0, 2, [])
    assert types(world) == [("classic", "Stable")]
    assert sorted(indexes_of(successor) + kept) == [0, 1, 2, 3]
    assert (successor.heartbeat(), peer.heartbeat()) == (0, 0)


def test_a_process_of_the_consumer_protocol_takes_the_place_of_a_static_classic_member(world: World) -> None:
    peer = classic(world, instance="i")
    peer.join()
    peer.sync({peer.member_id: assignment(t=[0, 1, 2, 3])})
    member = Member(world, "k", instance_id="i")
    assert member.join("t").error_code == 0
    assert member.indexes == [0, 1, 2, 3]
    assert peer.heartbeat() == 82
    successor = classic(world, 2, instance="i")
    assert successor.join().error_code == 0
    assert types(world) == [("classic", "Stable")], "it was the last one of the consumer protocol"
    assert indexes_of(successor) == [0, 1, 2, 3]
    assert member.beat().error_code == GroupIdNotFoundError.code


# ---- what forbids it


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("disabled", False, False), ("upgrade", True, False), ("downgrade", False, True), ("bidirectional", True, True)],
)
def test_the_policy_says_in_which_direction_groups_migrate(policy: str, upgrades: bool, downgrades: bool) -> None:
    world = quick_world(config={**NO_DELAY, "group.consumer.migration.policy": policy})
    world.topic("t", 4)
    (peer,) = stable_consumers(world)
    assert Member(world, "k").join("t").error_code == (0 if upgrades else GroupIdNotFoundError.code)
    assert (peer.heartbeat() == 0) is not upgrades
    member = Member(world, "k", group="other")
    member.join("t")
    guest = classic(world, 2, group="other")
    assert guest.join().error_code == (INCONSISTENT if policy == "disabled" else MEMBER_ID_REQUIRED)
    if policy != "disabled":
        guest.join()
        member.beat(member_epoch=-1)
        assert types(world, "other")[0][0] == ("classic" if downgrades else "consumer")


@pytest.mark.parametrize(
    ("metadata", "assigned", "code"),
    [
        (b"\0", assignment(t=[0]), GroupIdNotFoundError.code),
        (subscription("t"), b"\0", GroupIdNotFoundError.code),
        (subscription("t"), assignment(b"mine", t=[0]), GroupIdNotFoundError.code),
        (subscription("t"), b"", 0),
        (subscription("none"), assignment(none=[0]), 0),
    ],
)
def test_only_what_consumers_send_is_upgraded(world: World, metadata: bytes, assigned: bytes, code: int) -> None:
    peer = classic(world, metadata=metadata)
    peer.join_whole()
    peer.sync({peer.member_id: assigned})
    assert Member(world, "k").join("t").error_code == code
    assert peer.heartbeat() == (0 if code else REBALANCE), "a group that is refused goes on"


def test_groups_of_other_protocol_types_and_too_large_ones_are_not_upgraded() -> None:
    world = quick_world(config={**NO_DELAY, "group.consumer.max.size": "1"})
    world.topic("t", 4)
    stable_consumers(world, 2)
    assert Member(world, "k").join("t").error_code == GroupIdNotFoundError.code
    other = classic(world, 3, group="connect")
    assert other.join(protocol_type="connect").error_code == MEMBER_ID_REQUIRED
    other.join(protocol_type="connect")
    assert Member(world, "k", group="connect").join("t").error_code == GroupIdNotFoundError.code


def test_a_group_is_not_upgraded_during_its_first_rebalance() -> None:
    """Kafka trips over it, and has the classic members join again; here they go on."""
    world = quick_world(config={"group.initial.rebalance.delay.ms": "3000"})
    world.topic("t", 4)
    peer = classic(world)
    assert peer.join_whole() is None
    assert Member(world, "k").join("t").error_code == UnknownServerError.code
    world.advance(3_000)
    peer.joined(peer.late())
    assert Member(world, "k").join("t").error_code == 0
    assert peer.sync({peer.member_id: assignment(t=[0])}).error_code == REBALANCE


def test_a_group_whose_members_have_the_same_partition_is_not_upgraded(world: World) -> None:
    """Kafka trips over it."""
    peers = stable_consumers(world, 2, everybody_has=[0])
    assert Member(world, "k").join("t").error_code == UnknownServerError.code
    assert [peer.heartbeat() for peer in peers] == [0, 0]


@pytest.mark.parametrize("direction", ["upgrade", "downgrade"])
def test_a_group_is_as_it_was_when_the_log_refuses_the_migration(world: World, direction: str) -> None:
    (peer,) = stable_consumers(world)
    member = Member(world, "k")
    if direction == "downgrade":
        member.join("t")
    before = types(world)
    world.cluster.append_fault = lambda topic: KafkaStorageError if topic == CONSUMER_OFFSETS else None
    refused = member.join("t") if direction == "upgrade" else member.beat(member_epoch=-1)
    assert refused.error_code != 0
    world.cluster.append_fault = lambda topic: None
    assert types(world) == before
    world.machine.check()
    assert peer.heartbeat() == (0 if direction == "upgrade" else REBALANCE)
    assert (member.join("t") if direction == "upgrade" else member.beat(member_epoch=-1)).error_code == 0


def test_a_migrated_group_comes_back_when_its_log_is_read(world: World) -> None:
    (peer,) = stable_consumers(world)
    Member(world, "k").join("t")
    before = snapshot(world.cluster)
    world.cluster.load_coordinators(world.now_ms)
    world.machine.check()
    assert snapshot(world.cluster) == before
    assert peer.heartbeat() == REBALANCE
    world.advance(REBALANCE_MS)
    assert peer.member_id not in [one.member_id for one in describe(world).members]
