"""The broker of taskiq: tasks are sent, run, and accepted when taskiq says so."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bridges.conftest import GROUP, TOPIC, failing_twice, left_over
from support.documentation import environment
from support.event_loop import until
from support.waiting import patience_s

from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConfigurationError, GroupAuthorizationFailedError, ProduceError
from kafka_share.handling.leasing import AsyncLeasingConsumer

pytest.importorskip("taskiq", reason="taskiq is not installed: pip install 'kafka-share[taskiq]'")
from taskiq import AckableMessage
from taskiq.exceptions import SendTaskError
from taskiq.receiver import Receiver

from kafka_share.bridges.taskiq import ShareGroupBroker


def made(broker: ReferenceBroker, **settings: Any) -> ShareGroupBroker:
    return ShareGroupBroker(TOPIC, bootstrap_servers=broker.bootstrap_servers, group_id=GROUP, **settings)


@asynccontextmanager
async def working(tasks: ShareGroupBroker, concurrency: int = 5) -> AsyncGenerator[None]:
    """taskiq's receiver at work on them, as `taskiq worker` runs it."""
    stopped = asyncio.Event()
    await tasks.startup()
    receiver = Receiver(tasks, max_async_tasks=concurrency, run_startup=False)
    life = asyncio.create_task(receiver.listen(stopped))
    try:
        yield
    finally:
        stopped.set()
        await life
        await tasks.shutdown()


def test_tasks_are_sent_and_run_and_their_records_accepted(broker: ReferenceBroker) -> None:
    tasks, seen = made(broker), list[int]()

    @tasks.task
    async def add(one: int, other: int) -> None:
        seen.append(one + other)

    async def main() -> None:
        async with working(tasks):
            for number in range(20):
                await add.kiq(number, 100)
            await until(lambda: len(seen) == 20)

    asyncio.run(main())
    assert sorted(seen) == [100 + number for number in range(20)]
    assert left_over(broker) == []


def test_no_record_is_accepted_before_its_task_has_ended(broker: ReferenceBroker) -> None:
    """It is renewed meanwhile, and a task that raises is accepted: taskiq has its result."""
    tasks = made(broker)

    async def main() -> None:
        may_end, has_begun = asyncio.Event(), asyncio.Event()

        @tasks.task(task_name="wait")
        async def wait() -> None:
            has_begun.set()
            await may_end.wait()
            raise LookupError("no such order")

        async with working(tasks):
            await wait.kiq()
            await has_begun.wait()
            state = broker.share_partition(GROUP, TOPIC)
            assert state is not None
            assert state.start_offset == 0
            may_end.set()

    asyncio.run(main())
    assert left_over(broker) == []


def test_what_was_not_acknowledged_is_released_at_the_end(broker: ReferenceBroker) -> None:
    """One was taken and not acknowledged, one had not been taken: both are delivered to the next worker at once."""
    tasks, again = made(broker), made(broker)

    @tasks.task(task_name="note")
    async def note() -> None:
        """Is not run."""

    again.register_task(note.original_func, task_name="note")

    async def main() -> None:
        await tasks.startup()
        for _ in range(2):
            await note.kiq()
        listening = tasks.listen()
        first = await anext(listening)
        assert isinstance(first, AckableMessage)
        await listening.aclose()
        await tasks.shutdown()
        first.ack()  # too late: a WARNING says so

        listening = again.listen()
        for _ in range(2):
            taken = await anext(listening)
            assert isinstance(taken, AckableMessage)
            taken.ack()
            taken.ack()  # a second time does nothing
        await listening.aclose()
        await again.shutdown()

    asyncio.run(main())
    assert left_over(broker) == []


def test_what_is_no_task_is_rejected_and_an_unknown_task_left_to_others(
    broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """taskiq would acknowledge both, and nobody would run the second one."""
    broker.produce(TOPIC, b"no task")
    newer, older, seen = made(broker), made(broker), list[str]()

    @newer.task(task_name="new")
    async def new() -> None:
        seen.append("new")

    newer.local_task_registry.clear()

    async def main() -> None:
        await new.kiq()
        async with working(older):
            await until(lambda: "no task 'new'" in caplog.text)
        await newer.shutdown()
        newer.local_task_registry["new"] = new
        async with working(newer):
            await until(lambda: seen)

    asyncio.run(main())
    assert left_over(broker) == []
    assert f"{TOPIC}-0@0 (delivery 1): it is no task" in caplog.text
    assert seen == ["new"]


def test_an_unknown_task_is_rejected_on_its_last_delivery(
    broker: ReferenceBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_share.bridges.held.UNKNOWN_TASK_DELAY_MS", 1)
    broker.set_group_config(GROUP, {"share.delivery.count.limit": 2})
    producing = made(broker)

    @producing.task(task_name="unknown")
    async def unknown() -> None:
        """Of a program that is gone."""

    async def main() -> None:
        await unknown.kiq()
        await producing.shutdown()
        async with working(made(broker)):
            await until(lambda: "it is rejected" in caplog.text)

    producing.local_task_registry.clear()
    asyncio.run(main())
    assert "no task 'unknown'; it is rejected" in caplog.text


_CRASHES = """
import asyncio, os, signal, sys
from taskiq.receiver import Receiver
from kafka_share.bridges.taskiq import ShareGroupBroker

tasks = ShareGroupBroker(sys.argv[2], bootstrap_servers=sys.argv[1], group_id=sys.argv[3])

@tasks.task(task_name="work")
async def work():
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    await tasks.startup()
    await Receiver(tasks, max_async_tasks=1, run_startup=False).listen(asyncio.Event())

asyncio.run(main())
"""


def test_the_task_of_a_process_that_died_is_run_again(broker: ReferenceBroker) -> None:
    tasks, seen = made(broker), list[str]()

    @tasks.task(task_name="work")
    async def work() -> None:
        seen.append("done")

    async def main() -> None:
        await work.kiq()
        command = [sys.executable, "-c", _CRASHES, broker.bootstrap_servers, TOPIC, GROUP]
        died = await asyncio.to_thread(
            subprocess.run, command, env=environment(), check=False, timeout=patience_s(), capture_output=True
        )
        assert died.returncode == -signal.SIGKILL, died.stderr
        async with working(tasks):
            await until(lambda: seen)

    asyncio.run(main())
    assert seen == ["done"]
    assert left_over(broker) == []


def test_a_task_that_cannot_be_written_is_an_error(broker: ReferenceBroker) -> None:
    class Refusing:
        def produce(self, record: Any, told: Any) -> None:
            told(ProduceError("not today"))

        def close(self, timeout_ms: int) -> None:
            """Nothing to close."""

    tasks = made(broker, producer=Refusing())

    @tasks.task(task_name="never")
    async def never() -> None:
        """Is not written."""

    async def main() -> None:
        with pytest.raises(SendTaskError) as caught:
            await never.kiq()
        assert str(caught.value.__cause__) == "not today"
        await tasks.shutdown()

    asyncio.run(main())


def test_what_may_pass_is_logged_once_and_ends_nothing(
    broker: ReferenceBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing_twice(monkeypatch, AsyncLeasingConsumer)
    tasks, seen = made(broker), list[str]()

    @tasks.task(task_name="note")
    async def note() -> None:
        seen.append("done")

    async def main() -> None:
        async with working(tasks):
            await note.kiq()
            await until(lambda: seen)

    asyncio.run(main())
    assert caplog.text.count("no route to it") == 1


def test_an_error_that_lasts_ends_the_worker(broker: ReferenceBroker) -> None:
    broker.faults.fail("ShareGroupHeartbeat", GroupAuthorizationFailedError)
    tasks = made(broker)

    async def main() -> None:
        with pytest.raises(GroupAuthorizationFailedError):
            await anext(tasks.listen())
        await tasks.shutdown()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share_acknowledgement_mode": "implicit"}, "sets it itself"),
        ({"value_deserializer": bytes}, "sets it itself"),
        ({"window_records": 0}, "window_records"),
        ({"max_lease_ms": "900000"}, "max_lease_ms"),
        ({"producer": object()}, "RecordProducer"),
        ({"group_idd": "g"}, "group_id"),
    ],
)
def test_a_mistake_is_refused_when_the_broker_is_made(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ShareGroupBroker("t", **{"bootstrap_servers": "localhost:1", "group_id": "g", **settings})
