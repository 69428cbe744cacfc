"""One reference broker for each test, workers in both forms, and waits on conditions, not on time."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest
from support.event_loop import until
from support.waiting import patience_s, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.worker import Lease, ShareWorker

GROUP = "workers"
LOCK_MS = 1_000


class WorkerOnThread:
    """A worker that runs on a thread as long as the block does."""

    def __init__(self, worker: ShareWorker[Any, Any]) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="the worker's run")

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop()
        self.join()

    def join(self) -> None:
        self._thread.join(patience_s())
        assert not self._thread.is_alive(), "the worker does not end"

    def wait_for(self, look: Callable[[], object]) -> None:
        wait_until(lambda: look() or self.error, lambda: f"{self.worker.inspect()}")
        if self.error is not None:
            raise self.error

    @property
    def counts(self) -> Any:
        return self.worker.inspect().counts


class Running(WorkerOnThread):
    """One with handlers of either form: `form` is "threads" or "tasks"."""

    def __init__(
        self, form: str, broker: ReferenceBroker, handle: Callable[[Any, Lease], Any], **settings: Any
    ) -> None:
        self.handled: Counter[int] = Counter()
        """How often the handler returned, by offset."""
        self.deliveries: Counter[tuple[int, int]] = Counter()
        """How often the handler was called, by offset and delivery count."""

        def on_thread(record: Any, lease: Lease) -> None:
            self.deliveries[record.offset, record.delivery_count] += 1
            handle(record, lease)
            self.handled[record.offset] += 1

        async def as_task(record: Any, lease: Lease) -> None:
            self.deliveries[record.offset, record.delivery_count] += 1
            result = handle(record, lease)
            if result is not None:
                await result
            self.handled[record.offset] += 1

        servers = {"bootstrap_servers": broker.bootstrap_servers, "group_id": GROUP}
        handler = on_thread if form == "threads" else as_task
        super().__init__(ShareWorker(settings.pop("topics", "t"), handler, **{**servers, **settings}))


def until_ended(form: str, lease: Lease) -> Any:
    """What a handler does that works until its lease ends, in either form."""
    if form == "threads":
        lease.ended.wait(patience_s())
        return None
    return asyncio.sleep(patience_s())


def until_true(form: str, look: Callable[[], object]) -> Any:
    """What a handler does that waits for a test, in either form."""
    if form == "threads":
        wait_until(look)
        return None
    return until(look)


@pytest.fixture(params=["threads", "tasks"])
def form(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(config={"group.share.min.record.lock.duration.ms": LOCK_MS}) as running:
        running.create_topic("t")
        running.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        yield running


@pytest.fixture
def short_locks(broker: ReferenceBroker) -> None:
    """Locks of a second, where a test waits for their end."""
    broker.set_group_config(GROUP, {"share.record.lock.duration.ms": LOCK_MS})


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before and thread.is_alive()]
    assert not left, f"threads left behind: {left}"
