"""What tests of consumers share: their types, and the settings of a broker whose members send heartbeats often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka_share import KafkaShareConsumer, ShareRecord

Consumer = KafkaShareConsumer[Any, Any]
Record = ShareRecord[Any, Any]
MakeConsumer = Callable[..., Consumer]
"""Called with topics and settings; what it makes is closed at the end of the test."""

QUICK: Final = {"group.share.min.heartbeat.interval.ms": "100", "group.share.heartbeat.interval.ms": "100"}
"""Members learn soon what has changed; with Kafka's 5 s a test would only be slow."""
