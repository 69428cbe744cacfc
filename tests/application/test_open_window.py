"""The application's side of an open window: room, acknowledgements from any thread, callbacks of futures, locks."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

import pytest
from application.called_side import CalledSide

from kafka_share.application.decoding import Decoder
from kafka_share.core.events import (
    AcknowledgementOutcome,
    AcknowledgementsGathered,
    Deliver,
    EndedAcknowledgements,
    FetchedBatch,
    FetchedPartition,
    GatheredAcknowledgements,
    ReportOutcomes,
)
from kafka_share.core.fetching.offsets import AcknowledgementRun as Run
from kafka_share.deserializers import as_deserializer
from kafka_share.errors import (
    ConsumerClosedError,
    IllegalStateError,
    InvalidRecordStateError,
    KafkaShareError,
    OutcomeUnknownError,
    RecordDeserializationError,
    UnknownServerError,
)
from kafka_share.locks import LockGeneration
from kafka_share.native import places
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import AcknowledgeType, ShareRecord, TimestampType, TopicIdPartition

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
A0 = TopicIdPartition(UUID(int=1), "a", 0)
LOCK_MS = 30_000
Record = ShareRecord[Any, Any]


def not_bad(data: bytes) -> bytes:
    if data == b"bad":
        raise ValueError(data)
    return data


class Side:
    """An application side with a window, a clock that the test sets, and the records that were collected."""

    def __init__(self, window: int, max_poll_records: int = 500, *, protects_locks: bool = False) -> None:
        self.now_ms = 1_000
        self.application = CalledSide(
            explicit=True,
            decoder=Decoder(value_deserializer=as_deserializer(not_bad)),
            max_poll_records=max_poll_records,
            now_ms=lambda: self.now_ms,
            window_records=window,
            protects_locks=protects_locks,
            guard=threading.RLock(),
        )
        self.application.topics = frozenset({"a"})
        self.told: list[tuple[int, KafkaShareError | None]] = []
        self.taken: list[GatheredAcknowledgements] = []
        self.ended: list[tuple[int, Run]] = []
        self.locks = LockGeneration()

    def deliver(self, first: int, *batch_sizes: int, value: bytes = b"x") -> None:
        """One answer with record batches of these sizes, from `first` on."""
        data, at = b"", first
        for size in batch_sizes:
            data += encode_batch([(at + i, 0, None, value, []) for i in range(size)], base_offset=at)
            at += size
        fetched = FetchedPartition(A0, 1, 7, data, (AcquiredRange(first, at - 1, 1),), self.locks)
        self.application.take_all([Deliver(FetchedBatch(1, (fetched,), self.now_ms, LOCK_MS))])

    def collect(self) -> list[Record]:
        records = self.application.collect()
        self.application.check()
        return [] if records is None else list(records)

    def say(self, record: Record, kind: AcknowledgeType = ACCEPT) -> tuple[bool, bool]:
        def tell(error: KafkaShareError | None) -> None:
            self.told.append((record.offset, error))

        announced: list[bool] = []
        self.application.deliveries.announce = lambda: announced.append(True)
        makes_room = self.application.deliveries.acknowledge_delivery(record, kind, tell)
        self.application.check()
        return bool(announced), makes_room

    def gathered(self) -> list[tuple[Run, ...]]:
        taken = self.application.gather()
        self.taken += taken
        self.application.check()
        return [said.runs for said in taken]

    def handed_over(self) -> list[tuple[Run, ...]]:
        """What the background thread gets when it asks."""
        posted: list[AcknowledgementsGathered] = []
        self.application.post_acknowledgements(posted.append)
        self.application.check()
        self.taken += [said for event in posted for said in event.acknowledgements]
        return [said.runs for event in posted for said in event.acknowledgements]

    def settle(self, *runs: Run, error: KafkaShareError | None = None, sent_at_ms: int | None = None) -> None:
        lock_ms = None if sent_at_ms is None else LOCK_MS
        ended = tuple(EndedAcknowledgements(*self._number_of(run)) for run in runs)
        outputs = [ReportOutcomes((AcknowledgementOutcome(A0, ended, error, lock_ms, sent_at_ms),))]
        self.application.tell_outcomes(outputs)
        self.application.take_all(outputs)
        self.application.check()

    def _number_of(self, run: Run) -> tuple[int, tuple[Run, ...]]:
        """The oldest acknowledgements that have this run and no outcome of it."""
        gathered = next(one for one in self.taken if run in one.runs and (one.number, run) not in self.ended)
        self.ended.append((gathered.number, run))
        return gathered.number, (run,)


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


# ---- many at once


def test_many_are_acknowledged_at_once_as_each_would_be() -> None:
    """Records of two deliveries, one of which has had its last word: the others have theirs, and one error says so."""
    side = Side(window=10)
    side.deliver(0, 3)
    records = side.collect()
    side.deliver(3, 2)
    records += side.collect()
    side.say(records[1], REJECT)
    assert side.handed_over() == [(Run(1, 1, 3),)]
    deliveries, announced = side.application.deliveries, list[bool]()
    deliveries.announce = lambda: announced.append(True)
    error = deliveries.acknowledge_all(places([records], None), ACCEPT)
    assert isinstance(error, IllegalStateError)
    assert "a-0 at offset 1 " in str(error)
    assert announced == [True]
    assert side.handed_over() == [(Run(0, 0, 1), Run(2, 2, 1)), (Run(3, 4, 1),)]
    assert deliveries.window_records == 0


def test_renewing_many_leaves_them_where_they_are_and_a_final_word_may_follow() -> None:
    side = Side(window=10)
    side.deliver(0, 3)
    records = side.collect()
    assert side.application.deliveries.acknowledge_all(places([records], None), RENEW) is None
    assert side.handed_over() == [(Run(0, 2, 4),)]
    assert side.application.deliveries.window_records == 3
    assert side.application.deliveries.acknowledge_all(places([records], None), ACCEPT) is None
    assert side.handed_over() == [(Run(0, 2, 1),)]


def test_of_many_those_that_were_given_up_have_failed_already() -> None:
    """The lock of one was lost, and the background side has given it up: no error, and nothing is sent for it."""
    side = Side(window=10)
    side.deliver(0, 3)
    records = side.collect()
    assert records[1].lock is not None
    records[1].lock.lose(1, 1)
    assert side.handed_over() == []
    assert side.application.deliveries.acknowledge_all(places([records], None), ACCEPT) is None
    assert side.handed_over() == [(Run(0, 0, 1), Run(2, 2, 1))]
    by_hand = records[0].__replace__(lock=None)
    assert isinstance(side.application.deliveries.acknowledge_all(places([[by_hand]], None), ACCEPT), IllegalStateError)


def test_many_cannot_be_acknowledged_when_the_consumer_is_closed() -> None:
    side = Side(window=10)
    side.deliver(0, 3)
    records = side.collect()
    side.application.gather_last()
    with pytest.raises(ConsumerClosedError):
        side.application.deliveries.acknowledge_all(places([records], None), ACCEPT)


# ---- room


def test_polls_go_on_while_records_are_open_until_the_window_is_full() -> None:
    """Two polls bring records, none is acknowledged: the third finds no room, and one acknowledgement makes some."""
    side = Side(window=4)
    side.deliver(0, 2)
    first = side.collect()
    side.application.demand_all_acknowledged()
    side.deliver(2, 2)
    assert offsets(side.collect()) == [2, 3]
    side.deliver(4, 1)
    assert not side.application.has_room
    assert not side.application.has_ready
    assert side.collect() == []
    side.say(first[1])
    assert offsets(side.collect()) == [4]


def test_a_window_is_exceeded_by_the_rest_of_one_record_batch_only() -> None:
    """Room for three: the batch of two and the batch of two that begins within; the third batch waits for room."""
    side = Side(window=3)
    side.deliver(0, 2, 2, 2)
    records = side.collect()
    assert offsets(records) == [0, 1, 2, 3]
    assert side.collect() == []
    side.say(records[0])
    assert side.collect() == [], "four were held, so one word makes no room yet"
    side.say(records[1])
    assert offsets(side.collect()) == [4, 5]


def test_nothing_is_at_hand_when_a_poll_has_taken_all_of_what_filled_it() -> None:
    """The next poll asks a broker at once, and what was acknowledged goes with that request and not before it."""
    side = Side(window=10, max_poll_records=2)
    side.deliver(0, 2)
    assert offsets(side.collect()) == [0, 1]
    assert not side.application.has_more
    side.deliver(2, 2, 1)
    assert offsets(side.collect()) == [2, 3]
    assert side.application.has_more
    assert offsets(side.collect()) == [4]
    assert not side.application.has_more


def test_a_poll_asks_for_what_has_room_and_again_when_there_is_more_of_it() -> None:
    """A poll asks for the room, at most max_poll_records; for nothing more until then; for 0 while there is no room."""
    side = Side(window=3, max_poll_records=2)
    side.application.begin_poll()
    assert side.application.next_ask() == 2
    assert side.application.next_ask() is None
    side.deliver(0, 3)
    records = side.collect()
    side.application.begin_poll()
    assert side.application.next_ask() == 0
    assert side.application.next_ask() is None
    side.say(records[2])
    assert side.application.next_ask() == 1


def test_a_poll_asks_again_when_a_batch_had_gaps_only() -> None:
    """The core stops fetching when it delivers; a batch without records must not end the poll's fetching."""
    side = Side(window=3)
    side.application.begin_poll()
    side.application.next_ask()
    fetched = FetchedPartition(A0, 1, 7, b"", (AcquiredRange(0, 4, 1),))
    side.application.take_all([Deliver(FetchedBatch(1, (fetched,), 0, LOCK_MS))])
    assert side.collect() == []
    assert side.handed_over() == [(Run(0, 4, 0),)], "even if the background thread takes the gaps first"
    assert side.application.next_ask() == 3


def test_only_the_word_that_makes_room_wakes_the_poll() -> None:
    """Nobody waits: no wake-up. A full window was seen: an acknowledgement that makes room wakes, RENEW does not."""
    side = Side(window=2)
    side.deliver(0, 2)
    one, other = side.collect()
    assert side.say(one, RENEW) == (True, False)
    assert not side.application.has_room
    assert side.say(one, RENEW) == (False, False)
    assert side.say(other) == (False, True)


def test_what_waited_for_room_is_dropped_when_its_lock_is_lost() -> None:
    """It is another's by then: it is neither delivered nor acknowledged."""
    side = Side(window=1)
    side.deliver(0, 1, 1)
    (record,) = side.collect()
    side.now_ms += LOCK_MS
    side.say(record, REJECT)
    assert side.collect() == []
    assert side.gathered() == [(Run(0, 0, REJECT),)]


# ---- acknowledgements


def test_words_are_final_and_go_once_when_they_are_gathered() -> None:
    """A second acknowledgement is refused before and after the first was gathered; RENEW may be followed by another."""
    side = Side(window=9)
    side.deliver(0, 3)
    records = side.collect()
    side.say(records[0])
    side.say(records[2], RENEW)
    with pytest.raises(IllegalStateError, match="not in flight"):
        side.say(records[0], RELEASE)
    assert side.handed_over() == [(Run(0, 0, ACCEPT), Run(2, 2, RENEW))]
    assert side.handed_over() == []
    with pytest.raises(IllegalStateError, match="not in flight"):
        side.say(records[0])
    side.say(records[2], RELEASE)
    assert side.gathered() == [(Run(2, 2, RELEASE),)]


def test_the_background_thread_is_told_once_until_it_has_asked() -> None:
    """Whatever is acknowledged before it asks goes along."""
    side = Side(window=9)
    side.deliver(0, 3)
    records = side.collect()
    assert [side.say(record)[0] for record in records[:2]] == [True, False]
    assert side.handed_over() == [(Run(0, 1, ACCEPT),)]
    assert side.say(records[2])[0]


def test_what_is_leased_is_looked_at_when_locks_have_to_be_renewed_and_not_each_time() -> None:
    """A worker with a thousand records is asked for its acknowledgements two hundred times a second."""
    side = Side(window=9, protects_locks=True)
    side.deliver(0, 3)
    records = side.collect()
    asked: list[int] = []

    def leased() -> list[Record]:
        asked.append(side.now_ms)
        return records[1:]

    side.application.leased = leased
    side.say(records[0])
    assert side.handed_over() == [(Run(0, 0, ACCEPT),)]
    assert not asked
    side.now_ms += LOCK_MS // 2
    assert side.handed_over() == [(Run(1, 2, AcknowledgeType.RENEW),)]
    assert asked == [side.now_ms]


def test_a_record_is_known_by_its_delivery_when_it_came_twice() -> None:
    """The lock ran out, the record came again: acknowledging the old delivery leaves the new one open."""
    side = Side(window=9)
    side.deliver(0, 1)
    (old,) = side.collect()
    side.locks = LockGeneration()
    side.deliver(0, 1)
    (new,) = side.collect()
    side.say(new, REJECT)
    assert side.gathered() == [(Run(0, 0, REJECT),)]
    side.say(old, RELEASE)
    assert side.gathered() == [(Run(0, 0, RELEASE),)]
    side.settle(Run(0, 0, REJECT))
    side.settle(Run(0, 0, RELEASE), error=InvalidRecordStateError())
    assert (old.lock_lost, new.lock_lost) == (True, False)


def test_a_record_made_by_hand_means_the_latest_delivery_of_its_place() -> None:
    side = Side(window=9)
    side.deliver(5, 1)
    side.collect()
    side.say(ShareRecord("a", 0, 5, 0, TimestampType.CREATE_TIME, None, None, (), None, 1))
    assert side.gathered() == [(Run(5, 5, ACCEPT),)]


def test_late_words_are_apart_from_the_others_when_a_lock_has_run_out() -> None:
    """A broker refuses all acknowledgements of a partition in a request if it refuses one of them."""
    side = Side(window=9)
    side.deliver(0, 2)
    records = side.collect()
    side.say(records[1], RENEW)
    side.gathered()
    side.now_ms += LOCK_MS - 1
    side.settle(Run(1, 1, RENEW), sent_at_ms=side.now_ms)
    side.now_ms += 1
    for record in records:
        side.say(record)
    said = side.application.gather()
    assert [(one.runs, one.is_late) for one in said] == [((Run(0, 0, ACCEPT),), True), ((Run(1, 1, ACCEPT),), False)]


def test_a_failed_offset_waits_for_the_next_poll_when_the_background_thread_asks() -> None:
    """The application has just got the error, and may be about to choose another type than RELEASE."""
    side = Side(window=9)
    side.deliver(0, 1)
    side.deliver(1, 1, value=b"bad")
    (record,) = side.collect()
    with pytest.raises(RecordDeserializationError):
        side.application.collect()
    side.say(record)
    assert side.handed_over() == [(Run(0, 0, ACCEPT),)]
    side.application.override("a", 0, 1, REJECT)
    assert side.gathered() == [(Run(1, 1, REJECT),)]


def test_what_is_put_back_leaves_its_room_and_comes_first() -> None:
    """An iteration that was left early: what it had not yielded is not in flight, and the next poll has it."""
    side = Side(window=2)
    side.deliver(0, 2)
    records = side.application.collect()
    assert records is not None
    side.application.put_back(records.without_first(1))
    side.application.check()
    with pytest.raises(IllegalStateError, match="not in flight"):
        side.say(records[1])
    assert offsets(side.collect()) == [1]
    assert not side.application.has_room


# ---- outcomes


def test_each_word_is_answered_once_before_any_poll() -> None:
    """The background thread sees the outcomes; a renewal and the final acknowledgement of one record have one each."""
    side = Side(window=9)
    side.deliver(0, 3)
    records = side.collect()
    side.say(records[0], RENEW)
    side.say(records[1])
    side.handed_over()
    side.say(records[0])
    side.say(records[2], REJECT)
    side.handed_over()
    error = UnknownServerError()
    side.settle(Run(0, 0, RENEW), Run(1, 1, ACCEPT))
    assert side.told == [(0, None), (1, None)]
    side.settle(Run(0, 0, ACCEPT), Run(2, 2, REJECT), error=error)
    assert side.told == [(0, None), (1, None), (0, error), (2, error)]
    assert not side.application.awaits_outcomes


def test_a_renewal_is_answered_with_the_final_word_that_overtook_it() -> None:
    """RENEW and then ACCEPT before either was sent: one acknowledgement goes, and both futures get its outcome."""
    side = Side(window=9)
    side.deliver(0, 1)
    (record,) = side.collect()
    side.say(record, RENEW)
    side.say(record)
    assert side.gathered() == [(Run(0, 0, ACCEPT),)]
    side.settle(Run(0, 0, ACCEPT))
    assert side.told == [(0, None), (0, None)]


def test_nobody_is_left_waiting_when_the_background_thread_has_ended() -> None:
    """Sent and ungathered acknowledgements all get an unknown outcome; later ones are refused."""
    side = Side(window=9)
    side.deliver(0, 3)
    records = side.collect()
    side.say(records[0])
    side.gathered()
    side.say(records[1])
    side.application.ended()
    assert [(offset, type(error)) for offset, error in side.told] == [
        (0, OutcomeUnknownError),
        (1, OutcomeUnknownError),
    ]
    with pytest.raises(ConsumerClosedError):
        side.say(records[2])


def test_acknowledging_is_refused_when_close_has_gathered_the_last_words() -> None:
    side = Side(window=9)
    side.deliver(0, 2)
    one, other = side.collect()
    side.say(one)
    assert [said.runs for said in side.application.gather_last()] == [(Run(0, 0, ACCEPT),)]
    with pytest.raises(ConsumerClosedError):
        side.say(other)


# ---- locks


def test_a_record_tells_when_its_lock_ends_and_a_renewal_moves_it() -> None:
    """The deadline counts from the request; only the renewed record has a later one; at the deadline it is lost."""
    side = Side(window=9)
    side.deliver(0, 2)
    one, other = side.collect()
    side.now_ms += 10_000
    assert (one.lock_deadline, one.lock_remaining_ms(), one.lock_lost) == (31.0, 20_000, False)
    side.say(other, RENEW)
    side.gathered()
    side.settle(Run(1, 1, RENEW), sent_at_ms=side.now_ms)
    assert (one.lock_deadline, other.lock_deadline) == (31.0, 41.0)
    side.now_ms = 31_000
    assert (one.lock_lost, other.lock_lost) == (True, False)
    assert (one.lock_remaining_ms(), other.lock_remaining_ms()) == (0, 10_000)


def test_all_locks_of_a_session_are_lost_at_once_when_the_core_says_so() -> None:
    """Without a poll: the records look at what the background side changes."""
    side = Side(window=9)
    side.deliver(0, 2)
    records = side.collect()
    side.locks.has_ended = True
    assert [record.lock_lost for record in records] == [True, True]
    assert records[0].lock_remaining_ms() == 0


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [(InvalidRecordStateError(), True), (OutcomeUnknownError("?"), True), (UnknownServerError(), False)],
)
def test_a_lock_is_lost_when_a_refusal_says_that_it_is_not_ours(error: KafkaShareError, is_lost: bool) -> None:
    """A broker's own failure says nothing about the lock, which goes on until its deadline."""
    side = Side(window=9)
    side.deliver(0, 2)
    one, other = side.collect()
    side.say(one)
    side.gathered()
    side.settle(Run(0, 0, ACCEPT), error=error)
    assert (one.lock_lost, other.lock_lost) == (is_lost, False)
