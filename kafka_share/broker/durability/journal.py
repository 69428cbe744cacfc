"""The journal: what a durable broker knows besides its logs, as entries of a log in the data directory.

It is a log like any other, with record batches in segments, so what is checked, cut and deleted there is checked, cut
and deleted here. A record has an entry's key and its value as JSON, null for one that is gone; the records of one
`write` are one batch, and survive together or not at all. When much has been written, all entries are written again,
in one batch at the head of a new segment, and what is before it goes.

Used by `persistence`. What the entries mean is known to `cluster_state`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafka_share.protocol.record_batches import encode_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_share.broker.storage.log import Log
    from kafka_share.protocol.record_batches import RecordBatch

JOURNAL_FOLDER: Final = "__cluster_metadata-0"
"""Kafka's name for the place of the same."""
EntryKey: TypeAlias = tuple[str, str]
"""The kind of an entry, and which one it is."""
Json: TypeAlias = Any

_SNAPSHOT: Final = b"snapshot"
"""The key of a record before all entries: what came earlier counts no more."""
_MIN_SNAPSHOT_BYTES: Final = 1024 * 1024


class Journal:
    """`log` is empty, and may have files; `replay` gets what they hold before the first `write`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._entries: dict[EntryKey, Json] = {}
        self._bytes_since_snapshot = 0
        self._snapshot_due_bytes = _MIN_SNAPSHOT_BYTES

    def replay(self, batch: RecordBatch) -> None:
        """Take in a batch that was written before."""
        for _, _, key, value, _ in batch.iter_records():
            assert key is not None
            if key == _SNAPSHOT:
                self._entries.clear()
                continue
            kind, _, which = key.decode().partition("/")
            self._put((kind, which), None if value is None else json.loads(value))
        self._bytes_since_snapshot += len(batch.data)

    def entries(self, kind: str) -> dict[str, Json]:
        """All entries of a kind, in the order of their first writing."""
        return {which: value for (one, which), value in self._entries.items() if one == kind}

    def write(self, entries: Mapping[EntryKey, Json], now_ms: int) -> None:
        """Write what has changed; None is an entry that is gone. Raises `Refusal`; then nothing has changed."""
        new = {key: value for key, value in entries.items() if self._entries.get(key) != value}
        if not new:
            return
        self._append([(_key(key), _value(value)) for key, value in new.items()], now_ms)
        for key, value in new.items():
            self._put(key, value)
        if self._bytes_since_snapshot >= self._snapshot_due_bytes:
            self._write_snapshot(now_ms)

    def _put(self, key: EntryKey, value: Json) -> None:
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value

    def _write_snapshot(self, now_ms: int) -> None:
        self._log.begin_segment()
        start_offset = self._log.high_watermark
        entries = [(_key(key), _value(value)) for key, value in self._entries.items()]
        self._bytes_since_snapshot = 0
        self._append([(_SNAPSHOT, None), *entries], now_ms)
        self._log.delete_records(start_offset)
        self._snapshot_due_bytes = max(_MIN_SNAPSHOT_BYTES, 2 * self._bytes_since_snapshot)
        self._bytes_since_snapshot = 0

    def _append(self, records: list[tuple[bytes, bytes | None]], now_ms: int) -> None:
        batch = encode_batch([(index, now_ms, key, value, ()) for index, (key, value) in enumerate(records)])
        self._log.append(batch, 0, now_ms)
        self._bytes_since_snapshot += len(batch)


def _key(key: EntryKey) -> bytes:
    return "/".join(key).encode()


def _value(value: Json) -> bytes | None:
    return None if value is None else json.dumps(value, separators=(",", ":")).encode()
