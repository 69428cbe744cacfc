"""What compaction leaves of a log: for each key its last record, the end of transactions as long as it is needed.

One round over closed segments, without I/O: batches in, batches out, in turns. Started by `LogCleaner`, which puts the
result into the log. Offsets never change: a batch keeps its first and last one, whatever it has lost, and a batch that
has lost all goes, but where it says how far a producer's sequence numbers or the cleaned part of the log have come.
Batches of formats 0 and 1 stay as they are. Source: Kafka 4.3's `Cleaner`, `CleanedTransactionMetadata` and
`MemoryRecords.filterTo`, and what a running 4.3.1 left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.storage.transaction_index import is_commit
from kafka_share.protocol.record_batches import iter_batches, with_records
from kafka_share.protocol.record_format import MAGIC

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from kafka_share.broker.storage.producers import LastRecord
    from kafka_share.broker.storage.stored_batch import StoredBatch
    from kafka_share.protocol.record_batches import RecordBatch, RecordTuple

RECORDS_IN_A_TURN: Final = 20_000

AbortedRange = tuple[int, int, int]
"""Producer id, first and last offset."""


@attrs.frozen
class CompactionRound:
    """What a round goes by. `aborted` are the aborted transactions that reach into the segments."""

    dirty_from: int
    """Where the records begin that no round has seen."""
    aborted: Sequence[AbortedRange]
    last_records: Mapping[int, LastRecord]
    """By producer id, of those that the partition remembers."""
    delete_retention_ms: int
    now_ms: int


class _Transactions:
    """Follows transactions through the batches of a log, in order: which of them have left anything."""

    def __init__(self, aborted: Sequence[AbortedRange]) -> None:
        self._to_come = sorted(aborted, key=lambda one: one[1], reverse=True)
        self._aborted: dict[int, AbortedRange] = {}
        """By producer id: the aborted transaction that it is in."""
        self._committed: set[int] = set()
        """Producers with records of a transaction that was committed, before its marker."""
        self._seen: set[AbortedRange] = set()
        self.gone: set[AbortedRange] = set()
        """Aborted transactions whose marker has come, and of whose records nothing has."""

    def is_aborted(self, batch: StoredBatch) -> bool:
        """Take the next batch of records."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        aborted = self._aborted.get(batch.producer_id)
        if aborted is None:
            self._committed.add(batch.producer_id)
            return False
        self._seen.add(aborted)
        return True

    def has_left_nothing(self, batch: StoredBatch, marker: RecordBatch) -> bool:
        """Take the next marker; whether none of its transaction's records is there any more."""
        self._begin_up_to(batch.last_offset)
        if marker.record_count == 0:
            return True
        if is_commit(marker):
            was_there = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not was_there
        aborted = self._aborted.pop(batch.producer_id, None)
        if aborted is None:
            return True
        if aborted not in self._seen:
            self.gone.add(aborted)
        return aborted not in self._seen

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1][1] <= offset:
            aborted = self._to_come.pop()
            self._aborted.setdefault(aborted[0], aborted)


class Compaction:
    """One round over the batches of closed segments, which come in order: first `index` for all, then `rewrite` for one
    group after the other."""

    def __init__(self, settings: CompactionRound) -> None:
        self._round = settings
        self._latest: dict[bytes, int] = {}
        """The last offset of each key in the dirty part."""
        self._transactions = _Transactions(settings.aborted)
        self._records_left = RECORDS_IN_A_TURN

    @property
    def gone_transactions(self) -> set[AbortedRange]:
        """Aborted transactions of which only the marker was left before this round, or not even that."""
        return self._transactions.gone

    def index(self, batches: Sequence[StoredBatch]) -> Generator[None, None, None]:
        """Note the last record of each key. Raises `RecordBatchError` for a damaged batch."""
        transactions = _Transactions(self._round.aborted)
        for stored in batches:
            yield from self._turn(1)
            (batch,) = iter_batches(stored.data)
            if stored.is_control:
                transactions.has_left_nothing(stored, batch)
            elif not transactions.is_aborted(stored) and stored.last_offset >= self._round.dirty_from:
                yield from self._turn(batch.record_count)
                for offset, _, key, *_ in batch.iter_records():
                    if key is not None and offset >= self._round.dirty_from:
                        self._latest[key] = offset

    def rewrite(self, batches: Sequence[StoredBatch]) -> Generator[None, None, list[bytes]]:
        """What stays of the batches of a group of segments, the last of them in any case.

        A batch that has lost nothing is the same object as before. Raises `RecordBatchError`.
        """
        kept: list[bytes] = []
        for stored in batches:
            yield from self._turn(1)
            (batch,) = iter_batches(stored.data)
            if batch.magic != MAGIC:
                kept.append(stored.data)
                continue
            yield from self._turn(batch.record_count)
            data = self._rewritten(stored, batch, is_last=stored is batches[-1])
            if data is not None:
                kept.append(data)
        return kept

    def _turn(self, records: int) -> Generator[None, None, None]:
        """Give others their turn before so many records are looked at, if it is time."""
        if self._records_left < records:
            yield
            self._records_left = RECORDS_IN_A_TURN
        self._records_left -= records

    def _rewritten(self, stored: StoredBatch, batch: RecordBatch, *, is_last: bool) -> bytes | None:
        """What stays of a batch, None for nothing."""
        now_ms, horizon_ms = self._round.now_ms, batch.delete_horizon_ms
        is_over = horizon_ms is not None and horizon_ms <= now_ms
        records: list[RecordTuple] = []
        may_go = False
        if batch.is_control:
            may_go = self._transactions.has_left_nothing(stored, batch)
            if not (may_go and is_over):
                records = batch.records()
        elif not self._transactions.is_aborted(stored):
            records = [record for record in batch.iter_records() if self._stays(record, tombstones_go=is_over)]
        if not records:
            return with_records(batch, ()) if is_last or self._is_last_of_producer(batch) else None
        waits = may_go if batch.is_control else any(record[3] is None for record in records)
        if waits and horizon_ms is None:
            return with_records(batch, records, now_ms + self._round.delete_retention_ms)
        return stored.data if len(records) == batch.record_count else with_records(batch, records)

    def _stays(self, record: RecordTuple, *, tombstones_go: bool) -> bool:
        offset, _, key, value, _ = record
        return key is not None and offset >= self._latest.get(key, -1) and (value is not None or not tombstones_go)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        """Whether what the partition remembers of a producer would be lost with the batch."""
        last = self._round.last_records.get(batch.producer_id)
        if last is None:
            return False
        if last.offset is None:
            return batch.is_control and batch.producer_epoch == last.epoch
        return batch.last_offset == last.offset
