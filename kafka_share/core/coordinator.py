"""Where the group coordinator is: looks it up when a member needs it, and again when it has moved.

Asked by `core.membership` only. Share groups use FindCoordinator with key type 0, like all groups; key type 2 is for
brokers among themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.core.context import CoreContext
from kafka_share.core.events import Channel
from kafka_share.core.metadata import Metadata, usable_node
from kafka_share.errors import BrokerError, KafkaShareError, UnknownServerError, UnsupportedVersionError, error_for_code
from kafka_share.protocol.cluster import FindCoordinatorRequest
from kafka_share.records import Node

if TYPE_CHECKING:
    from kafka_share.protocol.cluster import FindCoordinatorResponse

KEY_TYPE_GROUP: Final = 0
_MIN_VERSION: Final = 4
"""The first that asks for several keys at once; every broker with share groups has it."""


class Coordinator:
    """At most one look-up at a time, the first at once and further ones with back-off until a heartbeat succeeded."""

    def __init__(self, context: CoreContext, metadata: Metadata) -> None:
        self.node: Node | None = None
        self.refusal: KafkaShareError | None = None
        """Set when the look-up met an error that will not pass: the membership has to end."""
        self._config = context.config
        self._metadata = metadata
        self._requests = context.requests
        self._outputs = context.outputs
        self._backoff = context.new_backoff()
        self._is_asking = False
        self._is_wanted = False
        self._wake_at_ms: int | None = None

    def want(self, is_wanted: bool) -> None:
        self._is_wanted = is_wanted

    def forget(self) -> None:
        """The broker is not the coordinator, or cannot be reached: look again. Not faster than the back-off allows."""
        if self.node is not None:
            self._outputs.note("coordinator-lost", node_id=self.node.id)
        self.node = None

    def confirmed(self) -> None:
        """The coordinator served a heartbeat: it is the right one."""
        self._backoff.succeeded()

    def poll(self, now_ms: int) -> None:
        self._wake_at_ms = None
        if self.node is not None or self._is_asking or not self._is_wanted or self.refusal is not None:
            return
        if now_ms < self._backoff.ready_at_ms:
            self._wake_at_ms = self._backoff.ready_at_ms
            return
        node, at_ms = self._metadata.some_node(now_ms)
        if node is None:
            self._wake_at_ms = at_ms
            return
        request = FindCoordinatorRequest(key_type=KEY_TYPE_GROUP, coordinator_keys=[self._config.group_id])
        self._is_asking = True
        # Counts as a failure until a heartbeat has succeeded: a coordinator that is found and refuses again and again
        # must not be looked up in a circle.
        self._backoff.failed(now_ms)
        timeout_ms = self._config.request_timeout_ms
        self._requests.send(node, Channel.CONTROL, request, timeout_ms, self._answered, self._failed, _MIN_VERSION)

    def wake_at_ms(self) -> int | None:
        return self._wake_at_ms

    def _failed(self, error: KafkaShareError, now_ms: int) -> None:
        self._is_asking = False
        if isinstance(error, UnsupportedVersionError):
            self.refusal = error

    def _answered(self, response: FindCoordinatorResponse, now_ms: int) -> None:
        self._is_asking = False
        code, message = response.error_code, response.error_message
        for found in response.coordinators:
            if found.key != self._config.group_id:
                continue
            code, message = found.error_code, found.error_message
            if not code:
                self.node = usable_node(found.node_id, found.host, found.port)
                if self.node is not None:
                    self._outputs.note("coordinator-found", node_id=self.node.id)
                break
        error = error_for_code(code, message)
        if error is not None and not _may_pass(error):
            self.refusal = error

    def check(self) -> None:
        assert self.node is None or self.node.id >= 0, "a bootstrap address is no coordinator"


def _may_pass(error: BrokerError) -> bool:
    return error.retriable or isinstance(error, UnknownServerError)
