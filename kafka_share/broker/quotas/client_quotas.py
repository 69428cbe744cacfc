"""The quotas of users, clients and addresses, and which of them a request comes under.

Owned by the cluster; the handlers of AlterClientQuotas and DescribeClientQuotas change and list them, those of Produce,
Fetch and ShareFetch ask how long to throttle. `producer_byte_rate` and `consumer_byte_rate` have an effect. The other
keys are checked and kept: a request takes no time of this broker's clock (`request_percentage`). A machine asks no
resolver: of host names only "localhost" is an address.

The first of these that has the key counts: user and client, user and any client, user, any user and client, any user
and any client, any user, client, any client. What shares a quota of a user shares its rate, too. Source: KIP-55,
KIP-546 and a broker 4.3.1."""

from __future__ import annotations

import ipaddress
import math
from typing import TYPE_CHECKING, Final, TypeAlias

from kafka_share.broker.changes import nobody
from kafka_share.broker.quotas.rate import SHORTEST_MS, Rate
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka_share.broker.changes import OnChange

USER, CLIENT, ADDRESS = "user", "client-id", "ip"
ENTITY_TYPES: Final = (CLIENT, ADDRESS, USER)
PRODUCED: Final = "producer_byte_rate"
CONSUMED: Final = "consumer_byte_rate"

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) in the order of types; the name None is the default of all that have no quota of their own."""

_WHOLE: Final = frozenset((PRODUCED, CONSUMED, "connection_creation_rate"))
_OF_CLIENTS: Final = frozenset((PRODUCED, CONSUMED, "request_percentage", "controller_mutation_rate"))
_OF_ADDRESSES: Final = frozenset(("connection_creation_rate",))
_IPV4_BYTES: Final = 4
_IPV4_CHARS: Final = len("255.255.255.255")
_BYTE: Final = 256
MAX_ENTITIES: Final = 10_000
_MAX_RATES: Final = 10_000
"""Anybody may name any client id: above this the rates begin anew."""


class ClientQuotas:
    """Entity -> key -> value."""

    def __init__(self) -> None:
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._rates: dict[tuple[str, Entity], Rate] = {}
        self.on_change: OnChange = nobody
        """Called with `key_of` an entity."""

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._quotas.items())

    def of(self, entity: Entity) -> Mapping[str, float]:
        """What is set for the entity itself."""
        return self._quotas.get(entity, {})

    # ---- changes

    def alter(self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False) -> None:
        """Set the keys, or remove those whose value is None; all or none. Raises `Refusal`."""
        _require_entity(entity)
        values = dict(self._quotas.get(entity, {}))
        for key, value in changes.items():
            if value is None:
                values.pop(key, None)
            else:
                _require_value(entity, key, value)
                values[key] = value
        if values and entity not in self._quotas and len(self._quotas) >= MAX_ENTITIES:
            raise Refusal(InvalidRequestError, f"this broker keeps the quotas of no more than {MAX_ENTITIES} entities")
        if not validate_only:
            self.put(entity, values)

    def put(self, entity: Entity, values: Mapping[str, float]) -> None:
        """The entity has these quotas now, and no others. They have been checked."""
        if values:
            self._quotas[entity] = dict(values)
        else:
            self._quotas.pop(entity, None)
        self._rates.clear()
        self.on_change(key_of(entity))

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

    def take(self, key: str, user: str, client: str, size: int, now_ms: int) -> int:
        """So many bytes were taken under the quota `key`; returns how long to throttle, in ms."""
        if not self._quotas:
            return 0
        found = self.limit(key, user, client)
        if found is None:
            return 0
        limit, sharing = found
        if len(self._rates) >= _MAX_RATES and (key, sharing) not in self._rates:
            self._rates.clear()
        rate = self._rates.setdefault((key, sharing), Rate())
        rate.take(size, now_ms)
        return rate.throttle_ms(limit, now_ms)

    def at_once(self, key: str, user: str, client: str) -> int | None:
        """How many bytes may be taken at once, None without a quota."""
        found = self.limit(key, user, client) if self._quotas else None
        return None if found is None else int(found[0] * SHORTEST_MS / 1_000)


def key_of(entity: Entity) -> str:
    """The entity as text, for `entity_of`: types and names alternate, an empty name is the default."""
    return "\0".join(text or "" for part in entity for text in part)


def entity_of(key: str) -> Entity:
    """The entity of which `key_of` made this text."""
    parts = key.split("\0")
    return tuple((kind, name or None) for kind, name in zip(parts[::2], parts[1::2], strict=True))


def _require_entity(entity: Entity) -> None:
    kinds = [kind for kind, _ in entity]
    if not kinds:
        raise Refusal(InvalidRequestError, "a quota needs an entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise Refusal(InvalidRequestError, f"{kind!r} is no type of entity")
        if name == "" or "\0" in (name or ""):
            raise Refusal(InvalidRequestError, f"the name of a {kind} cannot be empty, or hold a zero")
    if ADDRESS in kinds:
        if len(kinds) > 1:
            raise Refusal(InvalidRequestError, "the quota of an address cannot be that of a user or client, too")
        _require_address(dict(entity)[ADDRESS])


def _require_address(name: str | None) -> None:
    if name is not None and not _is_address(name):
        raise Refusal(InvalidRequestError, f"{name!r} is not an address")


def _is_address(name: str) -> bool:
    """As Java reads them: 1.2 is 1.0.0.2, and IPv6 may stand in brackets. Of host names only that of every machine."""
    if name.lower() == "localhost":
        return True
    parts = name.split(".")
    if len(name) <= _IPV4_CHARS and all(part.isascii() and part.isdecimal() for part in parts):
        *first, last = map(int, parts)
        return (
            len(parts) <= _IPV4_BYTES and all(n < _BYTE for n in first) and last < _BYTE ** (_IPV4_BYTES - len(first))
        )
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        return ipaddress.IPv6Address(bare).scope_id is None
    except ValueError:
        return False


def _require_value(entity: Entity, key: str, value: float) -> None:
    if key not in (_OF_ADDRESSES if entity[0][0] == ADDRESS else _OF_CLIENTS):
        raise Refusal(InvalidRequestError, f"there is no quota {key!r} here")
    if not 0 < value < math.inf:
        raise Refusal(InvalidRequestError, f"{key} has to be a number greater than 0")
    if key in _WHOLE and value != int(value):
        raise Refusal(InvalidRequestError, f"{key} has to be a whole number")
