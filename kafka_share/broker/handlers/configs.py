"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44) and ListConfigResources (74).

Of topics, brokers, groups and clients' metrics.

- Group resources (type 32) need no group. An empty group name is INVALID_REQUEST, an unknown key or a bad value
  INVALID_CONFIG; one bad value refuses the whole resource. Values are looked at before it is asked whether a topic
  exists. To delete what is not there, even by an unknown key, changes nothing.
- Broker resources: name "" is the default of all nodes, another one a node. Keys that Kafka reads once are
  INVALID_REQUEST, as are bad values here; keys that nobody knows are taken, and described as secrets. Of several nodes,
  which share their logs, none can have values of its own.
- Subscriptions to clients' metrics (type 16) are kept, as by a Kafka without a receiver of metrics. Loggers (type 8)
  there are none.
- Describe names every key that this broker knows, or those asked for; unknown ones are left out silently. The default
  of all nodes has only what was set.
- AlterConfigs replaces all values of a resource: those that it does not name fall back to their defaults.
- Kafka applies changes about 100 ms later; here they apply at once.
- An IncrementalAlterConfigs that names a resource twice is INVALID_REQUEST for it; such an AlterConfigs ends its
  connection (`unanswerable`).
- ListConfigResources lists topics, nodes (as brokers and as loggers), and the groups and subscriptions that have values
  of their own; another type is UNSUPPORTED_VERSION. Version 0 lists subscriptions to clients' metrics only.

Versions: DescribeConfigs (32) 1 to 4, AlterConfigs (33) 0 to 2, IncrementalAlterConfigs (44) 0 to 1,
ListConfigResources (74) 0 to 1.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from kafka_share.broker.configs.configs import Change, ConfigRefusedError, ConfigSource, Operation, ResourceType
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.topics import topic_name_problem
from kafka_share.errors import (
    InvalidConfigError,
    InvalidRequestError,
    InvalidTopicError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
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

_LISTED: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)
"""The types of ListConfigResources, in the order of its answer."""

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
    if not name and resource not in (ResourceType.TOPIC, ResourceType.BROKER):
        raise Refusal(InvalidRequestError, "the resource's name cannot be empty")
    is_node = resource in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    if is_node and name and name not in {str(node_id) for node_id in cluster.nodes}:
        raise Refusal(InvalidRequestError, f"{name!r} is not the id of a node")
    return resource


def _require_topic(cluster: Cluster, name: str) -> None:
    problem = topic_name_problem(name)
    if problem is not None:
        raise Refusal(InvalidTopicError, problem)
    if cluster.topics.by_name(name) is None:
        raise Refusal(UnknownTopicOrPartitionError, f"there is no topic {name!r}")


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
        if kind is ResourceType.TOPIC:
            _require_topic(cluster, asked.resource_name)
    except Refusal as refusal:
        return _Described(
            error_code=refusal.code,
            error_message=refusal.message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[],
        )
    wanted = asked.configuration_keys
    own = cluster.configs.own_values(kind, asked.resource_name)
    only_own = kind is ResourceType.BROKER and not asked.resource_name
    known = cluster.configs.keys(kind)
    names = [name for name in (*known, *(name for name in own if name not in known)) if name in own or not only_own]
    return _Described(
        error_code=0,
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[
            _describe_key(cluster, kind, asked.resource_name, known[name], synonyms=synonyms)
            if name in known
            else _describe_unknown(asked.resource_name, name)
            for name in names
            if not wanted or name in wanted
        ],
    )


def _describe_unknown(resource: str, name: str) -> _Described.DescribeConfigsResourceResult:
    """A key that a broker was given without knowing it: it might be a secret."""
    return _Described.DescribeConfigsResourceResult(
        name=name,
        value=None,
        read_only=True,
        config_source=(ConfigSource.NODE if resource else ConfigSource.BROKER_DEFAULT).value,
        is_sensitive=True,
        config_type=0,
        documentation=None,
    )


def _describe_key(
    cluster: Cluster, kind: ResourceType, name: str, key: ConfigKey, *, synonyms: bool
) -> _Described.DescribeConfigsResourceResult:
    described = _Described.DescribeConfigsResourceResult
    layers = cluster.configs.described(kind, name, key)
    effective = layers[0]
    return described(
        name=key.name,
        value=effective.value,
        read_only=kind is ResourceType.BROKER and not key.is_dynamic,
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
    if kind is ResourceType.TOPIC and not asked.name:
        raise Refusal(InvalidRequestError, "topics have no common default")
    if kind is ResourceType.BROKER_LOGGER and asked.changes:
        raise Refusal(InvalidConfigError, "this broker has no loggers")
    if len({change.name for change in asked.changes}) != len(asked.changes):
        raise Refusal(InvalidRequestError, "the request names a key twice")
    is_broker = kind is ResourceType.BROKER
    if is_broker:
        _require_changeable(cluster, asked)

    def alter(*, validate_only: bool) -> None:
        cluster.configs.alter(kind, asked.name, asked.changes, validate_only=validate_only, takes_unknown=is_broker)

    try:
        if kind is ResourceType.TOPIC:
            alter(validate_only=True)
            _require_topic(cluster, asked.name)
        alter(validate_only=validate_only)
    except ConfigRefusedError as error:
        raise Refusal(InvalidRequestError if is_broker else error.error, str(error)) from None


def _require_changeable(cluster: Cluster, asked: _Asked) -> None:
    """Raises `Refusal` if the changes set a broker's key that cannot be changed, or not for this resource."""
    keys = cluster.configs.keys(ResourceType.BROKER)
    changed = [keys[one.name] for one in asked.changes if one.operation != Operation.DELETE and one.name in keys]
    fixed = [key.name for key in changed if not key.is_dynamic]
    if fixed:
        raise Refusal(InvalidRequestError, f"{', '.join(fixed)} cannot be changed while the broker runs")
    if changed and asked.name and len(cluster.nodes) > 1:
        raise Refusal(InvalidRequestError, "the nodes of this broker share their logs: only the default can be changed")


# ---- ListConfigResources


def handle_list(
    cluster: Cluster, context: RequestContext, request: ListConfigResourcesRequest, now_ms: int
) -> ListConfigResourcesResponse:
    wanted = request.resource_types or tuple(_LISTED)
    if not set(wanted) <= set(_LISTED):
        return ListConfigResourcesResponse(error_code=UnsupportedVersionError.code, config_resources=[])
    if context.api_version == 0:
        wanted = (ResourceType.CLIENT_METRICS,)
    return ListConfigResourcesResponse(
        error_code=0,
        config_resources=[
            ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=kind.value)
            for kind in _LISTED
            if kind in wanted
            for name in _names(cluster, kind)
        ],
    )


def _names(cluster: Cluster, kind: ResourceType) -> list[str]:
    if kind is ResourceType.TOPIC:
        return [topic.name for topic in cluster.topics]
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(node.id) for node in cluster.living_nodes()]
    return cluster.configs.dynamic_names(kind)
