"""The demo's ledger: each published file settled exactly once, or a problem that says which was not."""

from __future__ import annotations

import pytest

from kafka_share.cli.demo.definitions import Definitions
from kafka_share.cli.demo.ledger import (
    Acknowledged,
    DamageFound,
    Delivered,
    Dropped,
    Ledger,
    OutcomeKnown,
    Settlement,
    WorkerFailed,
    WorkerStopped,
)
from kafka_share.records import AcknowledgeType

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
LIMIT = 3


def ledger_of(*names: str) -> Ledger:
    ledger = Ledger(workers=2, delivery_count_limit=LIMIT)
    for offset, name in enumerate(names):
        ledger.publish(name, 0, offset)
    return ledger


def go(
    ledger: Ledger,
    kind: AcknowledgeType,
    *,
    offset: int = 0,
    worker: int = 0,
    count: int = 1,
    error: str | None = None,
    definitions: Definitions | None = None,
    reason: str = "",
) -> None:
    """One delivery from its start to the outcome of its acknowledgement."""
    ledger.handle(Delivered(worker, 0, offset, count))
    ledger.handle(Acknowledged(worker, 0, offset, kind, definitions or Definitions(), reason))
    ledger.handle(OutcomeKnown(worker, 0, offset, error))


def test_a_file_is_settled_when_the_broker_confirms_accept() -> None:
    ledger = ledger_of("a.py")
    ledger.handle(Delivered(0, 0, 0, 1))
    ledger.handle(Acknowledged(0, 0, 0, ACCEPT, Definitions(functions=2)))
    assert not ledger.is_complete
    assert ledger.definitions == Definitions()
    ledger.handle(OutcomeKnown(0, 0, 0, None))
    assert ledger.is_complete
    assert ledger.definitions == Definitions(functions=2)
    assert ledger.settlements()[Settlement.ACCEPTED] == 1
    assert ledger.problems() == []


def test_a_file_is_settled_with_its_reason_when_the_broker_confirms_reject() -> None:
    ledger = ledger_of("bad.py")
    go(ledger, REJECT, reason="SyntaxError")
    assert ledger.is_complete
    assert ledger.settlements()[Settlement.REJECTED] == 1
    assert ledger.reject_reasons == {"SyntaxError": 1}
    assert ledger.rejected_files == ["bad.py"]
    assert ledger.problems() == []


def test_a_release_settles_nothing_when_deliveries_are_left() -> None:
    ledger = ledger_of("a.py")
    go(ledger, RELEASE, count=LIMIT - 1)
    assert not ledger.is_complete
    assert ledger.problems() == ["a.py: never settled (deliveries: 1)"]


def test_a_release_settles_as_archived_when_it_was_the_last_delivery() -> None:
    ledger = ledger_of("a.py")
    for count in range(1, LIMIT + 1):
        go(ledger, RELEASE, count=count)
    assert ledger.is_complete
    assert ledger.settlements()[Settlement.ARCHIVED] == 1
    assert ledger.delivery_counts() == {LIMIT: 1}
    assert ledger.problems() == []


def test_a_failed_acknowledgement_settles_nothing() -> None:
    ledger = ledger_of("a.py")
    go(ledger, ACCEPT, error="InvalidRecordStateError: too late", definitions=Definitions(classes=1))
    assert not ledger.is_complete
    assert ledger.workers[0].failed == 1
    assert ledger.workers[0].accepted == 0
    assert ledger.definitions == Definitions()


def test_a_file_counts_once_when_its_second_delivery_settles_it() -> None:
    ledger = ledger_of("a.py")
    go(ledger, ACCEPT, error="InvalidRecordStateError: too late", definitions=Definitions(classes=1))
    go(ledger, ACCEPT, worker=1, count=2, definitions=Definitions(classes=1))
    assert ledger.is_complete
    assert ledger.definitions == Definitions(classes=1)
    assert ledger.delivery_counts() == {2: 1}
    assert ledger.workers[1].redelivered == 1
    assert ledger.problems() == []


def test_a_problem_is_found_when_a_file_is_settled_twice() -> None:
    ledger = ledger_of("a.py", "b.py")
    ledger.handle(Delivered(0, 0, 0, 1))
    ledger.handle(Delivered(1, 0, 0, 1))
    for worker in (0, 1):
        ledger.handle(Acknowledged(worker, 0, 0, ACCEPT))
        ledger.handle(OutcomeKnown(worker, 0, 0, None))
    assert ledger.settled == 1
    assert not ledger.is_complete
    go(ledger, ACCEPT, offset=1)
    assert ledger.problems() == ["a.py: settled 2 times (accepted at delivery 1, accepted at delivery 1)"]


def test_a_problem_is_found_when_a_file_is_delivered_after_it_was_settled() -> None:
    ledger = ledger_of("a.py")
    go(ledger, REJECT)
    ledger.handle(Delivered(1, 0, 0, 2))
    assert ledger.problems() == ["a.py: delivered again after it had been settled"]


def test_no_problem_is_found_when_an_earlier_delivery_is_reported_after_the_settlement() -> None:
    """The release of worker 0 and the accept of worker 1 come through different threads, in any order."""
    ledger = ledger_of("a.py")
    ledger.handle(Delivered(0, 0, 0, 1))
    ledger.handle(Acknowledged(0, 0, 0, RELEASE))
    go(ledger, ACCEPT, worker=1, count=2)
    ledger.handle(OutcomeKnown(0, 0, 0, None))
    assert ledger.is_complete
    assert ledger.problems() == []


def test_dropped_records_are_open_when_deliveries_are_left() -> None:
    ledger = ledger_of("a.py")
    ledger.handle(Delivered(0, 0, 0, 1))
    ledger.handle(WorkerStopped(0))
    ledger.handle(Dropped(0, 0, 0))
    assert ledger.workers[0].stopped
    assert ledger.workers[0].dropped == 1
    assert not ledger.is_complete
    go(ledger, ACCEPT, worker=1, count=2)
    assert ledger.is_complete
    assert ledger.problems() == []


def test_a_dropped_record_is_archived_when_it_was_the_last_delivery() -> None:
    ledger = ledger_of("a.py")
    ledger.handle(Delivered(0, 0, 0, LIMIT))
    ledger.handle(Dropped(0, 0, 0))
    assert ledger.is_complete
    assert ledger.settlements()[Settlement.ARCHIVED] == 1
    assert ledger.delivery_counts() == {LIMIT: 1}
    assert ledger.problems() == []


def test_an_old_broker_may_deliver_again_when_the_last_delivery_was_dropped() -> None:
    ledger = ledger_of("a.py")
    ledger.handle(Delivered(0, 0, 0, LIMIT))
    ledger.handle(Dropped(0, 0, 0))
    go(ledger, ACCEPT, worker=1, count=LIMIT)
    assert ledger.settled == 1
    assert ledger.settlements() == {Settlement.ACCEPTED: 1, Settlement.ARCHIVED: 0}
    assert ledger.problems() == []


def test_a_problem_is_found_when_a_record_was_not_published_by_the_run() -> None:
    ledger = ledger_of("a.py")
    go(ledger, ACCEPT)
    ledger.handle(Delivered(0, 1, 7, 1))
    assert ledger.problems() == ["partition 1, offset 7: not published by this run"]


def test_offsets_without_a_record_are_passed_over_when_an_outcome_covers_them() -> None:
    ledger = ledger_of("a.py")
    go(ledger, ACCEPT)
    ledger.handle(OutcomeKnown(0, 0, 1, None))
    assert ledger.problems() == []


def test_a_problem_is_found_when_an_outcome_comes_twice() -> None:
    ledger = ledger_of("a.py")
    go(ledger, ACCEPT)
    ledger.handle(OutcomeKnown(0, 0, 0, None))
    assert ledger.problems() == ["a.py: worker 1 got an outcome without an acknowledgement"]


def test_a_problem_is_found_when_bytes_changed_or_a_worker_failed_or_time_ran_out() -> None:
    ledger = ledger_of("a.py")
    go(ledger, ACCEPT)
    ledger.handle(DamageFound(0, 0, 0))
    ledger.handle(WorkerFailed(1, "OSError: no"))
    ledger.note("the time ran out")
    assert ledger.problems() == [
        "a.py: its bytes changed on the way",
        "worker 2 failed: OSError: no",
        "the time ran out",
    ]


def test_publishing_is_refused_when_two_files_would_share_an_offset() -> None:
    ledger = ledger_of("a.py")
    with pytest.raises(AssertionError, match="two files"):
        ledger.publish("b.py", 0, 0)
