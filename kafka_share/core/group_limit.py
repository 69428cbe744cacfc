"""How often the group's records are delivered at most: looked up once, when the member has a coordinator.

Owned by `ShareConsumerCore`. The group's own config counts (`share.delivery.count.limit`, Kafka 4.3), else the broker's
(`group.share.delivery.count.limit`). A member that may read neither does not know the limit, and works all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.core.context import CoreContext
from kafka_share.core.coordinator import Coordinator
from kafka_share.core.events import Channel
from kafka_share.errors import KafkaShareError, UnsupportedVersionError
from kafka_share.protocol.configs import DescribeConfigsRequest

if TYPE_CHECKING:
    from kafka_share.protocol.configs import DescribeConfigsResponse

_GROUP: Final = (32, "share.delivery.count.limit")
_BROKER: Final = (4, "group.share.delivery.count.limit")
"""(resource type, config name)"""

_Resource = DescribeConfigsRequest.DescribeConfigsResource


class GroupLimit:
    """At most one request at a time; repeated with back-off while no answer comes."""

    def __init__(self, context: CoreContext, coordinator: Coordinator) -> None:
        self._config = context.config
        self._requests = context.requests
        self._limit = context.delivery_limit
        self._coordinator = coordinator
        self._backoff = context.new_backoff()
        self._is_asking = False
        self._is_done = False
        self._wake_at_ms: int | None = None

    def poll(self, now_ms: int) -> None:
        self._wake_at_ms = None
        node = self._coordinator.node
        if self._is_done or self._is_asking or node is None:
            return
        if now_ms < self._backoff.ready_at_ms:
            self._wake_at_ms = self._backoff.ready_at_ms
            return
        names = {_GROUP: self._config.group_id, _BROKER: str(node.id)}
        request = DescribeConfigsRequest(
            resources=[
                _Resource(resource_type=kind, resource_name=resource, configuration_keys=[name])
                for (kind, name), resource in names.items()
            ],
            include_synonyms=False,
            include_documentation=False,
        )
        self._is_asking = True
        timeout_ms = self._config.request_timeout_ms
        self._requests.send(node, Channel.CONTROL, request, timeout_ms, self._answered, self._failed)

    def wake_at_ms(self) -> int | None:
        return self._wake_at_ms

    def _failed(self, error: KafkaShareError, now_ms: int) -> None:
        self._is_asking = False
        self._is_done = isinstance(error, UnsupportedVersionError)
        self._backoff.failed(now_ms)

    def _answered(self, response: DescribeConfigsResponse, _: int) -> None:
        self._is_asking = False
        self._is_done = True
        found = {
            (result.resource_type, config.name): config.value
            for result in response.results
            if not result.error_code
            for config in result.configs or ()
        }
        for value in (found.get(_GROUP), found.get(_BROKER)):
            if value is not None and value.isdecimal() and int(value) > 0:
                self._limit.value = int(value)
                return
