"""Share state that is stored late, or not at all: what waits for it, what nobody may touch meanwhile, and its order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from broker.cluster_world import World, batch
from broker.share.coordinator_log import state_topic
from broker.share.probe import FakeCluster, Probe
from support.share_requests import Limits, Topic, acknowledge_request, fetch_request

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.faults import FaultPlan
from kafka_share.broker.inspection import snapshot_of_window
from kafka_share.broker.kafka_version import behaviour_of
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share import persister as persister_module
from kafka_share.broker.share.persister import Persister, PersisterFault
from kafka_share.broker.share.share_coordinator import ShareCoordinator
from kafka_share.broker.share.state_records import StateKey
from kafka_share.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidArgumentError,
    NetworkExceptionError,
)
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

WRITE, READ, INITIALIZE = "WriteShareGroupState", "ReadShareGroupState", "InitializeShareGroupState"
LOCK_MS = 30_000
NOTHING = "e=0 lock=30000 []"


@pytest.fixture
def p() -> Probe:
    return Probe()


class Group:
    """Group `g` on a topic of so many partitions, with ten records in each; `a` and `b` are connections of members."""

    def __init__(self, probe: Probe, partitions: int = 1, *, loaded: bool = True) -> None:
        self.probe = probe
        self.topic_id = probe.topic("t", partitions)
        self.all = [(self.topic_id, index, "") for index in range(partitions)]
        for index in range(partitions):
            probe.initialize("g", self.topic_id, index)
        self.a, self.b = probe.connect(), probe.connect()
        if loaded:
            probe.fetch(probe.connect(), "g", "L", 0, self.all, wait=1)
        for index in range(partitions):
            probe.produce(self.topic_id, 10, index)

    def fetch(self, member: str = "A", epoch: int = 0, acks: str = "", **options: Any) -> str:
        """A fetch of partition 0, by member A on its connection or by B on the other one."""
        named = [(self.topic_id, 0, acks)] if acks or not epoch else []
        return self.probe.fetch(self._connection(member), "g", member, epoch, named, **options)

    def acknowledge(self, epoch: int, acks: str, member: str = "A", partition: int = 0, **options: Any) -> str:
        named = [(self.topic_id, partition, acks)]
        return self.probe.ack(self._connection(member), "g", member, epoch, named, **options)

    def send_acknowledgement(self, epoch: int, acks: str, member: str = "A", partition: int = 0) -> None:
        named = [(self.topic_id, partition, acks)]
        self.probe.send_ack(self._connection(member), "g", member, epoch, named)

    def fetch_and_acknowledge(self, acks: str, *, stored_after_ms: int) -> None:
        """Member A fetches everything and acknowledges this; the answer will come when it is stored."""
        self.fetch()
        self.probe.faults.delay_persister(WRITE, stored_after_ms)
        self.send_acknowledgement(1, acks)

    def _connection(self, member: str) -> Any:
        return self.a if member == "A" else self.b

    def window(self, partition: int = 0) -> list[tuple[int, int, str, int]]:
        """(first, last, state, delivery count) from the start offset on; a state in brackets is being stored."""
        loaded = self.probe.node.share_partition("g", self.topic_id, partition)
        assert loaded is not None
        seen = snapshot_of_window(loaded)
        return [
            (
                max(one.first, seen.start_offset),
                one.last,
                f"({one.state.name})" if one.is_pending else one.state.name,
                one.delivery_count,
            )
            for one in seen.ranges
            if one.last >= seen.start_offset
        ]

    def stored(self, partition: int = 0) -> str:
        return self.probe.stored("g", self.topic_id, partition)


# ---- acknowledgements


@pytest.mark.behaviour("broker")
def test_an_acknowledgement_is_answered_when_it_is_stored(p: Probe) -> None:
    """An acknowledgement is answered once its result is stored, however long that takes."""
    group = Group(p)
    group.fetch_and_acknowledge("0~4:1;5~6:2", stored_after_ms=5_000)
    p.sleep(4_999)
    assert not group.a.replies
    assert group.stored() == "epoch=1 start=0 []"
    assert group.window() == [(0, 4, "(ACKNOWLEDGED)", 1), (5, 6, "(AVAILABLE)", 1), (7, 9, "ACQUIRED", 1)]
    p.sleep(1)
    assert p.receive(group.a) == "e=0 lock=30000 [t-0 e=0]"
    assert group.stored() == "epoch=1 start=0 [0~4:2x1 5~6:0x1]"
    assert group.window() == [(5, 6, "AVAILABLE", 1), (7, 9, "ACQUIRED", 1)]
    assert p.node.wake_at_ms() == p.now_ms - 5_000 + LOCK_MS


@pytest.mark.behaviour("broker")
def test_records_cannot_be_acknowledged_again_while_their_result_is_being_stored(p: Probe) -> None:
    """While an acknowledgement is being stored, a second one of the same records is refused at once."""
    group = Group(p)
    group.fetch_and_acknowledge("0~4:2", stored_after_ms=5_000)
    twice = p.ack(group.b, "g", "A", 2, [(group.topic_id, 0, "4~5:1")], timed=True)
    assert twice == "e=0 lock=30000 [t-0 e=121:INVALID_RECORD_STATE] took<250ms"
    assert p.receive(group.a) == "e=0 lock=30000 [t-0 e=0]"
    assert group.window() == [(0, 4, "AVAILABLE", 1), (5, 9, "ACQUIRED", 1)]


@pytest.mark.behaviour("broker")
def test_released_records_are_delivered_only_when_the_release_is_stored(p: Probe) -> None:
    """Records whose release is still being stored are delivered to nobody; afterwards they are."""
    group = Group(p)
    group.fetch_and_acknowledge("0~4:2", stored_after_ms=5_000)
    assert "acq= rec=empty" in group.fetch("B", wait=1_000)
    p.sleep(4_000)
    assert "acq=0~4x2" in group.fetch("B", 1)


def test_a_waiting_fetch_looks_again_when_the_start_moves_with_a_late_write(p: Probe) -> None:
    group = Group(p)
    p.configure("g", max_record_locks=10)
    p.produce(group.topic_id, 10)
    assert "acq=0~9x1" in group.fetch()
    p.fetch(group.b, "g", "B", 0, group.all, wait=1)
    p.faults.delay_persister(WRITE, 2_000)
    since_ms = p.now_ms
    p.send_fetch(group.b, "g", "B", 1, wait=10_000)
    group.send_acknowledgement(1, "0~9:1")
    text = p.receive(group.b, since_ms=since_ms)
    assert "acq=10~19x1" in text
    assert text.endswith("took~2000ms")


@pytest.mark.behaviour("broker")
def test_a_fetch_is_answered_when_what_it_acknowledges_is_stored(p: Probe) -> None:
    """A fetch that acknowledges, too, is answered when its records are there and the acknowledgement is stored."""
    group = Group(p)
    group.fetch(records=5, mode=1)
    p.faults.delay_persister(WRITE, 2_000)
    text = group.fetch("A", 1, "0~4:1", timed=True)
    assert "ae=0 acq=5~9x1" in text
    assert text.endswith("took~2000ms")
    assert p.node.wake_at_ms() == p.now_ms - 2_000 + LOCK_MS, "the locks run since the records were acquired"


def test_a_fetch_whose_wait_ends_first_still_waits_for_its_acknowledgement(p: Probe) -> None:
    group = Group(p)
    group.fetch()
    p.faults.delay_persister(WRITE, 3_000)
    text = group.fetch("A", 1, "0~4:1", wait=1_000, timed=True)
    assert text == "e=0 lock=30000 [t-0 e=0 ae=0 acq= rec=empty] took~3000ms"
    p.faults.delay_persister(WRITE, 1_000)
    text = group.fetch("A", 2, "5~9:1", wait=3_000, timed=True)
    assert text == "e=0 lock=30000 [t-0 e=0 ae=0 acq= rec=empty] took~3000ms"


def test_a_failing_fetch_is_answered_at_once_and_its_acknowledgement_is_stored_all_the_same(p: Probe) -> None:
    group = Group(p)
    group.fetch()
    p.faults.delay_persister(WRITE, 1_000)
    assert group.fetch("A", 1, "0~9:1", mode=7, timed=True).endswith("UNKNOWN_SERVER_ERROR lock=0 [] took<250ms")
    p.sleep(1_000)
    assert group.stored() == "epoch=1 start=0 [0~9:2x1]"


# ---- locks


@pytest.mark.behaviour("acquisition locks")
def test_a_lock_does_not_end_while_its_acknowledgement_is_being_stored(p: Probe) -> None:
    """An acknowledgement that came in time counts, though its record's lock ends before it is stored."""
    group = Group(p)
    group.fetch()
    p.sleep(LOCK_MS - 1_000)
    p.faults.delay_persister(WRITE, 5_000)
    group.send_acknowledgement(1, "0~4:1")
    p.sleep(1_000)
    assert group.window() == [(0, 4, "(ACKNOWLEDGED)", 1), (5, 9, "AVAILABLE", 1)]
    assert p.receive(group.a) == "e=0 lock=30000 [t-0 e=0]"
    assert "acq=5~9x2" in group.fetch("B")


@pytest.mark.behaviour("acquisition locks")
def test_a_renewed_lock_runs_from_the_request_although_its_answer_waits_for_a_write(p: Probe) -> None:
    """A lock that is renewed starts again when the request comes, also if that accepts others and is answered late."""
    group = Group(p)
    group.fetch()
    p.sleep(10_000)
    since_ms = p.now_ms
    p.faults.delay_persister(WRITE, 5_000)
    renewed = group.acknowledge(1, "0~4:1;5~9:4", renew=True, timed=True)
    assert renewed == "e=0 lock=30000 [t-0 e=0] took~5000ms"
    assert group.window() == [(5, 9, "ACQUIRED", 1)]
    p.sleep(since_ms + LOCK_MS - 1 - p.now_ms)
    assert group.window() == [(5, 9, "ACQUIRED", 1)]
    p.sleep(1)
    assert group.window() == [(5, 9, "AVAILABLE", 1)]


def test_the_last_lock_of_a_record_may_end_before_the_answer_leaves_that_hands_it_out(p: Probe) -> None:
    """The start offset moves over it then, although neither is its end stored nor has anybody been told of it."""
    group = Group(p)
    p.configure("g", delivery_count_limit=1, record_lock_duration_ms=1_000)
    assert "acq=0~4x1" in group.fetch(records=5, mode=1)
    p.faults.delay_persister(WRITE, 5_000, times=2)
    p.send_fetch(group.a, "g", "A", 1, [(group.topic_id, 0, "0~4:1")])
    p.sleep(4_999)
    assert not group.a.replies
    assert group.window() == [(0, 4, "(ACKNOWLEDGED)", 1), (5, 9, "ARCHIVED", 1)]
    p.sleep(1)
    assert "ae=0 acq=5~9x1" in p.receive(group.a)
    assert group.window() == []
    assert group.stored() == "epoch=1 start=0 [0~4:2x1]"


@pytest.mark.behaviour("broker")
def test_records_are_held_as_before_when_a_late_write_fails(p: Probe) -> None:
    """If an acknowledgement cannot be stored, its records are still held, and their locks end when they would have."""
    group = Group(p)
    group.fetch()
    since_ms = p.now_ms
    p.faults.delay_persister(WRITE, 5_000)
    p.faults.fail_persister(WRITE, CoordinatorLoadInProgressError)
    failed = group.acknowledge(1, "0~4:1;5~6:2", timed=True)
    assert failed == "e=0 lock=30000 [t-0 e=15:COORDINATOR_NOT_AVAILABLE] took~5000ms"
    assert group.stored() == "epoch=1 start=0 []"
    assert group.window() == [(0, 9, "ACQUIRED", 1)]
    assert p.offsets("g", group.topic_id).endswith("so=0 le=0 lag=10 e=0]")
    assert p.node.wake_at_ms() == since_ms + LOCK_MS
    assert group.acknowledge(2, "0~1:1") == "e=0 lock=30000 [t-0 e=0]"
    p.sleep(LOCK_MS - 5_000)
    assert group.window() == [(2, 9, "AVAILABLE", 1)]


@pytest.mark.parametrize(("limit", "state"), [(2, "AVAILABLE"), (1, "ARCHIVED")])
def test_a_lock_ends_with_the_failure_when_its_time_is_over_by_then(p: Probe, limit: int, state: str) -> None:
    group = Group(p)
    p.configure("g", delivery_count_limit=limit)
    group.fetch()
    p.sleep(LOCK_MS - 1_000)
    p.faults.delay_persister(WRITE, 5_000)
    p.faults.fail_persister(WRITE, NetworkExceptionError)
    group.send_acknowledgement(1, "0~4:1")
    p.sleep(5_000)
    assert p.receive(group.a) == "e=0 lock=30000 [t-0 e=-1:UNKNOWN_SERVER_ERROR]"
    assert group.stored().endswith(f"[0~9:{0 if state == 'AVAILABLE' else 4}x1]")
    after = group.fetch("B", wait=100)
    if state == "AVAILABLE":
        assert "acq=0~9x2" in after
    else:
        assert group.window() == []
        assert "acq= " in after


def test_in_4_1_a_lock_never_ends_when_its_time_was_over_before_the_failure() -> None:
    p = Probe("4.1")
    group = Group(p, loaded=False)
    p.configure("g", auto_offset_reset="earliest")
    member, other = "A" * 22, "B" + "A" * 21
    p.fetch(group.a, "g", member, 0, group.all)
    p.sleep(LOCK_MS - 1_000)
    p.faults.delay_persister(WRITE, 5_000)
    p.faults.fail_persister(WRITE, NetworkExceptionError)
    p.send_ack(group.a, "g", member, 1, [(group.topic_id, 0, "0~4:1;6~7:2")])
    p.sleep(LOCK_MS)
    p.node.check()
    held = [(0, 4, "ACQUIRED", 1), (6, 7, "ACQUIRED", 1)]
    assert [piece for piece in group.window() if piece[2] == "ACQUIRED"] == held
    assert p.node.wake_at_ms() is None
    assert "acq=5~5x2,8~8x2,9~9x2" in p.fetch(group.b, "g", other, 0, group.all)
    assert p.ack(group.b, "g", member, 2, [(group.topic_id, 0, "0~1:1")]).endswith("[t-0 e=0]")
    p.ack(group.b, "g", member, -1, [])
    p.node.check()
    assert group.window()[0] == (2, 4, "AVAILABLE", 0), "its session has ended"


@pytest.mark.behaviour("broker")
def test_a_lock_end_frees_records_before_it_is_stored(p: Probe) -> None:
    """Records whose lock has ended are delivered again at once; storing that may take its time."""
    group = Group(p)
    group.fetch()
    p.faults.delay_persister(WRITE, 5_000)
    p.sleep(LOCK_MS)
    assert "acq=0~9x2" in group.fetch("B")
    assert group.stored() == "epoch=1 start=0 []"
    group.send_acknowledgement(1, "0~9:1", "B")
    p.sleep(4_999)
    assert not group.b.replies, "the acknowledgement waits behind the end of the lock"
    p.sleep(1)
    assert p.receive(group.b) == "e=0 lock=30000 [t-0 e=0]"
    assert group.stored() == "epoch=1 start=0 [0~9:2x2]"


def test_a_lock_end_is_stored_before_what_the_fetch_does_that_it_wakes(p: Probe) -> None:
    """The fetch's connection has ended meanwhile: what it acquires is released at once."""
    group = Group(p)
    group.fetch()
    p.fetch(group.b, "g", "B", 0, group.all, wait=1)
    p.send_fetch(group.b, "g", "B", 1, wait=LOCK_MS + 1_000)
    group.b.close()
    counts: list[int] = []
    write = p.coordinator.write

    def written(key: StateKey, *, batches: Any, **rest: Any) -> None:
        counts.extend(one.delivery_count for one in batches)
        write(key, batches=batches, **rest)

    p.coordinator.write = written  # type: ignore[method-assign]
    p.sleep(LOCK_MS)
    assert counts == [1, 2]


def test_the_start_moves_over_used_up_records_when_their_end_is_stored(p: Probe) -> None:
    group = Group(p)
    p.configure("g", delivery_count_limit=1)
    group.fetch()
    p.faults.delay_persister(WRITE, 5_000)
    p.sleep(LOCK_MS)
    assert group.window() == [(0, 9, "ARCHIVED", 1)]
    p.sleep(5_000)
    assert group.window() == []


@pytest.mark.behaviour("start offset")
def test_records_that_were_deleted_meanwhile_are_not_delivered_after_their_release(p: Probe) -> None:
    """Records that are deleted from the log while their release is being stored are delivered no more."""
    group = Group(p)
    group.fetch_and_acknowledge("0~9:2", stored_after_ms=5_000)
    p.delete_records(group.topic_id, 4)
    loaded = p.node.share_partition("g", group.topic_id, 0)
    assert loaded is not None
    loaded.log_start_raised(4)  # as a fetch finds out that reads there
    assert group.window() == [(4, 9, "(AVAILABLE)", 1)]
    p.sleep(5_000)
    p.node.check()
    assert group.window() == [(4, 9, "AVAILABLE", 1)]
    assert "acq=4~9x2" in group.fetch("B")


# ---- order


def test_writes_of_a_partition_keep_their_order_and_others_do_not_wait(p: Probe) -> None:
    group = Group(p, partitions=2)
    p.fetch(group.a, "g", "A", 0, group.all)
    p.fetch(group.b, "g", "A", 1)
    p.faults.delay_persister(WRITE, 5_000)
    c = p.connect()
    group.send_acknowledgement(2, "0~4:1")
    p.send_ack(group.b, "g", "A", 3, [(group.topic_id, 0, "5~9:1")])
    assert p.ack(c, "g", "A", 4, [(group.topic_id, 1, "0~9:1")], timed=True).endswith("[t-1 e=0] took<250ms")
    p.sleep(4_999)
    assert not group.a.replies
    assert not group.b.replies
    p.sleep(1)
    assert [len(group.a.replies), len(group.b.replies)] == [1, 1]
    assert group.stored() == "epoch=1 start=0 [0~9:2x1]", "the second write began before the first one was stored"


def test_a_request_of_two_partitions_is_answered_with_the_later_one(p: Probe) -> None:
    group = Group(p, partitions=2)
    p.fetch(group.a, "g", "A", 0, group.all)
    p.faults.delay_persister(WRITE, 1_000)
    p.faults.delay_persister(WRITE, 3_000)
    p.faults.fail_persister(WRITE, CoordinatorNotAvailableError)
    since_ms = p.now_ms
    p.send_ack(group.a, "g", "A", 1, [(group.topic_id, 0, "0~9:1"), (group.topic_id, 1, "0~9:1")])
    text = p.receive(group.a, since_ms=since_ms)
    assert text == "e=0 lock=30000 [t-0 e=15:COORDINATOR_NOT_AVAILABLE] [t-1 e=0] took~3000ms"
    assert group.window(0) == [(0, 9, "ACQUIRED", 1)]
    assert group.window(1) == []


# ---- sessions and connections


@pytest.mark.behaviour("share sessions")
def test_the_end_of_a_session_releases_records_once_its_last_acknowledgement_is_stored(p: Probe) -> None:
    """The last request of a session is answered when it is stored; then the session's other records are released."""
    group = Group(p)
    group.fetch()
    p.faults.delay_persister(WRITE, 2_000)
    p.faults.delay_persister(WRITE, 1_000)
    assert group.acknowledge(-1, "0~4:1", timed=True) == "e=0 lock=30000 [t-0 e=0] took~2000ms"
    assert group.window() == [(5, 9, "(AVAILABLE)", 1)]
    p.sleep(1_000)
    assert "acq=5~9x2" in group.fetch("B")


@pytest.mark.behaviour("share sessions")
def test_a_lost_connection_releases_records_once_its_request_is_stored(p: Probe) -> None:
    """A connection that is lost while its acknowledgement is stored ends its session after that; nothing is undone."""
    group = Group(p)
    group.fetch()
    p.fetch(group.b, "g", "B", 0, group.all, wait=1)
    p.faults.delay_persister(WRITE, 2_000)
    group.send_acknowledgement(1, "0~4:1")
    group.a.close()
    p.sleep(1_999)
    assert group.window() == [(0, 4, "(ACKNOWLEDGED)", 1), (5, 9, "ACQUIRED", 1)]
    p.sleep(1)
    assert not group.a.replies
    assert group.window() == [(5, 9, "AVAILABLE", 1)]
    assert [key.member_id for key in p.node.session_keys()] == ["L", "B"]


def test_a_member_without_a_session_holds_what_could_not_be_stored_until_the_lock_ends(p: Probe) -> None:
    group = Group(p)
    group.fetch()
    since_ms = p.now_ms
    p.faults.delay_persister(WRITE, 2_000)
    p.faults.fail_persister(WRITE, CoordinatorNotAvailableError)
    group.send_acknowledgement(1, "0~4:1")
    assert p.ack(group.b, "g", "A", -1) == NOTHING  # on another connection
    assert p.receive(group.a) == "e=0 lock=30000 [t-0 e=15:COORDINATOR_NOT_AVAILABLE]"
    assert group.window() == [(0, 4, "ACQUIRED", 1), (5, 9, "AVAILABLE", 1)]
    assert p.node.wake_at_ms() == since_ms + LOCK_MS


# ---- leaders and nodes


@pytest.mark.behaviour("broker failures")
def test_a_late_write_is_fenced_when_another_leader_has_read_the_state(p: Probe) -> None:
    """An acknowledgement that is stored after another leader has read the state fails; nothing has changed."""
    group = Group(p)
    group.fetch_and_acknowledge("0~4:1", stored_after_ms=2_000)
    moved = p.view.partitions[group.topic_id, 0]
    moved.leader_id, moved.leader_epoch = 2, 1
    p.node.leadership_lost(group.topic_id, 0, p.now_ms)
    assert p.stored("g", group.topic_id, leader_epoch=1) == "epoch=1 start=0 []"
    assert p.receive(group.a) == "e=0 lock=30000 [t-0 e=6:NOT_LEADER_OR_FOLLOWER ldr=2/1] nodes=1"
    assert p.stored("g", group.topic_id, leader_epoch=1) == "epoch=1 start=0 []"


@pytest.mark.behaviour("broker failures")
def test_a_late_write_counts_when_no_other_leader_has_read_the_state(p: Probe) -> None:
    """A leader that steps down still stores what was acknowledged; when it comes back it goes on from there."""
    group = Group(p)
    group.fetch_and_acknowledge("0~4:1", stored_after_ms=2_000)
    p.node.leadership_lost(group.topic_id, 0, p.now_ms)
    p.view.partitions[group.topic_id, 0].leader_epoch = 2
    text = group.fetch("B", wait=5_000, timed=True)
    assert "acq=5~9x1" in text, "the state is read behind the write"
    assert text.endswith("took~2000ms")
    assert p.receive(group.a) == "e=0 lock=30000 [t-0 e=0]"
    assert group.window() == [(5, 9, "ACQUIRED", 1)]


def test_a_fenced_write_leaves_the_share_partition_alone_that_has_come_into_its_place(p: Probe) -> None:
    group = Group(p)
    group.fetch_and_acknowledge("0~4:1", stored_after_ms=2_000)
    p.node.leadership_lost(group.topic_id, 0, p.now_ms)
    p.stored("g", group.topic_id, leader_epoch=3)
    p.view.partitions[group.topic_id, 0].leader_epoch = 4
    text = group.fetch("B", wait=5_000)
    assert "acq=0~9x1" in text
    assert "NOT_LEADER_OR_FOLLOWER" in p.receive(group.a)
    assert group.window() == [(0, 9, "ACQUIRED", 1)]


def test_locks_are_not_awaited_when_a_write_of_a_share_partition_that_is_gone_has_failed(p: Probe) -> None:
    group = Group(p)
    group.fetch()
    p.sleep(1_000)
    p.faults.delay_persister(WRITE, 2_000)
    p.faults.fail_persister(WRITE, CoordinatorNotAvailableError)
    group.send_acknowledgement(1, "0~9:1")
    p.node.leadership_lost(group.topic_id, 0, p.now_ms)
    assert "COORDINATOR_NOT_AVAILABLE" in p.receive(group.a)
    p.step()
    assert p.node.wake_at_ms() is None


@pytest.mark.behaviour("broker failures")
def test_what_was_not_stored_is_lost_with_its_node(p: Probe) -> None:
    """A broker that stops before it has stored an acknowledgement has not answered it: the records come again."""
    group = Group(p)
    group.fetch_and_acknowledge("0~4:1", stored_after_ms=2_000)
    p.restart()
    p.sleep(5_000)
    assert not group.a.replies
    assert group.stored() == "epoch=1 start=0 []"
    assert "acq=0~9x1" in group.fetch("B")


def test_an_acknowledgement_fails_when_its_topic_is_deleted_meanwhile(p: Probe) -> None:
    group = Group(p)
    group.fetch_and_acknowledge("0~4:1", stored_after_ms=2_000)
    p.delete_topic(group.topic_id)
    assert p.receive(group.a) == "e=0 lock=30000 [id?-0 e=-1:UNKNOWN_SERVER_ERROR]"


# ---- loading


@pytest.mark.behaviour("broker")
def test_fetches_wait_while_the_share_partition_is_loaded(p: Probe) -> None:
    """While a share partition's state is read, fetches of it wait; they are answered once it is there."""
    group = Group(p, loaded=False)
    p.faults.delay_persister(READ, 2_000)
    since_ms = p.now_ms
    p.send_fetch(group.a, "g", "A", 0, group.all, wait=5_000)
    p.send_fetch(group.b, "g", "B", 0, group.all, wait=5_000)
    assert p.fetch(p.connect(), "g", "C", 0, group.all, wait=0) == NOTHING
    text = p.receive(group.a, since_ms=since_ms)
    assert "acq=0~9x1" in text
    assert text.endswith("took~2000ms")
    assert not group.b.replies
    assert p.fetch(p.connect(), "g", "D", 0, group.all, wait=0) == "e=0 lock=30000 [t-0 e=0 ae=0 acq= rec=empty]"


def test_a_fetch_ends_empty_when_its_wait_ends_before_the_share_partition_is_loaded(p: Probe) -> None:
    group = Group(p, loaded=False)
    p.faults.delay_persister(READ, 2_000)
    assert group.fetch(wait=1_000, timed=True) == f"{NOTHING} took~1000ms"
    assert group.fetch(epoch=1, acks="0~0:1", wait=0) == (
        "e=0 lock=30000 [t-0 e=0 ae=121:INVALID_RECORD_STATE acq= rec=empty]"
    )
    assert "acq=0~9x1" in group.fetch(epoch=2, wait=5_000)


def test_the_fetch_that_began_to_load_names_the_error_when_the_state_cannot_be_read(p: Probe) -> None:
    group = Group(p, loaded=False)
    p.faults.delay_persister(READ, 1_000)
    p.faults.fail_persister(READ, CoordinatorNotAvailableError)
    since_ms = p.now_ms
    p.send_fetch(group.a, "g", "A", 0, group.all, wait=3_000)
    p.send_fetch(group.b, "g", "B", 0, group.all, wait=3_000)
    assert "e=15:COORDINATOR_NOT_AVAILABLE ae=0" in p.receive(group.a, since_ms=since_ms)
    assert p.node.share_partition("g", group.topic_id, 0) is None
    assert p.receive(group.b, since_ms=since_ms) == f"{NOTHING} took~3000ms"
    assert "acq=0~9x1" in group.fetch("B", 1)


def test_a_state_that_comes_after_the_leadership_has_gone_is_not_used(p: Probe) -> None:
    group = Group(p, loaded=False)
    p.faults.delay_persister(READ, 2_000)
    p.send_fetch(group.a, "g", "A", 0, group.all, wait=5_000)
    moved = p.view.partitions[group.topic_id, 0]
    moved.leader_id, moved.leader_epoch = 2, 1
    p.node.leadership_lost(group.topic_id, 0, p.now_ms)
    p.step()
    assert "e=6:NOT_LEADER_OR_FOLLOWER" in p.receive(group.a)
    p.sleep(2_000)
    assert p.node.share_partition("g", group.topic_id, 0) is None
    assert p.node.wake_at_ms() is None


def test_a_fetch_ends_empty_when_its_topic_is_deleted_while_the_share_partition_is_loaded(p: Probe) -> None:
    group = Group(p, loaded=False)
    p.faults.delay_persister(READ, 1_000)
    since_ms = p.now_ms
    p.send_fetch(group.a, "g", "A", 0, group.all, wait=3_000)
    p.delete_topic(group.topic_id)
    assert p.receive(group.a, since_ms=since_ms) == f"{NOTHING} took~3000ms"


# ---- the cluster


def _heartbeat(world: World, epoch: int, *topics: str) -> Any:
    names = None if epoch else [*(topics or ("t",))]
    beat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=names)
    answer = world.ask(beat)
    assert answer.error_code == 0
    return answer


@pytest.fixture
def world() -> World:
    world = World()
    world.plan = FaultPlan()  # type: ignore[attr-defined]
    world.cluster.persister_fault = world.plan.take_persister_fault  # type: ignore[attr-defined]
    return world


def _initialised(world: World) -> list[tuple[UUID, int]]:
    return [key[1:] for key in world.cluster.share_states.keys("g")]


@pytest.mark.behaviour("membership")
def test_partitions_are_assigned_when_their_state_is_initialised_at_last(world: World) -> None:
    """While a slow broker makes share state, a member has no partitions and its heartbeats go on; then it gets them."""
    plan: FaultPlan = world.plan  # type: ignore[attr-defined]
    topic = world.topic("t", 2)
    plan.delay_persister(INITIALIZE, 4_000)
    plan.delay_persister(INITIALIZE, 6_000)
    answer, assigned = _heartbeat(world, 0), []
    for _ in range(9):
        world.advance(1_000)
        answer = _heartbeat(world, answer.member_epoch)
        assigned.append(len(answer.assignment.topic_partitions[0].partitions) if answer.assignment else 0)
    assert assigned == [0, 0, 0, 0, 0, 2, 0, 0, 0]
    assert _initialised(world) == [(topic.id, 0), (topic.id, 1)]
    assert plan.pending() == 0
    snapshots = [state.snapshot_epoch for _, state in world.cluster.share_states.states()]
    assert snapshots == [0, 0], "each was asked for once"


def test_all_partitions_are_asked_for_again_when_one_could_not_be_initialised(world: World) -> None:
    plan: FaultPlan = world.plan  # type: ignore[attr-defined]
    topic = world.topic("t", 2)
    plan.delay_persister(INITIALIZE, 1_000)
    plan.fail_persister(INITIALIZE, CoordinatorNotAvailableError)
    answer = _heartbeat(world, 0)
    world.advance(1_000)
    assert _initialised(world) == [(topic.id, 1)]
    answer = _heartbeat(world, answer.member_epoch)
    assert answer.assignment is None or not answer.assignment.topic_partitions
    assert _initialised(world) == [(topic.id, 1), (topic.id, 0)]
    assert [state.snapshot_epoch for _, state in world.cluster.share_states.states()] == [1, 0], "asked for again"
    answer = _heartbeat(world, answer.member_epoch)
    assert answer.assignment.topic_partitions[0].partitions == [0, 1]


def test_share_state_that_comes_for_a_group_made_anew_is_not_asked_for_twice(world: World) -> None:
    plan: FaultPlan = world.plan  # type: ignore[attr-defined]
    topic = world.topic("t")
    plan.delay_persister(INITIALIZE, 3_000)
    _heartbeat(world, 0)
    _heartbeat(world, -1)
    world.cluster.share_groups.delete("g", world.now_ms)
    world.machine.check()
    _heartbeat(world, 0)
    world.advance(3_000)
    assert _initialised(world) == [(topic.id, 0)]
    assert [state.snapshot_epoch for _, state in world.cluster.share_states.states()] == [0]
    assert _heartbeat(world, 0).assignment.topic_partitions[0].partitions == [0]


def test_share_state_of_a_topic_that_was_deleted_meanwhile_is_not_made(world: World) -> None:
    plan: FaultPlan = world.plan  # type: ignore[attr-defined]
    topic = world.topic("t")
    plan.delay_persister(INITIALIZE, 3_000)
    answer = _heartbeat(world, 0)
    world.cluster.delete_topic(topic, world.now_ms)
    world.advance(3_000)
    _heartbeat(world, answer.member_epoch)
    assert _initialised(world) == []


def test_a_topic_is_not_assigned_that_was_deleted_before_the_share_state_of_all_was_made(world: World) -> None:
    plan: FaultPlan = world.plan  # type: ignore[attr-defined]
    kept, deleted = world.topic("t"), world.topic("u")
    plan.delay_persister(INITIALIZE, 3_000)
    answer = _heartbeat(world, 0, "t", "u")
    assert _initialised(world) == [(deleted.id, 0)]
    world.cluster.delete_topic(deleted, world.now_ms)
    world.advance(3_000)
    group = world.cluster.share_groups.existing("g")
    assert group.initialised == {kept.id: {0}}
    answer = _heartbeat(world, answer.member_epoch)
    assert [one.topic_id for one in answer.assignment.topic_partitions] == [kept.id]


def test_the_machine_above_answers_an_acknowledgement_late(world: World) -> None:
    plan: FaultPlan = world.plan  # type: ignore[attr-defined]
    topic = world.topic("t")
    world.cluster.share_groups.initialise("g", topic.id, 0, 0, world.now_ms)
    world.cluster.append(topic.partitions[0], batch(3), world.now_ms)
    fetched = _fetch(world, topic.id)
    assert [(one.first_offset, one.last_offset) for one in fetched.acquired_records] == [(0, 2)]
    plan.delay_persister(WRITE, 1_000)
    request = acknowledge_request(Topic("t", topic.id, "g", 1), "m", 1, [(0, 0, 2, 1)])
    assert world.ask(request) is None
    world.advance(1_000)
    assert world.late[world.last_id].responses[0].partitions[0].error_code == 0


def _fetch(world: World, topic_id: UUID) -> Any:
    request = fetch_request(Topic("t", topic_id, "g", 1), "m", 0, Limits(max_wait_ms=1_000), ())
    answer = world.ask(request)
    assert answer is not None
    return answer.responses[0].partitions[0]


def test_late_writes_are_lost_when_the_leader_stops() -> None:
    world = World(nodes=2)
    plan = FaultPlan()
    world.cluster.persister_fault = plan.take_persister_fault
    topic = world.cluster.create_topic("t", [[1, 2]])
    world.cluster.share_groups.initialise("g", topic.id, 0, 0, world.now_ms)
    world.cluster.append(topic.partitions[0], batch(3), world.now_ms)
    assert _fetch(world, topic.id).acquired_records[0].delivery_count == 1
    plan.delay_persister(WRITE, 1_000)
    world.disconnect(1)  # its session ends, and what it held is released
    world.cluster.stop_node(1, world.now_ms)
    world.advance(2_000)
    state = world.cluster.share_states.read(StateKey("g", topic.id, 0), -1, world.now_ms)
    assert state.batches == ()
    assert topic.partitions[0].leader_id == 2


# ---- the persister itself


@pytest.fixture
def coordinator() -> ShareCoordinator:
    view = FakeCluster(behaviour_of("4.3"))
    view.topics[UUID(int=1)] = "t"
    return ShareCoordinator(view, state_topic())


def test_what_is_asked_while_a_late_request_ends_comes_behind_those_that_wait(coordinator: ShareCoordinator) -> None:
    faults = [PersisterFault(delay_ms=10)]
    persister = Persister(coordinator, lambda api: faults.pop() if faults else None)
    key, order = StateKey("g", UUID(int=1), 0), []

    def ask(name: str, *following: str) -> None:
        def then(refusal: object, now_ms: int) -> None:
            order.append((name, now_ms))
            for one in following:
                ask(one)

        persister.initialize(key, 0, 0, now_ms=0, then=then)

    ask("first", "third")
    ask("second")
    persister.poll(9)
    assert order == []
    assert (len(persister), persister.wake_at_ms()) == (2, 10)
    persister.check()
    persister.poll(10)
    assert order == [("first", 10), ("second", 10), ("third", 10)]
    assert (len(persister), persister.wake_at_ms()) == (0, None)
    persister.check()


def test_requests_are_refused_when_too_many_wait(
    coordinator: ShareCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persister_module, "MAX_WAITING", 2)
    persister = Persister(coordinator, lambda api: PersisterFault(delay_ms=10))
    answers: list[object] = []
    for _ in range(3):
        persister.initialize(StateKey("g", UUID(int=1), 0), 0, 0, 0, lambda refusal, now_ms: answers.append(refusal))
    (refused,) = answers
    assert isinstance(refused, Refusal)
    assert refused.code == CoordinatorNotAvailableError.code


def test_a_fault_is_planned_for_requests_that_persisters_send() -> None:
    plan = FaultPlan()
    for attempt in (
        lambda: plan.delay_persister("ShareFetch", 1),
        lambda: plan.fail_persister("ReadShareGroupStateSummary", CoordinatorNotAvailableError),
        lambda: plan.delay_persister(WRITE, -1),
        lambda: plan.delay_persister(WRITE, 1, times=0),
        lambda: plan.delay_persister(WRITE, 1, times=10_001),
        lambda: plan.fail_persister(WRITE, 12_345),
    ):
        with pytest.raises(InvalidArgumentError):
            attempt()  # type: ignore[no-untyped-call]
    plan.delay_persister(WRITE, 5, times=2)
    plan.fail_persister(WRITE, 15)
    plan.fail_persister(ApiKey.READ_SHARE_GROUP_STATE, CoordinatorNotAvailableError)
    assert plan.pending() == 4
    assert plan.take_persister_fault(ApiKey.INITIALIZE_SHARE_GROUP_STATE) == PersisterFault()
    assert plan.take_persister_fault(ApiKey.WRITE_SHARE_GROUP_STATE) == PersisterFault(5, CoordinatorNotAvailableError)
    assert plan.take_persister_fault(ApiKey.WRITE_SHARE_GROUP_STATE) == PersisterFault(5)
    plan.clear()
    assert plan.pending() == 0
    assert plan.take_persister_fault(ApiKey.READ_SHARE_GROUP_STATE) is None
