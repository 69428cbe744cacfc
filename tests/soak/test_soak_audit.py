"""The account of a soak run: each thing that must not happen is noticed, and what may happen is not."""

from __future__ import annotations

from soak.audit import Audit


def audit_of(*records: tuple[int, int]) -> Audit:
    audit = Audit()
    for partition, offset in records:
        audit.produced(partition, offset)
    return audit


def test_nothing_is_complained_of_when_each_record_is_settled_once() -> None:
    audit = audit_of((0, 0), (0, 1))
    for offset in (0, 1):
        audit.delivered("a", 0, offset, 1)
        audit.acknowledged("a", 0, offset, "ACCEPT", 1, None)
    assert (audit.complaints, audit.lost(), audit.unreported()) == ([], [], 0)
    assert (audit.produced_count, audit.deliveries, audit.settled) == (2, 2, 2)


def test_a_record_is_lost_when_nobody_got_it() -> None:
    audit = audit_of((0, 0), (0, 1), (3, 0))
    audit.delivered("a", 0, 0, 1)
    assert audit.lost() == [(0, 1), (3, 0)]


def test_a_record_that_was_given_back_is_settled_by_its_next_holder() -> None:
    audit = audit_of((0, 0))
    audit.delivered("a", 0, 0, 1)
    audit.acknowledged("a", 0, 0, "RELEASE", 1, None)
    audit.delivered("b", 0, 0, 2)
    audit.acknowledged("b", 0, 0, "REJECT", 2, None)
    assert (audit.complaints, audit.settled) == ([], 1)


def test_a_second_settlement_is_noticed() -> None:
    audit = audit_of((0, 0))
    audit.delivered("a", 0, 0, 1)
    audit.acknowledged("a", 0, 0, "ACCEPT", 1, None)
    audit.acknowledged("b", 0, 0, "ACCEPT", 1, None)
    assert audit.complaints == ["0@0 was settled twice, the second time by b"]


def test_a_delivery_after_the_settlement_is_noticed() -> None:
    audit = audit_of((2, 7))
    audit.delivered("a", 2, 7, 1)
    audit.acknowledged("a", 2, 7, "ACCEPT", 1, None)
    audit.delivered("b", 2, 7, 2)
    assert audit.complaints == ["2@7 came to b with count 2 after it was settled"]


def test_a_settlement_of_an_older_delivery_is_noticed() -> None:
    audit = audit_of((0, 0))
    audit.delivered("a", 0, 0, 1)
    audit.delivered("b", 0, 0, 2)
    audit.acknowledged("a", 0, 0, "ACCEPT", 1, None)
    assert audit.complaints == ["0@0 was settled by a with count 1, but had been delivered with count 2 by then"]


def test_a_late_told_delivery_with_an_older_count_is_no_complaint() -> None:
    """The processes' lines arrive in any order: what came before the settlement may be told after it."""
    audit = audit_of((0, 0))
    audit.delivered("b", 0, 0, 2)
    audit.acknowledged("b", 0, 0, "ACCEPT", 2, None)
    audit.delivered("a", 0, 0, 1)
    assert audit.complaints == []


def test_a_failed_acknowledgement_settles_nothing_and_is_counted() -> None:
    audit = audit_of((0, 0))
    audit.delivered("a", 0, 0, 1)
    audit.acknowledged("a", 0, 0, "ACCEPT", 1, "OutcomeUnknownError")
    assert (audit.settled, audit.failed, audit.unreported()) == (0, {"OutcomeUnknownError": 1}, 1)
