"""One client consumes once, and says what that took: a process of its own for each run of each contestant.

    python -m performance.contestant '{"client": "ours", "bootstrap": …, "topic": …, "group": …, "records": 100000}'

Started by `runs`. Nothing stands between a client and its loop, so each has loops in its own words; `handlers` has
those of the rows about handlers.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from performance import handlers
from performance.foreign import confluent_consumer
from performance.meter import COLUMNS, HANDLERS_MODE, IMPLICIT, Meter, Task

from kafka_share import AsyncShareConsumer, KafkaShareConsumer

_POLL_MS: Final = 500

Records = Sequence[Any]


# ---- ours


def _our_settings(task: Task) -> dict[str, Any]:
    return {
        "bootstrap_servers": task.bootstrap,
        "group_id": task.group,
        "max_poll_records": task.max_poll_records,
        "share_acknowledgement_mode": "implicit" if task.mode in IMPLICIT else "explicit",
        "explicit_window_records": task.window and task.window + task.max_poll_records,
        "send_ahead": task.send_ahead,
    }


def _our_handler(task: Task, acknowledge: Callable[[Any], None]) -> Callable[[Records], None]:
    turns = range(task.work)
    in_flight: deque[Any] = deque()

    def look(records: Records) -> None:
        for record in records:
            record.value  # noqa: B018

    def look_and_work(records: Records) -> None:
        for record in records:
            record.value  # noqa: B018
            for _ in turns:
                pass

    def look_and_acknowledge(records: Records) -> None:
        for record in records:
            record.value  # noqa: B018
            for _ in turns:
                pass
            acknowledge(record)

    def keep_in_flight(records: Records) -> None:
        for record in records:
            record.value  # noqa: B018
            in_flight.append(record)
        while len(in_flight) > task.window:
            acknowledge(in_flight.popleft())

    if task.mode == "window":
        return keep_in_flight
    if task.mode in IMPLICIT:
        return look_and_work if task.work else look
    return look_and_acknowledge


def our_columns(task: Task) -> Meter:
    with KafkaShareConsumer(task.topic, **_our_settings(task)) as consumer:
        meter = Meter(task)
        while meter.wants_more():
            polled = consumer.poll_arrow(timeout_ms=_POLL_MS, copy=False)
            assert len(polled.batch["value"]) == len(polled)
            if task.mode == "rows":
                consumer.acknowledge_all(polled)
            meter.handled(len(polled))
        return meter


def ours(task: Task) -> Meter:
    if task.mode in COLUMNS:
        return our_columns(task)
    consumer: KafkaShareConsumer[Any, Any]
    with KafkaShareConsumer(task.topic, **_our_settings(task)) as consumer:
        handle = _our_handler(task, consumer.acknowledge)
        meter = Meter(task)
        while meter.wants_more():
            records = consumer.poll(timeout_ms=_POLL_MS)
            if task.stamped:
                meter.arrived([record.value for record in records])
            handle(records)
            if task.mode == "commit":
                consumer.commit_sync()
            meter.handled(len(records))
        return meter


async def _ours_on_a_loop(task: Task) -> Meter:
    consumer: AsyncShareConsumer[Any, Any]
    async with AsyncShareConsumer(task.topic, **_our_settings(task)) as consumer:
        handle = _our_handler(task, consumer.acknowledge)
        meter = Meter(task)
        while meter.wants_more():
            records = await consumer.poll(timeout_ms=_POLL_MS)
            if task.stamped:
                meter.arrived([record.value for record in records])
            handle(records)
            if task.mode == "commit":
                await consumer.commit_sync()
            meter.handled(len(records))
        return meter


# ---- confluent-kafka's


def _foreign_handler(task: Task, acknowledge: Callable[[Any], None]) -> Callable[[Records], None]:
    turns = range(task.work)

    def look(records: Records) -> None:
        for record in records:
            record.value()

    def look_and_work(records: Records) -> None:
        for record in records:
            record.value()
            for _ in turns:
                pass

    def look_and_acknowledge(records: Records) -> None:
        for record in records:
            record.value()
            for _ in turns:
                pass
            acknowledge(record)

    if task.mode in IMPLICIT:
        return look_and_work if task.work else look
    return look_and_acknowledge


def confluent(task: Task) -> Meter:
    consumer = confluent_consumer(task)
    handle = _foreign_handler(task, consumer.acknowledge)
    meter = Meter(task)
    while meter.wants_more():
        records = consumer.poll(_POLL_MS / 1_000)
        if task.stamped:
            meter.arrived([record.value() for record in records])
        handle(records)
        if task.mode == "commit":
            consumer.commit_sync()
        meter.handled(len(records))
    consumer.close()
    return meter


# ---- nobody's


def raw(task: Task) -> Meter:
    from performance.raw_client import work

    meter = Meter(task)
    for count in work(task.mode, task.bootstrap, task.topic, task.group, task.records):
        meter.handled(count)
    return meter


CLIENTS: Final[dict[str, Callable[[Task], Meter | Awaitable[Meter]]]] = {
    "ours": ours,
    "ours-asyncio": _ours_on_a_loop,
    "confluent": confluent,
    "raw": raw,
}


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    clients = handlers.CLIENTS if task.mode == HANDLERS_MODE else CLIENTS
    done = clients[task.client](task)
    meter = done if isinstance(done, Meter) else asyncio.run(_awaited(done))
    sys.stdout.write(f"{json.dumps(meter.result())}\n")


async def _awaited(done: Awaitable[Meter]) -> Meter:
    return await done


if __name__ == "__main__":
    main()
