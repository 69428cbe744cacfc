"""Records polled as columns and acknowledged by the whole, by a mask and by a range, in each mode."""

from __future__ import annotations

import builtins
import gc
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.consumers import Consumer, MakeConsumer
from support.waiting import wait_until

from kafka_share import ArrowRecords, ShareRecords
from kafka_share.broker import ReferenceBroker
from kafka_share.broker.share.record_state import RecordState
from kafka_share.errors import ConsumerClosedError, IllegalStateError, InvalidArgumentError
from kafka_share.records import columns_of

MODES: dict[str, dict[str, Any]] = {
    "explicit": {"share_acknowledgement_mode": "explicit", "release_backoff_ms": 0},
    "window": {"share_acknowledgement_mode": "explicit", "explicit_window_records": 100, "release_backoff_ms": 0},
}
in_each_explicit_mode = pytest.mark.parametrize("mode", MODES)


def produced(broker: ReferenceBroker, count: int, *, value_bytes: int = 1) -> None:
    broker.produce_batch("t", [b"%d" % n * value_bytes for n in range(count)])


def polled(consumer: Consumer, **options: Any) -> ArrowRecords:
    return wait_until(lambda: consumer.poll_arrow(100, **options))


def states(broker: ReferenceBroker) -> dict[int, RecordState]:
    partition = broker.share_partition("g", "t")
    assert partition is not None
    return {offset: one.state for one in partition.ranges for offset in range(one.first, one.last + 1)}


def start_offset(broker: ReferenceBroker) -> int:
    partition = broker.share_partition("g", "t")
    assert partition is not None
    return partition.start_offset


def released(broker: ReferenceBroker) -> set[int]:
    return {offset for offset, state in states(broker).items() if state is RecordState.AVAILABLE}


def test_in_implicit_mode_the_next_poll_accepts_what_came_as_columns(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    produced(broker, 3)
    batch = polled(consumer)
    assert (len(batch), batch.batch.num_rows) == (3, 3)
    assert batch.batch["value"].to_pylist() == [b"0", b"1", b"2"]
    assert not consumer.poll_arrow(0)
    wait_until(lambda: start_offset(broker) == 3)


@in_each_explicit_mode
def test_a_mask_that_arrow_computes_says_what_to_acknowledge(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, mode: str
) -> None:
    """One row is rejected, a range of offsets is released, the rest is accepted."""
    consumer = make_consumer(topic, **MODES[mode])
    produced(broker, 10)
    batch = polled(consumer)
    late = pc.greater_equal(batch.batch["offset"], 7)
    consumer.acknowledge_all(batch, "reject", rows=slice(0, 1))
    consumer.acknowledge_all(batch, "release", rows=late)
    consumer.acknowledge_all(batch, rows=pc.and_(pc.invert(late), pc.greater(batch.batch["offset"], 0)))
    assert [*consumer.commit_sync().values()] == [None]
    assert released(broker) == {7, 8, 9}


@in_each_explicit_mode
@pytest.mark.parametrize(
    "rows",
    [
        [False, True, False, True],
        (False, True, False, True),
        pa.array([False, True, False, True]),
        pa.array([True, False, True, False, True])[1:],
        pa.chunked_array([[False], [True, False, True]]),
        slice(1, None, 2),
        slice(-1, None, -2),
    ],
    ids=["list", "tuple", "arrow", "a slice of an array", "chunks", "every second", "backwards"],
)
def test_rows_may_be_named_by_masks_of_any_kind_and_by_slices(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, mode: str, rows: Any
) -> None:
    consumer = make_consumer(topic, **MODES[mode])
    produced(broker, 4)
    batch = polled(consumer)
    consumer.acknowledge_all(batch, "release", rows=rows)
    consumer.commit_sync()
    assert released(broker) == {1, 3}


def test_a_mask_of_numpy_names_rows_too(broker: ReferenceBroker, explicit_consumer: Consumer) -> None:
    numpy = pytest.importorskip("numpy", reason="pyarrow has it only if it is installed")
    produced(broker, 4)
    batch = polled(explicit_consumer)
    explicit_consumer.acknowledge_all(batch, "release", rows=numpy.array([0, 1, 0, 1]) > 0)
    explicit_consumer.commit_sync()
    assert released(broker) == {1, 3}


@in_each_explicit_mode
def test_the_whole_is_accepted_at_once(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, mode: str
) -> None:
    consumer = make_consumer(topic, **MODES[mode])
    produced(broker, 5)
    consumer.acknowledge_all(polled(consumer))
    assert [*consumer.commit_sync().values()] == [None]
    assert start_offset(broker) == 5


def test_rows_of_records_that_were_polled_as_objects(broker: ReferenceBroker, explicit_consumer: Consumer) -> None:
    produced(broker, 4)
    records: ShareRecords[Any, Any] = wait_until(lambda: explicit_consumer.poll(100))
    explicit_consumer.acknowledge_all(records, "release", rows=[False, False, True, True])
    explicit_consumer.acknowledge_all(list(records), rows=slice(0, 2))
    explicit_consumer.commit_sync()
    assert released(broker) == {2, 3}


def test_the_last_type_counts_until_it_is_sent(broker: ReferenceBroker, explicit_consumer: Consumer) -> None:
    produced(broker, 4)
    batch = polled(explicit_consumer)
    explicit_consumer.acknowledge_all(batch)
    explicit_consumer.release(batch.records[1], 60_000)
    explicit_consumer.acknowledge_all(batch, "release", rows=slice(1, 3))
    explicit_consumer.commit_sync()
    assert released(broker) == {1, 2}


@in_each_explicit_mode
def test_what_is_not_in_flight_is_an_error_and_the_rest_is_acknowledged(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, mode: str
) -> None:
    consumer = make_consumer(topic, **MODES[mode])
    produced(broker, 4)
    batch = polled(consumer)
    consumer.acknowledge_all(batch, rows=slice(1, 3))
    consumer.commit_sync()
    with pytest.raises(IllegalStateError, match="t-0 at offset 1 cannot be acknowledged: it is not in flight"):
        consumer.acknowledge_all(batch)
    consumer.commit_sync()
    assert start_offset(broker) == 4


@in_each_explicit_mode
def test_nothing_is_acknowledged_when_the_rows_cannot_be_meant(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, mode: str
) -> None:
    consumer = make_consumer(topic, **MODES[mode])
    produced(broker, 2)
    batch = polled(consumer)
    wrong: Sequence[tuple[type[Exception], str, Any]] = (
        (InvalidArgumentError, "3 values for 2 records", [True, True, True]),
        (InvalidArgumentError, "has nulls: say with fill_null", pa.array([True, None])),
        (TypeError, "one bool for each record, not int", [0, 1]),
        (TypeError, "array of bool, not of int64", pa.array([0, 1])),
        (TypeError, "not str", "01"),
        (TypeError, "not int", 1),
    )
    for error, why, rows in wrong:
        with pytest.raises(error, match=why):
            consumer.acknowledge_all(batch, rows=rows)
    with pytest.raises(InvalidArgumentError, match="not an AcknowledgeType"):
        consumer.acknowledge_all(batch, "later")  # type: ignore[arg-type]
    consumer.commit_sync()
    assert set(states(broker).values()) == {RecordState.ACQUIRED}
    consumer.acknowledge_all(batch)


def test_in_implicit_mode_rows_cannot_be_acknowledged(broker: ReferenceBroker, consumer: Consumer) -> None:
    produced(broker, 2)
    with pytest.raises(IllegalStateError, match="acknowledges implicitly"):
        consumer.acknowledge_all(polled(consumer), rows=slice(1))


@in_each_explicit_mode
def test_after_close_no_rows_can_be_acknowledged(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, mode: str
) -> None:
    consumer = make_consumer(topic, **MODES[mode])
    produced(broker, 2)
    batch = polled(consumer)
    consumer.close()
    with pytest.raises(ConsumerClosedError):
        consumer.acknowledge_all(batch)
    assert batch.batch["value"].to_pylist() == [b"0", b"1"]


def test_with_a_window_any_thread_acknowledges_rows_while_polls_go_on(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    consumer = make_consumer(topic, **MODES["window"])
    produced(broker, 3)
    first = polled(consumer)
    produced(broker, 3)
    second = polled(consumer)
    thread = threading.Thread(target=lambda: consumer.acknowledge_all(second))
    thread.start()
    thread.join()
    consumer.acknowledge_all(first)
    assert [*consumer.commit_sync().values()] == [None]
    with pytest.raises(IllegalStateError, match="not in flight"):
        consumer.acknowledge_all(first)


def test_the_locks_of_a_batch_are_counted_together(broker: ReferenceBroker, explicit_consumer: Consumer) -> None:
    produced(broker, 3)
    batch = polled(explicit_consumer)
    least = batch.lock_remaining_ms()
    assert 0 < least <= batch.records[0].lock_remaining_ms() + 1_000
    lock = batch.records[1].lock
    assert lock is not None
    lock.renew(0, 0, 1 << 60)
    assert 0 < batch.lock_remaining_ms() <= least
    lock.lose(1, 1)
    assert batch.lock_remaining_ms() == 0


@pytest.mark.parametrize("copy", [True, False], ids=["copied", "views"])
def test_columns_outlive_records_and_consumer(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, copy: bool
) -> None:
    consumer = make_consumer(topic)
    produced(broker, 3, value_bytes=500)
    columns = polled(consumer, copy=copy).batch
    consumer.close()
    gc.collect()
    columns.validate(full=True)
    assert columns["value"].type == (pa.binary() if copy else pa.binary_view())
    assert columns["value"].to_pylist() == [b"0" * 500, b"1" * 500, b"2" * 500]


def test_other_tools_take_the_result_for_a_batch(broker: ReferenceBroker, consumer: Consumer) -> None:
    produced(broker, 3)
    batch = polled(consumer)
    assert pa.record_batch(batch).equals(batch.batch)
    assert repr(batch) == "<ArrowRecords: 3 records of 1 partition>"


def test_without_pyarrow_the_error_says_what_to_install(
    broker: ReferenceBroker, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll has not begun then: the record comes with the next."""
    produced(broker, 1)
    real = builtins.__import__
    columns_of.cache_clear()

    def without(name: str, *arguments: Any) -> Any:
        if name == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name=name)
        return real(name, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without)
        with pytest.raises(ImportError, match=r"pip install 'kafka-share\[arrow\]'"):
            consumer.poll_arrow(100)
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["pyarrow"], "__version__", "19.0.1")
        with pytest.raises(ImportError, match=r"copy=False needs pyarrow 20 or later, and this is 19\.0\.1"):
            consumer.poll_arrow(100, copy=False)
    assert len(polled(consumer)) == 1


def test_a_consumer_with_deserializers_polls_no_columns(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    consumer = make_consumer(topic, value_deserializer=int)
    produced(broker, 1)
    with pytest.raises(IllegalStateError, match="without deserializers"):
        consumer.poll_arrow(100)
    assert [record.value for record in wait_until(lambda: consumer.poll(100))] == [0]


@pytest.mark.blocking
def test_what_an_interrupt_kept_from_becoming_columns_comes_with_the_next_poll(
    broker: ReferenceBroker, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    produced(broker, 3)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kafka_share.columns.exported", interrupted)
        with pytest.raises(KeyboardInterrupt):
            wait_until(lambda: consumer.poll_arrow(1_000))
    assert polled(consumer).batch["offset"].to_pylist() == [0, 1, 2]
