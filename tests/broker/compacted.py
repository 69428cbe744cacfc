"""Compacted topics for tests of the log cleaner, in memory and on disk: settings, and records as short texts."""

from __future__ import annotations

from typing import Final

from kafka_share.protocol.record_encoder import RecordToWrite

BACKOFF_MS: Final = 15_000
DELETE_RETENTION_MS: Final = 60_000
SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}


def records_of(text: str, at_ms: int) -> list[RecordToWrite]:
    """The records in a text such as "a1 b2 b-": a key and a value of one letter, "-" for a tombstone."""
    return [
        (index, at_ms, word[0].encode(), None if word[1] == "-" else word[1].encode(), [])
        for index, word in enumerate(text.split())
    ]
