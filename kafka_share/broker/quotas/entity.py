"""Whose a quota is: users, clients and addresses, alone or together.

Used by `ClientQuotas`, and by those who keep or list quotas. Nobody is asked here: `host_of` says which name is that of
a host, and somebody else has to look up its address."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, TypeAlias

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidRequestError

USER, CLIENT, ADDRESS = "user", "client-id", "ip"
ENTITY_TYPES: Final = (CLIENT, ADDRESS, USER)

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) in the order of types; the name None is the default of all that have no quota of their own."""

_MAX_HOST_NAME_CHARS: Final = 253
_HOST_NAME: Final = re.compile(r"(?:[\w-]{1,63}\.)*(?!(?:\d+|0x[\da-f]*)\.?\Z)[\w-]{1,63}\.?", re.ASCII | re.IGNORECASE)
"""What ends in a number is an address or nothing: a resolver would read 0x7f.1 as one, and Java does not."""
_IPV4_BYTES: Final = 4
_IPV4_CHARS: Final = len("255.255.255.255")
_BYTE: Final = 256


def key_of(entity: Entity) -> str:
    """The entity as text, for `entity_of`: types and names alternate, an empty name is the default."""
    return "\0".join(text or "" for part in entity for text in part)


def entity_of(key: str) -> Entity:
    """The entity of which `key_of` made this text."""
    parts = key.split("\0")
    return tuple((kind, name or None) for kind, name in zip(parts[::2], parts[1::2], strict=True))


def require_entity(entity: Entity, address: str | None = None) -> None:
    """Raises `Refusal` if nobody can be meant. `address` is that of a host."""
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
        name = dict(entity)[ADDRESS]
        if name is not None and address_of(name) is None and address is None:
            raise Refusal(InvalidRequestError, f"{name!r} is no address, and no host that is known")


def host_of(entity: Entity) -> str | None:
    """The host name that the quota is for, None if it is for anything else."""
    if len(entity) != 1 or entity[0][0] != ADDRESS:
        return None
    name = entity[0][1]
    if name is None or len(name) > _MAX_HOST_NAME_CHARS or address_of(name) is not None:
        return None
    return name if _HOST_NAME.fullmatch(name) else None


def address_of(name: str) -> str | None:
    """The address that is written so, in its usual form; None if it is none.

    As Java reads them: 1.2 is 1.0.0.2, IPv6 may stand in brackets, and an IPv4 address in IPv6 is that one."""
    parts = name.split(".")
    if len(name) <= _IPV4_CHARS and all(part.isascii() and part.isdecimal() for part in parts):
        return _ipv4(list(map(int, parts)))
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        address = ipaddress.IPv6Address(bare)
    except ValueError:
        return None
    return None if address.scope_id is not None else str(address.ipv4_mapped or address)


def _ipv4(numbers: list[int]) -> str | None:
    """The last number fills the bytes that are left."""
    *first, last = numbers
    rest = _IPV4_BYTES - len(first)
    if rest < 1 or any(number >= _BYTE for number in first) or last >= _BYTE**rest:
        return None
    return str(ipaddress.IPv4Address(bytes(first) + last.to_bytes(rest, "big")))
