"""CalledSide: mailbox in, records, acknowledgements and errors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from application.called_side import CalledSide

from kafka_share.application.decoding import Decoder
from kafka_share.core.events import (
    AcknowledgementOutcome,
    CompleteCommit,
    CompleteUnsubscribe,
    Deliver,
    EndedAcknowledgements,
    FetchedBatch,
    FetchedPartition,
    FinishClose,
    GatheredAcknowledgements,
    RaiseError,
    ReportOutcomes,
)
from kafka_share.core.fetching.offsets import AcknowledgementRun as Run
from kafka_share.deserializers import as_deserializer
from kafka_share.errors import (
    CorruptRecordError,
    IllegalStateError,
    InvalidArgumentError,
    InvalidRecordStateError,
    RecordDeserializationError,
    UnknownServerError,
)
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import AcknowledgeType, ShareRecords, TopicIdPartition

GAP = 0
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
A0 = TopicIdPartition(UUID(int=1), "a", 0)
A1 = TopicIdPartition(UUID(int=1), "a", 1)
B0 = TopicIdPartition(UUID(int=2), "b", 0)


def side(*, explicit: bool = False, max_poll_records: int = 500, poison: Sequence[bytes] = ()) -> CalledSide:
    """Subscribed to a and b; values listed in `poison` cannot be deserialized, b"interrupt" interrupts once."""
    strikes = [b"interrupt"]

    def deserialize(data: bytes) -> bytes:
        if data in strikes:
            strikes.remove(data)
            raise KeyboardInterrupt
        if data in poison:
            raise ValueError(data)
        return data

    decoder = Decoder(value_deserializer=as_deserializer(deserialize))
    made = CalledSide(explicit=explicit, decoder=decoder, max_poll_records=max_poll_records)
    made.topics = frozenset({"a", "b"})
    return made


def part(where: TopicIdPartition, first: int, *values: bytes, last: int | None = None) -> FetchedPartition:
    """The values as one record batch from `first` on, acquired up to `last`."""
    end = first + len(values) - 1 if last is None else last
    data = encode_batch([(first + i, 0, None, v, []) for i, v in enumerate(values)], base_offset=first)
    return FetchedPartition(where, 1, 7, data, (AcquiredRange(first, end, 1),))


def deliver(application: CalledSide, *parts: FetchedPartition, lock_ms: int = 30_000) -> None:
    application.take_all([Deliver(FetchedBatch(1, parts, 0, lock_ms))])
    application.check()


def collected(application: CalledSide) -> list[tuple[str, int, int]]:
    records = application.collect()
    application.check()
    return [] if records is None else [(r.topic, r.partition, r.offset) for r in records]


def gathered(application: CalledSide) -> dict[TopicIdPartition, tuple[Run, ...]]:
    taken = application.gather()
    application.check()
    found: dict[TopicIdPartition, tuple[Run, ...]] = {}
    for said in taken:
        found[said.partition] = tuple(sorted(found.get(said.partition, ()) + said.runs))
    return found


def settle(application: CalledSide, *runs: Run, where: TopicIdPartition = A0, error: Any = None) -> None:
    number = next((one.number for one in reversed(application.taken) if one.partition == where), 1)
    outcome = AcknowledgementOutcome(
        where, (EndedAcknowledgements(number, runs),), error, 5_000 if error is None else None
    )
    application.take_all([ReportOutcomes((outcome,))])
    application.check()


# ---- records


def test_nothing_is_ready_when_nothing_has_come() -> None:
    application = side()
    assert not application.has_ready
    assert application.collect() is None
    assert application.gather() == ()
    assert application.acquisition_lock_timeout_ms is None


def test_all_partitions_of_an_answer_come_in_one_poll_when_it_is_collected() -> None:
    application = side()
    deliver(application, part(A0, 5, b"x", b"y"), part(B0, 0, b"z"), lock_ms=1_234)
    assert application.has_ready
    assert collected(application) == [("a", 0, 5), ("a", 0, 6), ("b", 0, 0)]
    assert application.acquisition_lock_timeout_ms == 1_234
    assert not application.has_ready
    assert application.deliveries.unacknowledged


@pytest.mark.behaviour("several members")
def test_answers_of_two_brokers_are_joined_when_both_fit_into_one_poll() -> None:
    """What several brokers sent is returned by one poll if it fits."""
    application = side(max_poll_records=3)
    deliver(application, part(A0, 0, b"x", b"y"))
    deliver(application, part(A1, 0, b"z"))
    assert len(collected(application)) == 3


def test_the_second_answer_waits_when_both_are_more_than_a_poll_may_return() -> None:
    application = side(max_poll_records=3)
    deliver(application, part(A0, 0, b"x", b"y"))
    deliver(application, part(A1, 0, b"z", b"z"))
    assert collected(application) == [("a", 0, 0), ("a", 0, 1)]
    assert application.has_ready
    assert collected(application) == [("a", 1, 0), ("a", 1, 1)]


def test_an_answer_is_returned_whole_when_it_alone_exceeds_the_limit() -> None:
    application = side(max_poll_records=1)
    deliver(application, part(A0, 0, b"x", b"y"))
    assert len(collected(application)) == 2


def test_gaps_are_gathered_without_a_word_when_an_answer_has_nothing_else() -> None:
    application = side(explicit=True)
    deliver(application, FetchedPartition(A0, 1, 7, b"", (AcquiredRange(3, 6, 1),)))
    assert collected(application) == []
    assert not application.deliveries.unacknowledged
    application.demand_all_acknowledged()
    assert gathered(application) == {A0: (Run(3, 6, GAP),)}


# ---- acknowledging


def test_what_was_delivered_is_accepted_when_the_mode_is_implicit() -> None:
    application = side()
    deliver(application, part(A0, 0, b"x", b"y", last=3), part(B0, 9, b"z"))
    collected(application)
    application.demand_all_acknowledged()
    application.accept_delivered()
    assert application.gather() == (
        GatheredAcknowledgements(A0, 1, 7, (Run(0, 1, ACCEPT), Run(2, 3, GAP)), number=1),
        GatheredAcknowledgements(B0, 1, 7, (Run(9, 9, ACCEPT),), number=2),
    )
    assert application.awaits_outcomes
    assert not application.deliveries.unacknowledged
    application.accept_delivered()
    assert application.gather() == (), "each acknowledgement is handed over once"


def test_acknowledge_is_refused_when_the_mode_is_implicit() -> None:
    application = side()
    deliver(application, part(A0, 0, b"x"))
    collected(application)
    for attempt in (application.acknowledge, application.override):
        with pytest.raises(IllegalStateError, match="implicitly"):
            attempt("a", 0, 0, ACCEPT)


def test_the_next_poll_is_refused_when_a_record_has_no_word_in_explicit_mode() -> None:
    application = side(explicit=True)
    deliver(application, part(A0, 0, b"x", b"y"))
    collected(application)
    application.accept_delivered()
    application.acknowledge("a", 0, 1, REJECT)
    for _ in range(2):
        with pytest.raises(IllegalStateError, match=r"1 record of the last poll has not been acknowledged: a-0@0; "):
            application.demand_all_acknowledged()
    assert gathered(application) == {A0: (Run(1, 1, REJECT),)}
    with pytest.raises(IllegalStateError, match=r"1 record of the last poll has not been acknowledged: a-0@0; "):
        application.demand_all_acknowledged()
    application.acknowledge("a", 0, 0, ACCEPT)
    application.demand_all_acknowledged()


@pytest.mark.parametrize(("topic", "partition", "offset"), [("b", 0, 0), ("a", 1, 0), ("a", 0, 1), ("a", 0, 2)])
def test_acknowledge_is_refused_when_the_record_is_not_in_flight(topic: str, partition: int, offset: int) -> None:
    application = side(explicit=True)
    deliver(application, part(A0, 0, b"x", b"y"))
    collected(application)
    application.acknowledge("a", 0, 1, ACCEPT)
    application.gather()
    with pytest.raises(IllegalStateError, match="not in flight"):
        application.acknowledge(topic, partition, offset, ACCEPT)


# ---- problems


@pytest.mark.behaviour("fetching")
def test_all_good_records_come_before_the_error_when_one_cannot_be_deserialized() -> None:
    """The good records come first, those behind a bad one too; its error comes when nothing else is at hand."""
    application = side(explicit=True, poison=[b"bad"])
    deliver(application, part(A0, 0, b"x", b"bad", b"y", last=3))
    assert collected(application) == [("a", 0, 0), ("a", 0, 2)]
    for offset in (0, 2):
        application.acknowledge("a", 0, offset, ACCEPT)
    application.demand_all_acknowledged()
    assert application.has_ready, "nothing is fetched before the error has been raised"
    assert gathered(application) == {A0: (Run(0, 0, ACCEPT), Run(2, 2, ACCEPT), Run(3, 3, GAP))}, "1 is not raised yet"
    with pytest.raises(RecordDeserializationError) as caught:
        application.collect()
    assert caught.value.offset == 1
    application.demand_all_acknowledged()
    application.override("a", 0, 1, REJECT)
    assert gathered(application) == {A0: (Run(1, 1, REJECT),)}
    assert not application.has_ready


def test_a_failed_record_is_released_when_nobody_overrides_it() -> None:
    application = side(poison=[b"bad"])
    deliver(application, part(A0, 0, b"bad"))
    with pytest.raises(RecordDeserializationError):
        application.collect()
    application.accept_delivered()
    assert gathered(application) == {A0: (Run(0, 0, RELEASE),)}


def test_each_problem_is_raised_once_when_polls_go_on() -> None:
    application = side(poison=[b"bad"])
    deliver(application, part(A0, 0, b"bad", b"bad"), part(A1, 0, b"x", b"bad"))
    assert collected(application) == [("a", 1, 0)]
    application.accept_delivered()
    for where, offset in ((A0, 0), (A0, 1), (A1, 1)):
        with pytest.raises(RecordDeserializationError) as caught:
            application.collect()
        assert (caught.value.partition, caught.value.offset) == (where.partition, offset)
    assert collected(application) == []
    assert gathered(application) == {A0: (Run(0, 1, RELEASE),), A1: (Run(0, 0, ACCEPT), Run(1, 1, RELEASE))}


@pytest.mark.behaviour("bad records")
def test_override_is_refused_when_the_offset_did_not_fail_or_was_committed() -> None:
    """Only an offset that failed, and is not committed yet, can be acknowledged by its place."""
    application = side(explicit=True, poison=[b"bad"])
    deliver(application, part(A0, 0, b"x", b"bad"))
    collected(application)
    application.acknowledge("a", 0, 0, ACCEPT)
    application.gather()
    with pytest.raises(RecordDeserializationError):
        application.collect()
    for where in (("b", 0, 1), ("a", 1, 1), ("a", 0, 0), ("a", 0, 2)):
        with pytest.raises(IllegalStateError, match="could not be delivered"):
            application.override(*where, REJECT)
    with pytest.raises(InvalidArgumentError, match="cannot be renewed"):
        application.override("a", 0, 1, RENEW)
    with pytest.raises(IllegalStateError, match="not in flight"):
        application.acknowledge("a", 0, 1, ACCEPT)
    application.override("a", 0, 1, REJECT)
    application.gather()
    with pytest.raises(IllegalStateError, match="could not be delivered"):
        application.override("a", 0, 1, REJECT)


def test_the_offsets_of_a_damaged_batch_can_be_overridden_when_it_was_raised() -> None:
    good = part(A0, 0, b"x", b"y")
    application = side(explicit=True)
    deliver(application, FetchedPartition(A0, 1, 7, bytes(good.records[:-1]) + b"?", good.acquired))
    with pytest.raises(CorruptRecordError):
        application.collect()
    application.override("a", 0, 1, RELEASE)
    assert gathered(application) == {A0: (Run(0, 0, REJECT), Run(1, 1, RELEASE))}


# ---- leaving a topic


def test_records_are_given_back_unseen_when_their_topic_has_been_left() -> None:
    application = side(explicit=True)
    deliver(application, part(A0, 0, b"x", b"y"), part(B0, 0, b"z"))
    application.topics = frozenset({"b"})
    assert collected(application) == [("b", 0, 0)]
    application.acknowledge("b", 0, 0, ACCEPT)
    assert gathered(application) == {A0: (Run(0, 1, RELEASE),), B0: (Run(0, 0, ACCEPT),)}


def test_a_problem_is_given_back_unraised_when_its_topic_has_been_left() -> None:
    application = side(poison=[b"bad"])
    deliver(application, part(A0, 0, b"x", b"bad", b"y"), part(B0, 0, b"z"))
    assert collected(application) == [("a", 0, 0), ("a", 0, 2), ("b", 0, 0)]
    application.topics = frozenset({"b"})
    application.accept_delivered()
    assert gathered(application) == {A0: (Run(0, 0, ACCEPT), Run(2, 2, ACCEPT)), B0: (Run(0, 0, ACCEPT),)}
    assert collected(application) == []
    assert gathered(application) == {A0: (Run(1, 1, RELEASE),)}


# ---- interrupts


def test_the_next_poll_returns_everything_when_an_interrupt_struck_while_decoding() -> None:
    application = side()
    deliver(application, part(A0, 0, b"x", b"y"), part(B0, 0, b"z", b"interrupt"))
    with pytest.raises(KeyboardInterrupt):
        application.collect()
    application.check()
    assert not application.deliveries.unacknowledged
    application.accept_delivered()
    assert gathered(application) == {}, "what the application never saw is not accepted"
    assert application.has_ready
    assert collected(application) == [("a", 0, 0), ("a", 0, 1), ("b", 0, 0), ("b", 0, 1)]


def test_the_next_poll_returns_the_records_when_the_poll_could_not() -> None:
    application = side(explicit=True)
    deliver(application, part(A0, 0, b"x", b"y", last=2))
    records = application.collect()
    assert isinstance(records, ShareRecords)
    application.put_back(records)
    application.check()
    application.demand_all_acknowledged()
    with pytest.raises(IllegalStateError, match="not in flight"):
        application.acknowledge("a", 0, 0, ACCEPT)
    assert gathered(application) == {A0: (Run(2, 2, GAP),)}
    assert collected(application) == [("a", 0, 0), ("a", 0, 1)]
    application.acknowledge("a", 0, 0, ACCEPT)


# ---- renewing


def renewing_one() -> CalledSide:
    """Offset 0 accepted and offset 1 renewed, both under way."""
    application = side(explicit=True)
    deliver(application, part(A0, 0, b"x", b"y"))
    collected(application)
    application.acknowledge("a", 0, 0, ACCEPT)
    application.acknowledge("a", 0, 1, RENEW)
    assert gathered(application) == {A0: (Run(0, 0, ACCEPT), Run(1, 1, RENEW))}
    assert application.deliveries.renewing
    return application


def test_nothing_is_collected_when_a_renewal_is_under_way() -> None:
    application = renewing_one()
    deliver(application, part(A0, 2, b"z"))
    assert not application.has_ready
    assert collected(application) == []
    with pytest.raises(IllegalStateError, match="not in flight"):
        application.acknowledge("a", 0, 1, ACCEPT)
    application.demand_all_acknowledged()


def test_the_renewed_record_comes_first_when_the_renewal_has_succeeded() -> None:
    application = renewing_one()
    deliver(application, part(A0, 2, b"z"))
    settle(application, Run(0, 0, ACCEPT), Run(1, 1, RENEW))
    assert application.acquisition_lock_timeout_ms == 5_000
    assert not application.deliveries.renewing
    assert collected(application) == [("a", 0, 1), ("a", 0, 2)]
    application.acknowledge("a", 0, 1, ACCEPT)
    assert gathered(application) == {A0: (Run(1, 1, ACCEPT),)}


def test_the_record_is_gone_when_its_renewal_failed() -> None:
    application = renewing_one()
    settle(application, Run(0, 0, ACCEPT), Run(1, 1, RENEW), error=InvalidRecordStateError())
    assert not application.deliveries.renewing
    assert collected(application) == []
    application.demand_all_acknowledged()
    outcome = application.next_outcome()
    assert outcome is not None
    assert isinstance(outcome.error, InvalidRecordStateError)


def test_polls_go_on_when_a_renewal_left_together_with_a_word_that_came_too_late() -> None:
    """Late words leave apart from the others: a renewal has ended when the part that it is in has its outcome."""
    application = side(explicit=True)
    deliver(application, part(A0, 0, b"x", b"y"))
    records = application.collect()
    assert records is not None
    lock = next(iter(records)).lock
    assert lock is not None
    lock.lose(0, 0)
    application.acknowledge("a", 0, 0, ACCEPT)
    application.acknowledge("a", 0, 1, RENEW)
    late, on_time = application.gather()
    for said, error in ((late, InvalidRecordStateError()), (on_time, None)):
        ended = (EndedAcknowledgements(said.number, said.runs),)
        application.take_all([ReportOutcomes((AcknowledgementOutcome(A0, ended, error, None),))])
    assert (late.runs, on_time.runs) == ((Run(0, 0, ACCEPT),), (Run(1, 1, RENEW),))
    assert not application.deliveries.renewing
    assert collected(application) == [("a", 0, 1)]


def test_the_rest_is_waited_for_when_half_of_the_renewals_have_ended() -> None:
    application = side(explicit=True)
    deliver(application, part(A0, 0, b"x", b"y"))
    collected(application)
    for offset in (0, 1):
        application.acknowledge("a", 0, offset, RENEW)
    application.gather()
    settle(application, Run(0, 0, RENEW))
    assert application.deliveries.renewing
    assert collected(application) == []
    settle(application, Run(1, 1, RENEW))
    assert collected(application) == [("a", 0, 0), ("a", 0, 1)]


# ---- the rest of the mailbox


def test_outcomes_are_reported_once_and_settle_what_was_gathered() -> None:
    application = side()
    deliver(application, part(A0, 0, b"x"))
    collected(application)
    application.accept_delivered()
    application.gather()
    assert application.awaits_outcomes
    settle(application, Run(0, 0, ACCEPT))
    assert not application.awaits_outcomes
    assert len(application.reports.peek_outcomes()) == 1
    outcome = application.next_outcome()
    assert outcome is not None
    assert outcome.partition == A0
    assert application.next_outcome() is None


def test_outcomes_are_gone_when_nobody_wants_them() -> None:
    application = renewing_one()
    settle(application, Run(0, 0, ACCEPT))
    application.reports.drop_outcomes()
    assert application.next_outcome() is None
    assert application.reports.peek_outcomes() == ()


def test_more_outcomes_than_acknowledgements_are_noticed() -> None:
    with pytest.raises(AssertionError, match="no more outcomes"):
        settle(side(), Run(0, 0, ACCEPT))


def test_errors_are_raised_in_order_and_once_when_the_background_side_met_some() -> None:
    application = side()
    first, second = UnknownServerError("1"), UnknownServerError("2")
    application.take_all([RaiseError(first, fatal=False), RaiseError(second, fatal=True)])
    assert [application.reports.pop_error() for _ in range(3)] == [first, second, None]


def test_completions_are_told_apart_by_their_request() -> None:
    application = side()
    application.take_all([CompleteCommit(1, timed_out=True)])
    assert application.reports.completion_of(2) is None
    assert application.reports.completion_of(1) is True
    application.take_all([CompleteUnsubscribe(2)])
    assert application.reports.completion_of(2) is False


def test_a_completion_that_comes_when_its_call_has_given_up_is_not_kept() -> None:
    application = side()
    application.take_all([CompleteUnsubscribe(2), CompleteCommit(1, timed_out=True)])
    assert application.reports.completion_of(1) is None
    assert application.reports.completion_of(2) is False


def test_the_end_is_known_when_the_core_has_finished() -> None:
    application = side()
    assert not application.closed
    application.take_all([FinishClose()])
    assert application.closed
