"""The transaction coordinator: which producer a transactional id belongs to, and what its open transaction touches.

Called by the transaction handlers, by the produce handler, and by the cluster (time, deleted topics). One object serves
the whole cluster. What it must not do: read or write wire messages, or know the logs beyond "write a marker here".

Theory of operation. A transactional id has a producer id and an epoch; `initialise` raises the epoch, so that the
former owner of the id is fenced, and ends what it left open. Partitions and groups are added to the open transaction
before they are written to; ending it writes a marker into each partition and commits or drops the groups' offsets, all
in one step here, so the states between (prepare, complete) that Kafka's coordinator has to store do not exist. A
transaction that stays open for longer than its timeout is aborted, and its producer fenced. An id that nothing has
happened to for `transactional.id.expiration.ms` is forgotten, unless its transaction is open; its producer then has to
begin anew.

With the second version of the protocol (KIP-890: EndTxn 5, Produce 12, TxnOffsetCommit 5) partitions and groups are
added by writing to them, and every end raises the epoch. Source: Kafka 4.3's transaction coordinator.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from kafka_share.broker.changes import nobody
from kafka_share.broker.deadlines import Deadlines
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import InvalidProducerEpochError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from kafka_share.broker.changes import OnChange
    from kafka_share.broker.classic.committed_offsets import CommittedOffsets
    from kafka_share.broker.storage.topics import Partition

NO_PRODUCER: Final = (-1, -1)
MAX_TRANSACTIONAL_IDS: Final = 10_000
"""Ids are kept for a week after their last use, so their number needs a bound."""
MAX_PRODUCER_EPOCH: Final = 2**15 - 2
_CLEANUP_INTERVAL: Final = "transaction.remove.expired.transaction.cleanup.interval.ms"
_RETRY_MS: Final = 1_000
"""After an end that could not be written."""


class TransactionView(Protocol):
    """What the coordinator asks of the cluster."""

    def next_producer_id(self) -> int:
        """A producer id that nobody has."""

    def write_marker(self, partition: Partition, producer: tuple[int, int], *, committed: bool, now_ms: int) -> None:
        """End the producer's transaction in this partition."""

    def transaction_setting_ms(self, name: str) -> int:
        """A setting of the broker, by its name."""


class TransactionState(enum.Enum):
    """The states that Kafka names; those in which it waits for markers do not exist here."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


@attrs.define(eq=False)
class Transaction:
    """One transactional id. It is open while `ends_at_ms` is set."""

    id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    ends_at_ms: int | None = None
    state: TransactionState = TransactionState.EMPTY
    started_at_ms: int = -1
    """When the present transaction was opened, or the last one; -1 if the producer has had none."""
    updated_at_ms: int = -1
    """When anything of this changed."""
    partitions: dict[tuple[UUID, int], Partition] = attrs.Factory(dict)
    begins: dict[tuple[UUID, int], int] = attrs.Factory(dict)
    """For each partition the end of its log when it was added: markers from there on end this transaction."""
    groups: list[str] = attrs.Factory(list)
    ended_begins: dict[tuple[UUID, int], int] = attrs.Factory(dict)
    """`begins` of the last transaction, until another one is opened."""
    last_end: bool | None = None
    """How the last transaction ended, committed or not, for an EndTxn that is sent again."""
    last_producer: tuple[int, int] = NO_PRODUCER
    """Id and epoch before the last end, if that one changed them."""

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.epoch


class Transactions:
    """All transactional ids of the cluster."""

    def __init__(self, view: TransactionView, offsets: CommittedOffsets) -> None:
        self._view = view
        self._offsets = offsets
        self._by_id: dict[str, Transaction] = {}
        self.on_change: OnChange = nobody
        """Called with the transactional id."""
        self._ends: Deadlines[str] = Deadlines()
        """Of the open ones, by id."""
        self._next_look_at_ms: int | None = None
        """When expired ids are looked for next; None while there is no id."""

    def initialise(
        self, transactional_id: str, timeout_ms: int, producer: tuple[int, int], now_ms: int
    ) -> tuple[int, int]:
        """The producer (id, epoch) that the id belongs to from now on.

        `producer` is who the caller says it is, (-1, -1) if it is new. Raises `Refusal`.
        """
        if not transactional_id:
            raise Refusal(InvalidRequestError, "a transactional id cannot be empty")
        limit_ms = self._view.transaction_setting_ms("transaction.max.timeout.ms")
        if not 0 < timeout_ms <= limit_ms:
            raise Refusal(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"a transaction lasts 1 to {limit_ms} ms, not {timeout_ms}"
            )
        known = self._by_id.get(transactional_id)
        if known is None:
            if len(self._by_id) >= MAX_TRANSACTIONAL_IDS:
                raise Refusal(InvalidRequestError, f"no more than {MAX_TRANSACTIONAL_IDS} transactional ids are held")
            known = Transaction(transactional_id, self._view.next_producer_id(), 0, timeout_ms)
            self._by_id[transactional_id] = known
            self._changed(known, now_ms)
            return known.producer
        if producer not in (NO_PRODUCER, known.producer):
            raise Refusal(ErrorCode.PRODUCER_FENCED, f"{transactional_id!r} belongs to a newer producer")
        known.timeout_ms = timeout_ms
        if known.ends_at_ms is not None:
            self._end(known, committed=False, raise_epoch=True, now_ms=now_ms)
        else:
            known.producer_id, known.epoch = self._next_producer(known)
        known.last_end, known.last_producer = None, NO_PRODUCER
        known.state, known.started_at_ms = TransactionState.EMPTY, -1
        self._changed(known, now_ms)
        return known.producer

    def _next_producer(self, transaction: Transaction) -> tuple[int, int]:
        """The producer with the next epoch."""
        if transaction.epoch >= MAX_PRODUCER_EPOCH:
            return self._view.next_producer_id(), 0
        return transaction.producer_id, transaction.epoch + 1

    def owned(self, transactional_id: str, producer: tuple[int, int]) -> Transaction:
        """The transaction of this producer; raises `Refusal` if the id is not, or no longer, the producer's."""
        known = self._by_id.get(transactional_id)
        if known is None or known.producer_id != producer[0]:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id!r} is not producer {producer[0]}'s"
            )
        if known.epoch != producer[1]:
            raise Refusal(ErrorCode.PRODUCER_FENCED, f"the epoch of {transactional_id!r} is {known.epoch}")
        return known

    def find(self, transactional_id: str) -> Transaction | None:
        """What is known of the id, None if nobody has initialised it."""
        return self._by_id.get(transactional_id)

    def all(self) -> list[Transaction]:
        """All transactional ids, in the order of their first use."""
        return list(self._by_id.values())

    def _open(self, transaction: Transaction, now_ms: int) -> None:
        if transaction.ends_at_ms is None:
            transaction.ends_at_ms = now_ms + transaction.timeout_ms
            self._ends.set(transaction.id, transaction.ends_at_ms)
            transaction.last_end = None
            transaction.ended_begins.clear()
            transaction.state, transaction.started_at_ms = TransactionState.ONGOING, now_ms

    def add_partition(self, transaction: Transaction, partition: Partition, now_ms: int) -> None:
        """The transaction is going to write here."""
        self._add_partition(transaction, partition, partition.log.high_watermark, now_ms)

    def _add_partition(self, transaction: Transaction, partition: Partition, begin: int, now_ms: int) -> None:
        self._open(transaction, now_ms)
        key = (partition.topic_id, partition.partition)
        if key not in transaction.partitions:
            transaction.partitions[key] = partition
            transaction.begins[key] = begin
            self._changed(transaction, now_ms)

    def add_group(self, transaction: Transaction, group_id: str, now_ms: int) -> None:
        """The transaction is going to commit offsets of this group."""
        self._open(transaction, now_ms)
        if group_id not in transaction.groups:
            transaction.groups.append(group_id)
            self._changed(transaction, now_ms)

    def require_writable(
        self, transactional_id: str, producer: tuple[int, int], partition: Partition, *, add: bool, now_ms: int
    ) -> None:
        """Raises `Refusal` unless the producer's open transaction has this partition; with `add` it gets it."""
        try:
            transaction = self.owned(transactional_id, producer)
        except Refusal as refusal:
            if refusal.code == ErrorCode.PRODUCER_FENCED:
                # What a produce request is told about an old epoch (Kafka's partition leaders).
                raise Refusal(InvalidProducerEpochError, refusal.message) from None
            raise
        if add:
            self.add_partition(transaction, partition, now_ms)
        elif (partition.topic_id, partition.partition) not in transaction.partitions:
            raise Refusal(ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction")

    def end(
        self, transactional_id: str, producer: tuple[int, int], *, committed: bool, raise_epoch: bool, now_ms: int
    ) -> tuple[int, int]:
        """Commit or abort; returns the producer (id, epoch) of the next transaction. Raises `Refusal`."""
        known = self._by_id.get(transactional_id)
        if known is not None and producer == known.last_producer and known.last_end is committed:
            return known.producer
        transaction = self.owned(transactional_id, producer)
        if transaction.ends_at_ms is None:
            if transaction.last_end is committed:
                return transaction.producer
            if not (raise_epoch and not committed):
                raise Refusal(ErrorCode.INVALID_TXN_STATE, f"{transactional_id!r} has no open transaction")
        self._end(transaction, committed=committed, raise_epoch=raise_epoch, now_ms=now_ms)
        return transaction.producer

    def _end(self, transaction: Transaction, *, committed: bool, raise_epoch: bool, now_ms: int) -> None:
        """Raises `Refusal` if a marker cannot be written; the transaction is open still, and may be ended again."""
        before = transaction.producer
        after = self._next_producer(transaction) if raise_epoch else before
        marker = (before[0], max(after[1], before[1]) if after[0] == before[0] else before[1])
        for partition in transaction.partitions.values():
            self._view.write_marker(partition, marker, committed=committed, now_ms=now_ms)
        for group_id in transaction.groups:
            self._offsets.end_transaction(group_id, marker, committed=committed, now_ms=now_ms)
        transaction.producer_id, transaction.epoch = after
        transaction.partitions.clear()
        transaction.ended_begins = dict(transaction.begins)
        transaction.begins.clear()
        transaction.groups.clear()
        transaction.ends_at_ms = None
        self._ends.discard(transaction.id)
        transaction.last_end = committed
        transaction.state = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        transaction.last_producer = before if raise_epoch else NO_PRODUCER
        self._changed(transaction, now_ms)

    def _changed(self, transaction: Transaction, now_ms: int) -> None:
        transaction.updated_at_ms = now_ms
        self._look_later(now_ms)
        self.on_change(transaction.id)

    # ---- what was there before the broker started

    def restore(self, transaction: Transaction) -> None:
        """Put back a transactional id, with its open transaction if it has one."""
        self._by_id[transaction.id] = transaction
        if transaction.ends_at_ms is not None:
            self._ends.set(transaction.id, transaction.ends_at_ms)

    def resume(self, partitions: Iterable[Partition], now_ms: int) -> None:
        """Make the open transactions agree with the logs: the broker may have been killed between two writes.

        What was ended in one of its partitions is ended in all. What was written, but not noted, belongs to the
        transaction of its producer. Raises `Refusal`.
        """
        if self._by_id:
            self._look_later(now_ms)
        by_producer = {transaction.producer_id: transaction for transaction in self._by_id.values()}
        for partition in partitions:
            for producer_id, begin in partition.log.open_transactions():
                transaction = by_producer.get(producer_id)
                if transaction is not None:
                    self._resume(transaction, partition, begin, now_ms)
        for transaction in self._by_id.values():
            found = (
                partition.log.ended_since(transaction.producer_id, transaction.begins[key])
                for key, partition in transaction.partitions.items()
            )
            decided = next((end for end in found if end is not None), None)
            if decided is not None:
                committed, epoch = decided
                self._end(transaction, committed=committed, raise_epoch=epoch > transaction.epoch, now_ms=now_ms)

    def _resume(self, transaction: Transaction, partition: Partition, begin: int, now_ms: int) -> None:
        """The producer's transaction is open in this partition, from this offset on."""
        producer_id = transaction.producer_id
        ended = transaction.ended_begins.get((partition.topic_id, partition.partition))
        committed, log = transaction.last_end, partition.log
        # Of what began in the clean part the log cleaner may have taken the marker, too.
        is_lost = ended is not None and ended >= log.clean_to and log.ended_since(producer_id, ended) is None
        if committed is not None and is_lost:
            self._view.write_marker(partition, transaction.producer, committed=committed, now_ms=now_ms)
        else:
            self._add_partition(transaction, partition, begin, now_ms)

    # ---- time and changes

    def topic_deleted(self, topic_id: UUID) -> None:
        """Nothing can be written to the topic any more, markers neither."""
        for transaction in self._by_id.values():
            for key in [key for key in transaction.partitions if key[0] == topic_id]:
                del transaction.partitions[key], transaction.begins[key]
                self.on_change(transaction.id)

    def poll(self, now_ms: int) -> None:
        """Abort the transactions that are open for too long (their producers are fenced), and forget expired ids."""
        for transactional_id in self._ends.take_due(now_ms):
            transaction = self._by_id[transactional_id]
            try:
                self._end(transaction, committed=False, raise_epoch=True, now_ms=now_ms)
            except Refusal:  # the disk is full
                transaction.ends_at_ms = now_ms + _RETRY_MS
                self._ends.set(transactional_id, transaction.ends_at_ms)
                continue
            # The epoch is the coordinator's own: nobody may take the end for his.
            transaction.last_end, transaction.last_producer = None, NO_PRODUCER
        if self._next_look_at_ms is not None and now_ms >= self._next_look_at_ms:
            self._expire(now_ms)

    def _look_later(self, now_ms: int) -> None:
        if self._next_look_at_ms is None:
            self._next_look_at_ms = now_ms + self._view.transaction_setting_ms(_CLEANUP_INTERVAL)

    def _expire(self, now_ms: int) -> None:
        before_ms = now_ms - self._view.transaction_setting_ms("transactional.id.expiration.ms")
        for one in list(self._by_id.values()):
            if one.ends_at_ms is None and one.updated_at_ms <= before_ms:
                del self._by_id[one.id]
                self.on_change(one.id)
        self._next_look_at_ms = None
        if self._by_id:
            self._look_later(now_ms)

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run, None if there is no id."""
        times = (self._ends.next_at_ms(), self._next_look_at_ms)
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def check(self) -> None:
        """Assert the invariants."""
        for transaction in self._by_id.values():
            assert (transaction.state is TransactionState.ONGOING) == (transaction.ends_at_ms is not None)
            assert transaction.ends_at_ms is not None or not (transaction.partitions or transaction.groups)
            assert transaction.ends_at_ms == self._ends.at_ms(transaction.id)
            assert transaction.begins.keys() == transaction.partitions.keys()
            for (topic_id, index), partition in transaction.partitions.items():
                assert partition.owner.partition(index) is partition
                assert partition.topic_id == topic_id
