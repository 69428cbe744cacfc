"""Kafka's wire protocol: messages, framing, versions and record batches. Bytes in, values out; no I/O, no time.

- `messages`: encode and decode requests and responses, whatever the bytes are; the table of all message classes.
- `share_group`, `share_fetch`, `share_acknowledge`, `share_state`, `share_offsets`: the messages of share groups.
- `telemetry`: those by which brokers get metrics from clients; `otlp`: what those metrics are encoded in.
- `classic`: the other messages. `api_message`: how messages are declared.
- `versions`: which version of an API to speak with a broker.
- `record_batches`: record batches of format 2; `compression`, `crc` and `varint` serve it.
"""
