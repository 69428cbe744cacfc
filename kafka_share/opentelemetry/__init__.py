"""Share groups for OpenTelemetry: the metrics of consumers and workers, and spans of handlers.

Needs the extra `opentelemetry`. Nothing else in the package imports this one.
"""

from kafka_share.opentelemetry.instruments import ShareConsumerInstruments
from kafka_share.opentelemetry.process_spans import ProcessSpans

__all__ = ["ProcessSpans", "ShareConsumerInstruments"]
