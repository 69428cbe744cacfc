"""One node: limits, leaders, topics and connections that go, versions; what recorded answers do not show."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest
from broker.share.probe import Probe

from kafka_share.broker.inspection import snapshot_of_window
from kafka_share.broker.share.sessions import PartitionKey, SessionKey, rotated
from kafka_share.protocol.share_values import MAX_EPOCH, next_epoch


@pytest.fixture
def p() -> Probe:
    return Probe()


def _topic(p: Probe, name: str = "t", *, groups: tuple[str, ...] = ("g",), partitions: int = 1) -> Any:
    topic_id = p.topic(name, partitions)
    for group in groups:
        for index in range(partitions):
            p.initialize(group, topic_id, index)
    return topic_id


@pytest.mark.behaviour("share sessions")
def test_second_session_waits_and_is_refused_when_the_node_is_full(p: Probe) -> None:
    """A node without a free share session refuses a new one when the fetch's wait is over, until another has ended."""
    p.view.session_limit = 1
    t = _topic(p)
    c, c2 = p.connect(), p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    refused = "e=133:SHARE_SESSION_LIMIT_REACHED lock=0 []"
    assert p.fetch(c2, "g", "M2", 0, [(t, 0, "")], wait=1000, timed=True) == f"{refused} took~1000ms"
    assert p.fetch(c2, "g", "M2", 0, [(t, 0, "")], wait=0, timed=True) == f"{refused} took<250ms"
    assert p.fetch(c2, "g", "M2", 1) == "e=122:SHARE_SESSION_NOT_FOUND lock=0 []"
    assert p.fetch(c, "g", "M1", 0, [(t, 0, "")], wait=200).startswith("e=0 ")
    p.ack(c, "g", "M1", -1)
    assert p.fetch(c2, "g", "M2", 0, [(t, 0, "")]).startswith("e=0 ")
    c2.close()
    assert p.fetch(c, "g", "M1", 0, [(t, 0, "")]).startswith("e=0 ")


def test_nobody_is_refused_when_the_connection_ends_before(p: Probe) -> None:
    p.view.session_limit = 0
    c = p.connect()
    p.send_fetch(c, "g", "M1", 0, wait=1000)
    c.close()
    assert p.node.wake_at_ms() is None
    assert not c.replies


@pytest.mark.behaviour("broker failures")
def test_fetch_names_the_leader_and_acknowledge_does_not_when_another_node_leads(p: Probe) -> None:
    """A fetch from the wrong node is answered with the leader; an acknowledgement there fails as unknown."""
    t = p.topic("t", leader=2)
    p.initialize("g", t)
    c = p.connect()
    fetched = p.fetch(c, "g", "M1", 0, [(t, 0, "")], timed=True)
    assert fetched == "e=0 lock=30000 [t-0 e=6:NOT_LEADER_OR_FOLLOWER ae=0 ldr=2/0 acq= rec=empty] nodes=1 took<250ms"
    acknowledged = p.ack(c, "g", "M1", 1, [(t, 0, "0~0:1")])
    assert acknowledged == "e=0 lock=30000 [t-0 e=3:UNKNOWN_TOPIC_OR_PARTITION]"


@pytest.mark.behaviour("broker")
def test_waiting_fetch_names_the_new_leader_when_leadership_is_lost(p: Probe) -> None:
    """A fetch that waits for a partition which gets another leader is answered at once, with the new leader."""
    t = _topic(p, partitions=2)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, ""), (t, 1, "")])
    p.send_fetch(c, "g", "M1", 1, wait=5000)
    moved = p.view.partitions[t, 1]
    moved.leader_id, moved.leader_epoch = 2, 1
    p.node.leadership_lost(t, 1, p.now_ms)
    p.step()
    assert p.receive(c) == "e=0 lock=30000 [t-1 e=6:NOT_LEADER_OR_FOLLOWER ae=0 ldr=2/1 acq= rec=empty] nodes=1"
    assert p.node.share_partition("g", t, 1) is None
    assert p.node.share_partition("g", t, 0) is not None


@pytest.mark.behaviour("broker")
def test_state_is_read_with_the_new_epoch_when_leadership_comes_back(p: Probe) -> None:
    """A leader that comes back delivers released records with their next count, and unacknowledged ones as if new."""
    t = _topic(p)
    p.produce(t, 3)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.ack(c, "g", "M1", 1, [(t, 0, "0~0:2")])
    p.node.leadership_lost(t, 0, p.now_ms)
    p.view.partitions[t, 0].leader_epoch = 2
    assert "acq=0~0x2,1~2x1" in p.fetch(c, "g", "M1", 2)
    assert p.offsets("g", t) == "0 t/t[0 so=0 le=2 lag=3 e=0]"


@pytest.mark.behaviour("broker")
def test_share_partition_is_dropped_when_a_newer_leader_has_read_the_state(p: Probe) -> None:
    """A broker that a newer leader has taken over from refuses acknowledgements and forgets the partition's state."""
    t = _topic(p)
    p.produce(t, 3)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.stored("g", t, leader_epoch=5)
    answer = p.ack(c, "g", "M1", 1, [(t, 0, "0~0:1")])
    assert "e=6:NOT_LEADER_OR_FOLLOWER ldr=1/0]" in answer
    assert p.node.share_partition("g", t, 0) is None


@pytest.mark.behaviour("fetching")
def test_waiting_fetch_ends_empty_and_late_when_its_topic_is_deleted(p: Probe) -> None:
    """A fetch that waits for a topic that is deleted ends empty when its wait is over."""
    t = _topic(p)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    since = p.now_ms
    p.send_fetch(c, "g", "M1", 1, wait=3000)
    p.delete_topic(t)
    assert p.node.share_partition("g", t, 0) is None
    assert p.receive(c, since_ms=since) == "e=0 lock=30000 [] took~3000ms"


@pytest.mark.behaviour("membership")
def test_everything_is_refused_when_share_groups_are_switched_off(p: Probe) -> None:
    """With share groups switched off fetches and acknowledgements are unsupported."""
    p.view.enabled = False
    c = p.connect()
    assert p.fetch(c, "g", "M1", 0) == "e=35:UNSUPPORTED_VERSION lock=0 []"
    assert p.ack(c, "g", "M1", 1) == "e=35:UNSUPPORTED_VERSION lock=0 []"


@pytest.mark.behaviour("delivery counts")
def test_renew_is_an_unknown_type_when_the_request_is_version_1(p: Probe) -> None:
    """Version 1 of ShareFetch knows no renewal: it is refused as an invalid request."""
    t = _topic(p)
    p.produce(t, 3)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")], version=1)
    assert "ae=42:INVALID_REQUEST" in p.fetch(c, "g", "M1", 1, [(t, 0, "0~0:4")], wait=0, version=1)


@pytest.mark.behaviour("acquisition locks")
def test_full_window_wakes_only_when_an_acknowledgement_moves_the_start(p: Probe) -> None:
    """With all locks taken a waiting fetch is answered when the group's start moves, not by an inner acceptance."""
    t = _topic(p)
    p.configure("g", max_record_locks=100)
    for _ in range(3):
        p.produce(t, 60)
    c, c2 = p.connect(), p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.send_fetch(c2, "g", "M2", 0, [(t, 0, "")], wait=5000)
    p.ack(c, "g", "M1", 1, [(t, 0, "30~59:1")])
    assert not c2.replies
    p.ack(c, "g", "M1", 2, [(t, 0, "0~29:1")])
    assert "acq=120~179x1" in p.receive(c2)


@pytest.mark.behaviour("share sessions")
def test_epoch_1_follows_when_the_highest_epoch_was_used(p: Probe) -> None:
    """After the highest epoch of a share session, 2147483647, the next one is 1."""
    t = _topic(p)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.node._sessions.existing(SessionKey("g", "M1")).epoch = MAX_EPOCH
    assert p.fetch(c, "g", "M1", MAX_EPOCH, wait=0) == "e=0 lock=30000 []"
    assert p.fetch(c, "g", "M1", 1, wait=0) == "e=0 lock=30000 []"
    assert next_epoch(MAX_EPOCH - 1) == MAX_EPOCH


@pytest.mark.behaviour("broker")
def test_groups_do_not_see_each_other_when_they_share_a_topic(p: Probe) -> None:
    """Two groups that share a topic each acquire all of its records."""
    t = _topic(p, groups=("g", "h"))
    c = p.connect()
    for group in ("g", "h"):
        p.fetch(c, group, "M1", 0, [(t, 0, "")], wait=0)
    p.produce(t, 5)
    for group in ("g", "h"):
        assert "acq=0~4x1" in p.fetch(c, group, "M1", 1)


@pytest.mark.behaviour("transactions")
def test_open_transaction_holds_records_back_when_the_group_is_read_committed(p: Probe) -> None:
    """An open transaction holds back what is behind it from a read_committed group, and only from such a group."""
    t = _topic(p, groups=("g", "h"))
    p.configure("g", read_committed=True)
    c = p.connect()
    for group in ("g", "h"):
        p.fetch(c, group, "M1", 0, [(t, 0, "")], wait=0)
    p.produce(t, 2)
    p.produce(t, 3, producer_id=7, transactional=True)
    p.produce(t, 4)
    assert "acq=0~1x1 rec=0~1]" in p.fetch(c, "g", "M1", 1)
    assert "acq=0~8x1 rec=0~1,2~4,5~8]" in p.fetch(c, "h", "M1", 1)
    p.send_fetch(c, "g", "M1", 2, wait=5000)
    p.end_transaction(t, 7, commit=False)
    assert "acq=5~9x1 rec=5~8,9~9c]" in p.receive(c)


@pytest.mark.behaviour("transactions")
def test_only_aborted_batches_are_missing_when_every_fifth_transaction_is_aborted(p: Probe) -> None:
    """A read_committed group acquires everything but the aborted batches; markers it acquires too."""
    t = _topic(p)
    p.configure("g", read_committed=True)
    for number in range(1, 11):
        p.produce(t, 1, producer_id=7, transactional=True)
        p.end_transaction(t, 7, commit=number % 5 != 0)
    c = p.connect()
    text = p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    assert "acq=0~7x1,9~17x1,19~19x1 rec=" in text
    p.ack(c, "g", "M1", 1, [(t, 0, "0~7:1;9~17:1;19~19:1")])
    assert p.offsets("g", t) == "0 t/t[0 so=0 le=0 lag=0 e=0]"


def test_group_waits_for_nothing_when_its_policy_finds_no_record(p: Probe) -> None:
    t = p.topic("t")
    p.initialize("g", t, start=-1)
    p.configure("g", auto_offset_reset="by_duration:PT1H")
    p.produce(t, 3, age_ms=7_200_000)
    c = p.connect()
    missing = "e=0 lock=30000 [t-0 e=78:OFFSET_NOT_AVAILABLE ae=0 acq= rec=empty]"
    assert p.fetch(c, "g", "M1", 0, [(t, 0, "")]) == missing
    assert p.fetch(c, "g", "M1", 1) == missing
    p.produce(t, 2)
    assert "acq=3~4x1" in p.fetch(c, "g", "M1", 2)


def test_snapshot_shows_holder_and_lock_when_records_are_held(p: Probe) -> None:
    t = _topic(p)
    p.produce(t, 5)
    p.fetch(p.connect(), "g", "M1", 0, [(t, 0, "")])
    partition = p.node.share_partition("g", t, 0)
    assert partition is not None
    snapshot = snapshot_of_window(partition)
    assert (snapshot.start_offset, snapshot.end_offset) == (0, 4)
    assert [attrs.astuple(snapshot)[2][0][:5]] == [(0, 4, 1, 1, "M1")]
    assert snapshot.ranges[0].lock_expires_at_ms == p.now_ms + 30_000


@pytest.mark.behaviour("several members")
def test_order_begins_one_further_on_when_the_epoch_grows() -> None:
    """The partitions of a session take turns at the front, from request to request."""
    a, b, c = (PartitionKey(UUID(int=1), partition) for partition in (0, 1, 2))
    assert [rotated([a, b, c], epoch) for epoch in (0, 1, 2, 3)] == [[a, b, c], [b, c, a], [c, a, b], [a, b, c]]
    assert rotated([], 3) == []


@pytest.mark.parametrize("piggybacked", [True, False])
def test_what_a_request_gives_back_is_not_seen_when_it_ended_another_fetch(p: Probe, piggybacked: bool) -> None:
    """The end of the other fetch has those that wait look again, as in Kafka 4.3.1 before the request is stored."""
    t = _topic(p)
    holder, waiting, last = p.connect(), p.connect(), p.connect()
    p.fetch(holder, "g", "M0", 0, [(t, 0, "")], wait=10)
    for _ in range(3):
        p.produce(t, 1)
    p.fetch(holder, "g", "M1", 0, [(t, 0, "")])
    p.send_fetch(waiting, "g", "M2", 0, [(t, 0, "")], wait=400, records=1, mode=1)
    if not piggybacked:
        p.send_fetch(last, "g", "M3", 0, [(t, 0, "")], wait=400, records=1, mode=1)
    p.ack(holder, "g", "M1", 1, [(t, 0, "2~2:2")])
    assert not waiting.replies
    if piggybacked:
        p.send_fetch(holder, "g", "M1", 2, [(t, 0, "1~1:2")], wait=400)
    else:
        p.ack(holder, "g", "M1", 2, [(t, 0, "1~1:2")])
    still_waits = holder if piggybacked else last
    assert "acq=2~2x2" in p.receive(waiting)
    assert not still_waits.replies
    assert "acq=1~1x2" in p.receive(still_waits)


def test_waiting_fetch_looks_again_when_an_acknowledgement_is_refused(p: Probe) -> None:
    t = _topic(p)
    holder, waiting = p.connect(), p.connect()
    p.fetch(holder, "g", "M0", 0, [(t, 0, "")], wait=10)
    p.produce(t, 1)
    p.fetch(holder, "g", "M1", 0, [(t, 0, "")])
    p.send_fetch(waiting, "g", "M2", 0, [(t, 0, "")], wait=400)
    p.ack(holder, "g", "M1", 1, [(t, 0, "0~0:2")])
    assert not waiting.replies
    assert "INVALID_RECORD_STATE" in p.ack(holder, "g", "M1", 2, [(t, 0, "0~0:1")])
    assert waiting.replies
    assert "acq=0~0x2" in p.receive(waiting)
