"""The broker's half of the push of client metrics (KIP-714): one subscription, the clients that know it, what arrived.

Owned by `Cluster`; asked by `handlers/telemetry.py`. Without a subscription it has no part in anything, and the two
APIs are not offered: as on a Kafka whose brokers have no plug-in that receives metrics.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import (
    InvalidRequestError,
    RemoteProtocolError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from kafka_share.protocol import otlp
from kafka_share.protocol.compression import decompress
from kafka_share.protocol.record_format import CODEC_NAMES, CODEC_NUMBERS, Codec

if TYPE_CHECKING:
    from random import Random

    from kafka_share.protocol.otlp import Batch

MAX_CLIENTS: Final = 1_000
MAX_PUSHES: Final = 1_000
"""The oldest are forgotten."""


@attrs.frozen
class MetricsSubscription:
    """What the clients are to push. `metrics` are beginnings of names; "*" is everything, none is nothing."""

    metrics: tuple[str, ...]
    interval_ms: int = 300_000
    max_bytes: int = 1_048_576
    is_delta: bool = True
    codecs: tuple[Codec, ...] = ("zstd", "lz4", "gzip", "snappy")
    """The preferred one first."""

    @property
    def id(self) -> int:
        """The same for the same subscription."""
        return zlib.crc32(repr(self).encode()) & 0x7FFF_FFFF


@attrs.frozen
class MetricsPush:
    """What one PushTelemetry request brought."""

    client_id: str
    client_instance_id: UUID
    is_terminating: bool
    codec: Codec
    batch: Batch

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the metrics, in order, each once."""
        return tuple(dict.fromkeys(point.name for point in self.batch.points))


@attrs.define
class _Client:
    subscription_id: int = 0
    next_push_at_ms: int = 0
    has_ended: bool = False


class ClientMetrics:
    """See the module's docstring. `source` makes the ids of the clients."""

    def __init__(self, source: Random) -> None:
        self.subscription: MetricsSubscription | None = None
        self.pushes: deque[MetricsPush] = deque(maxlen=MAX_PUSHES)
        self._source = source
        self._clients: dict[UUID, _Client] = {}

    def subscribe(self, client_instance_id: UUID | None) -> tuple[UUID, MetricsSubscription]:
        """A client asks: its id (a new one if it has none) and what it is to push."""
        found = self._demand_subscription()
        name = client_instance_id or UUID(int=self._source.getrandbits(128), version=4)
        client = self._clients.setdefault(name, _Client())
        client.subscription_id = found.id
        while len(self._clients) > MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return name, found

    def push(
        self, client_id: str, name: UUID | None, subscription_id: int, terminating: bool, codec: int, data: bytes,
        now_ms: int,
    ) -> None:  # fmt: skip
        """A client pushes. Raises `Refusal` for what a real broker would not take."""
        wanted = self._demand_subscription()
        client = None if name is None else self._clients.get(name)
        if name is None or client is None or client.has_ended:
            raise Refusal(InvalidRequestError, "the client has not asked what to push, or has said goodbye")
        if subscription_id != wanted.id or client.subscription_id != wanted.id:
            raise Refusal(UnknownSubscriptionIdError, "the subscription has changed")
        if codec != 0 and codec not in [CODEC_NUMBERS[name] for name in wanted.codecs]:
            raise Refusal(UnsupportedCompressionTypeError, f"codec {codec} is not accepted")
        if len(data) > wanted.max_bytes:
            raise Refusal(TelemetryTooLargeError, f"{len(data)} bytes are more than {wanted.max_bytes}")
        if now_ms < client.next_push_at_ms and not terminating:
            raise Refusal(ThrottlingQuotaExceededError, "the interval is not over")
        # A client's clock may run a little ahead of ours.
        client.next_push_at_ms = now_ms + wanted.interval_ms * 9 // 10
        client.has_ended = terminating
        try:
            batch = otlp.decode(decompress(CODEC_NAMES[codec], data))
        except RemoteProtocolError as error:
            raise Refusal(InvalidRequestError, str(error)) from None
        self.pushes.append(MetricsPush(client_id, name, terminating, CODEC_NAMES[codec], batch))

    def _demand_subscription(self) -> MetricsSubscription:
        if self.subscription is None:
            raise Refusal(InvalidRequestError, "nobody wants metrics")
        return self.subscription
