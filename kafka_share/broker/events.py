"""What goes into the broker's machines and what comes out: the contract between `BrokerMachine` and its driver.

The driver (`server.py`, or the simulation of the tests) takes an event, calls `handle(event, now_ms)`, then
`poll(now_ms)`, sends the replies, begins the lookups that `take_lookups()` names and arms one timer for `wake_at_ms()`.
`now_ms` is integer milliseconds since 1970 of a clock that never goes back and that tests may advance: record
timestamps and lock timers share it.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import attrs

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that did not have to say who it is."""

Message: TypeAlias = Any
"""A request or response class instance of `kafka_share.protocol`."""


@attrs.frozen
class RequestContext:
    """Where a request came from and how its answer has to look."""

    connection_id: int
    node_id: int
    """The node whose listener the connection belongs to."""
    client_host: str
    """The client's address as text, such as "127.0.0.1"."""
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    principal: str = ANONYMOUS
    """Who the client is, as Kafka writes it: "User:alice"."""


@attrs.frozen
class ConnectionClosed:
    connection_id: int


@attrs.frozen
class RequestArrived:
    context: RequestContext
    request: Message


@attrs.frozen
class RequestWorkedOn:
    """What the request that has just arrived took of the driver's thread. Of use only while a quota limits that."""

    context: RequestContext
    spent_ns: int


@attrs.frozen
class HostLookedUp:
    """What a resolver knows of a name that `BrokerMachine.take_lookups` has given out: an address, or None."""

    host: str
    address: str | None


@attrs.frozen
class Reply:
    """Send this answer. The driver keeps the order of a connection's requests."""

    context: RequestContext
    response: Message


Event: TypeAlias = ConnectionClosed | HostLookedUp | RequestArrived | RequestWorkedOn
