"""Classic groups whose members overtake themselves: they join or sync twice, leave in the middle, or stay away."""

from __future__ import annotations

from typing import Any

from broker.cluster_world import World
from broker.consumer_peer import (
    REBALANCE_MS,
    SESSION_MS,
    Peer,
    describe,
    finish_sync,
    group_whose_leader_has_to_sync,
    stable_group,
)

from kafka_share.errors import UnknownMemberIdError

REBALANCING, MEMBER_ID_REQUIRED, FENCED_INSTANCE = 27, 79, 82


def quick_world() -> World:
    return World(config={"group.initial.rebalance.delay.ms": "0"})


def answer_to(world: World, request: int) -> Any:
    """What the request of this number was answered in the meantime."""
    return world.late.pop(request, None)


def static_group(world: World) -> tuple[Peer, Peer]:
    """Two static members, "a" and "b", that have agreed; the first one leads."""
    first, second = Peer(world, 1, instance="a"), Peer(world, 2, instance="b")
    first.join()
    assert second.join() is None
    first.join()
    second.joined(second.late())
    first.joined(first.late() or first.join())
    finish_sync([first, second])
    return first, second


def test_the_first_join_is_called_off_when_its_member_joins_again() -> None:
    world = quick_world()
    first, second = stable_group(world)
    assert first.join() is None
    waiting = first.waits_for
    assert first.join() is None
    assert answer_to(world, waiting).error_code == REBALANCING
    second.joined(second.join())
    assert first.late().error_code == 0


def test_the_first_sync_is_called_off_when_its_member_syncs_again() -> None:
    world = quick_world()
    first, second = group_whose_leader_has_to_sync(world)
    waiting = second.waits_for
    assert second.sync() is None
    assert answer_to(world, waiting).error_code == REBALANCING
    assert first.sync({second.member_id: b"for 2"}).error_code == 0
    assert bytes(second.late().assignment) == b"for 2"


def test_a_waiting_join_and_a_waiting_sync_are_answered_when_their_member_leaves() -> None:
    world = quick_world()
    first, second = stable_group(world)
    assert first.join() is None
    joining = first.waits_for
    first.leave()
    assert answer_to(world, joining).error_code == UnknownMemberIdError.code
    third = Peer(world, 3)
    third.join_whole()
    second.joined(second.join())
    third.joined(third.late())
    follower = third if describe(world, "g").members[0].member_id == second.member_id else second
    assert follower.sync() is None
    syncing = follower.waits_for
    follower.leave()
    assert answer_to(world, syncing).error_code == UnknownMemberIdError.code


def test_a_waiting_join_and_a_waiting_sync_are_fenced_when_another_process_takes_over() -> None:
    world = quick_world()
    _, second = static_group(world)
    newcomer = Peer(world, 3)
    newcomer.join_whole()
    assert second.join() is None
    joining = second.waits_for
    again = Peer(world, 4, instance="b")
    assert again.join() is None
    assert answer_to(world, joining).error_code == FENCED_INSTANCE

    world = quick_world()
    first, second = static_group(world)
    Peer(world, 3).join_whole()
    first.join()
    second.joined(second.join())
    first.joined(first.late())
    assert second.sync() is None
    syncing = second.waits_for
    Peer(world, 4, instance="b").join()
    assert answer_to(world, syncing).error_code == FENCED_INSTANCE


def test_an_id_that_was_given_out_is_forgotten_when_its_owner_leaves() -> None:
    world = quick_world()
    first, _ = stable_group(world)
    new = Peer(world, 3)
    assert new.join().error_code == MEMBER_ID_REQUIRED
    (left,) = new.leave().members
    assert left.error_code == 0
    assert first.heartbeat() == 0, "an id alone does not disturb the group"
    assert new.join().error_code == UnknownMemberIdError.code


def test_those_who_wait_need_not_wait_for_an_id_that_was_given_out_when_its_owner_leaves() -> None:
    world = quick_world()
    first, second = stable_group(world)
    new = Peer(world, 3)
    new.join()
    assert first.join() is None
    new.leave()
    second.joined(second.join())
    assert first.late().generation_id == second.generation


def test_static_members_keep_their_places_when_nobody_comes_to_the_round() -> None:
    world = quick_world()
    first, second = static_group(world)
    for peer in (first, second):
        peer.heartbeat()
    newcomer = Peer(world, 3)
    newcomer.join_whole()
    newcomer.leave()
    beats = SESSION_MS // 2
    for _ in range(REBALANCE_MS // beats + 1):
        world.advance(beats)
        assert first.heartbeat() == second.heartbeat() == REBALANCING
    assert describe(world, "g").group_state == "PreparingRebalance"
    assert len(describe(world, "g").members) == 2


def test_somebody_else_leads_when_the_leader_does_not_come_to_the_round() -> None:
    world = quick_world()
    first, second = static_group(world)
    newcomer = Peer(world, 3)
    newcomer.join_whole()
    assert second.join() is None
    waiting = second.waits_for
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        first.heartbeat()
        world.advance(SESSION_MS // 2)
    joined = answer_to(world, waiting)
    assert joined.error_code == 0
    assert joined.leader in (second.member_id, newcomer.member_id)
    assert first.member_id in {member.member_id for member in describe(world, "g").members}
