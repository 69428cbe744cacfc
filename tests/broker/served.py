"""A broker's server on the loop of the test, so that what happens in one round is certain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random

from kafka_share.broker import BrokerClock, Security
from kafka_share.broker.cluster import Cluster
from kafka_share.broker.limits import Limits
from kafka_share.broker.machine import BrokerMachine
from kafka_share.broker.request_log import RequestLog
from kafka_share.broker.security.guard import Guard
from kafka_share.broker.server import BrokerServer

HOST = "127.0.0.1"


@asynccontextmanager
async def serving(
    config: Mapping[str, str] | None = None, security: Security | None = None, **limits: int
) -> AsyncIterator[tuple[BrokerServer, int]]:
    """The server, and its port."""
    cluster = Cluster([1], config=config or {}, cluster_id="c", random=Random(1))
    guard = Guard(Security("PLAINTEXT") if security is None else security, [HOST])
    guard.instruct(cluster)
    server = BrokerServer(
        BrokerMachine(cluster),
        BrokerClock(),
        RequestLog(),
        host=HOST,
        advertised_host=HOST,
        limits=Limits(**limits),
        tls=guard.tls,
        sasl=guard.sasl,
    )
    await server.start_node(1, 0)
    try:
        yield server, cluster.nodes[1].port
    finally:
        await server.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The next answer, without its length."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
