"""`for record in consumer`: record by record, and nothing lost by leaving the loop."""

from __future__ import annotations

from typing import Any

import pytest
from support.consumers import MakeConsumer
from support.waiting import poll_until

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker

Consumer = KafkaShareConsumer[Any, Any]


@pytest.fixture
def filled(broker: ReferenceBroker) -> ReferenceBroker:
    broker.create_topic("t")
    broker.produce_batch("t", [str(i).encode() for i in range(10)])
    return broker


def test_the_rest_comes_with_the_next_poll_when_an_implicit_loop_is_left(
    filled: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """What a loop has not yielded is not accepted unseen: the next poll returns it, as the same delivery."""
    consumer = make_consumer("t")
    for record in consumer:
        if record.offset == 3:
            break
    rest = poll_until(consumer, 6)
    assert [(r.offset, r.delivery_count) for r in rest] == [(o, 1) for o in range(4, 10)]
    assert set(consumer.commit_sync().values()) == {None}
    snapshot = filled.share_partition("g", "t")
    assert snapshot is not None
    assert snapshot.start_offset == 10


def test_only_what_was_seen_needs_a_word_when_an_explicit_loop_is_left(
    filled: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """The next poll does not ask for acknowledgements of records that the loop never yielded."""
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    for record in consumer:
        consumer.acknowledge(record)
        if record.offset == 3:
            break
    assert [r.offset for r in poll_until(consumer, 6, consumer.acknowledge)] == list(range(4, 10))


def test_a_second_loop_goes_on_when_the_first_ended_with_an_exception(
    filled: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """An exception of the loop's body leaves the records behind it for the next loop."""
    consumer = make_consumer("t")
    seen: list[int] = []

    def work() -> None:
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == 5:
                raise RuntimeError("the application failed")
            if len(seen) == 10:
                return

    with pytest.raises(RuntimeError, match="the application failed"):
        work()
    work()
    assert seen == list(range(10))


def test_iteration_ends_when_the_consumer_is_closed_inside(
    filled: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """close() in the loop ends it after the record at hand; the rest is released by the close."""
    consumer = make_consumer("t")
    seen = 0
    for _ in consumer:
        seen += 1
        consumer.close()
    assert seen == 1
    assert list(consumer) == []
