"""What only `AsyncShareConsumer` promises: cancelling loses nothing, tasks take turns, a blocked loop costs no locks.

All else is shown by the tests of the blocking façade, which run on both.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from support.consumers import QUICK
from support.event_loop import in_loop, until
from support.waiting import wait_until

from kafka_share import AsyncShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    ConcurrentUseError,
    ConsumerClosedError,
    IllegalStateError,
    InvalidRecordStateError,
    WakeupError,
)

Consumer = AsyncShareConsumer[Any, Any]
LONG_MS = 60_000
RECORDS = 60


@pytest.fixture
def filled(broker: ReferenceBroker, topic: str) -> ReferenceBroker:
    """A topic of sixty records, and a group that reads it from the start."""
    broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    broker.produce_batch(topic, [str(n).encode() for n in range(RECORDS)])
    return broker


@pytest.fixture
def singles(broker: ReferenceBroker, topic: str) -> ReferenceBroker:
    """The same, with each record in a batch of its own."""
    broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    for number in range(RECORDS):
        broker.produce_batch(topic, [str(number).encode()])
    return broker


def made(broker: ReferenceBroker, *topics: str, **settings: Any) -> Consumer:
    return AsyncShareConsumer(*(topics or ("t",)), bootstrap_servers=broker.bootstrap_servers, group_id="g", **settings)


def finished(broker: ReferenceBroker) -> int:
    """How many records from the first one on nobody gets again."""
    snapshot = broker.share_partition("g", "t")
    return 0 if snapshot is None else snapshot.start_offset


def total(consumer: Consumer, name: str) -> float:
    """A metric of the client, as the background side knows it."""
    (value,) = {group[name] for group in consumer.metrics().values() if name in group}
    return value


async def begun(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that waits inside of a call."""
    task = asyncio.create_task(call)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@in_loop
async def test_each_record_comes_once_when_polls_are_cancelled_again_and_again(filled: ReferenceBroker) -> None:
    """Wherever in a poll a cancellation strikes, no record is lost, none comes twice, none is accepted unseen."""
    seen: list[tuple[int, int | None]] = []
    turns = cancelled = 0
    async with made(filled, max_poll_records=3) as consumer:
        while len(seen) < RECORDS:
            task = asyncio.create_task(consumer.poll(LONG_MS))
            for _ in range(turns % 12):
                await asyncio.sleep(0)
            turns += 1
            if not task.done():
                task.cancel()
            try:
                seen += [(record.offset, record.delivery_count) for record in await task]
            except asyncio.CancelledError:
                cancelled += 1
                await asyncio.sleep(0.001)
        assert set((await consumer.commit_sync()).values()) == {None}
        assert finished(filled) == RECORDS
    assert cancelled
    assert seen == [(offset, 1) for offset in range(RECORDS)]


@in_loop
async def test_each_record_is_acknowledged_once_when_commits_are_cancelled_again_and_again(
    singles: ReferenceBroker,
) -> None:
    """Wherever in a commit a cancellation strikes, what was to be acknowledged is, and nothing else."""
    seen: list[tuple[int, int | None]] = []
    turns = cancelled = 0
    async with made(singles, max_poll_records=1, share_acknowledgement_mode="explicit") as consumer:
        while len(seen) < RECORDS:
            for record in await consumer.poll(LONG_MS):
                seen.append((record.offset, record.delivery_count))
                consumer.acknowledge(record, "reject" if record.offset % 2 else "accept")
            task = asyncio.create_task(consumer.commit_sync())
            for _ in range(turns % 8):
                await asyncio.sleep(0)
            turns += 1
            if not task.done():
                task.cancel()
            try:
                assert set((await task).values()) <= {None}
            except asyncio.CancelledError:
                cancelled += 1
        assert set((await consumer.commit_sync()).values()) <= {None}
        assert finished(singles) == RECORDS
    assert cancelled > 10
    assert seen == [(offset, 1) for offset in range(RECORDS)]


@in_loop
async def test_the_background_side_goes_on_with_a_commit_that_was_cancelled(singles: ReferenceBroker) -> None:
    """Also if no other call follows: an application that does something else now keeps the broker's answer from nobody,
    nor its locks from being renewed."""
    async with made(singles, max_poll_records=1, share_acknowledgement_mode="explicit") as consumer:
        for _ in range(9):
            (record,) = await consumer.poll(LONG_MS)
            consumer.acknowledge(record)
            await consumer.commit_sync()
        (record,) = await consumer.poll(LONG_MS)
        consumer.acknowledge(record)
        singles.faults.delay("ShareAcknowledge", 20)
        await cancel(await begun(consumer.commit_sync()))
        await until(lambda: total(consumer, "acknowledgements-send-total") == 10)
        await until(lambda: finished(singles) == 10)


@in_loop
async def test_acknowledgements_are_reported_when_their_commit_was_cancelled(filled: ReferenceBroker) -> None:
    """What a cancelled commit_sync has sent stays sent, and the callback hears how it ended."""
    told: list[Any] = []
    async with made(filled) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
        assert len(await consumer.poll(LONG_MS)) == RECORDS
        filled.faults.delay("ShareAcknowledge", 100)
        await cancel(await begun(consumer.commit_sync()))
        await consumer.commit_sync()
        assert finished(filled) == RECORDS
    assert [error for _, error in told] == [None]
    assert [sorted(offsets) for offsets in told[0][0].values()] == [list(range(RECORDS))]


@in_loop
async def test_the_background_thread_ends_when_close_is_cancelled(filled: ReferenceBroker) -> None:
    """A cancelled close leaves the rest to the broker, and no thread behind."""
    consumer = made(filled)
    await consumer.poll(LONG_MS)
    filled.faults.delay("ShareGroupHeartbeat", 60_000)
    await cancel(await begun(consumer.close()))
    assert "closed" in repr(consumer)
    with pytest.raises(ConsumerClosedError):
        await consumer.poll(0)


@in_loop
async def test_the_rest_comes_with_the_next_poll_when_a_loop_was_cancelled(filled: ReferenceBroker) -> None:
    """What a cancelled loop has not come to is not accepted: the next poll returns it, as the same delivery."""
    seen: list[int] = []
    async with made(filled) as consumer:

        async def loop() -> None:
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) == 10:
                    await asyncio.Event().wait()

        task = asyncio.create_task(loop())
        await until(lambda: len(seen) == 10)
        await cancel(task)
        rest = await consumer.poll(LONG_MS)
        assert [(r.offset, r.delivery_count) for r in rest] == [(offset, 1) for offset in range(10, RECORDS)]


@in_loop
async def test_another_task_is_refused_and_the_first_goes_on(filled: ReferenceBroker) -> None:
    """Two tasks in one consumer are a mistake that costs nothing but an error."""
    async with made(filled, "empty") as consumer:
        filled.create_topic("empty")
        task = await begun(consumer.poll(LONG_MS))
        with pytest.raises(ConcurrentUseError, match="commit_sync was called while another task is in poll"):
            await consumer.commit_sync()
        with pytest.raises(ConcurrentUseError, match="commit_async was called while another task is in poll"):
            consumer.commit_async()
        filled.produce("empty", b"1")
        assert [record.value for record in await task] == [b"1"]


@in_loop
async def test_a_poll_and_a_loop_end_when_another_task_closes(filled: ReferenceBroker) -> None:
    """close() from another task ends what waits: a poll with an error, a loop as if it had come to its end."""
    async with made(filled, "empty") as consumer:
        poll = await begun(consumer.poll(LONG_MS))
        await consumer.close()
        with pytest.raises(ConsumerClosedError, match="is being closed by another task"):
            await poll
    consumer = made(filled, "empty")

    async def loop() -> str:
        async for _ in consumer:
            pass
        return "over"

    waiting = await begun(loop())
    await asyncio.gather(consumer.close(), consumer.close())
    assert await waiting == "over"


@in_loop
async def test_wakeup_of_another_thread_ends_a_poll(filled: ReferenceBroker) -> None:
    """wakeup() may come from any thread."""
    async with made(filled, "empty") as consumer:
        poll = await begun(consumer.poll(LONG_MS))
        await asyncio.to_thread(consumer.wakeup)
        with pytest.raises(WakeupError):
            await poll


@in_loop
async def test_tasks_acknowledge_in_any_order_while_one_polls(filled: ReferenceBroker) -> None:
    """With an open window each task acknowledges what it works on, and awaits the broker's answer."""
    async with made(
        filled, share_acknowledgement_mode="explicit", explicit_window_records=20, max_poll_records=7
    ) as consumer:
        tasks: list[asyncio.Task[None]] = []

        async def work(record: Any) -> None:
            for _ in range(record.offset % 5):
                await asyncio.sleep(0)
            await consumer.acknowledge_with_result(record)

        while len(tasks) < RECORDS:
            tasks += [asyncio.create_task(work(record)) for record in await consumer.poll(LONG_MS)]
        poll = await begun(consumer.poll(LONG_MS))
        await asyncio.gather(*tasks)
        await cancel(poll)
        assert finished(filled) == RECORDS


@in_loop
async def test_an_acknowledgement_stands_when_its_future_is_cancelled(filled: ReferenceBroker) -> None:
    """Whoever does not want to wait for the outcome any more changes nothing about it."""
    async with made(filled, share_acknowledgement_mode="explicit", explicit_window_records=RECORDS) as consumer:
        for record in await consumer.poll(LONG_MS):
            asyncio.ensure_future(consumer.acknowledge_with_result(record)).cancel()
        await until(lambda: finished(filled) == RECORDS)
    async with made(filled) as without_window:
        with pytest.raises(IllegalStateError, match="needs an open window"):
            without_window.acknowledge_with_result(record)


@in_loop
async def test_the_outcome_is_an_error_when_the_broker_refuses(filled: ReferenceBroker) -> None:
    """The future of an acknowledgement raises what the broker answered."""
    async with made(filled, share_acknowledgement_mode="explicit", explicit_window_records=RECORDS) as consumer:
        (record, *_) = await consumer.poll(LONG_MS)
        filled.faults.fail("ShareAcknowledge", InvalidRecordStateError)
        with pytest.raises(InvalidRecordStateError):
            await consumer.acknowledge_with_result(record)


def test_locks_are_renewed_and_heartbeats_sent_while_the_event_loop_is_blocked() -> None:
    """A handler that blocks the loop holds up nothing but itself: the background thread does not run on it."""
    with ReferenceBroker(config={**QUICK, "group.share.min.record.lock.duration.ms": "4000"}) as broker:
        broker.create_topic("t")
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "4000"})
        broker.produce_batch("t", [b"1", b"2"])

        def renewals() -> int:
            requests = broker.requests("ShareAcknowledge") + broker.requests("ShareFetch")
            return sum(bool(getattr(request, "is_renew_ack", False)) for _, request in requests)

        async def main() -> int:
            async with made(broker) as consumer:
                async for record in consumer:
                    broker.clear_requests()
                    wait_until(lambda: renewals() > 0, "no lock is renewed")
                    wait_until(lambda: len(broker.requests("ShareGroupHeartbeat")) > 2, "no heartbeat is sent")
                    return record.offset
            return -1

        assert asyncio.run(main()) == 0


def test_a_consumer_belongs_to_one_event_loop(filled: ReferenceBroker) -> None:
    """Another loop is refused while the first one lives; afterwards it may close."""
    consumer = made(filled)
    with asyncio.Runner() as first:
        first.run(consumer.poll(LONG_MS))
        refused: list[BaseException] = []

        def elsewhere() -> None:
            for call in (lambda: asyncio.run(consumer.poll(0)), consumer.commit_async):
                try:
                    call()
                except IllegalStateError as error:
                    refused.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert [type(error) for error in refused] == [IllegalStateError, ConcurrentUseError]
        assert "belongs to another event loop" in str(refused[0])
    asyncio.run(consumer.close())


@in_loop
async def test_functions_that_would_have_to_be_awaited_are_refused(filled: ReferenceBroker) -> None:
    """A coroutine function as callback would never run."""

    async def told(*_: Any) -> None: ...

    async with made(filled) as consumer:
        with pytest.raises(TypeError, match="a plain function"):
            consumer.set_acknowledgement_commit_callback(told)  # type: ignore[arg-type]


@in_loop
async def test_methods_are_refused_inside_the_callback(filled: ReferenceBroker) -> None:
    """The callback runs inside a call: those that it makes itself are refused, and the consumer goes on."""
    refused: list[str] = []
    async with made(filled) as consumer:

        def misuse(*_: object) -> None:
            for call in (consumer.commit_async, consumer.subscription):
                with pytest.raises(ConcurrentUseError) as caught:
                    call()
                refused.append(str(caught.value))

        consumer.set_acknowledgement_commit_callback(misuse)
        await consumer.poll(LONG_MS)
        await consumer.commit_sync()
        assert consumer.subscription() == {"t"}
    assert refused == [
        f"{name} must not be called from the acknowledgement commit callback"
        for name in ("commit_async", "subscription")
    ]


def test_a_consumer_that_is_dropped_warns_and_ends(filled: ReferenceBroker) -> None:
    async def poll_and_forget() -> None:
        consumer = made(filled)
        await consumer.poll(LONG_MS)

    others = set(threading.enumerate())  # tests of another folder may keep a client for the whole session
    with pytest.warns(ResourceWarning, match="AsyncShareConsumer open .* was not closed"):
        asyncio.run(poll_and_forget())
    wait_until(lambda: set(threading.enumerate()) <= others, "its thread does not end")
