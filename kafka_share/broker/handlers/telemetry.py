"""GetTelemetrySubscriptions (71) and PushTelemetry (72): what clients are to push, and what they push (KIP-714).

- Offered while a subscription is set only, as by a Kafka whose brokers have a plug-in that receives metrics.
- A client without an id gets one. A push must name the subscription as it is now (UNKNOWN_SUBSCRIPTION_ID), use a codec
  that is accepted (UNSUPPORTED_COMPRESSION_TYPE), keep to the size (TELEMETRY_TOO_LARGE) and to the interval
  (THROTTLING_QUOTA_EXCEEDED; the last push of a client may come at any time), and be OTLP (INVALID_REQUEST).

Versions: GetTelemetrySubscriptions (71) 0, PushTelemetry (72) 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.refusals import Refusal
from kafka_share.protocol.record_format import CODEC_NUMBERS
from kafka_share.protocol.telemetry import GetTelemetrySubscriptionsResponse, PushTelemetryResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.protocol.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest


def handle_subscriptions(
    cluster: Cluster, context: RequestContext, request: GetTelemetrySubscriptionsRequest, now_ms: int
) -> GetTelemetrySubscriptionsResponse:
    try:
        client_instance_id, subscription = cluster.client_metrics.subscribe(request.client_instance_id)
    except Refusal as refusal:
        return GetTelemetrySubscriptionsResponse(error_code=refusal.code)
    return GetTelemetrySubscriptionsResponse(
        error_code=0,
        client_instance_id=client_instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=[CODEC_NUMBERS[codec] for codec in subscription.codecs],
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=subscription.max_bytes,
        delta_temporality=subscription.is_delta,
        requested_metrics=list(subscription.metrics),
    )


def handle_push(
    cluster: Cluster, context: RequestContext, request: PushTelemetryRequest, now_ms: int
) -> PushTelemetryResponse:
    try:
        cluster.client_metrics.push(
            context.client_id,
            request.client_instance_id,
            request.subscription_id,
            request.terminating,
            request.compression_type,
            bytes(request.metrics or b""),
            now_ms,
        )
    except Refusal as refusal:
        return PushTelemetryResponse(error_code=refusal.code)
    return PushTelemetryResponse(error_code=0)
