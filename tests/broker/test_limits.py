"""What all clients together may cost the broker: those above a limit go, and the others do not notice."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from broker.served import HOST, answer, serving
from support.waiting import patience_s

from kafka_share.broker import ReferenceBroker, Security
from kafka_share.broker.byte_budget import ByteBudget
from kafka_share.broker.cluster import Cluster
from kafka_share.broker.conversation import Conversation
from kafka_share.broker.limits import LIMIT_MEANINGS, Limits, limits_of
from kafka_share.broker.line_budget import LineBudget
from kafka_share.broker.machine import BrokerMachine
from kafka_share.broker.server import BrokerServer
from kafka_share.errors import ConfigurationError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.handshake import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka_share.protocol.logs import FetchRequest
from kafka_share.protocol.messages import encode_request

ASK = encode_request(MetadataRequest(topics=[]), 12, 1, "test")
SASL = Security("SASL_PLAINTEXT", {"alice": "a secret"})

Served = Callable[[BrokerServer, "Clients"], Awaitable[None]]


def serve(use: Served, config: dict[str, str] | None = None, security: Security | None = None, **limits: int) -> None:
    """Run a test's coroutine beside a server, for as long as tests wait."""

    async def run() -> None:
        async with asyncio.timeout(patience_s()), serving(config, security, **limits) as (server, port):
            clients = Clients(port)
            try:
                await use(server, clients)
            finally:
                await clients.close()

    asyncio.run(run())


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes = ASK) -> None:
        self.writer.write(data)

    async def ask(self, data: bytes = ASK) -> bytes:
        self.send(data)
        return await answer(self.reader)

    async def is_closed(self) -> bool:
        """Wait until the broker has closed the connection."""
        try:
            while await self.reader.read(2**20):
                pass
        except ConnectionError:
            pass
        return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


class Clients:
    """Makes connections, and closes them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._made: list[Client] = []

    async def connect(self) -> Client:
        return self._keep(await asyncio.open_connection(HOST, self._port))

    async def unread(self, requests: int) -> Client:
        """One that asks for all topics, and reads nothing."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (HOST, self._port))
        client = self._keep(await asyncio.open_connection(sock=sock, limit=1))
        client.send(encode_request(MetadataRequest(topics=None), 12, 1, "slow") * requests)
        return client

    def _keep(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> Client:
        self._made.append(Client(*streams))
        return self._made[-1]

    async def close(self) -> None:
        for client in self._made:
            await client.close()


# ---- how many


def test_clients_above_the_limit_wait_until_another_one_goes(caplog: pytest.LogCaptureFixture) -> None:
    async def use(server: BrokerServer, clients: Clients) -> None:
        first, second = await clients.connect(), await clients.connect()
        await first.ask()
        await second.ask()
        third = await clients.connect()  # into the queue of the listener
        third.send()
        for _ in range(20):
            await first.ask()
        assert len(server.requests.of()) == 22, "the third has not been heard"
        await second.close()
        assert await answer(third.reader)
        await first.ask()

    serve(use, {"max.connections": "2"})
    assert caplog.text.count("2 clients are connected: others wait until one of them goes") == 1


def test_others_are_let_in_when_the_clients_that_were_turned_away_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def use(server: BrokerServer, clients: Clients) -> None:
        server.cluster.client_quotas.alter((("ip", HOST),), {"connection_creation_rate": 1e-7})
        first = await clients.connect()
        second = await clients.connect()  # into the queue of the listener
        for _ in range(20):
            await asyncio.sleep(0)
        assert "1 clients are connected: others wait" in caplog.text
        await server.renew(BrokerMachine(Cluster([1], config={}, cluster_id="c", random=Random(1))))
        assert await first.is_closed()
        assert await second.ask()

    serve(use, {"max.connections": "1"})


def test_clients_above_the_limit_of_their_address_are_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    async def use(server: BrokerServer, clients: Clients) -> None:
        first, second = await clients.connect(), await clients.connect()
        await first.ask()
        await second.ask()
        for _ in range(3):
            assert await (await clients.connect()).is_closed()
        await second.close()
        await first.ask()
        assert await (await clients.connect()).ask()

    serve(use, {"max.connections.per.ip": "2"})
    assert caplog.text.count("2 clients of 127.0.0.1 are connected: others are turned away") == 1


def test_a_client_that_fails_at_tls_takes_no_place() -> None:
    async def use(server: BrokerServer, clients: Clients) -> None:
        for _ in range(3):
            client = await clients.connect()
            client.send(b"no handshake at all, but long enough")
            assert await client.is_closed()

    serve(use, {"max.connections": "1"}, Security("SSL"))


# ---- how long


def test_an_idle_connection_is_closed_and_one_that_waits_for_its_answer_is_not() -> None:
    async def use(server: BrokerServer, clients: Clients) -> None:
        waiting = await clients.connect()
        fetch = FetchRequest(max_wait_ms=2_000, min_bytes=1, topics=[])
        waiting.send(encode_request(fetch, 12, 1, "test"))
        idle = await clients.connect()
        await idle.ask()
        assert await idle.is_closed()
        assert await answer(waiting.reader)
        assert await waiting.is_closed()

    serve(use, {"connections.max.idle.ms": "500"})


def test_nobody_is_idle_without_a_limit() -> None:
    async def use(server: BrokerServer, clients: Clients) -> None:
        client = await clients.connect()
        await client.ask()
        assert not any(connection.is_idle(-0.001) for connection in server.connections())
        assert all(connection.is_idle(0) for connection in server.connections())

    serve(use, {"connections.max.idle.ms": "-1"})


def test_who_does_not_read_its_answers_is_closed_as_idle() -> None:
    async def use(server: BrokerServer, clients: Clients) -> None:
        server.cluster.topics.create("many", [[1]] * 2_000)
        slow = await clients.unread(20)
        modest = await clients.connect()
        while server.connections() and len(server.connections()) > 1:
            await modest.ask()
            await asyncio.sleep(0.1)
        assert await slow.is_closed()

    serve(use, {"connections.max.idle.ms": "1000"})


@pytest.mark.parametrize("sent", [b"", encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "test")])
def test_who_does_not_say_who_it_is_is_closed(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0a secret")

    async def use(server: BrokerServer, clients: Clients) -> None:
        known, unknown = await clients.connect(), await clients.connect()
        await known.ask(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "test"))
        await known.ask(encode_request(token, 2, 1, "test"))
        unknown.send(sent)
        assert await unknown.is_closed()
        await known.ask()

    serve(use, security=SASL, handshake_ms=100)
    assert caplog.text.count("it did not say who it is within 0.1 s") == 1


def test_a_handshake_of_tls_has_to_come_to_an_end() -> None:
    async def use(server: BrokerServer, clients: Clients) -> None:
        assert await (await clients.connect()).is_closed()

    serve(use, security=Security("SSL"), handshake_ms=100)


# ---- how much memory


@pytest.mark.timeout(120)  # some megabytes of answers
def test_the_one_with_most_unread_answers_goes_when_they_are_too_many(caplog: pytest.LogCaptureFixture) -> None:
    why = "answers that nobody reads take too much memory"

    async def use(server: BrokerServer, clients: Clients) -> None:
        server.cluster.topics.create("many", [[1]] * 2_000)  # an answer of 62 kB
        for _ in range(3):
            await clients.unread(350)
        modest = await clients.connect()
        while why not in caplog.text:
            assert await modest.ask()
        assert await modest.ask()
        assert len(server.connections()) >= 2

    # What one holds when it is paused is between 64 KiB and an answer more, as the system takes more or less of it: one
    # alone is within this limit, three are not.
    serve(use, unread_bytes=150_000)
    assert why in caplog.text


def test_the_one_with_the_largest_request_goes_when_too_many_wait(caplog: pytest.LogCaptureFixture) -> None:
    def fetch(topics: int) -> bytes:
        asked = [FetchRequest.FetchTopic(topic="t" * 100, partitions=[]) for _ in range(topics)]
        return encode_request(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=asked), 11, 1, "test")

    async def use(server: BrokerServer, clients: Clients) -> None:
        small = await clients.connect()
        small.send(fetch(10))
        large = await clients.connect()
        large.send(fetch(500))
        other = await clients.connect()
        other.send(fetch(500))
        done, _ = await asyncio.wait(
            [asyncio.ensure_future(client.is_closed()) for client in (small, large, other)],
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert len(done) == 1
        assert len(server.connections()) == 2

    serve(use, requests_bytes=80_000)
    assert caplog.text.count("requests without an answer take too much memory") == 1


def test_a_connection_is_not_read_while_too_many_of_its_requests_wait() -> None:
    conversation = Conversation(1, 1, HOST, limits=Limits(waiting_requests=2))
    conversation.received(ASK, 1_000)
    assert not conversation.is_full
    conversation.received(ASK[:-1], 1_000)
    assert not conversation.is_full
    conversation.received(ASK[-1:], 1_000)
    assert conversation.is_full
    assert Conversation(1, 1, HOST, limits=Limits(waiting_bytes=1)).is_full is False
    few = Conversation(1, 1, HOST, limits=Limits(waiting_bytes=len(ASK) - 4))
    few.received(ASK, 1_000)
    assert few.is_full
    assert few.held_bytes == len(ASK) - 4


def test_a_budget_forgets_what_is_gone() -> None:
    budget = ByteBudget(10)
    assert budget.note(1, 6) is None
    assert budget.note(2, 4) is None
    assert budget.note(2, 5) == 1
    assert budget.note(1, 0) is None
    assert budget.note(3, 5) is None


# ---- how much log


def test_clients_that_send_nonsense_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def use(server: BrokerServer, clients: Clients) -> None:
        for _ in range(20):
            client = await clients.connect()
            client.send(b"\0\0\0\5hello")
            assert await client.is_closed()

    serve(use, log_lines=3)
    assert caplog.text.count("closing the connection") == 3


def test_lines_that_were_left_out_are_counted() -> None:
    budget = LineBudget(2)
    assert [budget.take(now_s) for now_s in (5, 5, 6, 64.9)] == [(True, 0), (True, 0), (False, 0), (False, 0)]
    assert [budget.take(now_s) for now_s in (65, 66, 300)] == [(True, 2), (True, 0), (True, 0)]


# ---- as settings


def test_limits_are_numbers_and_known() -> None:
    assert limits_of({"handshake_ms": "5"}) == Limits(handshake_ms=5)
    assert all(hasattr(Limits(), name) for name in LIMIT_MEANINGS)
    for wrong in ({"handshake_ms": "0"}, {"handshake_ms": "soon"}, {"handshake_ms": str(2**60)}, {"connections": "1"}):
        with pytest.raises(ConfigurationError):
            limits_of(wrong)


def test_a_broker_takes_limits() -> None:
    with ReferenceBroker(limits=Limits(waiting_requests=1)) as broker:
        assert broker.topics() == {}
