"""`kafka-share export-lag`: its metrics on the reference broker, and its HTTP server with clients that behave badly."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

import pytest
from click.testing import CliRunner
from support.documentation import environment
from support.waiting import poll_until

from kafka_share import KafkaShareAdmin, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.cli.export_lag.exporter import Scrapes, exposition, scrape
from kafka_share.cli.http_server import Answer, HttpServer
from kafka_share.cli.main import main as cli

GROUP, TOPIC = "workers", "orders"
PATIENCE = 2_000


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker() as broker:
        broker.create_topic(TOPIC)
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        for number in range(3):
            broker.produce(TOPIC, b"%d" % number)
        yield broker


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
@pytest.mark.behaviour("tools")
def test_lag_and_members_are_exported_when_prometheus_asks(broker: ReferenceBroker) -> None:
    """The exporter of lag serves this machine only by default, and only `/metrics` and `/healthz`."""
    command = ["export-lag", "--port", "0", "--bootstrap-server", broker.bootstrap_servers]
    process = subprocess.Popen(
        [sys.executable, "-m", "kafka_share", *command], stdout=subprocess.PIPE, text=True, env=environment()
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        assert url.startswith("http://127.0.0.1:")
        consumer: KafkaShareConsumer[Any, Any]
        with KafkaShareConsumer(
            TOPIC,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=GROUP,
            share_acknowledgement_mode="explicit",
            max_poll_records=1,
        ) as consumer:
            [record] = poll_until(consumer, 1)
            consumer.acknowledge(record)
            consumer.commit_sync()
            status, metrics = get(url)
        assert (status, get(url.replace("/metrics", "/healthz"))) == (200, (200, "ok\n"))
        assert [get(url.replace("/metrics", path))[0] for path in ("/", "/metrics/", "/../metrics")] == [404] * 3
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0
    lines = metrics.splitlines()
    assert f'kafka_share_group_lag{{group="{GROUP}",partition="0",topic="{TOPIC}"}} 2.0' in lines
    assert f'kafka_share_group_members{{group="{GROUP}"}} 1.0' in lines
    states = {line.rpartition(" ")[2] for line in lines if line.startswith("kafka_share_group_state{")}
    assert f'kafka_share_group_state{{group="{GROUP}",state="Stable"}} 1.0' in lines
    assert f'kafka_share_group_state{{group="{GROUP}",state="Empty"}} 0.0' in lines
    assert states == {"0.0", "1.0"}
    assert "kafka_share_cluster_up 1.0" in lines


def test_a_port_that_is_taken_is_named() -> None:
    with ReferenceBroker() as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        result = CliRunner().invoke(cli, ["export-lag", "--bootstrap-server", "x:1", "--port", port])
    assert result.exit_code == 1
    assert f"it cannot listen on 127.0.0.1:{port}: " in result.stderr


def test_the_cluster_is_shown_as_down_when_it_does_not_answer() -> None:
    """A scrape while no broker answers is no error of the exporter: the cluster counts as down."""
    with ReferenceBroker() as broker:
        admin = KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=200)
    with admin:
        assert "kafka_share_cluster_up 0.0" in exposition(scrape(admin, [GROUP])).decode()


# ---- scrapes at the same time


def test_scrapes_at_the_same_time_share_one_answer() -> None:
    """However many ask while one scrape runs, one more is made for them all, after it; none shows an old value."""
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
    made: list[int] = []

    def collect() -> bytes:
        begun.release()
        go_on.acquire()
        made.append(len(made) + 1)
        return b"%d" % len(made)

    async def ask() -> list[bytes]:
        with ThreadPoolExecutor(1) as executor:
            scrapes = Scrapes(collect, executor)
            first = asyncio.create_task(scrapes.answer())
            await asyncio.to_thread(begun.acquire)
            others = [asyncio.create_task(scrapes.answer()) for _ in range(50)]
            await asyncio.sleep(0)  # each of them has asked
            go_on.release(2)
            answers = await asyncio.gather(first, *others)
            go_on.release()
            return [answer.body for answer in (*answers, await scrapes.answer())]

    assert asyncio.run(ask()) == [b"1", *[b"2"] * 50, b"3"]


# ---- the server


async def _page() -> Answer:
    return Answer(b"here")


async def _large_page() -> Answer:
    return Answer(bytes(100_000_000))


@contextlib.asynccontextmanager
async def connection(server: HttpServer, sent: bytes = b"") -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    try:
        yield reader
    finally:
        writer.close()


async def status(server: HttpServer, sent: bytes) -> int:
    """Of the answer; 0 if the connection was closed instead."""
    try:
        async with connection(server, sent) as reader:
            words = (await reader.readline()).split()
    except ConnectionError:
        return 0
    return int(words[1]) if words else 0


async def served(server: HttpServer) -> bool:
    """Whether a good client is answered sooner or later."""
    for _ in range(PATIENCE):
        if await status(server, GET) == HTTPStatus.OK:
            return True
        await asyncio.sleep(0.005)
    return False


GET = b"GET /page?x=1 HTTP/1.1\r\nHost: me\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (GET, 200),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /page/../page HTTP/1.1\r\n\r\n", 404),
        (b"POST /page HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01 hello\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nA: " + bytes(20_000) + b"\r\n\r\n", 431),
    ],
)
def test_only_get_of_a_known_path_is_answered(sent: bytes, expected: int) -> None:
    async def ask() -> int:
        async with HttpServer({"/page": _page}, "127.0.0.1", 0) as server:
            return await status(server, sent)

    assert asyncio.run(ask()) == expected


def test_nobody_is_connected_any_more_when_the_server_ends() -> None:
    async def connected_and_silent() -> None:
        async with HttpServer({"/page": _page}, "127.0.0.1", 0, time_limit_s=3_600) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /page")
            for _ in range(PATIENCE):
                if len(asyncio.all_tasks()) > 1:
                    break
                await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()

    asyncio.run(connected_and_silent())


def test_half_a_request_does_not_wait_for_ever() -> None:
    """A client that sends its request byte by byte, or not at all, is told so when the time is over."""

    async def ask() -> int:
        async with HttpServer({"/page": _page}, "127.0.0.1", 0, time_limit_s=0.05) as server:
            return await status(server, GET[:-1])

    assert asyncio.run(ask()) == HTTPStatus.REQUEST_TIMEOUT


def test_clients_beyond_the_bound_are_turned_away_until_others_go() -> None:
    """Connections that only wait cost no more than the bound; when they are gone, there is room again."""

    async def ask() -> tuple[set[int], bool]:
        async with (
            HttpServer({"/page": _page}, "127.0.0.1", 0, max_clients=2, time_limit_s=3_600) as server,
            contextlib.AsyncExitStack() as idle,
        ):
            for _ in range(2):
                await idle.enter_async_context(connection(server))
            turned_away: set[int] = set()
            for _ in range(PATIENCE):
                turned_away.add(await status(server, GET))
                if turned_away & {0, HTTPStatus.SERVICE_UNAVAILABLE}:
                    break
            await idle.aclose()
            return turned_away, await served(server)

    turned_away, has_room = asyncio.run(ask())
    assert turned_away & {0, HTTPStatus.SERVICE_UNAVAILABLE}
    assert has_room


def test_a_client_that_does_not_read_is_let_go() -> None:
    """An answer that nobody takes does not keep its place: with room for one client, the next one is served."""

    async def ask() -> bool:
        pages = {"/page": _page, "/large": _large_page}
        async with (
            HttpServer(pages, "127.0.0.1", 0, max_clients=1, time_limit_s=0.2) as server,
            connection(server, b"GET /large HTTP/1.1\r\n\r\n"),
        ):
            return await served(server)

    assert asyncio.run(ask())
