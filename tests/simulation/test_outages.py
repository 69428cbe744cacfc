"""What it costs to give everything back: pauses instead of deliveries, and a word about the last ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from simulation.client import SimulatedClient
from simulation.facade import Steps
from simulation.scene import TOPIC, Scene

from kafka_share.core.log_events import LOG_EVENTS, WARNING
from kafka_share.records import AcknowledgeType, ShareRecord

Record = ShareRecord[Any, Any]
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE


class Worker:
    """A loop that handles records at once. Everything fails until `fails_until_ms` after the first record."""

    def __init__(self, records: int, fails_until_ms: int) -> None:
        self.handled: Counter[int] = Counter()
        self.tries: list[tuple[int, int, bool | None]] = []
        """(milliseconds since the first, delivery count, whether it was known to be the last delivery)"""
        self.limit_ms = 60_000
        self._records = records
        self._fails_until_ms = fails_until_ms
        self.on_failure: Callable[[SimulatedClient, Record], None] = lambda client, record: client.facade.acknowledge(
            record, RELEASE
        )

    def __call__(self, client: SimulatedClient) -> Steps[None]:
        facade, now_ms = client.facade, client.driver.now_ms
        facade.subscribe(frozenset({TOPIC}))
        began_at_ms: list[int] = []

        def work(record: Record) -> Steps[bool]:
            began_at_ms.append(now_ms())
            since_ms = now_ms() - began_at_ms[0]
            self.tries.append((since_ms, record.delivery_count, record.is_last_delivery))
            if since_ms < self._fails_until_ms:
                self.on_failure(client, record)
            else:
                self.handled[record.offset] += 1
                facade.acknowledge(record, ACCEPT)
            yield from facade.sleep(0)
            return True

        while len(self.handled) < self._records and now_ms() < self.limit_ms:
            yield from facade.read(1_000, work)
        yield from facade.commit_sync(10_000)
        yield from facade.close(10_000)


def warnings_of(client: SimulatedClient) -> list[tuple[str, dict[str, Any]]]:
    return [(name, fields) for name, fields in client.driver.logs if LOG_EVENTS[name].level >= WARNING]


@pytest.mark.better_than_java("release-backoff")
def test_a_consumer_that_releases_everything_pauses_longer_each_time() -> None:
    """Alone, it spends the five deliveries of a record in fifteen seconds: an outage of two seconds loses nothing."""
    scene, worker = Scene(100), Worker(100, fails_until_ms=2_000)
    scene.join(worker, explicit=True)
    scene.run()
    assert worker.handled == dict.fromkeys(range(100), 1)
    assert max(count for _, count, _ in worker.tries) == 3


def test_the_pauses_double_and_the_last_delivery_is_known_and_named() -> None:
    """Where the outage lasts longer, the fifth delivery comes after 15 s, is the last, and its release is logged."""
    scene, worker = Scene(1), Worker(1, fails_until_ms=50_000)
    client = scene.join(worker, explicit=True)
    scene.run()
    times = {count: since_ms for since_ms, count, _ in worker.tries}
    assert sorted(times) == [1, 2, 3, 4, 5]
    assert 12_000 < times[5] < 18_500
    assert [is_last for _, _, is_last in worker.tries] == [False] * 4 + [True]
    assert scene.finished == 1
    spent = [log for log in warnings_of(client) if log[0] == "last-delivery-spent"]
    assert [fields["records"] for _, fields in spent] == [1]
    assert spent[0][1]["places"] == f"{TOPIC}-0@0"


def test_a_record_whose_lock_is_lost_on_its_last_delivery_is_named() -> None:
    """Nobody released it: the application was too slow, and nothing says so but the log."""
    config = {"group.share.record.lock.duration.ms": 1_000, "group.share.min.record.lock.duration.ms": 1_000}
    scene = Scene(1, {**config, "group.share.delivery.count.limit": 2})

    def life(client: SimulatedClient) -> Steps[None]:
        facade = client.facade
        facade.subscribe(frozenset({TOPIC}))
        for _ in range(10):
            for record in (yield from facade.poll(1_000)):
                yield from facade.sleep(2_000)
                facade.acknowledge(record, ACCEPT)
        yield from facade.close(10_000)

    client = scene.join(life, explicit=True, protect_locks=False)
    scene.run()
    assert [fields for name, fields in warnings_of(client) if name == "last-delivery-spent"] == [
        {"records": 1, "places": f"{TOPIC}-0@0"}
    ]


def test_the_pause_is_over_after_an_accept() -> None:
    """One record that is accepted shows that the others may be tried again at once."""
    scene, worker = Scene(2), Worker(2, fails_until_ms=0)
    failures = Counter[int]()

    def life(client: SimulatedClient) -> Steps[None]:
        facade = client.facade
        facade.subscribe(frozenset({TOPIC}))
        while not worker.handled[1]:
            for record in (yield from facade.poll(1_000)):
                failures[record.offset] += record.offset
                is_done = record.offset == 0 or failures[1] == 4
                worker.handled[record.offset] += is_done
                worker.tries.append((client.driver.now_ms(), record.delivery_count, None))
                facade.acknowledge(record, ACCEPT if is_done else RELEASE)
        yield from facade.close(10_000)

    scene.join(life, explicit=True)
    scene.run()
    times = [at_ms for at_ms, _, _ in worker.tries]
    assert times[2] - times[1] < 600, "the first poll accepted one of two"
    assert times[3] - times[2] > 700


def test_without_the_option_a_release_is_a_delivery_at_once() -> None:
    scene, worker = Scene(10), Worker(10, fails_until_ms=2_000)
    scene.join(worker, explicit=True, release_backoff_ms=0)
    scene.run()
    assert not worker.handled
    assert scene.finished == 10


@pytest.mark.parametrize("version", ["4.1", "4.2", "4.3"])
def test_the_limit_is_known_on_every_version(version: str) -> None:
    """Up to Kafka 4.2 it is the broker's config, from 4.3 on the group's."""
    scene, worker = Scene(1, {"group.share.delivery.count.limit": 2}, kafka_version=version), Worker(1, 600)
    scene.join(worker, explicit=True)
    scene.run()
    assert [(count, is_last) for _, count, is_last in worker.tries] == [(1, False), (2, True)]


# ---- release after a while


def test_a_record_that_is_released_with_a_delay_keeps_its_delivery_until_then() -> None:
    """An outage of a minute, and locks of 30 seconds: each record waits under its lock, and needs one more delivery."""
    scene, worker = Scene(100), Worker(100, fails_until_ms=60_000)
    worker.on_failure = lambda client, record: client.facade.release(record, 61_000)
    client = scene.join(worker, explicit=True)
    worker.limit_ms = 200_000
    scene.run()
    assert worker.handled == dict.fromkeys(range(100), 1)
    assert {count for _, count, _ in worker.tries} == {1, 2}
    assert min(since_ms for since_ms, count, _ in worker.tries if count == 2) >= 61_000
    assert scene.count("renewed by the client") >= 200
    assert not warnings_of(client)


@pytest.mark.parametrize("version", ["4.1", "4.3"])
def test_a_delay_ends_before_the_lock_where_locks_cannot_be_renewed(version: str) -> None:
    """It is a pause then, and a WARNING says so; the release is in time, so no acknowledgement fails."""
    scene, worker = Scene(10, kafka_version=version), Worker(10, fails_until_ms=1_000)
    if version == "4.3":
        scene.forbid_renewals()
    worker.on_failure = lambda client, record: client.facade.release(record, 600_000)
    client = scene.join(worker, explicit=True)
    scene.run()
    assert worker.handled == dict.fromkeys(range(10), 1)
    assert 10_000 < min(since_ms for since_ms, count, _ in worker.tries if count == 2) < 30_000
    assert [name for name, _ in warnings_of(client)] == ["renewals-refused"]
    assert not scene.count("outcome InvalidRecordStateError")


def test_close_releases_what_waits_for_its_release() -> None:
    scene = Scene(10)

    def life(client: SimulatedClient) -> Steps[None]:
        facade = client.facade
        facade.subscribe(frozenset({TOPIC}))
        for record in (yield from facade.poll(10_000)):
            facade.release(record, 900_000)
        yield from facade.close(10_000)

    scene.join(life, explicit=True)
    scene.run()
    assert scene.count("outcome accepted") == 1, "the release has its outcome before close returns"


# ---- the open window


def test_records_whose_lock_is_lost_make_room_in_the_window_and_are_named() -> None:
    """A worker that forgets its records holds up nobody for ever: others come when the locks have ended."""
    config = {"group.share.record.lock.duration.ms": 1_000, "group.share.min.record.lock.duration.ms": 1_000}
    scene, seen = Scene(20, config), Counter[int]()

    def life(client: SimulatedClient) -> Steps[None]:
        facade = client.facade
        facade.subscribe(frozenset({TOPIC}))
        while seen.total() < 30:
            for record in (yield from facade.poll(1_000)):
                seen[record.offset] += 1
                if record.delivery_count > 1:
                    facade.acknowledge(record, ACCEPT)
        yield from facade.close(10_000)

    client = scene.join(life, explicit=True, window_records=5, record_limit=True, max_poll_records=5)
    scene.run(60_000)
    lost = [fields for name, fields in warnings_of(client) if name == "records-lost"]
    assert lost[0] == {"records": 5, "places": f"{TOPIC}-0@0-4"}
    assert client.driver.core.measurements.lost.sum >= 10
