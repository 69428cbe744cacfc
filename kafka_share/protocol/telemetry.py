"""The messages by which brokers ask clients for metrics, and get them (KIP-714): APIs 71 and 72.

Types and field names: the generated stub beside this file; wire format: `kafka_share/protocol/schemas`.
"""

from __future__ import annotations

from kafka_share.protocol import schemas
from kafka_share.protocol.api_message import ApiMessage

__all__ = [
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
]


class GetTelemetrySubscriptionsRequest(ApiMessage, load_json=schemas): ...


class GetTelemetrySubscriptionsResponse(ApiMessage, load_json=schemas): ...


class PushTelemetryRequest(ApiMessage, load_json=schemas): ...


class PushTelemetryResponse(ApiMessage, load_json=schemas): ...
