"""DescribeClientQuotas (48) and AlterClientQuotas (49).

- Entities are users, client ids, both together, and addresses; a null name is the default of all others.
- Alter: each entry is changed by itself. An unknown type or key, an empty name, a value that is not above 0, or a rate
  of bytes or connections that is not whole or too large is INVALID_REQUEST. NaN is neither before 4.4, which refuses
  it; see `ClientQuotas`.
  To remove what is not there changes nothing. Of a type that an entity names twice the last name counts; a key that an
  entry names twice is INVALID_REQUEST, and so is an entity that the request names twice: what comes first is done.
  Where a request names hosts, they are looked up first; one that is not found is INVALID_REQUEST.
- Describe: all entities that match each component, by a name (0), as the default (1) or with any name (2). With
  `strict` they have no other types. A filter that makes no sense is INVALID_REQUEST, one for an unknown type
  UNSUPPORTED_VERSION.

Versions: DescribeClientQuotas (48) 0 to 1, AlterClientQuotas (49) 0 to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.quotas.entity import ADDRESS, ENTITY_TYPES, host_of
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidRequestError, UnsupportedVersionError
from kafka_share.protocol.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.quotas.entity import Entity

_Altered = AlterClientQuotasResponse.EntryData
_Described = DescribeClientQuotasResponse.EntryData
_Component = DescribeClientQuotasRequest.ComponentData
_EXACT, _DEFAULT, _ANY = range(3)
_MATCH_TYPES: Final = (_EXACT, _DEFAULT, _ANY)


def handle_alter(
    cluster: Cluster, context: RequestContext, request: AlterClientQuotasRequest, now_ms: int
) -> AlterClientQuotasResponse | None:
    """None if hosts are looked up first."""
    hosts = [host for asked in request.entries if (host := host_of(_entity(asked))) is not None]
    if not hosts:
        return answer(cluster, request, {})
    cluster.host_lookups.wait(context, request, hosts)
    return None


def answer(
    cluster: Cluster, request: AlterClientQuotasRequest, addresses: Mapping[str, str]
) -> AlterClientQuotasResponse:
    """Make the changes; returns the answer. `addresses` are those of the hosts that were found."""
    answers: dict[Entity, _Altered] = {}
    for asked in request.entries:
        entity = _entity(asked)
        code, message = 0, None
        try:
            if entity in answers:
                raise Refusal(InvalidRequestError, "the request names the entity twice")
            changes = {op.key: None if op.remove else op.value for op in asked.ops}
            if len(changes) < len(asked.ops):
                raise Refusal(InvalidRequestError, "the entry names a key twice")
            host = host_of(entity)
            address = None if host is None else addresses.get(host)
            cluster.client_quotas.alter(entity, changes, address=address, validate_only=request.validate_only)
        except Refusal as refusal:
            code, message = refusal.code, refusal.message
        named = [_Altered.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        answers[entity] = _Altered(error_code=code, error_message=message, entity=named)
    return AlterClientQuotasResponse(entries=list(answers.values()))


def _entity(asked: AlterClientQuotasRequest.EntryData) -> Entity:
    return tuple(sorted({one.entity_type: one.entity_name for one in asked.entity}.items()))


def handle_describe(
    cluster: Cluster, context: RequestContext, request: DescribeClientQuotasRequest, now_ms: int
) -> DescribeClientQuotasResponse:
    try:
        _require_filter(request.components)
    except Refusal as refusal:
        return DescribeClientQuotasResponse(error_code=refusal.code, error_message=refusal.message, entries=None)
    return DescribeClientQuotasResponse(
        error_code=0,
        error_message=None,
        entries=[
            _Described(
                entity=[_Described.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[_Described.ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
            for entity, values in cluster.client_quotas
            if _matches(entity, request.components, strict=request.strict)
        ],
    )


def _require_filter(components: Sequence[_Component]) -> None:
    kinds = [component.entity_type for component in components]
    if len(set(kinds)) < len(kinds):
        raise Refusal(InvalidRequestError, "the filter names a type twice")
    for component in components:
        if not component.entity_type:
            raise Refusal(InvalidRequestError, "the filter names an empty type")
        if component.entity_type not in ENTITY_TYPES:
            raise Refusal(UnsupportedVersionError, f"{component.entity_type!r} is no type of entity")
        if component.match_type not in _MATCH_TYPES:
            raise Refusal(InvalidRequestError, f"match type {component.match_type} does not exist")
        if (component.match is None) == (component.match_type == _EXACT):
            raise Refusal(InvalidRequestError, "a name is needed to match it exactly, and for nothing else")
    if ADDRESS in kinds and len(kinds) > 1:
        raise Refusal(InvalidRequestError, "no address is that of a user or client, too")


def _matches(entity: Entity, components: Sequence[_Component], *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(components):
        return False
    for component in components:
        if component.entity_type not in names:
            return False
        if component.match_type != _ANY and names[component.entity_type] != component.match:
            return False
    return True
