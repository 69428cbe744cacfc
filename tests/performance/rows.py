"""What is measured: the rows of the table, and why ours are behind where they are.

Read by `bench`, `runs` and `page`. A row is one setting of everything but the client; its contestants take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs
from performance.meter import HANDLERS_MODE
from performance.other_brokers import NAMES as OTHER_BROKERS
from performance.raw_client import FETCH, PRODUCE, THROUGH
from performance.replayed_batches import Shape
from performance.stub_broker import Settings
from performance.targets import KAFKA, KFAKE, MOCK, REFERENCE, STUB

from kafka_share.protocol.record_format import Codec

OURS: Final = "ours"
OURS_ASYNCIO: Final = "ours-asyncio"
WORKER: Final = "worker"
WORKER_TASKS: Final = "worker-tasks"
CONFLUENT: Final = "confluent"
JAVA: Final = "java"
RAW: Final = "raw"
"""Raw requests: the row is about the broker."""
PEERS: Final = (CONFLUENT, JAVA)

PAIR: Final = (OURS, CONFLUENT)
TRIO: Final = (OURS, CONFLUENT, JAVA)
ALL: Final = (OURS, OURS_ASYNCIO, CONFLUENT, JAVA)
WITH_WORKERS: Final = (OURS, WORKER, WORKER_TASKS, CONFLUENT)

NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        OURS: "kafka_share",
        OURS_ASYNCIO: "kafka_share, asyncio",
        WORKER: "kafka_share, worker with threads",
        WORKER_TASKS: "kafka_share, worker with tasks",
        CONFLUENT: "confluent-kafka",
        JAVA: "Java",
        RAW: "raw requests",
    }
)

RECORDS: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        STUB: {OURS: 16, OURS_ASYNCIO: 14, CONFLUENT: 7, JAVA: 20},
        REFERENCE: {OURS: 1, OURS_ASYNCIO: 1, CONFLUENT: 1, JAVA: 1, RAW: 1},
        KAFKA: {OURS: 1, OURS_ASYNCIO: 1, CONFLUENT: 2, JAVA: 4},
        KFAKE: {RAW: 1},
        MOCK: {RAW: 1},
    }
)
"""How many times the records of a row a contestant is given, so that each is busy for about a second: in less, what a
process does once would count (first calls, threads of pyarrow that start). The Java client's first quarter is left out:
its virtual machine compiles then."""

CAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "polls": "a poll fetches by itself, on the thread that calls it; what it costs beside the records are three "
        "system calls and a wait, after which the processor's caches are cold, and a hundred steps of the interpreter",
        "calls": "each record is a call from Python, and a commit is another request",
        "loop": "the handler's loop and the interpreter are most of what is measured, for every client in Python",
        "window": "in an open window that is never empty a poll is asked for what there is room for, and brings fewer "
        "records; and there the background thread fetches: a poll costs two turns of an event loop in Python, and a "
        "hand-over between two threads that take turns at the interpreter's lock",
        "serial": "a loop works on one record after the other, where a worker and a pool of threads work on ten",
        "worker": "rules in Python decide about each record, its lock is kept and its outcome awaited, and a thread or "
        "a task gets it by itself; for that failures are tried again, long handlers keep their locks, and a stop "
        "loses nothing",
    }
)


@attrs.frozen(kw_only=True)
class Row:
    """`records`: of each of our contestants in a run. `work`, `wait_us`, `mode`, `window`, `send_ahead`: as in a
    `Task`. `causes`: keys of `CAUSES`, for the case that ours are behind."""

    id: str
    part: str
    title: str
    target: str = STUB
    settings: Settings = attrs.field(factory=Settings)
    contestants: tuple[str, ...] = PAIR
    records: int = 150_000
    mode: str = "implicit"
    max_poll_records: int = 500
    work: int = 0
    wait_us: int = 0
    window: int = 0
    send_ahead: bool = False
    consumers: int = 1
    causes: tuple[str, ...] = ("polls",)

    @property
    def is_latency(self) -> bool:
        return bool(self.settings.every_ms)

    def records_of(self, contestant: str) -> int:
        """Before a run is made smaller."""
        is_same_for_all = self.is_latency or self.mode == HANDLERS_MODE
        return self.records if is_same_for_all else self.records * RECORDS[self.target][contestant]


RATE: Final = "Throughput and CPU on the stub"
BROKERS: Final = "Throughput and CPU on brokers"
ALONE: Final = "Fake brokers alone"
HANDLERS: Final = "Handlers: a loop, the worker, confluent-kafka with a pool of threads"
LATENCY: Final = "Latency"
BY_CONSUMERS: Final = "Scaling: consumers, each a process"
BY_PARTITIONS: Final = "Scaling: partitions"
BY_FLIGHT: Final = "Scaling: records in flight (open window)"
PARTS: Final = (RATE, BROKERS, ALONE, HANDLERS, LATENCY, BY_CONSUMERS, BY_PARTITIONS, BY_FLIGHT)

_AHEAD: Final = "; ours with send_ahead"
_IMPLICIT: Final = ("polls",)
_EXPLICIT: Final = ("polls", "calls")
_WINDOW: Final = ("window", "calls")
_BUSY: Final = ("loop", "polls")
_MODES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("implicit", "implicit", _IMPLICIT),
    ("explicit", "explicit, a call per record", _EXPLICIT),
    ("commit", "explicit, and commit_sync after each poll", _EXPLICIT),
)
CODECS: Final[tuple[Codec, ...]] = ("gzip", "snappy", "lz4", "zstd")


def _on_the_stub() -> Iterator[Row]:
    for mode, words, causes in _MODES:
        contestants = ALL if mode != "commit" else TRIO
        yield Row(
            id=f"stub-100-{mode}", part=RATE, title=f"100 B, {words}", mode=mode, causes=causes, contestants=contestants
        )
    yield Row(
        id="stub-100-window",
        part=RATE,
        title="100 B, open window of 5,000 records",
        contestants=(OURS,),
        mode="window",
        window=5_000,
        records=50_000,
        causes=_WINDOW,
    )
    large = Settings(shape=Shape(1_000))
    for mode, words, causes in _MODES[:2]:
        yield Row(
            id=f"stub-1000-{mode}",
            part=RATE,
            title=f"1 kB, {words}",
            settings=large,
            mode=mode,
            contestants=TRIO,
            records=100_000,
            causes=causes,
        )
    for value_bytes, label in ((100, "100 B"), (1_000, "1 kB")):
        for mode, words, peers in (
            ("columns", "implicit, ours as columns of Arrow that refer to the broker's bytes", _IMPLICIT),
            ("rows", "explicit, ours as such columns and acknowledged as a whole", _EXPLICIT),
        ):
            yield Row(
                id=f"stub-{value_bytes}-{mode}",
                part=RATE,
                title=f"{label}, {words}",
                settings=Settings(shape=Shape(value_bytes)),
                mode=mode,
                causes=peers,
            )
        yield Row(
            id=f"stub-{value_bytes}-columns-2000",
            part=RATE,
            title=f"{label}, implicit, ours as such columns, max_poll_records 2,000",
            settings=Settings(shape=Shape(value_bytes)),
            mode="columns",
            max_poll_records=2_000,
            causes=_IMPLICIT,
        )
    yield Row(id="stub-100-poll-2000", part=RATE, title="100 B, max_poll_records 2,000", max_poll_records=2_000)
    headers = Settings(shape=Shape(100, headers=2))
    yield Row(id="stub-100-headers", part=RATE, title="100 B and two headers, which nobody reads", settings=headers)
    for partitions in (4, 16):
        yield Row(
            id=f"stub-100-partitions-{partitions}",
            part=RATE,
            title=f"100 B, {partitions} partitions",
            settings=Settings(partitions),
        )
    for size in (10, 1):
        yield Row(
            id=f"stub-100-batches-{size}",
            part=RATE,
            title=f"100 B, batches of {size}",
            settings=Settings(shape=Shape(100, batch_records=size)),
            records=100_000,
        )
    for value_bytes, label in ((100, "100 B"), (1_000, "1 kB")):
        for codec in CODECS:
            yield Row(
                id=f"stub-{value_bytes}-{codec}",
                part=RATE,
                title=f"{label}, {codec}",
                settings=Settings(shape=Shape(value_bytes, codec=codec)),
                records=100_000 if value_bytes == 100 else 10_000 if codec == "gzip" else 40_000,
                causes=_IMPLICIT,
            )
    yield Row(
        id="stub-100-busy",
        part=RATE,
        title="100 B, a handler that computes (an empty loop of 50 turns)",
        work=50,
        causes=_BUSY,
    )
    slow = Settings(delay_ms=1)
    yield Row(
        id="stub-100-delay",
        part=RATE,
        title="100 B, a broker that takes 1 ms",
        settings=slow,
        records=40_000,
        causes=_BUSY,
    )
    for send_ahead in (False, True):
        yield Row(
            id="stub-100-delay-busy" + ("-ahead" if send_ahead else ""),
            part=RATE,
            title="100 B, a broker that takes 1 ms, and the handler of 50 turns" + (_AHEAD if send_ahead else ""),
            settings=slow,
            records=40_000,
            work=50,
            send_ahead=send_ahead,
            causes=_BUSY,
        )
    yield Row(
        id="stub-100-ahead", part=RATE, title=f"100 B, implicit{_AHEAD}", send_ahead=True, contestants=(OURS, CONFLUENT)
    )


def _on_brokers() -> Iterator[Row]:
    for target, name, records in ((REFERENCE, "reference broker", 100_000), (KAFKA, f"Apache Kafka {KAFKA}", 400_000)):
        short = "reference" if target == REFERENCE else "kafka"
        contestants = PAIR if target == REFERENCE else TRIO

        def row(suffix: str, title: str, **more: Any) -> Row:
            made = Row(
                id=f"{short}-{suffix}",  # noqa: B023 - called in this turn of the loop
                part=BROKERS,
                title=f"{name}: {title}",  # noqa: B023
                target=target,  # noqa: B023
                contestants=contestants,  # noqa: B023
                records=records,  # noqa: B023
            )
            return attrs.evolve(made, **more)

        yield row("100-implicit", "100 B, implicit")
        yield row("100-explicit", "100 B, explicit, a call per record", mode="explicit", causes=_EXPLICIT)
        if target == KAFKA:
            yield row("100-poll-2000", "100 B, implicit, max_poll_records 2,000", max_poll_records=2_000)
            busy = "100 B, a handler that computes (200 turns)"
            yield row("100-busy", busy, work=200, contestants=PAIR, causes=_BUSY)
            yield row("100-busy-ahead", busy + _AHEAD, work=200, send_ahead=True, contestants=PAIR, causes=_BUSY)
            long = "100 B, a handler that computes for about 4 µs (400 turns)" + _AHEAD
            yield row(
                "100-long-ahead", long, work=400, send_ahead=True, contestants=PAIR, records=200_000, causes=_BUSY
            )
            yield row("1000-implicit", "1 kB, implicit", settings=Settings(shape=Shape(1_000)), records=150_000)


def _brokers_alone() -> Iterator[Row]:
    """The broker's CPU is the figure: raw requests keep it busy, on the other processor."""
    for mode, words in (
        (PRODUCE, "produce"),
        (FETCH, "share-fetch and acknowledge"),
        (THROUGH, "both at once, so that each record goes through"),
    ):
        for target, name in ((REFERENCE, "reference broker"), *OTHER_BROKERS.items()):
            yield Row(
                id=f"{target}-alone-{mode}",
                part=ALONE,
                title=f"{name}: {words}",
                target=target,
                contestants=(RAW,),
                records=60_000 if target == MOCK else 300_000,  # each partition of the mock keeps 5 MB
                mode=mode,
                causes=(),
            )


def _handlers() -> Iterator[Row]:
    """Ten handlers at a time, but in the loop: it has one. Each record is acknowledged when its handler returns."""
    for target, name in ((STUB, "stub"), (REFERENCE, "reference broker"), (KAFKA, f"Apache Kafka {KAFKA}")):
        short = "kafka" if target == KAFKA else target
        made = Row(
            id=f"handlers-{short}-empty",
            part=HANDLERS,
            title=f"{name}: handlers that do nothing",
            target=target,
            contestants=WITH_WORKERS,
            mode=HANDLERS_MODE,
            window=1_000,
            records=60_000,
            causes=("worker", "window"),
        )
        yield made
        yield attrs.evolve(
            made,
            id=f"handlers-{short}-wait",
            title=f"{name}: handlers that wait for 2 ms",
            settings=Settings(shape=Shape(100, batch_records=100)),
            wait_us=2_000,
            window=100,
            max_poll_records=100 if target == STUB else 500,  # brokers have batches of 500
            records=3_000,
            causes=("serial", "worker", "window"),
        )
    yield Row(
        id="latency-handlers-stub",
        part=LATENCY,
        title="stub, to the handler",
        settings=Settings(every_ms=20),
        contestants=WITH_WORKERS,
        mode=HANDLERS_MODE,
        window=50,
        records=400,
        causes=("worker", "window"),
    )


def _latency() -> Iterator[Row]:
    for target, name in ((STUB, "stub"), (REFERENCE, "reference broker"), (KAFKA, f"Apache Kafka {KAFKA}")):
        yield Row(
            id=f"latency-{'kafka' if target == KAFKA else target}",
            part=LATENCY,
            title=name,
            target=target,
            settings=Settings(every_ms=20),
            contestants=TRIO if target == KAFKA else (OURS, OURS_ASYNCIO, CONFLUENT) if target == STUB else PAIR,
            records=400,
            causes=("polls",),
        )


def _scaling() -> Iterator[Row]:
    for consumers in (1, 2, 4, 8):
        yield Row(
            id=f"consumers-{consumers}",
            part=BY_CONSUMERS,
            title=f"{consumers}",
            settings=Settings(16),
            consumers=consumers,
            records=100_000,
        )
    for partitions in (1, 4, 16, 64, 200):
        yield Row(
            id=f"partitions-{partitions}",
            part=BY_PARTITIONS,
            title=f"{partitions}",
            settings=Settings(partitions),
            records=100_000,
        )
    for window in (10, 100, 1_000, 10_000, 100_000):
        yield Row(
            id=f"in-flight-{window}",
            part=BY_FLIGHT,
            title=f"{window:,}",
            settings=Settings(4, Shape(100, batch_records=10)),
            contestants=(OURS,),
            mode="window",
            window=window,
            max_poll_records=min(500, window),
            records={10: 2_500, 100: 10_000, 100_000: 60_000}.get(window, 40_000),
            causes=_WINDOW,
        )


ROWS: Final[tuple[Row, ...]] = (
    *_on_the_stub(),
    *_on_brokers(),
    *_brokers_alone(),
    *_handlers(),
    *_latency(),
    *_scaling(),
)

QUICK: Final = (
    "stub-100-implicit",
    "stub-100-explicit",
    "stub-1000-implicit",
    "stub-100-batches-1",
    "stub-100-lz4",
    "latency-stub",
)
"""What `--quick` measures."""
