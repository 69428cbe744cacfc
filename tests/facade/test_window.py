"""The open window against a broker: many threads acknowledge what one thread polls."""

from __future__ import annotations

import logging
import queue
import random
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from facade.delivery_checks import counted, left_for_others, only_result, outcomes_of, produce_one_batch, produce_values
from support.consumers import Consumer, MakeConsumer, Record
from support.waiting import offsets, patience_s, poll_until, wait_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    ConcurrentUseError,
    ConfigurationError,
    ConsumerClosedError,
    IllegalStateError,
    InvalidRecordStateError,
    NotLeaderOrFollowerError,
    OutcomeUnknownError,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
FETCH, ACKNOWLEDGE = ShareFetchRequest.API_KEY, ShareAcknowledgeRequest.API_KEY
LOCK_MS = 15_000
LONG_MS = 30_000


@pytest.fixture
def make_consumer(broker: ReferenceBroker, make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers with a window of ten, whose fetches wait shortly."""
    broker.create_topic("t")
    broker.set_group_config("g", {"share.record.lock.duration.ms": str(LOCK_MS)})
    return partial(make_consumer, fetch_max_wait_ms=50)


@pytest.fixture
def consumer(make_consumer: MakeConsumer) -> Consumer:
    return windowed(make_consumer)


def windowed(make_consumer: MakeConsumer, window: int = 10, **config: Any) -> Consumer:
    return make_consumer("t", share_acknowledgement_mode="explicit", explicit_window_records=window, **config)


def outcome(future: Future[None]) -> type[BaseException] | None:
    error = future.exception(patience_s())
    return None if error is None else type(error)


# ---- the main thing


def test_each_record_is_settled_once_when_eight_threads_acknowledge_what_one_polls(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """5,000 records through a window of 200, acknowledged out of order; one in twenty is released once.

    The window holds, each acknowledgement has one outcome, by its future and by the callback, and nothing is left.
    """
    broker.create_topic("many", partitions=4)
    for number in range(100):
        produce_one_batch(broker, "many", 50, partition=number % 4)
    consumer = make_consumer("many", share_acknowledgement_mode="explicit", explicit_window_records=200)
    outcomes = outcomes_of(consumer)
    work: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
    said: queue.SimpleQueue[tuple[Record, AcknowledgeType, Future[None]]] = queue.SimpleQueue()
    threads = [threading.Thread(target=acknowledge_shuffled, args=(consumer, work, said, i)) for i in range(8)]
    for thread in threads:
        thread.start()
    seen: Counter[tuple[int, int]] = Counter()
    try:
        while len(seen) < 5_000 or seen.total() < 5_000 + broker_releases(seen):
            for record in poll_until(consumer, 1):
                seen[record.partition, record.offset] += 1
                work.put(record)
    finally:
        for _ in threads:
            work.put(None)
        for thread in threads:
            thread.join(patience_s())
    words: dict[AcknowledgeType, Counter[tuple[int, int]]] = {ACCEPT: Counter(), RELEASE: Counter()}
    while not said.empty():
        record, kind, future = said.get()
        assert outcome(future) is None
        words[kind][record.partition, record.offset] += 1
    consumer.close()
    assert len(words[ACCEPT]) == words[ACCEPT].total() == 5_000, "each record is accepted once"
    assert len(words[RELEASE]) == words[RELEASE].total() == broker_releases(seen)
    told = Counter((partition, offset) for _, partition, offset in outcomes.succeeded)
    assert told == words[ACCEPT] + words[RELEASE]
    assert outcomes.failed == []
    assert left_for_others(broker, make_consumer, "many", partitions=4) == []


def is_released_first(partition: int, offset: int) -> bool:
    return (partition + offset) % 20 == 0


def broker_releases(seen: Counter[tuple[int, int]]) -> int:
    """How many records come a second time."""
    return sum(is_released_first(*place) for place in seen)


def acknowledge_shuffled(consumer: Consumer, work: Any, said: Any, seed: int) -> None:
    """Collect a few records, and acknowledge them in another order."""
    source, held = random.Random(seed), list[Record]()
    while True:
        record = work.get()
        if record is not None:
            held.append(record)
        if record is None or len(held) > 5 or work.empty():
            source.shuffle(held)
            for one in held:
                is_first = one.delivery_count == 1 and is_released_first(one.partition, one.offset)
                kind = RELEASE if is_first else ACCEPT
                said.put((one, kind, consumer.acknowledge_with_result(one, kind)))
            held.clear()
        if record is None:
            return


# ---- room


def check_room_for_three(broker: ReferenceBroker, consumer: Consumer) -> None:
    """Three records come, then nothing, and no broker is asked; when one is accepted, one comes."""
    records = poll_until(consumer, 3)
    assert offsets(records) == [0, 1, 2]
    broker.clear_requests()
    assert list(consumer.poll(timeout_ms=50)) == []
    assert broker.requests(FETCH) == []
    consumer.acknowledge(records[1])
    assert offsets(poll_until(consumer, 1)) == [3]


def test_polls_bring_more_while_records_are_open_and_nothing_when_the_window_is_full(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A window of three, one record per batch: three, an empty poll that asks no broker; one accepted, one more."""
    consumer = windowed(make_consumer, 3)
    produce_values(broker, "t", 5)
    check_room_for_three(broker, consumer)


def test_nothing_more_is_fetched_while_the_window_has_too_many_bytes(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Records of a kilobyte, one for each answer: three fill 2,500 bytes. One accepted, one more."""
    consumer = windowed(make_consumer, 100, explicit_window_bytes=2_500, fetch_max_bytes=1)
    for _ in range(5):
        broker.produce("t", bytes(1_000))
    check_room_for_three(broker, consumer)


def test_an_answer_counts_as_a_whole_while_one_of_its_records_is_open(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A poll that waits is woken when the last one is accepted."""
    consumer = windowed(make_consumer, 100, explicit_window_bytes=2_500)
    broker.produce_batch("t", [bytes(1_000)] * 3)
    records = poll_until(consumer, 3)
    broker.produce("t", b"behind", partition=0)
    consumer.acknowledge_all(records[:2])
    assert list(consumer.poll(timeout_ms=50)) == []
    polled: queue.SimpleQueue[list[Record]] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: polled.put(list(consumer.poll(timeout_ms=LONG_MS))))
    thread.start()
    wait_until(lambda: consumer._application.deliveries._waits_for_room)
    consumer.acknowledge(records[2])
    assert offsets(polled.get(timeout=patience_s())) == [3]
    thread.join()


def test_a_poll_that_waits_for_room_goes_on_when_another_thread_acknowledges(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """The waiting poll is woken by the acknowledgement and returns the next record, long before its time is over."""
    consumer = windowed(make_consumer, 1, share_acquire_mode="record_limit")
    produce_values(broker, "t", 2)
    (first,) = poll_until(consumer, 1)
    polled: queue.SimpleQueue[list[Record]] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: polled.put(list(consumer.poll(timeout_ms=LONG_MS))))
    thread.start()
    wait_until(lambda: consumer._application.deliveries._waits_for_room)
    future = consumer.acknowledge_with_result(first)
    assert offsets(polled.get(timeout=patience_s())) == [1]
    thread.join()
    assert outcome(future) is None


def test_the_window_is_never_exceeded_when_the_acquire_mode_is_record_limit(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """One batch of 20, a window of 8: polls bring 8, and after three acknowledgements 3 more."""
    consumer = windowed(make_consumer, 8, share_acquire_mode="record_limit")
    produce_one_batch(broker, "t", 20)
    records = poll_until(consumer, 8)
    assert offsets(records) == list(range(8))
    for record in records[2:5]:
        consumer.acknowledge(record)
    assert offsets(poll_until(consumer, 3)) == [8, 9, 10]


def test_a_whole_record_batch_may_exceed_the_window_when_the_mode_is_batch_optimized(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    consumer = windowed(make_consumer, 8)
    produce_one_batch(broker, "t", 20)
    assert offsets(poll_until(consumer, 1)) == list(range(20))
    assert list(consumer.poll(timeout_ms=0)) == []


# ---- acknowledgements


def test_words_are_sent_and_answered_when_nobody_polls(broker: ReferenceBroker, consumer: Consumer) -> None:
    """The thread that polled does something else: a worker's acknowledgement goes by itself and gets its outcome."""
    produce_one_batch(broker, "t", 3)
    records = poll_until(consumer, 3)
    broker.clear_requests()
    with ThreadPoolExecutor(3) as pool:
        futures = list(pool.map(consumer.acknowledge_with_result, reversed(records)))
    assert [outcome(future) for future in futures] == [None, None, None]
    assert [future.result() for future in futures] == [None, None, None]
    assert broker.requests(ACKNOWLEDGE)


def test_plain_acknowledgements_reach_the_broker_when_nobody_polls(broker: ReferenceBroker, consumer: Consumer) -> None:
    produce_one_batch(broker, "t", 3)
    records = poll_until(consumer, 3)
    for record in records:
        consumer.acknowledge(record, REJECT)
    wait_until(lambda: bool(broker.requests(ACKNOWLEDGE)))


def test_a_second_word_is_refused_when_the_first_was_final(broker: ReferenceBroker, consumer: Consumer) -> None:
    """Sent or not: as acknowledgements leave by themselves, changing one would be a matter of luck."""
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    consumer.acknowledge(record)
    for attempt in (consumer.acknowledge, consumer.acknowledge_with_result):
        with pytest.raises(IllegalStateError, match="not in flight"):
            attempt(record, RELEASE)


def test_commits_and_the_callback_work_beside_the_futures(broker: ReferenceBroker, consumer: Consumer) -> None:
    """commit_sync sends and returns what was acknowledged; open records stay open; the callback gets all outcomes."""
    outcomes = outcomes_of(consumer)
    produce_one_batch(broker, "t", 3)
    one, two, three = poll_until(consumer, 3)
    consumer.acknowledge(two)
    assert only_result(consumer.commit_sync()) is None
    consumer.acknowledge(one)
    consumer.commit_async()
    consumer.acknowledge(three, RELEASE)
    consumer.commit_sync()
    assert outcomes.succeeded == [("t", 0, 0), ("t", 0, 1), ("t", 0, 2)]


def test_a_renewed_record_stays_with_its_holder_and_has_a_later_deadline(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """RENEW is answered while nobody polls, no poll returns the record again, and it can then be accepted."""
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    before = record.lock_deadline
    assert before is not None
    assert outcome(consumer.acknowledge_with_result(record, RENEW)) is None
    assert record.lock_deadline is not None
    assert record.lock_deadline >= before
    broker.produce("t", b"next")
    assert offsets(poll_until(consumer, 1)) == [1]
    assert outcome(consumer.acknowledge_with_result(record)) is None


def test_the_new_delivery_is_settled_when_the_old_one_is_still_open(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """The broker's lock ran out and the record came again: acknowledging the new delivery leaves the old one open."""
    produce_values(broker, "t", 1)
    (old,) = poll_until(consumer, 1)
    broker.advance(LOCK_MS + 1)
    (again,) = poll_until(consumer, 1)
    assert counted([old, again]) == [(0, 1), (0, 2)]
    assert outcome(consumer.acknowledge_with_result(again)) is None
    with pytest.raises(IllegalStateError, match="not in flight"):
        consumer.acknowledge(again)
    consumer.acknowledge(old)


def test_records_know_that_their_session_is_lost_when_the_connection_broke(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """Without a poll: the broker has released the records, and acknowledging one fails in its future."""
    produce_one_batch(broker, "t", 2)
    one, other = poll_until(consumer, 2)
    assert not one.lock_lost
    broker.drop_connections()
    wait_until(lambda: one.lock_lost and other.lock_lost)
    assert one.lock_remaining_ms() == 0
    assert outcome(consumer.acknowledge_with_result(one)) is NotLeaderOrFollowerError
    assert offsets(poll_until(consumer, 2)) == [0, 1]


def test_a_record_is_lost_when_the_broker_refuses_its_word(broker: ReferenceBroker, consumer: Consumer) -> None:
    """INVALID_RECORD_STATE: somebody else has or had it."""
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    broker.advance(LOCK_MS + 1)
    assert not record.lock_lost, "our clock knows nothing of it"
    assert outcome(consumer.acknowledge_with_result(record)) is InvalidRecordStateError
    assert record.lock_lost


# ---- leaving


def test_unyielded_records_come_with_the_next_poll_when_a_loop_is_left(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    produce_one_batch(broker, "t", 3)
    for record in consumer:
        assert record.offset == 0
        break
    assert offsets(poll_until(consumer, 2)) == [1, 2]
    consumer.acknowledge(record)


def test_records_can_be_acknowledged_when_the_consumer_has_unsubscribed(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    consumer.unsubscribe()
    assert outcome(consumer.acknowledge_with_result(record)) is None


def test_close_sends_the_last_words_and_refuses_later_ones(
    broker: ReferenceBroker, consumer: Consumer, make_consumer: MakeConsumer
) -> None:
    """close resolves futures and releases the open record for others; a worker's late acknowledgement is refused."""
    produce_one_batch(broker, "t", 3)
    one, two, three = poll_until(consumer, 3)
    future = consumer.acknowledge_with_result(one)
    consumer.acknowledge(three)
    consumer.close()
    assert future.done()
    assert outcome(future) is None
    with pytest.raises(ConsumerClosedError):
        consumer.acknowledge_with_result(two)
    assert two.lock_lost
    assert counted(left_for_others(broker, make_consumer, "t")) == [(1, 2)]


def test_futures_end_when_the_broker_never_answers(broker: ReferenceBroker, consumer: Consumer) -> None:
    """Close at its timeout: what is under way ends as unknown."""
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    broker.faults.delay(ACKNOWLEDGE, LONG_MS)
    future = consumer.acknowledge_with_result(record)
    wait_until(lambda: broker.faults.pending() == 0)
    consumer.close(timeout_ms=100)
    assert future.done()
    assert outcome(future) is OutcomeUnknownError


@pytest.mark.blocking
def test_a_callback_of_a_future_may_acknowledge_but_not_wait_for_its_own_thread(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """It runs on a thread of the client: acknowledging there works, everything that could wait is refused."""
    produce_values(broker, "t", 2)
    one, two = poll_until(consumer, 2)
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def go_on(_: Future[None]) -> None:
        for call in (lambda: consumer.poll(timeout_ms=0), consumer.commit_sync, consumer.close):
            with pytest.raises(ConcurrentUseError, match="future"):
                call()
        seen.put(consumer.acknowledge_with_result(two))

    consumer.acknowledge_with_result(one).add_done_callback(go_on)
    assert outcome(seen.get(timeout=patience_s())) is None


@pytest.mark.blocking
def test_done_callbacks_that_wait_take_room_until_their_turn_comes(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """While one blocks, others wait, and no record comes that would add to them; a poll goes on when they have run."""
    consumer = windowed(make_consumer, 2, share_acquire_mode="record_limit")
    broker.set_group_config("g", {"share.record.lock.duration.ms": "60000"})  # no lock that ends wakes the poll
    produce_values(broker, "t", 5)
    first, second = poll_until(consumer, 2)
    may_end, runs = threading.Event(), threading.Event()

    def block(_: Future[None]) -> None:
        runs.set()
        may_end.wait()

    consumer.acknowledge_with_result(first).add_done_callback(block)
    assert runs.wait(patience_s())
    called: queue.SimpleQueue[Any] = queue.SimpleQueue()
    futures = [consumer.acknowledge_with_result(second)]
    (third,) = poll_until(consumer, 1)[:1]
    futures.append(consumer.acknowledge_with_result(third))
    for future in futures:
        assert outcome(future) is None
        future.add_done_callback(called.put)  # both are done: they are in the queue now
    broker.clear_requests()
    assert list(consumer.poll(timeout_ms=50)) == []
    assert broker.requests(FETCH) == [], "the window is full of what waits"
    polled: queue.SimpleQueue[list[Record]] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: polled.put(list(consumer.poll(timeout_ms=LONG_MS))))
    thread.start()
    wait_until(lambda: consumer._application.deliveries._waits_for_room)
    may_end.set()
    assert polled.get(timeout=patience_s())
    thread.join()
    assert [called.get(timeout=patience_s()) for _ in futures] == futures


@pytest.mark.blocking
@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit, ValueError])
def test_futures_are_resolved_and_polls_go_on_when_a_done_callback_raises(
    broker: ReferenceBroker, consumer: Consumer, caplog: pytest.LogCaptureFixture, raised: type[BaseException]
) -> None:
    """Whatever it raises is logged; the other futures and the consumer do not notice."""
    produce_values(broker, "t", 3)
    records = poll_until(consumer, 3)

    def fail(_: Future[None]) -> None:
        raise raised("mine")

    futures = [consumer.acknowledge_with_result(record) for record in records]
    called: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for future in futures:
        future.add_done_callback(fail)
        future.add_done_callback(called.put)
    assert [outcome(future) for future in futures] == [None] * 3
    assert {called.get(timeout=patience_s()) for _ in futures} == set(futures)
    broker.produce("t", b"one more")
    (record,) = poll_until(consumer, 1)
    assert outcome(consumer.acknowledge_with_result(record)) is None
    logged = [entry.exc_info[0] for entry in caplog.records if entry.exc_info]
    assert logged == [raised] * 3


@pytest.mark.blocking
def test_other_futures_are_resolved_and_close_keeps_its_time_when_a_done_callback_blocks(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    produce_values(broker, "t", 3)
    one, two, three = poll_until(consumer, 3)
    may_end, has_ended = threading.Event(), threading.Event()

    def block(_: Future[None]) -> None:
        may_end.wait()
        has_ended.set()

    consumer.acknowledge_with_result(one).add_done_callback(block)
    assert outcome(consumer.acknowledge_with_result(two)) is None
    last = consumer.acknowledge_with_result(three)
    consumer.close(timeout_ms=200)
    assert last.done(), "resolved although the callback of another one still runs"
    assert not has_ended.is_set(), "close has not waited for the callback"
    may_end.set()
    assert has_ended.wait(patience_s())


@pytest.mark.blocking
def test_a_done_callback_runs_at_once_when_the_consumer_has_been_closed(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """As with any future that is done: no thread is left that could run it."""
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    future = consumer.acknowledge_with_result(record)
    consumer.close()
    called: list[Future[None]] = []
    future.add_done_callback(called.append)
    assert called == [future]


class HangingLog(logging.Handler):
    """Holds up the background thread, which logs."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end, self.hangs = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.thread = threading.current_thread()
            self.hangs.set()
            self.may_end.wait()


def test_futures_are_resolved_by_close_when_the_background_thread_hangs(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    log, handler = logging.getLogger("kafka_share.network.connections"), HangingLog()
    log.addHandler(handler)
    try:
        broker.drop_connections()
        assert handler.hangs.wait(patience_s())
        future = consumer.acknowledge_with_result(record)
        consumer.close(timeout_ms=100)
        assert outcome(future) is OutcomeUnknownError
    finally:
        log.removeHandler(handler)
        handler.may_end.set()
    handler.thread.join(patience_s())


@pytest.mark.blocking
def test_a_future_cannot_be_cancelled(broker: ReferenceBroker, consumer: Consumer) -> None:
    """An acknowledgement cannot be taken back."""
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    future = consumer.acknowledge_with_result(record)
    assert not future.cancel()
    assert outcome(future) is None


# ---- misuse


def test_the_window_is_refused_when_the_mode_is_implicit(make_consumer: MakeConsumer) -> None:
    with pytest.raises(ConfigurationError, match="explicit"):
        make_consumer("t", explicit_window_records=1)


def test_results_are_refused_when_there_is_no_window(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """Words can be changed there until a poll or commit sends them: no future could mean one of them."""
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    with pytest.raises(IllegalStateError, match="explicit_window_records"):
        consumer.acknowledge_with_result(record)
    consumer.acknowledge(record)


def test_only_acknowledging_is_open_to_other_threads_while_one_polls(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """The others raise, as without a window; arguments are checked as ever."""
    produce_values(broker, "t", 1)
    (record,) = poll_until(consumer, 1)
    broker.clear_requests()
    thread = threading.Thread(target=lambda: consumer.poll(timeout_ms=LONG_MS))
    thread.start()
    wait_until(lambda: bool(broker.requests(FETCH)))
    with pytest.raises(ConcurrentUseError):
        consumer.commit_sync()
    with pytest.raises(TypeError, match="ShareRecord"):
        consumer.acknowledge_with_result("t")  # type: ignore[arg-type]
    assert outcome(consumer.acknowledge_with_result(record)) is None
    broker.produce("t", b"end")
    thread.join(patience_s())
