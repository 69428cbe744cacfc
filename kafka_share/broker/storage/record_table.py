"""What the records of an internal topic amount to: the last value of each key. It keeps the topic's logs short, too.

Called by `GroupJournal`. A change is appended first and holds then; what is as before is not appended. Keys and values
are bytes here. Kafka leaves it to compaction to drop what is overwritten, which waits until a segment has 100 MB; here
a partition that has grown long gets the older ones of its rows again, and loses its head.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.transaction_index import is_commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafka_share.broker.storage.internal_topic import InternalTopic
    from kafka_share.protocol.record_batches import RecordBatch

_MOST_RECORDS: Final = 10_000
"""A partition that has more records is shortened..."""
_RECORDS_PER_ROW: Final = 4
"""...unless it needs that many for what it holds."""

Change: TypeAlias = "tuple[bytes, bytes | None]"
"""A key and its new value, None if it has none any more."""


class _Row(NamedTuple):
    offset: int
    value: bytes


class RecordTable:
    """All keys that have a value, by the partition that they lie in (their home)."""

    def __init__(self, log: InternalTopic) -> None:
        self._log = log
        self._homes: dict[int, dict[bytes, _Row]] = {}
        self._pending: dict[tuple[int, int], dict[bytes, _Row]] = {}
        """By home and producer id: what its open transaction will change."""
        self._long: set[int] = set()

    def home_of(self, name: str) -> int:
        """Where everything about this name (of a group) lies."""
        return self._log.partition_for(name)

    def rows(self, home: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The keys of a home, or of all, with their values."""
        for one in sorted(self._homes) if home is None else [home]:
            for key, row in self._homes.get(one, {}).items():
                yield key, row.value

    def pending(self) -> Iterator[tuple[int, bytes, bytes]]:
        """(producer id, key, value) of everything that open transactions will change."""
        for (_, producer_id), rows in self._pending.items():
            for key, row in rows.items():
                yield producer_id, key, row.value

    # ---- changes

    def write(self, home: int, changes: Iterable[Change], now_ms: int) -> None:
        """Make the changes, all or none. Raises `Refusal`, if the log does."""
        rows = self._homes.setdefault(home, {})
        pending = [rows for (at, _), rows in self._pending.items() if at == home]
        news = [
            (key, value)
            for key, value in changes
            if value != _value(rows.get(key)) or (value is None and any(key in found for found in pending))
        ]
        if news:
            first = self._log.append(home, news, now_ms)
            for number, (key, value) in enumerate(news):
                self._set(home, key, first + number, value)
            self._note_length(home, first)

    def write_pending(self, home: int, producer: tuple[int, int], rows: Mapping[bytes, bytes], now_ms: int) -> None:
        """What the producer's (id, epoch) transaction sets if it is committed. Raises `Refusal`."""
        first = self._log.append(home, list(rows.items()), now_ms, producer=producer)
        pending = self._pending.setdefault((home, producer[0]), {})
        for number, (key, value) in enumerate(rows.items()):
            pending[key] = _Row(first + number, value)
        self._note_length(home, first)

    def end_transaction(
        self, home: int, producer: tuple[int, int], *, committed: bool, now_ms: int
    ) -> list[tuple[bytes, bytes]]:
        """The producer's transaction has ended; returns the keys that it has set, with their values.

        Nothing is appended if it had changed nothing. Raises `Refusal`.
        """
        if (home, producer[0]) not in self._pending:
            return []
        self._log.append_marker(home, producer, committed=committed, now_ms=now_ms)
        return self.marker_written(home, producer[0], committed=committed)

    def marker_written(self, home: int, producer_id: int, *, committed: bool) -> list[tuple[bytes, bytes]]:
        """Somebody else has appended the end of the producer's transaction; returns the keys that it has set.

        What was written to a key after the transaction had written it stays."""
        pending = self._pending.pop((home, producer_id), {})
        if not committed:
            return []
        rows = self._homes.setdefault(home, {})
        news = {key: row for key, row in pending.items() if key not in rows or rows[key].offset < row.offset}
        rows.update(news)
        return [(key, row.value) for key, row in news.items()]

    # ---- the log

    def load(self) -> None:
        """Forget everything, and read it from the log. Raises `RemoteProtocolError`."""
        self._homes, self._pending = {}, {}
        for home in range(self._log.partition_count):
            for batch in self._log.batches(home):
                self._replay(home, batch)

    def _replay(self, home: int, batch: RecordBatch) -> None:
        if batch.is_control:
            # Compaction leaves an empty marker only where nothing is left of the transaction.
            self.marker_written(home, batch.producer_id, committed=batch.record_count > 0 and is_commit(batch))
            return
        for offset, key, value in self._log.records_of(home, batch):
            if not batch.is_transactional:
                self._set(home, key, offset, value)
            elif value is not None:
                self._pending.setdefault((home, batch.producer_id), {})[key] = _Row(offset, value)

    def _set(self, home: int, key: bytes, offset: int, value: bytes | None) -> None:
        """A key that has no value any more loses what open transactions would set, too."""
        rows = self._homes.setdefault(home, {})
        if value is not None:
            rows[key] = _Row(offset, value)
            return
        rows.pop(key, None)
        for (at, _), pending in self._pending.items():
            if at == home:
                pending.pop(key, None)

    def _note_length(self, home: int, offset: int) -> None:
        length = offset - self._log.start_offset(home)
        if length > _MOST_RECORDS and length > _RECORDS_PER_ROW * len(self._homes[home]):
            self._long.add(home)

    def poll(self, now_ms: int) -> None:
        """Shorten the partitions that have grown long. Where the log refuses that, they stay so until they grow on."""
        long, self._long = self._long, set()
        for home in sorted(long):
            with contextlib.suppress(Refusal):
                self._shorten(home, now_ms)

    def _shorten(self, home: int, now_ms: int) -> None:
        middle = (self._log.start_offset(home) + self._log.end_offset(home)) // 2
        rows = self._homes[home]
        old = [(key, row.value) for key, row in rows.items() if row.offset < middle]
        if old:
            first = self._log.append(home, old, now_ms)
            for number, (key, value) in enumerate(old):
                rows[key] = _Row(first + number, value)
        self._log.prune(home, min(middle, self._log.stable_offset(home)), now_ms)

    def check(self) -> None:
        """Assert that every row is where it is said to be."""
        for home, rows in self._homes.items():
            start, end = self._log.start_offset(home), self._log.end_offset(home)
            assert all(start <= row.offset < end for row in rows.values())


def _value(row: _Row | None) -> bytes | None:
    return None if row is None else row.value
