"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44) and ListConfigResources (74).

Of topics, brokers and share groups.

- Group resources (type 32) need no group. An empty group name is INVALID_REQUEST, an unknown key or a bad value
  INVALID_CONFIG; one bad value refuses the whole resource.
- Broker resources: name "" is the cluster-wide default, which can be changed; a node id can only be described.
- Describe names every key that this broker knows, or those asked for; unknown ones are left out silently.
- AlterConfigs replaces all values of a resource: those that it does not name fall back to their defaults.
- Kafka applies changes about 100 ms later; here they apply at once.
- ListConfigResources lists topics, nodes and the groups that have values of their own; version 0 lists client metrics
  resources only, of which there are none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import attrs

from kafka_share.broker.configs.configs import Change, ConfigRefusedError, Operation, ResourceType
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidConfigError, InvalidRequestError, UnknownTopicOrPartitionError
from kafka_share.protocol.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.configs.config_keys import ConfigKey
    from kafka_share.broker.events import RequestContext

_Described = DescribeConfigsResponse.DescribeConfigsResult
_Result = TypeVar(
    "_Result",
    IncrementalAlterConfigsResponse.AlterConfigsResourceResponse,
    AlterConfigsResponse.AlterConfigsResourceResponse,
)


def _resource_type(cluster: Cluster, kind: int, name: str) -> ResourceType:
    """The type, if the resource is one that can be configured here; raises `Refusal`."""
    if kind not in tuple(ResourceType):
        raise Refusal(InvalidRequestError, f"resources of type {kind} have no configuration here")
    resource = ResourceType(kind)
    if resource is ResourceType.GROUP and not name:
        raise Refusal(InvalidRequestError, "a group's name cannot be empty")
    if resource is ResourceType.TOPIC and cluster.topics.by_name(name) is None:
        raise Refusal(UnknownTopicOrPartitionError, f"there is no topic {name!r}")
    if resource is ResourceType.BROKER and name and name not in {str(node_id) for node_id in cluster.nodes}:
        raise Refusal(InvalidRequestError, f"{name!r} is not the id of a node")
    return resource


# ---- DescribeConfigs


def handle_describe(
    cluster: Cluster, context: RequestContext, request: DescribeConfigsRequest, now_ms: int
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(cluster, one, synonyms=request.include_synonyms) for one in request.resources]
    )


def _describe(cluster: Cluster, asked: DescribeConfigsRequest.DescribeConfigsResource, *, synonyms: bool) -> _Described:
    try:
        kind = _resource_type(cluster, asked.resource_type, asked.resource_name)
    except Refusal as refusal:
        return _Described(
            error_code=refusal.code,
            error_message=refusal.message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[],
        )
    wanted = asked.configuration_keys
    keys = [key for key in cluster.configs.keys(kind).values() if not wanted or key.name in wanted]
    return _Described(
        error_code=0,
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[_describe_key(cluster, kind, asked.resource_name, key, synonyms=synonyms) for key in keys],
    )


def _describe_key(
    cluster: Cluster, kind: ResourceType, name: str, key: ConfigKey, *, synonyms: bool
) -> DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult:
    described = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
    layers = cluster.configs.described(kind, name, key)
    effective = layers[0]
    return described(
        name=key.name,
        value=effective.value,
        read_only=False,
        config_source=effective.source.value,
        is_sensitive=False,
        synonyms=[
            described.DescribeConfigsSynonym(name=layer.name, value=layer.value, source=layer.source.value)
            for layer in (layers if synonyms else ())
        ],
        config_type=key.type.value,
        documentation=None,
    )


# ---- IncrementalAlterConfigs and AlterConfigs


@attrs.frozen
class _Asked:
    """What is to be changed of one resource."""

    type: int
    name: str
    changes: Sequence[Change]


def handle_alter(
    cluster: Cluster, context: RequestContext, request: IncrementalAlterConfigsRequest, now_ms: int
) -> IncrementalAlterConfigsResponse:
    asked = [
        _Asked(
            one.resource_type,
            one.resource_name,
            [Change(config.name, config.config_operation, config.value) for config in one.configs],
        )
        for one in request.resources
    ]
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(
        responses=_alter_each(cluster, asked, result, validate_only=request.validate_only)
    )


def handle_replace(
    cluster: Cluster, context: RequestContext, request: AlterConfigsRequest, now_ms: int
) -> AlterConfigsResponse:
    asked = []
    for one in request.resources:
        named = {config.name for config in one.configs}
        own = _own_values(cluster, one.resource_type, one.resource_name)
        gone = [Change(key, Operation.DELETE, None) for key in own if key not in named]
        changes = [Change(config.name, Operation.SET, config.value) for config in one.configs]
        asked.append(_Asked(one.resource_type, one.resource_name, [*gone, *changes]))
    result = AlterConfigsResponse.AlterConfigsResourceResponse
    return AlterConfigsResponse(responses=_alter_each(cluster, asked, result, validate_only=request.validate_only))


def _own_values(cluster: Cluster, kind: int, name: str) -> dict[str, str]:
    return cluster.configs.own_values(ResourceType(kind), name) if kind in tuple(ResourceType) else {}


def _alter_each(
    cluster: Cluster, resources: Sequence[_Asked], result: type[_Result], *, validate_only: bool
) -> list[_Result]:
    """Make the changes of each resource; returns what the answer says about it."""
    named = Counter((one.type, one.name) for one in resources)
    results = []
    for one in resources:
        code, message = 0, None
        try:
            if named[one.type, one.name] > 1:
                raise Refusal(InvalidRequestError, "the request names this resource twice")
            _alter(cluster, one, validate_only=validate_only)
        except Refusal as refusal:
            code, message = refusal.code, refusal.message
        results.append(result(error_code=code, error_message=message, resource_type=one.type, resource_name=one.name))
    return results


def _alter(cluster: Cluster, asked: _Asked, *, validate_only: bool) -> None:
    kind = _resource_type(cluster, asked.type, asked.name)
    if kind is ResourceType.BROKER and asked.name:
        raise Refusal(InvalidRequestError, "only the cluster-wide default (an empty name) of brokers can be changed")
    if len({change.name for change in asked.changes}) != len(asked.changes):
        raise Refusal(InvalidRequestError, "the request names a key twice")
    try:
        cluster.configs.alter(kind, asked.name, asked.changes, validate_only=validate_only)
    except ConfigRefusedError as error:
        raise Refusal(InvalidRequestError if error.invalid_request else InvalidConfigError, str(error)) from None


# ---- ListConfigResources


def handle_list(
    cluster: Cluster, context: RequestContext, request: ListConfigResourcesRequest, now_ms: int
) -> ListConfigResourcesResponse:
    found: list[tuple[ResourceType, str]] = []
    if context.api_version > 0:
        found += [(ResourceType.TOPIC, topic.name) for topic in cluster.topics]
        found += [(ResourceType.BROKER, str(node_id)) for node_id in sorted(cluster.nodes)]
        found += [(ResourceType.GROUP, name) for name in cluster.configs.dynamic_names(ResourceType.GROUP)]
    wanted = request.resource_types
    return ListConfigResourcesResponse(
        error_code=0,
        config_resources=[
            ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=kind.value)
            for kind, name in found
            if not wanted or kind in wanted
        ],
    )
