"""The push of metrics to brokers that subscribe to them (KIP-714): asks what is wanted, and sends it in time.

Owned by `ShareConsumerCore`. Nothing here delays records, acknowledgements or heartbeats, and no error of it is raised.

Theory of operation. The client asks any broker what it should push (GetTelemetrySubscriptions); the answer names the
client, the beginnings of the metrics' names, an interval and codecs, and is known by a subscription id. After each
interval one PushTelemetry carries the metrics; the first comes after 0.5 to 1.5 intervals, so that clients that were
started together do not push together. A broker that has changed its mind refuses the subscription id, and the client
asks anew. Where nothing is wanted, the client asks again after the interval. The last push, when the client closes,
says so. Source of the reactions to errors: the telemetry reporter of Apache Kafka's Java client 4.3. A broker that
does not offer the two APIs is not asked, and that ends it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from kafka_share.core.backoff import Backoff
from kafka_share.core.context import CoreContext
from kafka_share.core.coordinator import Coordinator
from kafka_share.core.events import Channel, Message, TellClientInstanceId
from kafka_share.core.metadata import Metadata
from kafka_share.core.metrics.metric_table import readings, telemetry_name
from kafka_share.errors import (
    BrokerError,
    KafkaShareError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
    error_for_code,
)
from kafka_share.protocol import otlp
from kafka_share.protocol.record_format import CODEC_NAMES, CODEC_NUMBERS, Codec
from kafka_share.protocol.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from kafka_share.records import Node

if TYPE_CHECKING:
    from kafka_share.protocol.telemetry import GetTelemetrySubscriptionsResponse, PushTelemetryResponse


class State(enum.Enum):
    OFF = "off"
    """Not switched on, or given up."""
    IDLE = "idle"
    """Nothing has been polled yet, and nobody asks for the id."""
    SUBSCRIPTION_NEEDED = "subscription needed"
    ASKING = "asking"
    PUSH_NEEDED = "push needed"
    PUSHING = "pushing"
    LAST_PUSH_NEEDED = "last push needed"
    LAST_PUSH = "last push"


class Trigger(enum.Enum):
    WANTED = "the group's coordinator is known, or the id is asked for"
    SENT = "request sent"
    SUBSCRIBED = "metrics are wanted"
    REFUSED = "nothing is wanted, or an error: ask again later"
    PUSHED = "push taken"
    STOPPED = "an error that will not pass, or closed with nothing to push"
    CLOSED = "closed with something to push"


TRANSITIONS: Final[Mapping[tuple[State, Trigger], State]] = MappingProxyType(
    {
        (State.IDLE, Trigger.WANTED): State.SUBSCRIPTION_NEEDED,
        (State.SUBSCRIPTION_NEEDED, Trigger.SENT): State.ASKING,
        (State.ASKING, Trigger.SUBSCRIBED): State.PUSH_NEEDED,
        (State.ASKING, Trigger.REFUSED): State.SUBSCRIPTION_NEEDED,
        (State.PUSH_NEEDED, Trigger.SENT): State.PUSHING,
        (State.PUSHING, Trigger.PUSHED): State.PUSH_NEEDED,
        (State.PUSHING, Trigger.REFUSED): State.SUBSCRIPTION_NEEDED,
        (State.PUSH_NEEDED, Trigger.CLOSED): State.LAST_PUSH_NEEDED,
        (State.PUSHING, Trigger.CLOSED): State.LAST_PUSH_NEEDED,
        (State.LAST_PUSH_NEEDED, Trigger.SENT): State.LAST_PUSH,
        **{(state, Trigger.STOPPED): State.OFF for state in State},
    }
)
"""(state, what happened) → next state. Pairs that are not listed cannot happen."""

DEFAULT_INTERVAL_MS: Final = 300_000
"""Where a broker names no interval."""
MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 24 * 3_600_000
"""A broker that asks for a shorter or longer one is not believed. Kafka lets nobody set less (interval.ms, KIP-714)."""
RETRY_MS: Final = 1_000
"""The shortest pause after an error."""
RETRY_MAX_MS: Final = 60_000
"""What it grows to after requests without an answer."""
LAST_PUSH_LIMIT_MS: Final = 1_000
"""Closing waits no longer for the last push."""

ALL: Final = ("", "*")
"""What a broker may write for "all metrics"."""

_AT_ONCE: Final = (UnsupportedCompressionTypeError, UnknownSubscriptionIdError)
"""Ask anew without waiting, once."""
_AFTER_INTERVAL: Final = (ThrottlingQuotaExceededError, TelemetryTooLargeError)
"""Go on after the interval."""


@attrs.frozen
class Subscription:
    """What a broker wants. Times are milliseconds."""

    id: int
    interval_ms: int
    max_bytes: int
    """Of a push after compression; 0: the broker names no limit."""
    is_delta: bool
    requested: tuple[str, ...]
    codec: Codec

    def wants(self, name: str) -> bool:
        """Whether a metric of this name is asked for."""
        return any(prefix in ALL or name.startswith(prefix) for prefix in self.requested)


class TelemetryPush:
    """See the module's docstring."""

    def __init__(self, context: CoreContext, metadata: Metadata, coordinator: Coordinator) -> None:
        self.state = State.IDLE if context.config.enable_metrics_push else State.OFF
        self._config = context.config
        self._member_id = context.member_id
        self._metadata = metadata
        self._coordinator = coordinator
        self._requests = context.requests
        self._outputs = context.outputs
        self._measurements = context.measurements
        self._source = context.source
        self._backoff = Backoff(RETRY_MS, RETRY_MAX_MS, context.source)
        self._is_id_wanted = False
        self._client_instance_id: UUID | None = None
        self._subscription: Subscription | None = None
        self._due_at_ms = 0
        self._node_id = -1
        self._refused_in_a_row = 0
        self._closing_until_ms: int | None = None
        self._counted_from_ms: int | None = None
        """Since when totals count: the first look at the clock; with delta temporality the last push that was taken."""
        self._base: dict[tuple[str, int | None], float] = {}
        """With delta temporality: the totals at the last push that was taken."""
        self._carried: dict[tuple[str, int | None], float] = {}
        self._carried_at_ms = 0
        self._complained: dict[str, None] = {}
        self._wake_at_ms: int | None = None

    # ---- commands

    def want_client_instance_id(self) -> None:
        """Somebody asks for the id: find it out now."""
        self._is_id_wanted = True
        if self.state is State.OFF:
            self._outputs.add(TellClientInstanceId(self._client_instance_id))

    def close(self, deadline_at_ms: int) -> None:
        """Push for the last time, if there is somebody who wants it; `is_closed` is true when that has ended."""
        self._closing_until_ms = deadline_at_ms
        if self.state is State.PUSHING:
            self._taken()  # most likely; its answer is not waited for
        if self.state in (State.PUSH_NEEDED, State.PUSHING):
            self._go(Trigger.CLOSED)
        elif self.state is not State.OFF:
            self._go(Trigger.STOPPED)

    @property
    def is_closed(self) -> bool:
        return self.state is State.OFF

    # ---- time

    def poll(self, now_ms: int) -> None:
        self._wake_at_ms = None
        if self._counted_from_ms is None:
            self._counted_from_ms = now_ms
        if self.state is State.IDLE and (self._is_id_wanted or self._coordinator.node is not None):
            self._due_at_ms = now_ms
            self._go(Trigger.WANTED)
        if self.state is State.LAST_PUSH_NEEDED:
            self._push_last(now_ms)
        elif self.state in (State.SUBSCRIPTION_NEEDED, State.PUSH_NEEDED):
            self._send_when_due(now_ms)

    def _send_when_due(self, now_ms: int) -> None:
        if now_ms < self._due_at_ms:
            self._wake_at_ms = self._due_at_ms
            return
        node, at_ms = self._some_node(now_ms)
        if node is None:
            self._wake_at_ms = at_ms
        elif self.state is State.SUBSCRIPTION_NEEDED:
            request = GetTelemetrySubscriptionsRequest(client_instance_id=self._client_instance_id or UUID(int=0))
            self._send(node, request, self._config.request_timeout_ms, self._subscribed)
        else:
            self._push(node, now_ms)

    def _some_node(self, now_ms: int) -> tuple[Node | None, int]:
        """Any broker will do: the coordinator, to which there is a connection, or else what the metadata names."""
        node = self._coordinator.node
        if node is not None and self._requests.ready_at_ms(node.id, Channel.CONTROL) <= now_ms:
            return node, now_ms
        return self._metadata.some_node(now_ms)

    def wake_at_ms(self) -> int | None:
        return self._wake_at_ms

    def _send(self, node: Node, request: Message, timeout_ms: int, answered: Callable[[Message, int], None]) -> None:
        self._node_id = node.id
        self._go(Trigger.SENT)
        failed = self._last_failed if self.state is State.LAST_PUSH else self._failed
        self._requests.send(node, Channel.CONTROL, request, timeout_ms, answered, failed)

    # ---- pushes

    def _push(self, node: Node, now_ms: int) -> None:
        assert self._subscription is not None, "a push that nobody asked for"
        metrics = self._encoded(self._subscription, now_ms)
        if self.state is State.OFF:
            return
        if metrics is None:  # nothing that fits: try again with the next interval
            self._due_at_ms = self._wake_at_ms = now_ms + self._subscription.interval_ms
            return
        timeout_ms = self._config.request_timeout_ms
        self._send(node, self._request(self._subscription, metrics), timeout_ms, self._pushed)

    def _push_last(self, now_ms: int) -> None:
        assert self._subscription is not None, "a push that nobody asked for"
        assert self._closing_until_ms is not None, "the last push before the end"
        node, _ = self._some_node(now_ms)
        timeout_ms = min(LAST_PUSH_LIMIT_MS, self._config.request_timeout_ms, self._closing_until_ms - now_ms)
        metrics = None if node is None or timeout_ms <= 0 else self._encoded(self._subscription, now_ms)
        if self.state is State.OFF:
            return
        if node is None or metrics is None:
            self._go(Trigger.STOPPED)
            return
        request = self._request(self._subscription, metrics)
        request.terminating = True
        self._send(node, request, timeout_ms, self._last_pushed)

    def _request(self, subscription: Subscription, metrics: bytes) -> PushTelemetryRequest:
        return PushTelemetryRequest(
            client_instance_id=self._client_instance_id,
            subscription_id=subscription.id,
            terminating=False,
            compression_type=CODEC_NUMBERS[subscription.codec],
            metrics=metrics,
        )

    def _encoded(self, subscription: Subscription, now_ms: int) -> bytes | None:
        """The metrics of a push, compressed; without those of single nodes if all are too many. None: still too many.

        Stops the machine if the encoder is not installed.
        """
        from kafka_share.protocol.compression import compress  # late: only brokers that ask for metrics need it

        for with_nodes in (True, False):
            points = self._points(subscription, now_ms, with_nodes=with_nodes)
            try:
                metrics = compress(subscription.codec, otlp.encode(self._batch(points, subscription, now_ms)))
            except ImportError as error:
                self._outputs.note("telemetry-unavailable", error=f"install kafka-share[metrics-push] ({error})")
                self._stop("no encoder")
                return None
            if not 0 < subscription.max_bytes < len(metrics):
                return metrics
        self._complain("telemetry-too-large", error=f"the broker takes {subscription.max_bytes} bytes at most")
        return None

    def _batch(self, points: list[otlp.Point], subscription: Subscription, now_ms: int) -> otlp.Batch:
        assert self._counted_from_ms is not None
        offset_ms = self._measurements.unix_offset_ms
        resource = {"group_id": self._config.group_id, "group_member_id": self._member_id}
        if self._config.client_rack is not None:
            resource["client_rack"] = self._config.client_rack
        return otlp.Batch(
            tuple(points),
            began_at_ms=offset_ms + self._counted_from_ms,
            at_ms=offset_ms + now_ms,
            is_delta=subscription.is_delta,
            resource=resource,
        )

    def _points(self, subscription: Subscription, now_ms: int, *, with_nodes: bool) -> list[otlp.Point]:
        points: list[otlp.Point] = []
        self._carried = {}
        self._carried_at_ms = now_ms
        for reading in readings(self._measurements, now_ms):
            name = telemetry_name(reading.metric)
            if not subscription.wants(name) or (reading.node_id is not None and not with_nodes):
                continue
            attributes = {} if reading.node_id is None else {"node_id": f"node-{reading.node_id}"}
            value = reading.value
            if reading.metric.is_total:
                key = (name, reading.node_id)
                self._carried[key] = value
                if subscription.is_delta:
                    value -= self._base.get(key, 0.0)
            points.append(otlp.Point(name, value, reading.metric.is_total, attributes))
        return points + self._application_points(subscription)

    def _application_points(self, subscription: Subscription) -> list[otlp.Point]:
        points = []
        for name, read in tuple(self._measurements.application_metrics.items()):
            if not subscription.wants(name):
                continue
            try:
                value = float(read())
            except Exception as error:  # noqa: BLE001 - the application's function must not end the network thread
                self._complain("application-metric-failed", metric=name, error=f"{type(error).__name__}: {error}")
                continue
            if math.isfinite(value):
                points.append(otlp.Point(name, value))
        return points

    def _complain(self, event: str, **fields: str) -> None:
        """Log something once that would come back with every push."""
        key = f"{event} {fields.get('metric', '')}"
        if key not in self._complained:
            self._complained[key] = None
            self._outputs.note(event, **fields)

    # ---- answers

    def _subscribed(self, response: GetTelemetrySubscriptionsResponse, now_ms: int) -> None:
        if self.state is not State.ASKING:
            return
        error = error_for_code(response.error_code)
        if error is not None:
            self._refused(error, now_ms)
            return
        if response.client_instance_id is None:
            self._stop("the broker gave us no client instance id")
            return
        self._backoff.succeeded()
        if response.client_instance_id != self._client_instance_id:
            self._client_instance_id = response.client_instance_id
            self._outputs.add(TellClientInstanceId(self._client_instance_id))
        self._take(_subscription(response), now_ms)

    def _take(self, new: Subscription, now_ms: int) -> None:
        old, self._subscription = self._subscription, new
        if old is not None and old.is_delta != new.is_delta:
            self._base = {}
        if not new.requested:
            self._refused_in_a_row = 0
            self._due_at_ms = now_ms + new.interval_ms
            self._go(Trigger.REFUSED)
            return
        if old is None or old.id != new.id:
            self._outputs.note(
                "telemetry-subscribed", node_id=self._node_id, client_instance_id=str(self._client_instance_id)
            )
        self._due_at_ms = now_ms + round(new.interval_ms * self._source.uniform(0.5, 1.5))
        self._go(Trigger.SUBSCRIBED)

    def _last_pushed(self, response: PushTelemetryResponse, now_ms: int) -> None:
        self._stop("closed")

    def _last_failed(self, error: KafkaShareError, now_ms: int) -> None:
        self._stop(str(error))

    def _pushed(self, response: PushTelemetryResponse, now_ms: int) -> None:
        if self.state is not State.PUSHING:
            return
        error = error_for_code(response.error_code)
        if error is not None:
            self._refused(error, now_ms)
            return
        assert self._subscription is not None
        self._refused_in_a_row = 0
        self._backoff.succeeded()
        self._taken()
        self._due_at_ms = now_ms + self._subscription.interval_ms
        self._go(Trigger.PUSHED)

    def _taken(self) -> None:
        """The broker has what the push carries: differences count from that moment."""
        assert self._subscription is not None
        if self._subscription.is_delta:
            self._base = self._carried
            self._counted_from_ms = self._carried_at_ms

    def _refused(self, error: BrokerError, now_ms: int) -> None:
        interval_ms = DEFAULT_INTERVAL_MS if self._subscription is None else self._subscription.interval_ms
        if isinstance(error, _AT_ONCE):
            # A broker that refuses what it has just named would be asked in a circle.
            self._due_at_ms = now_ms + (max(interval_ms, RETRY_MS) if self._refused_in_a_row else 0)
            self._refused_in_a_row += 1
            self._go(Trigger.REFUSED)
        elif isinstance(error, _AFTER_INTERVAL) or error.retriable:
            self._due_at_ms = now_ms + max(interval_ms, RETRY_MS)
            self._go(Trigger.REFUSED)
        else:
            self._stop(str(error))

    def _failed(self, error: KafkaShareError, now_ms: int) -> None:
        if self.state not in (State.ASKING, State.PUSHING):
            return
        if isinstance(error, UnsupportedVersionError):
            self._stop(str(error))
            return
        self._backoff.failed(now_ms)
        self._due_at_ms = self._backoff.ready_at_ms
        self._go(Trigger.REFUSED)

    def _stop(self, why: str) -> None:
        self._outputs.note("telemetry-stopped", error=why)
        self._go(Trigger.STOPPED)
        if self._client_instance_id is None:
            self._outputs.add(TellClientInstanceId(None))

    def _go(self, trigger: Trigger) -> None:
        self.state = TRANSITIONS[self.state, trigger]

    def check(self) -> None:
        assert self.state is State.OFF or self._config.enable_metrics_push, "a push that was not switched on"
        pushing = (State.PUSH_NEEDED, State.PUSHING, State.LAST_PUSH_NEEDED, State.LAST_PUSH)
        assert self.state not in pushing or self._subscription is not None, "a push without a subscription"
        assert self._subscription is None or self._client_instance_id is not None, "a subscription without an id"


def _subscription(response: GetTelemetrySubscriptionsResponse) -> Subscription:
    interval_ms = response.push_interval_ms
    known = [CODEC_NAMES[code] for code in response.accepted_compression_types if 0 <= code < len(CODEC_NAMES)]
    return Subscription(
        id=response.subscription_id,
        interval_ms=max(MIN_INTERVAL_MS, min(interval_ms, MAX_INTERVAL_MS)) if interval_ms > 0 else DEFAULT_INTERVAL_MS,
        max_bytes=max(0, response.telemetry_max_bytes),
        is_delta=response.delta_temporality,
        requested=tuple(response.requested_metrics),
        codec=known[0] if known else "none",
    )
