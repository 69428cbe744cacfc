"""RENEW: the acquisition lock starts anew, and the record comes back to its holder for a final acknowledgement."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from facade.delivery_checks import Outcomes, counted, left_for_others, only_result, produce_one_batch, produce_values
from support.waiting import Consumer, poll_once_more, poll_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import IllegalStateError, InvalidRecordStateError

MakeConsumer = Callable[..., Consumer]


@pytest.mark.better_than_java("renewal-returns-at-once")
@pytest.mark.behaviour("delivery counts")
def test_renewed_records_come_again_when_renewed_by_a_poll(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Records that are renewed come again with the next poll, with their delivery counts; accepted ones do not.

    Java's poll that carries the RENEWs returns nothing for its whole timeout; ours returns the renewed records as
    soon as the broker has answered.
    """
    broker.create_topic("t")
    produce_one_batch(broker, "t", 10)
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    outcomes = Outcomes()
    consumer.set_acknowledgement_commit_callback(outcomes)
    first = poll_until(consumer, 10)
    for record in first:
        consumer.acknowledge(record, AcknowledgeType.RENEW if record.offset % 2 else AcknowledgeType.ACCEPT)
    renewed = poll_until(consumer, 5)
    assert counted(renewed) == [(offset, 1) for offset in (1, 3, 5, 7, 9)]
    assert [record.value for record in renewed] == [first[offset].value for offset in (1, 3, 5, 7, 9)]
    for record in renewed:
        consumer.acknowledge(record)
    assert only_result(consumer.commit_sync()) is None
    every = [("t", 0, offset) for offset in range(10)]
    assert outcomes.succeeded == sorted(every + every[1::2])
    consumer.close()
    assert left_for_others(broker, make_consumer, "t") == []


@pytest.mark.behaviour("delivery counts")
@pytest.mark.parametrize("method", ["commit_sync", "commit_async"])
def test_renewed_record_comes_with_the_next_poll_when_renewed_by_a_commit(
    broker: ReferenceBroker, make_consumer: MakeConsumer, method: str
) -> None:
    """After a commit with a RENEW the record is not in flight until the next poll has returned it."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    (record,) = poll_until(consumer, 1)
    consumer.acknowledge(record, AcknowledgeType.RENEW)
    getattr(consumer, method)()
    with pytest.raises(IllegalStateError):
        consumer.acknowledge(record)
    (again,) = poll_until(consumer, 1)
    assert counted([again]) == [(0, 1)]
    consumer.acknowledge(again)
    assert only_result(consumer.commit_sync()) is None
    consumer.close()
    assert left_for_others(broker, make_consumer, "t") == []


@pytest.mark.behaviour("delivery counts")
def test_only_the_last_word_is_sent_when_a_renewal_is_changed(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A renewal that becomes an acceptance before anything was sent is never sent."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    outcomes = Outcomes()
    consumer.set_acknowledgement_commit_callback(outcomes)
    (record,) = poll_until(consumer, 1)
    consumer.acknowledge(record, AcknowledgeType.RENEW)
    consumer.acknowledge(record, AcknowledgeType.ACCEPT)
    assert only_result(consumer.commit_sync()) is None
    broker.produce("t", b"next")
    assert [r.value for r in poll_until(consumer, 1, consumer.acknowledge)] == [b"next"]
    consumer.commit_sync()
    assert outcomes.succeeded == [("t", 0, 0), ("t", 0, 1)]


@pytest.mark.behaviour("delivery counts")
def test_poll_demands_a_word_for_renewed_records(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """A renewed record that has come again needs an acknowledgement before the next poll, like any other."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    poll_until(consumer, 1, lambda record: consumer.acknowledge(record, AcknowledgeType.RENEW))
    (again,) = poll_until(consumer, 1)
    with pytest.raises(IllegalStateError, match="not been acknowledged"):
        consumer.poll(timeout_ms=0)
    consumer.acknowledge(again)
    assert poll_once_more(consumer) == []


@pytest.mark.behaviour("delivery counts")
def test_renewing_raises_when_the_record_was_rejected_and_committed(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A record that has been committed cannot be renewed any more."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    outcomes = Outcomes()
    consumer.set_acknowledgement_commit_callback(outcomes)
    (record,) = poll_until(consumer, 1)
    consumer.acknowledge(record, AcknowledgeType.REJECT)
    assert only_result(consumer.commit_sync()) is None
    with pytest.raises(IllegalStateError, match="not in flight"):
        consumer.acknowledge(record, AcknowledgeType.RENEW)
    assert consumer.commit_sync() == {}
    assert outcomes.succeeded == [("t", 0, 0)]


@pytest.mark.behaviour("delivery counts")
def test_no_other_member_sees_the_record_while_its_lock_is_renewed(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """While a member renews the lock of a record in time, no other member sees that record."""
    broker.create_topic("t")
    broker.produce("t", b"shows that the second member gets this partition's records")
    broker.set_group_config("g", {"share.record.lock.duration.ms": "15000"})
    second = make_consumer("t", fetch_max_wait_ms=0)
    poll_until(second, 1)
    second.commit_sync()
    holder = make_consumer("t", share_acknowledgement_mode="explicit")
    broker.produce("t", b"takes long")
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
    assert left_for_others(broker, make_consumer, "t") == []


@pytest.mark.behaviour("delivery counts")
def test_renewal_fails_and_the_record_is_dropped_when_the_group_forbids_renewing(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """With share.renew.acknowledge.enable=false the RENEW fails, and poll does not ask for the record any more."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    broker.set_group_config("g", {"share.renew.acknowledge.enable": "false"})
    outcomes = Outcomes()
    consumer.set_acknowledgement_commit_callback(outcomes)
    poll_until(consumer, 1, lambda record: consumer.acknowledge(record, AcknowledgeType.RENEW))
    assert isinstance(only_result(consumer.commit_sync()), InvalidRecordStateError)
    assert outcomes.failed == [(0, InvalidRecordStateError)]
    assert poll_once_more(consumer) == []
    broker.advance(30_001)
    assert counted(poll_until(consumer, 1, consumer.acknowledge)) == [(0, 2)]


@pytest.mark.behaviour("delivery counts")
def test_renewal_fails_when_the_lock_has_run_out(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """A RENEW that comes too late fails like any acknowledgement, and the record comes back with the next count."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    (record,) = poll_until(consumer, 1)
    broker.advance(30_001)
    consumer.acknowledge(record, AcknowledgeType.RENEW)
    assert isinstance(only_result(consumer.commit_sync()), InvalidRecordStateError)
    assert counted(poll_until(consumer, 1, consumer.acknowledge)) == [(0, 2)]
