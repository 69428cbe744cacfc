"""Access control lists: who may do what with which resource, as values, and all of them as state of the cluster.

CreateAcls and DeleteAcls change them, `authorizer.py` asks them. `Acls.add` and `remove` are the only changes. Names
and numbers are Kafka's.
"""

from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from kafka_share.admin_values import AclOperation
from kafka_share.broker.changes import nobody
from kafka_share.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka_share.broker.changes import OnChange

WILDCARD: Final = "*"
"""Every name in a literal pattern, every host, and as "User:*" every user."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
MAX_ACLS: Final = 10_000


class AclResource(enum.IntEnum):
    """The type of a resource; ANY stands in filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(enum.IntEnum):
    """How a name stands for resources; ANY and MATCH stand in filters only."""

    ANY = 1
    MATCH = 2
    """Every pattern that covers the name."""
    LITERAL = 3
    """The name itself, or all of them for "*"."""
    PREFIXED = 4


class AclPermission(enum.IntEnum):
    """ANY stands in filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


_E = TypeVar("_E", bound=enum.IntEnum)


def _member(kind: type[_E], value: _E | str) -> _E:
    """A member, or its name as in "describe_configs" or "DescribeConfigs". Raises `InvalidArgumentError`."""
    if isinstance(value, kind):
        return value
    plain = str(value).upper().replace("_", "")
    for member in kind:
        if member.name.replace("_", "") == plain:
            return member
    raise InvalidArgumentError(f"{value!r} is none of {', '.join(member.name for member in kind if member)}")


def _operation(value: AclOperation | str) -> AclOperation:
    return _member(AclOperation, value)


def _resource(value: AclResource | str) -> AclResource:
    return _member(AclResource, value)


def _pattern(value: AclPattern | str) -> AclPattern:
    return _member(AclPattern, value)


def _permission(value: AclPermission | str) -> AclPermission:
    return _member(AclPermission, value)


def _not_any(acl: Acl, attribute: attrs.Attribute[Any], value: enum.IntEnum) -> None:
    if value.name in ("UNKNOWN", "ANY", "MATCH"):
        raise InvalidArgumentError(f"{value.name} stands in no ACL")


def _not_unknown(chosen: AclFilter, attribute: attrs.Attribute[AclOperation], value: AclOperation) -> None:
    if value is AclOperation.UNKNOWN:
        raise InvalidArgumentError("no ACL is about an unknown operation")


def _principal(acl: Acl, attribute: attrs.Attribute[str], value: str) -> None:
    if ":" not in value:
        raise InvalidArgumentError(f'a principal is written as "User:alice", not {value!r}')


def _resource_name(acl: Acl, attribute: attrs.Attribute[str], value: str) -> None:
    if not value:
        raise InvalidArgumentError("a resource has a name")
    if acl.resource is AclResource.CLUSTER and value != CLUSTER_NAME:
        raise InvalidArgumentError(f"the only resource of type CLUSTER is {CLUSTER_NAME!r}")


@attrs.frozen
class Acl:
    """`Acl("User:alice", "read", "topic", "orders")`: this principal may read the topic "orders", from every host.

    Enumerations may be given by their names. Raises `InvalidArgumentError`.
    """

    principal: str = attrs.field(validator=_principal)
    operation: AclOperation = attrs.field(converter=_operation, validator=_not_any)
    resource: AclResource = attrs.field(converter=_resource, validator=_not_any)
    name: str = attrs.field(default=CLUSTER_NAME, validator=_resource_name)
    pattern: AclPattern = attrs.field(default=AclPattern.LITERAL, converter=_pattern, validator=_not_any)
    permission: AclPermission = attrs.field(default=AclPermission.ALLOW, converter=_permission, validator=_not_any)
    host: str = WILDCARD

    @property
    def key(self) -> str:
        """All of it, as a text that `of_key` reads."""
        return json.dumps([value.name if isinstance(value, enum.Enum) else value for value in attrs.astuple(self)])

    @classmethod
    def of_key(cls, key: str) -> Acl:
        return cls(*json.loads(key))

    def covers(self, name: str) -> bool:
        """Whether the pattern stands for a resource of this name."""
        if self.pattern is AclPattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


@attrs.frozen(kw_only=True)
class AclFilter:
    """Chooses ACLs; None, and ANY, choose all. Raises `InvalidArgumentError` for an operation that is UNKNOWN."""

    principal: str | None = None
    operation: AclOperation = attrs.field(default=AclOperation.ANY, validator=_not_unknown)
    resource: AclResource = AclResource.ANY
    name: str | None = None
    pattern: AclPattern = AclPattern.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None

    def chooses(self, acl: Acl) -> bool:
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.resource in (AclResource.ANY, acl.resource)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self._chooses_pattern(acl)
        )

    def _chooses_pattern(self, acl: Acl) -> bool:
        if self.pattern is AclPattern.MATCH:
            return self.name is None or acl.covers(self.name)
        return self.pattern in (AclPattern.ANY, acl.pattern) and self.name in (None, acl.name)


class Acls:
    """All ACLs, each once, in the order in which they came."""

    def __init__(self) -> None:
        self._acls: dict[Acl, None] = {}
        self._by_literal: dict[tuple[AclResource, str], list[Acl]] = {}
        self._by_prefix: dict[AclResource, dict[str, list[Acl]]] = {}
        self._given: set[Acl] = set()
        self._withdrawn: set[Acl] = set()
        """Given, and removed since."""
        self.on_change: OnChange = nobody
        """Called with the `key` of an ACL."""

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def __len__(self) -> int:
        return len(self._acls)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._acls

    def give(self, acls: Iterable[Acl]) -> None:
        """Add those that the broker is started with, but for those that were removed after an earlier start."""
        for acl in acls:
            self._given.add(acl)
            if acl not in self._withdrawn:
                self.add(acl)

    def withdraw(self, acl: Acl) -> None:
        """Do not add it when it is given."""
        self._withdrawn.add(acl)

    def is_withdrawn(self, acl: Acl) -> bool:
        """Whether it was given and then removed."""
        return acl in self._withdrawn

    def add(self, acl: Acl) -> None:
        """Add an ACL, unless it is there."""
        if acl not in self._acls:
            self._acls[acl] = None
            self._withdrawn.discard(acl)
            self._neighbours(acl).append(acl)
            self.on_change(acl.key)

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that is there."""
        del self._acls[acl]
        neighbours = self._neighbours(acl)
        neighbours.remove(acl)
        if not neighbours and acl.pattern is AclPattern.PREFIXED:
            del self._by_prefix[acl.resource][acl.name]
        elif not neighbours:
            del self._by_literal[acl.resource, acl.name]
        if acl in self._given:
            self.withdraw(acl)
        self.on_change(acl.key)

    def _neighbours(self, acl: Acl) -> list[Acl]:
        """Those with the same resource pattern."""
        if acl.pattern is AclPattern.PREFIXED:
            return self._by_prefix.setdefault(acl.resource, {}).setdefault(acl.name, [])
        return self._by_literal.setdefault((acl.resource, acl.name), [])

    def covering(self, resource: AclResource, name: str) -> Iterator[Acl]:
        """Those whose patterns stand for a resource."""
        for literal in dict.fromkeys((name, WILDCARD)):
            yield from self._by_literal.get((resource, literal), ())
        for prefix, found in self._by_prefix.get(resource, {}).items():
            if name.startswith(prefix):
                yield from found

    def chosen(self, wanted: AclFilter) -> list[Acl]:
        """Those that a filter chooses."""
        return [acl for acl in self._acls if wanted.chooses(acl)]
