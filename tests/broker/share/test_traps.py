"""What has broken brokers of share groups: races of locks, full windows, holes in stored state, restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from broker.share.probe import Connection, Probe

LOCK_MS = 1_000
REFUSED = "e=121:INVALID_RECORD_STATE"


@pytest.fixture
def p() -> Probe:
    return Probe()


def _topic(p: Probe, partitions: int = 1, **config: Any) -> Any:
    topic_id = p.topic("t", partitions)
    for index in range(partitions):
        p.initialize("g", topic_id, index)
    p.configure("g", **config)
    return topic_id


@pytest.mark.behaviour("broker")
@pytest.mark.parametrize("after_ms", [LOCK_MS - 1, LOCK_MS, LOCK_MS + 1])
@pytest.mark.parametrize("kind", [1, 3, 4])
def test_exactly_one_wins_when_a_lock_ends_while_its_record_is_acknowledged(p: Probe, kind: int, after_ms: int) -> None:
    """When a lock ends as its record is acknowledged, either the acknowledgement counts or the record is free."""
    t = _topic(p, record_lock_duration_ms=LOCK_MS)
    p.produce(t, 1)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.now_ms += after_ms  # nobody has woken the node: both are due in the same call
    refused = REFUSED in p.ack(c, "g", "M1", 1, [(t, 0, f"0~0:{kind}")], renew=kind == 4)
    assert refused == ("acq=0~0x2" in p.fetch(p.connect(), "g", "M2", 0, [(t, 0, "")], wait=0))
    assert refused == (after_ms >= LOCK_MS)


@pytest.mark.behaviour("broker")
def test_the_next_holder_keeps_the_record_when_the_lock_of_the_one_before_would_have_ended(p: Probe) -> None:
    """The lock of a record that was released early does not end the lock of the member that acquired it next."""
    t = _topic(p, record_lock_duration_ms=LOCK_MS)
    p.produce(t, 1)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.sleep(600)
    p.ack(c, "g", "M1", 1, [(t, 0, "0~0:2")])
    assert "acq=0~0x2" in p.fetch(c, "g", "M2", 0, [(t, 0, "")])
    p.sleep(LOCK_MS - 1)
    assert p.ack(c, "g", "M2", 1, [(t, 0, "0~0:1")]).endswith("[t-0 e=0]")
    p.sleep(LOCK_MS)
    assert "acq=" not in p.fetch(c, "g", "M1", 2, wait=0)


@pytest.mark.behaviour("broker")
def test_only_what_was_released_is_acquired_when_all_locks_are_taken(p: Probe) -> None:
    """With all locks taken only released records can be acquired again, and nothing behind the others."""
    t = _topic(p, max_record_locks=100)
    for _ in range(3):
        p.produce(t, 60)
    c = p.connect()
    assert "acq=0~119x1 " in p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.ack(c, "g", "M1", 1, [(t, 0, "50~69:2")])
    assert "acq=50~69x2 " in p.fetch(c, "g", "M2", 0, [(t, 0, "")])
    assert "acq=" not in p.fetch(c, "g", "M2", 1, wait=0)


@pytest.mark.behaviour("broker")
def test_each_offset_is_acquired_once_when_stored_state_with_holes_is_loaded(p: Probe) -> None:
    """State with holes is loaded: what was never acknowledged comes again, each offset once and released singly."""
    t = _topic(p)
    for _ in range(4):
        p.produce(t, 5)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.ack(c, "g", "M1", 1, [(t, 0, "5~9:3;15~15:2")])
    p.restart()
    assert "acq=0~4x1,10~14x1,15~15x2,16~19x1 " in p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.ack(c, "g", "M1", 1, [(t, 0, "3~3:2;12~12:2;15~15:2")])
    assert "acq=3~3x2,12~12x2,15~15x3 " in p.fetch(c, "g", "M1", 2)


@pytest.mark.behaviour("broker")
def test_a_waiting_fetch_sleeps_until_its_time_is_over_when_nothing_comes(p: Probe) -> None:
    """A fetch that waits for records sets one alarm, for the end of its wait, and is not tried again before."""
    t = _topic(p)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")], wait=0)
    since_ms = p.now_ms
    p.send_fetch(c, "g", "M1", 1, wait=5_000)
    for after_ms in (0, 1_000, 4_999):
        p.now_ms = since_ms + after_ms
        p.step()
        assert p.node.wake_at_ms() == since_ms + 5_000
    assert p.receive(c, since_ms=since_ms) == "e=0 lock=30000 [] took~5000ms"


ENDS: dict[str, Callable[[Probe, Connection], object]] = {
    "by acknowledge": lambda p, c: p.ack(c, "g", "M1", -1),
    "by fetch": lambda p, c: p.fetch(c, "g", "M1", -1),
    "by disconnect": lambda p, c: c.close(),
}


@pytest.mark.behaviour("broker")
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_only_a_members_own_records_come_back_when_its_session_ends(
    p: Probe, end: Callable[[Probe, Connection], object]
) -> None:
    """The end of a session releases that member's records of its partitions, not others', and counts the delivery."""
    t = _topic(p, partitions=2)
    c, other = p.connect(), p.connect()
    p.produce(t, 5, 0)
    p.produce(t, 5, 1)
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    assert "[t-1 e=0 ae=0 acq=0~4x1 " in p.fetch(c, "g", "M1", 1, [(t, 1, "")])
    p.fetch(c, "g", "M1", 2, forget=[(t, [1])], wait=0)
    p.produce(t, 5, 0)
    assert "acq=5~9x1" in p.fetch(other, "g", "M2", 0, [(t, 0, "")])
    end(p, c)
    p.sleep(200)
    found = p.fetch(other, "g", "M3", 0, [(t, 0, ""), (t, 1, "")], wait=0)
    assert "[t-0 e=0 ae=0 acq=0~4x2 " in found
    assert "[t-1 e=0 ae=0 acq= " in found
    assert p.ack(other, "g", "M2", 1, [(t, 0, "5~9:1")]).endswith("[t-0 e=0]")


@pytest.mark.behaviour("broker")
def test_the_lag_counts_from_the_new_start_when_offsets_were_altered(p: Probe) -> None:
    """Records accepted in the middle leave the lag; after offsets were altered it counts from the new start alone."""
    t = _topic(p)
    p.produce(t, 10)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.ack(c, "g", "M1", 1, [(t, 0, "3~6:1")])
    assert p.offsets("g", t) == "0 t/t[0 so=0 le=0 lag=6 e=0]"
    c.close()
    p.initialize("g", t, start=4, epoch=2)
    assert p.offsets("g", t) == "0 t/t[0 so=4 le=0 lag=6 e=0]"
    assert "acq=4~9x1 " in p.fetch(p.connect(), "g", "M2", 0, [(t, 0, "")])


@pytest.mark.behaviour("broker")
def test_only_what_was_written_is_remembered_when_the_broker_restarts(p: Probe) -> None:
    """A broker that crashes forgets deliveries that nothing was written about; acknowledged ones stay as they were."""
    t = _topic(p)
    for _ in range(3):
        p.produce(t, 1)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    p.ack(c, "g", "M1", 1, [(t, 0, "0~0:1;1~1:2")])
    assert "acq=1~1x2 " in p.fetch(c, "g", "M1", 2)
    p.restart()
    assert "acq=1~1x2,2~2x1 " in p.fetch(c, "g", "M1", 0, [(t, 0, "")])


@pytest.mark.behaviour("broker")
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_deliveries_count_when_the_session_ended_before_the_broker_restarts(
    p: Probe, end: Callable[[Probe, Connection], object]
) -> None:
    """The end of a session stores how often its acquired records were delivered, and a restart keeps that."""
    t = _topic(p)
    p.produce(t, 3)
    c = p.connect()
    p.fetch(c, "g", "M1", 0, [(t, 0, "")])
    end(p, c)
    p.sleep(200)
    p.restart()
    assert "acq=0~2x2 " in p.fetch(p.connect(), "g", "M2", 0, [(t, 0, "")])
