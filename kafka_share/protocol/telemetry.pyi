"""Generated from the schemas by kafka_share.protocol.generate_stubs: do not edit."""

import uuid

from kafka_share.protocol.api_message import ApiMessage, MessageStruct

__all__ = [
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
]

class GetTelemetrySubscriptionsRequest(ApiMessage):
    client_instance_id: uuid.UUID | None
    def __init__(
        self,
        *,
        client_instance_id: uuid.UUID | None = ...,
        version: int | None = None,
    ) -> None: ...

class GetTelemetrySubscriptionsResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    client_instance_id: uuid.UUID | None
    subscription_id: int
    accepted_compression_types: list[int]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: list[str]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        client_instance_id: uuid.UUID | None = ...,
        subscription_id: int = ...,
        accepted_compression_types: list[int] = ...,
        push_interval_ms: int = ...,
        telemetry_max_bytes: int = ...,
        delta_temporality: bool = ...,
        requested_metrics: list[str] = ...,
        version: int | None = None,
    ) -> None: ...

class PushTelemetryRequest(ApiMessage):
    client_instance_id: uuid.UUID | None
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes
    def __init__(
        self,
        *,
        client_instance_id: uuid.UUID | None = ...,
        subscription_id: int = ...,
        terminating: bool = ...,
        compression_type: int = ...,
        metrics: bytes = ...,
        version: int | None = None,
    ) -> None: ...

class PushTelemetryResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        version: int | None = None,
    ) -> None: ...
