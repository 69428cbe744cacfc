"""RENEW: the acquisition lock starts anew, and the record comes back to its holder for a final acknowledgement."""

from __future__ import annotations

import pytest
from facade.delivery_checks import counted, left_for_others, only_result, outcomes_of, produce_one_batch, produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import poll_once_more, poll_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import IllegalStateError, InvalidRecordStateError


@pytest.mark.better_than_java("renewal-returns-at-once")
@pytest.mark.behaviour("delivery counts")
def test_renewed_records_come_again_when_renewed_by_a_poll(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """Records that are renewed come again with the next poll, with their delivery counts; accepted ones do not.

    Java's poll that carries the RENEWs returns nothing for its whole timeout; ours returns the renewed records as
    soon as the broker has answered.
    """
    produce_one_batch(broker, topic, 10)
    outcomes = outcomes_of(explicit_consumer)
    first = poll_until(explicit_consumer, 10)
    for record in first:
        explicit_consumer.acknowledge(record, AcknowledgeType.RENEW if record.offset % 2 else AcknowledgeType.ACCEPT)
    renewed = poll_until(explicit_consumer, 5)
    assert counted(renewed) == [(offset, 1) for offset in (1, 3, 5, 7, 9)]
    assert [record.value for record in renewed] == [first[offset].value for offset in (1, 3, 5, 7, 9)]
    for record in renewed:
        explicit_consumer.acknowledge(record)
    assert only_result(explicit_consumer.commit_sync()) is None
    every = [(topic, 0, offset) for offset in range(10)]
    assert outcomes.succeeded == sorted(every + every[1::2])
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("delivery counts")
@pytest.mark.parametrize("method", ["commit_sync", "commit_async"])
def test_renewed_record_comes_with_the_next_poll_when_renewed_by_a_commit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer, method: str
) -> None:
    """After a commit with a RENEW the record is not in flight until the next poll has returned it."""
    produce_values(broker, topic, 1)
    (record,) = poll_until(explicit_consumer, 1)
    explicit_consumer.acknowledge(record, AcknowledgeType.RENEW)
    getattr(explicit_consumer, method)()
    with pytest.raises(IllegalStateError):
        explicit_consumer.acknowledge(record)
    (again,) = poll_until(explicit_consumer, 1)
    assert counted([again]) == [(0, 1)]
    explicit_consumer.acknowledge(again)
    assert only_result(explicit_consumer.commit_sync()) is None
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("delivery counts")
def test_only_the_last_word_is_sent_when_a_renewal_is_changed(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """A renewal that becomes an acceptance before anything was sent is never sent."""
    produce_values(broker, topic, 1)
    outcomes = outcomes_of(explicit_consumer)
    (record,) = poll_until(explicit_consumer, 1)
    explicit_consumer.acknowledge(record, AcknowledgeType.RENEW)
    explicit_consumer.acknowledge(record, AcknowledgeType.ACCEPT)
    assert only_result(explicit_consumer.commit_sync()) is None
    broker.produce(topic, b"next")
    assert [r.value for r in poll_until(explicit_consumer, 1, explicit_consumer.acknowledge)] == [b"next"]
    explicit_consumer.commit_sync()
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)]


@pytest.mark.behaviour("delivery counts")
def test_poll_demands_a_word_for_renewed_records(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """A renewed record that has come again needs an acknowledgement before the next poll, like any other."""
    produce_values(broker, topic, 1)
    poll_until(explicit_consumer, 1, lambda record: explicit_consumer.acknowledge(record, AcknowledgeType.RENEW))
    (again,) = poll_until(explicit_consumer, 1)
    with pytest.raises(IllegalStateError, match="not been acknowledged"):
        explicit_consumer.poll(timeout_ms=0)
    explicit_consumer.acknowledge(again)
    assert poll_once_more(explicit_consumer) == []


@pytest.mark.behaviour("delivery counts")
def test_renewing_raises_when_the_record_was_rejected_and_committed(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """A record that has been committed cannot be renewed any more."""
    produce_values(broker, topic, 1)
    outcomes = outcomes_of(explicit_consumer)
    (record,) = poll_until(explicit_consumer, 1)
    explicit_consumer.acknowledge(record, AcknowledgeType.REJECT)
    assert only_result(explicit_consumer.commit_sync()) is None
    with pytest.raises(IllegalStateError, match="not in flight"):
        explicit_consumer.acknowledge(record, AcknowledgeType.RENEW)
    assert explicit_consumer.commit_sync() == {}
    assert outcomes.succeeded == [(topic, 0, 0)]


@pytest.mark.behaviour("delivery counts")
def test_no_other_member_sees_the_record_while_its_lock_is_renewed(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """While a member renews the lock of a record in time, no other member sees that record."""
    broker.produce(topic, b"shows that the second member gets this partition's records")
    broker.set_group_config("g", {"share.record.lock.duration.ms": "15000"})
    second = make_consumer(topic, fetch_max_wait_ms=0)
    poll_until(second, 1)
    second.commit_sync()
    holder = make_consumer(topic, share_acknowledgement_mode="explicit")
    broker.produce(topic, b"takes long")
    (record,) = poll_until(holder, 1)
    for _ in range(6):
        broker.advance(6_000)
        assert poll_once_more(second) == []
        holder.acknowledge(record, AcknowledgeType.RENEW)
        assert only_result(holder.commit_sync()) is None
        (record,) = poll_until(holder, 1)
        assert counted([record]) == [(1, 1)]
    holder.acknowledge(record)
    assert only_result(holder.commit_sync()) is None
    holder.close()
    second.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("delivery counts")
def test_renewal_fails_and_the_record_is_dropped_when_the_group_forbids_renewing(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """With share.renew.acknowledge.enable=false the RENEW fails, and poll does not ask for the record any more."""
    produce_values(broker, topic, 1)
    broker.set_group_config("g", {"share.renew.acknowledge.enable": "false"})
    outcomes = outcomes_of(explicit_consumer)
    poll_until(explicit_consumer, 1, lambda record: explicit_consumer.acknowledge(record, AcknowledgeType.RENEW))
    assert isinstance(only_result(explicit_consumer.commit_sync()), InvalidRecordStateError)
    assert outcomes.failed == [(0, InvalidRecordStateError)]
    assert poll_once_more(explicit_consumer) == []
    broker.advance(30_001)
    assert counted(poll_until(explicit_consumer, 1, explicit_consumer.acknowledge)) == [(0, 2)]


@pytest.mark.behaviour("delivery counts")
def test_renewal_fails_when_the_lock_has_run_out(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """A RENEW that comes too late fails like any acknowledgement, and the record comes back with the next count."""
    produce_values(broker, topic, 1)
    (record,) = poll_until(explicit_consumer, 1)
    broker.advance(30_001)
    explicit_consumer.acknowledge(record, AcknowledgeType.RENEW)
    assert isinstance(only_result(explicit_consumer.commit_sync()), InvalidRecordStateError)
    assert counted(poll_until(explicit_consumer, 1, explicit_consumer.acknowledge)) == [(0, 2)]
