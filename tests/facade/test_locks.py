"""Acquisition locks and the limit of record locks, as applications see them. The broker's clock is advanced by hand."""

from __future__ import annotations

import time

import pytest
from facade.delivery_checks import counted, left_for_others, only_result, outcomes_of, produce_one_batch, produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import offsets, poll_once_more, poll_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import InvalidRecordStateError
from kafka_share.network import clock

LOCK_MS = 15_000


@pytest.fixture(autouse=True)
def lock_of_15_seconds(broker: ReferenceBroker) -> None:
    """Short enough for several locks to run out before the members' sessions do."""
    broker.set_group_config("g", {"share.record.lock.duration.ms": str(LOCK_MS)})


def primed_member(broker: ReferenceBroker, make_consumer: MakeConsumer, **config: object) -> Consumer:
    """A member that has consumed record 0, so that it surely fetches; its empty polls say that nothing is available."""
    broker.produce("t", b"primer")
    consumer = make_consumer("t", fetch_max_wait_ms=0, **config)
    assert offsets(poll_until(consumer, 1)) == [0]
    consumer.commit_sync()
    return consumer


@pytest.mark.behaviour("acquisition locks")
def test_record_comes_again_when_its_lock_has_ended(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """One record accepted, the next kept for longer than its lock: exactly that one comes again."""
    broker.produce(topic, b"first")
    consumer = make_consumer(topic)
    poll_until(consumer, 1)
    consumer.commit_sync()
    broker.produce(topic, b"second")
    poll_until(consumer, 1)
    broker.advance(LOCK_MS + 1)
    assert counted(poll_until(consumer, 1)) == [(1, 2)]
    assert only_result(consumer.commit_sync()) is None
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("acquisition locks")
@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that runs on")
def test_a_lock_is_lost_when_the_machine_has_slept_through_it(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop wakes up after the lock's time, in which time.monotonic stood still: the record says that it is lost."""
    produce_values(broker, topic, 1)
    (record,) = poll_until(explicit_consumer, 1)
    assert not record.lock_lost
    deadline = record.lock_deadline
    read, asleep_ns = clock.clock_ns, (LOCK_MS + 1) * 1_000_000
    monkeypatch.setattr(clock, "clock_ns", lambda: read() + asleep_ns)
    monkeypatch.setattr(time, "clock_gettime", lambda _: (read() + asleep_ns) / 1e9)
    assert record.lock_lost
    assert record.lock_remaining_ms() == 0
    assert deadline is not None
    assert record.lock_deadline is not None
    assert record.lock_deadline < time.monotonic() < deadline, "no more than a lock's time has passed by that clock"
    broker.advance(LOCK_MS + 1)
    explicit_consumer.acknowledge(record)
    assert isinstance(only_result(explicit_consumer.commit_sync()), InvalidRecordStateError)
    explicit_consumer.close()


@pytest.mark.behaviour("acquisition locks")
@pytest.mark.parametrize("kind", [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT])
def test_commit_fails_when_the_lock_has_run_out(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer, kind: AcknowledgeType
) -> None:
    """A record may be acknowledged after its lock has ended, but committing that fails."""
    produce_values(broker, topic, 2)
    outcomes = outcomes_of(explicit_consumer)
    records = poll_until(explicit_consumer, 2)
    broker.advance(LOCK_MS + 1)
    for record in records:
        explicit_consumer.acknowledge(record, kind)
    assert isinstance(only_result(explicit_consumer.commit_sync()), InvalidRecordStateError)
    assert outcomes.failed == [(0, InvalidRecordStateError), (1, InvalidRecordStateError)]
    assert counted(poll_until(explicit_consumer, 2, explicit_consumer.acknowledge)) == [(0, 2), (1, 2)]


@pytest.mark.behaviour("explicit acknowledgement")
def test_the_new_holders_word_stands_when_the_old_one_comes_late(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A member whose lock has ended can change nothing about a record that another one has accepted since."""
    late = make_consumer(topic, share_acknowledgement_mode="explicit")
    produce_values(broker, topic, 2)
    _, contested = poll_until(late, 2)
    broker.advance(LOCK_MS + 1)
    thief = make_consumer(topic, share_acknowledgement_mode="explicit")
    first, second = poll_until(thief, 2)
    thief.acknowledge(second)
    assert only_result(thief.commit_sync()) is None
    late.acknowledge(contested, AcknowledgeType.RELEASE)
    assert isinstance(only_result(late.commit_sync()), InvalidRecordStateError)
    thief.acknowledge(first)
    thief.close()
    late.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("explicit acknowledgement")
def test_late_word_is_ignored_when_the_start_has_moved_past_the_record(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A record at the front that another member has finished: a late acknowledgement succeeds, to no effect."""
    late = make_consumer(topic, share_acknowledgement_mode="explicit")
    broker.produce(topic, b"contested")
    (held,) = poll_until(late, 1)
    broker.advance(LOCK_MS + 1)
    thief = make_consumer(topic)
    assert counted(poll_until(thief, 1)) == [(0, 2)]
    assert only_result(thief.commit_sync()) is None
    late.acknowledge(held, AcknowledgeType.RELEASE)
    assert only_result(late.commit_sync()) is None
    late.close()
    thief.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("explicit acknowledgement")
def test_late_word_fails_when_another_member_holds_the_record(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A late acceptance fails and does not touch a record that another member holds by now."""
    late = make_consumer(topic, share_acknowledgement_mode="explicit")
    broker.produce(topic, b"contested")
    (held,) = poll_until(late, 1)
    broker.advance(LOCK_MS + 1)
    holder = make_consumer(topic)
    poll_until(holder, 1)
    late.acknowledge(held)
    assert isinstance(only_result(late.commit_sync()), InvalidRecordStateError)
    late.close()
    assert only_result(holder.commit_sync()) is None


@pytest.mark.behaviour("acquisition locks")
def test_records_pass_on_when_a_member_says_nothing_but_stays(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """The lock's end is enough for another member to get the records; the first one is still in the group."""
    second = primed_member(broker, make_consumer)
    silent = make_consumer(topic)
    produce_values(broker, topic, 3)
    assert offsets(poll_until(silent, 3)) == [1, 2, 3]
    broker.advance(LOCK_MS - 1_000)
    assert poll_once_more(second) == []
    broker.advance(1_001)
    assert counted(poll_until(second, 3)) == [(1, 2), (2, 2), (3, 2)]
    group = broker.share_group("g")
    assert group is not None
    assert len(group.members) == 2


@pytest.mark.behaviour("acquisition locks")
def test_records_pass_from_member_to_member_when_each_lets_its_lock_end(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Three members acquire one after the other and fall silent: the same records pass on, the count rises."""
    produce_values(broker, topic, 2)
    for count in (1, 2, 3):
        assert counted(poll_until(make_consumer(topic), 2)) == [(0, count), (1, count)]
        broker.advance(LOCK_MS + 1)


@pytest.mark.behaviour("explicit acknowledgement")
def test_third_member_sees_nothing_when_two_locks_have_ended_and_the_limit_is_two(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """With a delivery limit of 2, records whose lock has run out twice are archived: a third member sees nothing."""
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    produce_values(broker, topic, 2)
    for count in (1, 2):
        consumer = make_consumer(topic)
        assert counted(poll_until(consumer, 2)) == [(0, count), (1, count)]
        broker.advance(LOCK_MS + 1)
        consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("acquisition locks")
def test_new_lock_time_applies_to_later_acquisitions_only(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A changed share.record.lock.duration.ms is in later deliveries; a lock that is running keeps its length."""
    other = primed_member(broker, make_consumer)
    long_holder = make_consumer(topic)
    broker.set_group_config("g", {"share.record.lock.duration.ms": "25000"})
    broker.produce(topic, b"locked for 25 s")
    assert offsets(poll_until(long_holder, 1)) == [1]
    assert long_holder.acquisition_lock_timeout_ms == 25_000
    broker.set_group_config("g", {"share.record.lock.duration.ms": "15000"})
    broker.produce(topic, b"locked for 15 s")
    short_holder = make_consumer(topic)
    assert offsets(poll_until(short_holder, 1)) == [2]
    assert short_holder.acquisition_lock_timeout_ms == 15_000
    broker.advance(15_001)
    assert counted(poll_until(other, 1)) == [(2, 2)]
    other.commit_sync()
    assert poll_once_more(other) == []
    broker.advance(10_000)
    assert counted(poll_until(other, 1)) == [(1, 2)]


@pytest.mark.behaviour("acquisition locks")
def test_the_rest_of_a_batch_comes_back_alone_when_part_of_it_was_acknowledged(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """Acknowledging part of a batch ends only those locks; the others run out and their records come back alone."""
    produce_one_batch(broker, topic, 6)
    for record in poll_until(explicit_consumer, 6):
        if record.offset in (1, 4):
            explicit_consumer.acknowledge(record)
    assert only_result(explicit_consumer.commit_sync()) is None
    broker.advance(LOCK_MS + 1)
    other = make_consumer(topic)
    assert counted(poll_until(other, 4)) == [(0, 2), (2, 2), (3, 2), (5, 2)]


@pytest.mark.behaviour("acquisition locks")
def test_no_more_than_the_limit_of_locks_is_held_rounded_up_to_a_batch(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """The limit of locks is rounded up to a whole batch; then nothing comes until the first records are accepted."""
    broker.set_group_config("g", {"share.partition.max.record.locks": "100"})
    for _ in range(3):
        produce_one_batch(broker, topic, 60)
    holder = make_consumer(topic, share_acknowledgement_mode="explicit")
    held = poll_until(holder, 1)
    assert offsets(held) == list(range(120))
    for record in held[:60]:
        holder.acknowledge(record)
    assert only_result(holder.commit_sync()) is None
    other = make_consumer(topic)
    assert offsets(poll_until(other, 60)) == list(range(120, 180))


@pytest.mark.behaviour("acquisition locks")
def test_exactly_the_limit_is_held_when_the_acquire_mode_is_record_limit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """In record_limit mode exactly as many records as the limit are acquired; the rest comes with the next fetch."""
    broker.set_group_config("g", {"share.partition.max.record.locks": "100"})
    for _ in range(3):
        produce_one_batch(broker, topic, 60)
    consumers = [make_consumer(topic, share_acquire_mode="record_limit") for _ in range(2)]
    assert offsets(poll_until(consumers[0], 1)) == list(range(100))
    assert offsets(poll_until(consumers[1], 1)) == list(range(100, 120))


@pytest.mark.behaviour("acquisition locks")
def test_limit_counts_the_span_from_the_start_when_inner_records_are_done(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Accepting records in the middle frees no locks; accepting the front moves the start, and the next batch comes."""
    broker.set_group_config("g", {"share.partition.max.record.locks": "100"})
    other = primed_member(broker, make_consumer)
    for _ in range(3):
        produce_one_batch(broker, topic, 60)
    holder = make_consumer(topic, share_acknowledgement_mode="explicit")
    held = poll_until(holder, 1)
    assert offsets(held) == list(range(1, 121))
    for record in held[50:100]:
        holder.acknowledge(record)
    assert only_result(holder.commit_sync()) is None
    assert poll_once_more(other) == []
    for record in held[:50]:
        holder.acknowledge(record)
    assert only_result(holder.commit_sync()) is None
    assert offsets(poll_until(other, 60)) == list(range(121, 181))


@pytest.mark.behaviour("fetching")
def test_lock_time_is_known_from_the_first_delivery_on_and_never_forgotten(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """The duration of locks is unknown before the first delivery and is kept from then on."""
    broker.set_group_config("g", {"share.record.lock.duration.ms": "20000"})
    consumer = make_consumer(topic, fetch_max_wait_ms=20)
    assert poll_once_more(consumer) == []
    assert consumer.acquisition_lock_timeout_ms is None
    broker.produce(topic, b"1")
    poll_until(consumer, 1)
    assert consumer.acquisition_lock_timeout_ms == 20_000
    broker.set_group_config("g", {"share.record.lock.duration.ms": "25000"})
    assert only_result(consumer.commit_sync()) is None
    assert poll_once_more(consumer) == []
    assert consumer.acquisition_lock_timeout_ms is not None
    broker.produce(topic, b"2")
    poll_until(consumer, 1)
    assert consumer.acquisition_lock_timeout_ms == 25_000
    consumer.unsubscribe()
    assert consumer.acquisition_lock_timeout_ms == 25_000
