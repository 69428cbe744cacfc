"""Quotas of hosts, whose addresses are looked up: by the machine's driver, while others are served."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest
from broker.cluster_world import World
from broker.quotas.test_client_quotas import INVALID, alter, described
from broker.served import HOST, answer, serving

from kafka_share.broker import ReferenceBroker, reference_broker, server
from kafka_share.broker.events import ConnectionClosed, HostLookedUp
from kafka_share.broker.quotas.entity import host_of
from kafka_share.broker.quotas.host_lookups import MAX_LOOKUPS
from kafka_share.broker.resolver import address_of_host
from kafka_share.errors import InvalidArgumentError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.messages import decode_response, encode_request
from kafka_share.protocol.quotas import AlterClientQuotasRequest

RATE = "connection_creation_rate"
THERE = "10.0.0.1"


def request(*hosts: str) -> AlterClientQuotasRequest:
    entry = AlterClientQuotasRequest.EntryData
    return AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="ip", entity_name=host)],
                ops=[entry.OpData(key=RATE, value=1.0, remove=False)],
            )
            for host in hosts
        ],
        validate_only=False,
    )


def codes(answer: Any) -> list[int]:
    return [one.error_code for one in answer.entries]


def waits(world: World, address: str = THERE) -> int:
    """How many of 20 clients are turned away."""
    found = [world.cluster.client_quotas.connect(address, world.now_ms) for _ in range(20)]
    world.advance(20_000)
    return 20 - found.count(0)


@pytest.fixture
def slow() -> World:
    """Nobody answers its lookups but the test."""
    made = World()
    made.hosts = None
    return made


def found(world: World, host: str, address: str | None) -> None:
    world.machine.handle(HostLookedUp(host, address), world.now_ms)
    world.take_answers()


def test_the_quota_of_a_host_holds_for_its_address_until_it_is_removed() -> None:
    world = World()
    world.hosts = {"there": THERE}
    assert alter(world, [("ip", "there")], connection_creation_rate=1.0) == 0
    assert described(world) == [({"ip": "there"}, {RATE: 1.0})]
    assert (waits(world), waits(world, "10.0.0.2")) == (10, 0)
    assert alter(world, [("ip", "there")], connection_creation_rate=None) == 0
    assert (waits(world), described(world)) == (0, [])


def test_a_host_that_is_not_found_has_no_quota_and_loses_none() -> None:
    world = World()
    world.hosts = {"there": THERE}
    assert alter(world, [("ip", "there")], connection_creation_rate=1.0) == 0
    assert alter(world, [("ip", "elsewhere")], connection_creation_rate=1.0) == INVALID
    world.hosts.clear()
    assert alter(world, [("ip", "there")], connection_creation_rate=None) == INVALID
    assert described(world) == [({"ip": "there"}, {RATE: 1.0})]
    assert waits(world) == 10


def test_nothing_of_a_request_happens_before_all_its_hosts_have_been_looked_up(slow: World) -> None:
    assert slow.ask(request("a", THERE, "b", "a")) is None
    assert slow.machine.take_lookups() == ["a", "b"]
    found(slow, "a", "10.0.0.7")
    assert (slow.late, described(slow)) == ({}, [])
    first = slow.last_id - 1
    found(slow, "b", None)
    assert codes(slow.late[first]) == [INVALID, 0, INVALID], "the entity that is named twice comes once"
    assert [entity for entity, _ in described(slow)] == [{"ip": "a"}, {"ip": THERE}]


def test_an_address_is_not_looked_up(slow: World) -> None:
    for address in ("127.1", "[::1]", "256.1.1.1", "a b", "0x7f.1", "9" * 5_000, "a." * 200, "", "fe80::1%lo", "ä"):
        assert len(codes(slow.ask(request(address)))) == 1
    assert alter(slow, [("ip", "host"), ("user", "u")], connection_creation_rate=1.0) == INVALID
    assert slow.machine.take_lookups() == []


def test_a_host_is_looked_up_once_for_all_who_wait_and_nobody_waits_for_who_has_gone(slow: World) -> None:
    for connection in (1, 2, 3):
        assert slow.ask(request("there"), connection=connection) is None
    assert slow.machine.take_lookups() == ["there"]
    slow.machine.handle(ConnectionClosed(2), slow.now_ms)
    found(slow, "there", THERE)
    assert sorted(slow.late) == [1, 3]
    assert slow.ask(request("there")) is None
    assert slow.machine.take_lookups() == ["there"], "what was found is not kept"


def test_more_hosts_than_can_be_looked_up_at_once_are_refused(slow: World) -> None:
    names = [f"h{number}" for number in range(MAX_LOOKUPS + 5)]
    assert slow.ask(request(*names)) is None
    assert slow.machine.take_lookups() == names[:MAX_LOOKUPS]
    assert codes(slow.ask(request("other"), connection=2)) == [INVALID]
    for name in names[:MAX_LOOKUPS]:
        slow.machine.handle(HostLookedUp(name, THERE), slow.now_ms)
    slow.take_answers()
    assert codes(slow.late[1]) == [0] * MAX_LOOKUPS + [INVALID] * 5


@pytest.mark.parametrize("name", ["localhost", "Broker-1.example.org", "a_b", "broker1.", "x" * 63, "1a.b2"])
def test_these_names_are_those_of_hosts(name: str) -> None:
    assert host_of((("ip", name),)) == name


# ---- the resolver, and who asks it


def test_the_first_ipv4_address_of_a_host_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Java's `InetAddress.getByName` does."""
    six = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 0, 0, 0))
    four = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{number}", 0)) for number in (2, 1)]
    known = {"both": [six, *four], "six": [six]}

    def getaddrinfo(host: str, port: object, **options: object) -> Any:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "nobody knows it")
        return known[host]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert [address_of_host(name) for name in ("both", "six", "none")] == ["10.0.0.2", "2001:db8::1", None]


def test_others_are_served_while_a_resolver_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def look_up(host: str) -> str:
        assert goes_on.wait(20)
        return THERE

    monkeypatch.setattr(server, "address_of_host", look_up)

    async def use() -> None:
        asked, metadata = request("there"), MetadataRequest(topics=[])
        async with serving() as (broker, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(encode_request(asked, 1, 1, "a"))
            others_reader, others_writer = await asyncio.open_connection(HOST, port)
            others_writer.write(encode_request(metadata, 12, 1, "b"))
            decode_response(metadata.API_KEY, 12, await answer(others_reader))
            assert not list(broker.cluster.client_quotas)
            goes_on.set()
            _, response = decode_response(asked.API_KEY, 1, await answer(reader))
            assert codes(response) == [0]
            assert list(broker.cluster.client_quotas) == [((("ip", "there"),), {RATE: 1.0})]
            for each in (writer, others_writer):
                each.close()

    asyncio.run(use())


def test_a_broker_stops_while_a_resolver_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def look_up(host: str) -> None:
        began.set()
        assert goes_on.wait(20)

    monkeypatch.setattr(server, "address_of_host", look_up)

    async def use() -> None:
        async with serving() as (broker, port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(encode_request(request("there"), 1, 1, "a"))
            assert await asyncio.to_thread(began.wait, 20)
            await broker.close()
            assert await reader.read() == b""
            writer.close()
            assert broker.cluster.host_lookups.look_up("there")
            assert broker.machine.take_lookups() == ["there"], "it is asked for again when the broker runs again"
        goes_on.set()

    asyncio.run(use())


def test_a_test_sets_the_quota_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_broker, "address_of_host", {"there": HOST}.get)
    with ReferenceBroker() as broker:
        broker.set_quota({"ip": "there"}, connection_creation_rate=2**31 - 1)
        broker.set_quota({"ip": "there"}, connection_creation_rate=None)
        with pytest.raises(InvalidArgumentError, match="no host that is known"):
            broker.set_quota({"ip": "elsewhere"}, connection_creation_rate=1)


def test_localhost_is_found() -> None:
    assert address_of_host("localhost") in ("127.0.0.1", "::1")
