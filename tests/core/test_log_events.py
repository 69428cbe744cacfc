"""The changes of state that the core has the driver log."""

from __future__ import annotations

from typing import Any

import pytest
from core.scripted_cluster import Harness, fetch_answer, fetch_data, heartbeat_answer, tp

from kafka_share.core.events import Log, Unsubscribed
from kafka_share.core.log_events import LOG_EVENTS
from kafka_share.records import Node


def logged(harness: Harness, name: str) -> list[dict[str, Any]]:
    return [log.fields for log in harness.logs if log.event == name]


def test_joining_is_logged_with_the_epoch_and_the_number_of_partitions() -> None:
    """A member that joins logs the coordinator, its epoch and how many partitions it got."""
    harness = Harness().joined()
    assert logged(harness, "coordinator-found") == [{"node_id": 1}]
    assert logged(harness, "joined") == [{"member_epoch": 1}]
    assert logged(harness, "assignment-changed") == [{"member_epoch": 1, "partitions": 1}]


def test_fencing_is_logged_with_the_broker_s_reason() -> None:
    """A heartbeat that is refused with an unknown member says why, and the member joins again."""
    harness = Harness().joined(timeout_ms=100_000)
    harness.heartbeat = None
    harness.advance(2_000)
    harness.answer(harness.beat(), heartbeat_answer(error=25))
    (fields,) = logged(harness, "fenced")
    assert "UNKNOWN_MEMBER_ID" in str(fields["error"])


def test_a_stale_member_is_logged_when_no_poll_comes() -> None:
    """Leaving because no poll came is a warning that names the setting's value; leaving itself is logged too."""
    harness = Harness(max_poll_interval_ms=5_000).joined(timeout_ms=100)
    harness.advance(7_000)
    assert logged(harness, "stale") == [{"error": "no poll for 5000 ms"}]
    assert logged(harness, "left") == [{}]


def test_leaving_is_logged_when_unsubscribed() -> None:
    """unsubscribe() ends the membership, once."""
    harness = Harness().joined()
    harness.handle(Unsubscribed(1, harness.now_ms + 5_000))
    assert logged(harness, "left") == [{}]


def test_a_refused_member_is_logged_with_the_error() -> None:
    """An error that ends the membership for good is logged, whether or not anybody polls."""
    harness = Harness()
    harness.subscribe()
    harness.start_poll()
    harness.answer(harness.beat(), heartbeat_answer(error=30))
    (fields,) = logged(harness, "refused")
    assert "GROUP_AUTHORIZATION_FAILED" in str(fields["error"])


def test_a_lost_coordinator_is_logged_and_then_the_new_one() -> None:
    """A heartbeat that meets another broker's coordinator logs the loss and the find."""
    harness = Harness({tp(): 1, tp(1): 2}).joined(timeout_ms=100_000)
    harness.heartbeat = None
    harness.coordinator = 2
    harness.advance(2_000)
    harness.answer(harness.beat(), heartbeat_answer(error=16))
    harness.advance(2_000)
    assert logged(harness, "coordinator-lost") == [{"node_id": 1}]
    assert logged(harness, "coordinator-found") == [{"node_id": 1}, {"node_id": 2}]


def test_a_reset_session_is_logged_when_it_had_begun() -> None:
    """A broker that does not know the session any more: one event; a session that never began: none."""
    harness = Harness().joined()
    harness.fail(harness.fetch())
    assert logged(harness, "session-reset") == []
    harness.advance(500)
    harness.answer(harness.fetch(), fetch_answer())
    harness.answer(harness.fetch(), fetch_answer(error=122))
    assert logged(harness, "session-reset") == [{"node_id": 1}]


@pytest.mark.parametrize("hint", [True, False], ids=["with a hint", "by metadata"])
def test_a_new_leader_is_logged(hint: bool) -> None:
    """A partition that moves is logged with the new leader, however the client learns of it."""
    harness = Harness({tp(): 1, tp(1): 2}).joined(tp())
    harness.leaders[tp()] = 2
    harness.leader_epochs[tp()] = 9
    leader = (2, 9) if hint else (-1, -1)
    endpoints = [Node(2, "node2", 9092)] if hint else []
    harness.answer(harness.fetch(1), fetch_answer(fetch_data(tp(), error=6, leader=leader), endpoints=endpoints))
    harness.advance(2_000)
    assert {"topic": "t", "partition": 0, "node_id": 2} in logged(harness, "leader-moved")


def test_every_log_has_the_fields_of_the_table() -> None:
    """`Requests.note` refuses an event with other fields, so that the table of the documentation holds."""
    harness = Harness().joined()
    harness.delivering()
    assert harness.logs
    for log in harness.logs:
        assert isinstance(log, Log)
        assert tuple(log.fields) == LOG_EVENTS[log.event].fields
