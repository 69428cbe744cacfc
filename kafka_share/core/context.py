"""What every machine of one consumer's core works with; made by `ShareConsumerCore`, holds no state of its own."""

from __future__ import annotations

import random

import attrs

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.backoff import Backoff
from kafka_share.core.condition import Troubles
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.core.outputs import Outputs, Requests
from kafka_share.locks import DeliveryLimit


@attrs.frozen
class CoreContext:
    config: ShareConsumerConfig
    member_id: str
    """Kept for the consumer's life, across fencing, leaving and joining again (KIP-1082)."""
    outputs: Outputs
    requests: Requests
    measurements: Measurements
    source: random.Random
    troubles: Troubles
    delivery_limit: DeliveryLimit = attrs.field(factory=DeliveryLimit)

    def new_backoff(self, *, free_failures: int = 0) -> Backoff:
        """For what is tried again: retry.backoff.ms, growing to retry.backoff.max.ms."""
        initial_ms, maximum_ms = self.config.retry_backoff_ms, self.config.retry_backoff_max_ms
        return Backoff(initial_ms, maximum_ms, self.source, free_failures=free_failures)
