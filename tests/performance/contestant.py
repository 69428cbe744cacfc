"""One client consumes once, and says what that took: a process of its own for each run of each contestant.

    python -m performance.contestant '{"client": "ours", "bootstrap": …, "topic": …, "group": …, "records": 100000}'

Started by `runs`. The clock begins when the first records have been handled, and stops when the last ones have: joining
the group is not measured. Nothing stands between a client and its loop, so each has loops in its own words.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from kafka_share import AsyncShareConsumer, KafkaShareConsumer

_POLL_MS: Final = 500
_STAMP: Final = struct.Struct(">q")
_GIVE_UP_S: Final = 60
"""Without any record."""

BEGUN: Final = "begun"
"""A line that each contestant prints when it has its first records. The last line is its result, as JSON."""

IMPLICIT: Final = ("implicit", "columns")
COLUMNS: Final = ("columns", "rows")

Records = Sequence[Any]


@attrs.frozen
class Task:
    """What to do. `mode`: implicit, explicit (a call per record), commit (explicit, and commit_sync after each poll),
    window (the oldest are acknowledged while more than `window` are in flight; another poll fits), columns and rows
    (implicit and explicit, polled as columns of Arrow and acknowledged as a whole; the peers work as in those), or one
    of `raw_client`. `work`: turns of an empty loop per record. `send_ahead`: the setting of our clients. `stamped`:
    values begin with the time they were made at. `idle_s`: end when nothing has come for so long, as one of several
    consumers does that cannot know its share; 0: at `records`."""

    client: str
    bootstrap: str
    topic: str
    group: str
    records: int
    mode: str = "implicit"
    max_poll_records: int = 500
    work: int = 0
    window: int = 0
    send_ahead: bool = False
    stamped: bool = False
    idle_s: float = 0


class Meter:
    """Time and CPU between the first records and the last."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._count = 0
        self._begun: tuple[int, float, float, float] | None = None
        self._ended = (0, 0.0, 0.0, 0.0)
        self._last_at_s = time.monotonic()
        self.latencies_us: list[float] = []

    def wants_more(self) -> bool:
        silent_s = time.monotonic() - self._last_at_s
        if self._task.idle_s:
            return silent_s < (self._task.idle_s if self._begun else _GIVE_UP_S)
        if silent_s > _GIVE_UP_S:
            raise TimeoutError(f"{self._count} records of {self._task.records} came")
        return self._count < self._task.records

    def arrived(self, values: Sequence[bytes]) -> None:
        """Stamped records are in the application's hands."""
        now = time.time_ns()
        if self._begun is None:
            return  # it waited for this consumer to join
        self.latencies_us += [(now - _STAMP.unpack_from(value)[0]) / 1_000 for value in values]

    def handled(self, count: int) -> None:
        if not count:
            return
        self._count += count
        self._last_at_s = time.monotonic()
        self._ended = (self._count, self._last_at_s, time.process_time(), time.thread_time())
        if self._begun is None:
            self._begun = self._ended
            sys.stdout.write(f"{BEGUN}\n")
            sys.stdout.flush()

    def result(self) -> dict[str, Any]:
        if self._begun is None:
            return {"records": 0}
        before, began_at_s, cpu_before_s, own_before_s = self._begun
        count, ended_at_s, cpu_s, own_s = self._ended
        return {
            "records": count - before,
            "began_at_s": began_at_s,
            "ended_at_s": ended_at_s,
            "cpu_s": cpu_s - cpu_before_s,
            "application_cpu_s": own_s - own_before_s,
            "rss_mb": _most_memory_mb(),
            "latencies_us": self.latencies_us,
        }


def _most_memory_mb() -> float:
    """0 where it cannot be known. `getrusage` knows the most of the process that started this one, too."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(status.partition("VmHWM:")[2].split()[0]) / 1_024


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
    from confluent_kafka import ShareConsumer

    consumer: Any = ShareConsumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            "max.poll.records": task.max_poll_records,
            "share.acknowledgement.mode": "implicit" if task.mode in IMPLICIT else "explicit",
        }
    )
    consumer.subscribe([task.topic])
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
    done = CLIENTS[task.client](task)
    meter = done if isinstance(done, Meter) else asyncio.run(_awaited(done))
    sys.stdout.write(f"{json.dumps(meter.result())}\n")


async def _awaited(done: Awaitable[Meter]) -> Meter:
    return await done


if __name__ == "__main__":
    main()
