"""Kafka's wire protocol: messages, framing, versions and record batches. Bytes in, values out; no I/O, no time.

- `messages`: encode and decode requests and responses, whatever the bytes are; the table of all message classes.
- `share_group`, `share_fetch`, `share_acknowledge`, `share_state`, `share_offsets`: the messages of share groups.
- `telemetry`: those by which brokers get metrics from clients; `otlp`: what those metrics are encoded in.
- `classic`: the other messages, from kafka-python.
- `versions`: which version of an API to speak with a broker.
- `record_batches`: record batches of format 2; `compression`, `crc` and `varint` serve it.

Nothing else of kafka_share uses `kafka.protocol`.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # kafka-python reads its schemas, and ours, with a function that Python 3.11 and 3.12 call deprecated. Importing
    # everything here keeps that from those who turn warnings into errors.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka_share.protocol import (
        classic,
        share_acknowledge,
        share_fetch,
        share_group,
        share_offsets,
        share_state,
        telemetry,
    )

__all__ = ["classic", "share_acknowledge", "share_fetch", "share_group", "share_offsets", "share_state", "telemetry"]
