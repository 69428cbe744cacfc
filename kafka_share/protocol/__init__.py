"""Kafka's wire protocol: messages, framing, versions and record batches. Bytes in, values out; no I/O, no time.

- `messages`: encode and decode requests and responses, whatever the bytes are; the table of all message classes.
- `share_group`, `share_fetch`, `share_acknowledge`, `share_state`, `share_offsets`: the messages of share groups.
- `telemetry`: those by which brokers get metrics from clients; `otlp`: what those metrics are encoded in.
- `handshake`, `cluster`, `topics`, `configs`, `groups`, `classic_group`, `committed_offsets`, `logs`, `transactions`:
  the messages that share groups have in common with the rest of Kafka.
- `api_message`: how messages are declared. In all of them the all-zero UUID is None, and authorized operations are a
  set of operation codes, or None if they were not asked for.
- `versions`: which version of an API to speak with a broker.
- `record_batches`: record batches of format 2; `compression`, `crc` and `varint` serve it.
"""
