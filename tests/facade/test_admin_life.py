"""The life of an admin client: settings, threads, cancelled and interrupted calls, closing."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from facade.admin_callers import CALLERS
from support.waiting import wait_until

from kafka_share import AsyncShareAdmin, KafkaShareAdmin, TopicPartition
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConfigurationError, IllegalStateError, InternalError, InvalidArgumentError
from kafka_share.protocol.share_group import ShareGroupDescribeRequest

DESCRIBE = ShareGroupDescribeRequest.API_KEY


@pytest.fixture
def servers(broker: ReferenceBroker) -> str:
    broker.create_topic("t")
    return broker.bootstrap_servers


@pytest.mark.parametrize("kind", list(CALLERS))
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "bootstrap_servers is required"),
        ({"bootstrap_servers": "x:1", "group_id": "g"}, "group_id is not a setting of an admin client"),
        ({"bootstrap_servers": "x:1", "request_timeout": 5}, "did you mean request_timeout_ms"),
        ({"bootstrap_servers": "x:1", "retry.backoff.ms": "5"}, "retry_backoff_ms is a whole number"),
        ({"bootstrap_servers": "x:1", "sasl_jaas_config": "y"}, "cannot be set on an admin client"),
        ({"bootstrap_servers": "x:1", "security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        (
            {"bootstrap_servers": "x:1", "security_protocol": "SSL", "ssl_cafile": "/nix"},
            "ssl_cafile /nix cannot be read",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(kind: str, settings: dict[str, Any], words: str) -> None:
    """Unknown, inapplicable and wrong settings are refused with their names, and no thread is left behind."""
    with pytest.raises(ConfigurationError, match=words):
        CALLERS[kind](**settings)


@pytest.mark.parametrize("kind", list(CALLERS))
@pytest.mark.parametrize(("value", "error"), [(-1, InvalidArgumentError), ("5", TypeError), (True, TypeError)])
def test_timeouts_that_cannot_work_are_refused(servers: str, kind: str, value: Any, error: type[Exception]) -> None:
    """A timeout is a whole number of milliseconds, not below zero."""
    admin = CALLERS[kind](bootstrap_servers=servers)
    with pytest.raises(error):
        admin.describe_cluster(timeout_ms=value)
    admin.finish()


@pytest.mark.parametrize("kind", list(CALLERS))
def test_calls_are_refused_after_close(servers: str, kind: str) -> None:
    """After close every call raises IllegalStateError; closing again does nothing."""
    admin = CALLERS[kind](bootstrap_servers=servers)
    admin.close()
    admin.close()
    with pytest.raises(IllegalStateError, match="closed"):
        admin.describe_cluster()
    admin.finish()


def test_a_call_under_way_fails_when_another_thread_closes(broker: ReferenceBroker, servers: str) -> None:
    """close ends what waits, with IllegalStateError."""
    broker.faults.delay(DESCRIBE, 60_000)
    admin = KafkaShareAdmin(bootstrap_servers=servers)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(admin.describe_share_groups, ["g"])
        wait_until(lambda: broker.requests(DESCRIBE))
        admin.close()
        with pytest.raises(IllegalStateError, match="closed while"):
            call.result()


def test_many_threads_use_one_client(servers: str) -> None:
    """Calls of several threads run side by side on one background thread."""
    with KafkaShareAdmin(bootstrap_servers=servers) as admin, ThreadPoolExecutor(8) as pool:
        places = {f"g{n}": {TopicPartition("t", 0): n} for n in range(20)}
        done = list(pool.map(lambda item: admin.alter_share_group_offsets(*item), places.items()))
        assert all(result == {TopicPartition("t", 0): None} for result in done)
        offsets = admin.list_share_group_offsets(dict.fromkeys(places))
        assert [offsets[f"g{n}"][TopicPartition("t", 0)].start_offset for n in range(20)] == list(range(20))  # type: ignore[union-attr,index]


def test_tasks_wait_side_by_side(broker: ReferenceBroker, servers: str) -> None:
    """Several awaited calls are under way at once, and one that hangs holds up none of the others."""

    async def main() -> None:
        async with AsyncShareAdmin(bootstrap_servers=servers) as admin:
            broker.faults.delay(DESCRIBE, 60_000)
            hanging = asyncio.create_task(admin.describe_share_groups(["g"]))
            await asyncio.to_thread(wait_until, lambda: broker.requests(DESCRIBE))
            described = await asyncio.gather(*(admin.describe_topics(["t"], timeout_ms=5_000) for _ in range(5)))
            assert [list(found) for found in described] == [["t"]] * 5
            assert not hanging.done()
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            assert (await admin.describe_cluster(timeout_ms=5_000)).share_version == 1

    asyncio.run(main())


def test_a_wait_with_a_time_limit_of_asyncio_ends_in_time(broker: ReferenceBroker, servers: str) -> None:
    """asyncio's own time limits work on every method; the client goes on."""

    async def main() -> None:
        async with AsyncShareAdmin(bootstrap_servers=servers) as admin:
            broker.faults.delay(DESCRIBE, 60_000)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(admin.describe_share_groups(["g"]), 0.1)
            assert list(await admin.describe_topics(["t"], timeout_ms=5_000)) == ["t"]

    asyncio.run(main())


@pytest.mark.parametrize("kind", [KafkaShareAdmin, AsyncShareAdmin])
def test_a_client_that_is_dropped_warns_and_ends(servers: str, kind: Any) -> None:
    """A client that nobody closed says so with a ResourceWarning, and its thread ends by itself."""
    before = set(threading.enumerate())
    admin = kind(bootstrap_servers=servers)
    (thread,) = set(threading.enumerate()) - before
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del admin
        gc.collect()
    assert [w.category for w in caught] == [ResourceWarning]
    thread.join(5)
    assert not thread.is_alive()


def test_a_dead_background_thread_is_reported(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect that ends the background thread fails the call under way and every later one with InternalError."""
    admin = KafkaShareAdmin(bootstrap_servers=servers)
    monkeypatch.setattr("kafka_share.core.admin.machine.AdminCore.handle", broken)
    for _ in range(2):
        with pytest.raises(InternalError, match="a defect"):
            admin.describe_cluster()
    admin.close()


def broken(*_: Any) -> None:
    raise RuntimeError("a defect")


def test_a_client_shows_its_name_and_no_secret() -> None:
    """The text of a client has its client id, and neither passwords nor addresses."""
    with KafkaShareAdmin(bootstrap_servers="localhost:1", client_id="ops") as admin:
        assert repr(admin) == "<KafkaShareAdmin open client_id='ops'>"
