"""Records that are written: what a dead letter says, and the producers of other clients that write it.

A worker uses it for records that it sets aside, and `kafka-share dlq` to read them and to write them back. Our own
clients write nothing (docs/producing.md).
"""
