"""The quotas of users, clients and addresses, and which of them a request or a connection comes under.

Owned by the cluster. The handlers of AlterClientQuotas and DescribeClientQuotas change and list them. Those of Produce,
Fetch and ShareFetch ask how long to throttle for bytes, those that make or delete partitions for these, the machine for
the time that requests have taken, and the server for new connections.

The first of these that has the key counts: user and client, user and any client, user, any user and client, any user
and any client, any user, client, any client. What shares a quota of a user shares its rate, too.

As in Kafka NaN is a value, and so is infinity where fractions are. Nobody exceeds either; but a number of bytes or
connections is made of NaN as in Java, so that a fetch brings one batch, and nobody may connect. Source: KIP-55,
KIP-124, KIP-546, KIP-599, KIP-612 and a broker 4.3.1."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

from kafka_share.broker.changes import nobody
from kafka_share.broker.quotas.entity import ADDRESS, CLIENT, USER, Entity, address_of, key_of, require_entity
from kafka_share.broker.quotas.rate import SHORTEST_MS, Rate
from kafka_share.broker.quotas.token_bucket import TokenBucket
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka_share.broker.changes import OnChange

logger: logging.Logger = logging.getLogger(__name__)

PRODUCED: Final = "producer_byte_rate"
CONSUMED: Final = "consumer_byte_rate"
REQUESTS: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"

_LARGEST: Final = {PRODUCED: 2.0**63, CONSUMED: 2.0**63, CONNECTIONS: 2.0**31 - 1}
"""Of those that are whole numbers."""
_FRACTION: Final = 1e-6
"""What a whole number may have behind the point."""
_OF_CLIENTS: Final = frozenset((PRODUCED, CONSUMED, REQUESTS, MUTATIONS))
_OF_ADDRESSES: Final = frozenset((CONNECTIONS,))
_LONGEST_WAIT_MS: Final = 1_000
"""For requests that take too much time and for connections: one sample, as in Kafka."""
_NS_OF_A_PERCENT: Final = 10_000_000
"""Of a second."""
MAX_ENTITIES: Final = 10_000
_MAX_RATES: Final = 10_000
"""Anybody may name any client id: above this the rates begin anew, and so do the buckets."""


class ClientQuotas:
    """Entity -> key -> value. With `finite` neither NaN nor infinity is one."""

    def __init__(self, *, finite: bool = False) -> None:
        self._finite = finite
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._rates: dict[tuple[str, Entity], Rate] = {}
        self._buckets: dict[Entity, TokenBucket] = {}
        self._connection_rates: dict[str | None, int] = {}
        """By address. One may have several names: what was set last counts, as in Kafka."""
        self._of_time: set[Entity] = set()
        self.on_change: OnChange = nobody
        """Called with `key_of` an entity."""

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._quotas.items())

    def of(self, entity: Entity) -> Mapping[str, float]:
        """What is set for the entity itself."""
        return self._quotas.get(entity, {})

    # ---- changes

    def alter(
        self,
        entity: Entity,
        changes: Mapping[str, float | None],
        *,
        address: str | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set the keys, or remove those whose value is None; all or none. If the entity is a host, `address` is where
        it was found. Raises `Refusal`."""
        require_entity(entity, address)
        values = dict(self._quotas.get(entity, {}))
        for key, value in changes.items():
            if value is None:
                values.pop(key, None)
            else:
                _require_value(entity, key, value, finite=self._finite)
                values[key] = value
        if values and entity not in self._quotas and len(self._quotas) >= MAX_ENTITIES:
            raise Refusal(InvalidRequestError, f"this broker keeps the quotas of no more than {MAX_ENTITIES} entities")
        if not validate_only:
            self.put(entity, values, address)

    def put(self, entity: Entity, values: Mapping[str, float], address: str | None = None) -> None:
        """The entity has these quotas now, and no others. They have been checked. Those of a host hold from when its
        address is known: see `located`."""
        if values:
            self._quotas[entity] = dict(values)
        else:
            self._quotas.pop(entity, None)
        (self._of_time.add if REQUESTS in values else self._of_time.discard)(entity)
        kind, name = entity[0]
        if kind == ADDRESS:
            found = name and (address_of(name) or address)
            if name is None or found is not None:
                self._limit_connections(found, values.get(CONNECTIONS))
        self.on_change(key_of(entity))

    def located(self, host: str, address: str | None) -> None:
        """The host has this address: its quota, if it has one, holds there. With None nobody knows the host."""
        rate = self.of(((ADDRESS, host),)).get(CONNECTIONS)
        if rate is None:
            return
        if address is None:
            logger.error("the host %r of a client quota is not found", host)
        else:
            self._limit_connections(address, rate)

    def _limit_connections(self, address: str | None, rate: float | None) -> None:
        """From this address, or from all that have no rate of their own; None sets no limit."""
        self._connection_rates.pop(address, None)
        if rate is not None:
            self._connection_rates[address] = _whole(rate)

    # ---- throttling

    def limit(self, key: str, user: str, client: str) -> tuple[float, Entity] | None:
        """The quota that counts, and who shares it; None without one."""
        for entity, sharing in (
            (((CLIENT, client), (USER, user)), ((CLIENT, client), (USER, user))),
            (((CLIENT, None), (USER, user)), ((CLIENT, client), (USER, user))),
            (((USER, user),), ((USER, user),)),
            (((CLIENT, client), (USER, None)), ((CLIENT, client), (USER, user))),
            (((CLIENT, None), (USER, None)), ((CLIENT, client), (USER, user))),
            (((USER, None),), ((USER, user),)),
            (((CLIENT, client),), ((CLIENT, client),)),
            (((CLIENT, None),), ((CLIENT, client),)),
        ):
            value = self._quotas.get(entity, {}).get(key)
            if value is not None:
                return value, sharing
        return None

    def take(self, key: str, user: str, client: str, count: float, now_ms: int) -> int:
        """So many bytes were taken under the quota `key`; returns how long to throttle, in ms."""
        found = self.limit(key, user, client) if self._quotas else None
        if found is None:
            return 0
        limit, sharing = found
        return self._taken(key, sharing, count, limit, now_ms)

    def _taken(self, key: str, sharing: Entity, count: float, limit: float, now_ms: int) -> int:
        if len(self._rates) >= _MAX_RATES and (key, sharing) not in self._rates:
            self._rates.clear()
        rate = self._rates.setdefault((key, sharing), Rate())
        rate.take(count, now_ms)
        return rate.throttle_ms(limit, now_ms)

    def at_once(self, key: str, user: str, client: str) -> int | None:
        """How many bytes may be taken at once, None without a quota."""
        found = self.limit(key, user, client) if self._quotas else None
        return None if found is None else _whole(found[0] * SHORTEST_MS / 1_000)

    @property
    def limit_time(self) -> bool:
        """Whether anybody may take only so much of the broker's thread."""
        return bool(self._of_time)

    def worked(self, user: str, client: str, spent_ns: int, now_ms: int) -> int:
        """A request has taken so much time of the broker's thread; returns how long to throttle, in ms."""
        return min(self.take(REQUESTS, user, client, spent_ns / _NS_OF_A_PERCENT, now_ms), _LONGEST_WAIT_MS)

    def mutate(self, user: str, client: str, partitions: int, now_ms: int, *, strict: bool) -> int:
        """So many partitions are about to be made or deleted; returns how long to throttle, in ms.

        With `strict` they must not, if that is more than 0; else they may."""
        found = self.limit(MUTATIONS, user, client) if self._quotas else None
        if found is None:
            return 0
        limit, sharing = found
        if not math.isfinite(limit):
            return 0
        if len(self._buckets) >= _MAX_RATES and sharing not in self._buckets:
            self._buckets.clear()
        bucket = self._buckets.setdefault(sharing, TokenBucket(limit, now_ms))
        wait_ms = bucket.wait_ms(limit, now_ms)
        if strict and wait_ms:
            return wait_ms
        bucket.take(partitions, limit, now_ms)
        return 0 if strict else bucket.wait_ms(limit, now_ms)

    def connect(self, address: str, now_ms: int) -> int:
        """Somebody has connected from this address; returns after how many ms to turn them away, 0 to let them in."""
        limit = self._connection_rates.get(address, self._connection_rates.get(None))
        if limit is None:
            return 0
        sharing: Entity = ((ADDRESS, address),)
        wait_ms = min(self._taken(CONNECTIONS, sharing, 1, limit, now_ms), _LONGEST_WAIT_MS)
        if wait_ms:
            self._taken(CONNECTIONS, sharing, -1, limit, now_ms)
        return wait_ms


def _require_value(entity: Entity, key: str, value: float, *, finite: bool) -> None:
    if key not in (_OF_ADDRESSES if entity[0][0] == ADDRESS else _OF_CLIENTS):
        raise Refusal(InvalidRequestError, f"there is no quota {key!r} here")
    if finite and not math.isfinite(value):
        raise Refusal(InvalidRequestError, f"{key} has to be a finite number")
    if value <= 0:
        raise Refusal(InvalidRequestError, f"{key} has to be a number greater than 0")
    if key in _LARGEST and (value % 1 > _FRACTION or value > _LARGEST[key]):
        raise Refusal(InvalidRequestError, f"{key} has to be a whole number up to {_LARGEST[key]:.0f}")


def _whole(value: float) -> int:
    """As Java makes a whole number of one that may be NaN."""
    return 0 if math.isnan(value) else int(value)
