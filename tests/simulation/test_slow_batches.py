"""Work that takes longer than the locks of a whole batch: each record is handled once, and accepted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from simulation.client import SimulatedClient
from simulation.facade import Steps
from simulation.scene import TOPIC, Scene

from kafka_share.records import AcknowledgeType, ShareRecord

Record = ShareRecord[Any, Any]
SHORT_LOCKS = {"group.share.record.lock.duration.ms": 2_000, "group.share.min.record.lock.duration.ms": 1_000}


class Worker:
    """Handles each record of a loop in `work_ms`, the first in `first_ms`, until `records` have been handled."""

    def __init__(self, records: int, work_ms: int, first_ms: int | None = None) -> None:
        self.handled: Counter[int] = Counter()
        self.deliveries: Counter[int] = Counter()
        self._records = records
        self._work_ms = work_ms
        self._first_ms = work_ms if first_ms is None else first_ms

    def __call__(self, client: SimulatedClient) -> Steps[None]:
        facade = client.facade
        facade.subscribe(frozenset({TOPIC}))

        def work(record: Record) -> Steps[bool]:
            yield from facade.sleep(self._work_ms if self.handled else self._first_ms)
            self.handled[record.offset] += 1
            self.deliveries[record.delivery_count] += 1
            if client.profile.explicit:
                facade.acknowledge(record, AcknowledgeType.ACCEPT)
            return True

        while len(self.handled) < self._records:
            yield from facade.read(1_000, work)
        yield from facade.commit_sync(10_000)
        yield from facade.close(10_000)


@pytest.mark.better_than_java("slow-work")
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize(
    ("records", "work_ms", "config"),
    [
        pytest.param(100, 50, SHORT_LOCKS, id="2 s"),
        pytest.param(500, 100, {}, id="defaults"),
        pytest.param(500, 1_000, {}, id="many locks long"),
        pytest.param(5, 20_000, SHORT_LOCKS, id="one record takes ten locks"),
    ],
)
def test_a_slow_loop_handles_and_accepts_each_record_once(
    explicit: bool, records: int, work_ms: int, config: dict[str, int]
) -> None:
    """A batch that takes longer than its locks: acknowledgements leave in time, and the locks of the rest are kept."""
    scene, worker = Scene(records, config), Worker(records, work_ms)
    scene.join(worker, explicit=explicit)
    scene.run()
    assert worker.handled == dict.fromkeys(range(records), 1)
    assert worker.deliveries == {1: records}
    assert scene.finished == records
    assert scene.count("outcome accepted") > 1
    assert not scene.count("outcome InvalidRecordStateError")


@pytest.mark.parametrize("explicit", [False, True])
def test_a_loop_that_hangs_loses_its_locks(explicit: bool) -> None:
    """Others get the records of a loop that has stood still for `max_poll_interval_ms`, 300 s by default."""
    scene, worker = Scene(3, SHORT_LOCKS), Worker(3, 10, first_ms=310_000)
    client = scene.join(worker, explicit=explicit)
    scene.run()
    assert scene.finished == 3
    assert client.driver.core.measurements.lost.sum >= 2, "those behind the one that hangs"
    assert worker.deliveries[2] >= 2


@pytest.mark.better_than_java("slow-work")
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("version", ["4.1", "4.3"])
def test_a_loop_leaves_out_what_was_lost_where_locks_cannot_be_renewed(explicit: bool, version: str) -> None:
    """Without renewals the rest of a batch loses its locks: the loop skips it, and the next delivery brings it."""
    scene, worker = Scene(100, SHORT_LOCKS, kafka_version=version), Worker(100, 50)
    if version == "4.3":
        scene.forbid_renewals()
    client = scene.join(worker, explicit=explicit)
    scene.run()
    assert scene.finished == 100
    assert len(worker.handled) == 100
    assert worker.handled.total() <= 103, "only what was in hand when its lock ended may come twice"
    assert client.driver.core.measurements.lost.sum >= 50


def test_without_the_option_nothing_leaves_before_the_next_poll() -> None:
    """protect_locks=False is Java's way: late acknowledgements fail, and records come again and again."""
    scene, worker = Scene(100, SHORT_LOCKS), Worker(100, 50)
    scene.join(worker, explicit=True, protect_locks=False)
    scene.run()
    assert scene.count("outcome InvalidRecordStateError") >= 1
    assert not scene.count("renewed by the client")
