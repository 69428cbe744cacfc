"""ShareMember: the share group's member that an agent owns, as the few things that leases need of it.

Over the public `KafkaShareConsumer` with an open window as large as one lease: so a lease never has more records than
asked for, and any thread may renew and acknowledge while one polls. `acquire` is for one thread at a time, the rest for
any. Nothing here knows Spark or leases.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import attrs

from kafka_share.admin import KafkaShareAdmin
from kafka_share.config import ShareAdminConfig
from kafka_share.consumer import KafkaShareConsumer
from kafka_share.errors import (
    BrokerUnreachableError,
    CorruptRecordError,
    DataError,
    IllegalStateError,
    KafkaShareError,
    UnsupportedVersionError,
)
from kafka_share.records import AcknowledgeType, ShareRecord, TopicIdPartition
from kafka_share.spark.failures import LeaseAgentError
from kafka_share.spark.held_records import HeldRecords
from kafka_share.spark.lease import Place
from kafka_share.spark.splits import size_of

log: logging.Logger = logging.getLogger(__name__)

_MOST_MS: Final = 2**31 - 1
_POLL_MS: Final = 200
"""A poll for the first records of a lease. A broker holds a fetch back for half of it."""
_FILL_MS: Final = 30
"""A poll for more takes at least this long. There are no more when the limit of locks is reached."""
_MOST_FILL_MS: Final = 100
_SETTLE_MS: Final = 1_000
"""How long to wait at most for what was acknowledged before, for the room that it takes."""
_JOIN_MS: Final = 60_000
_DEFAULT_LOCK_MS: Final = 30_000
_CLOSE_MS: Final = 5_000
_FLUSH_MS: Final = 30_000

_offset_of = attrgetter("offset")
_partition_of = attrgetter("topic", "partition")
_place_of = attrgetter("topic", "partition", "offset")


class ShareMember:
    """One member. `losses` are sentences about records that nobody will ever see."""

    def __init__(
        self, topics: Iterable[str], settings: Mapping[str, Any], *, max_bytes: int, reject_after: int
    ) -> None:
        self.losses: list[str] = []
        self.lock_ms: int = _DEFAULT_LOCK_MS
        """How long the broker locks records."""
        self.refused: int = 0
        """Final acknowledgements that a broker has refused."""
        self.rejected: int = 0
        """Records that were rejected for their many deliveries."""
        self.lag: int | None = None
        """How many records the group has not finished, those of open leases included; None: not known (yet)."""
        self.renews: bool = True
        """Whether the brokers know renewals, as far as is known."""
        self._topics = tuple(topics)
        self._settings = dict(settings)
        self._max_bytes = max_bytes
        self._reject_after = reject_after
        self._acquire_mode = "record_limit"
        self._using = threading.RLock()
        self._consumer: KafkaShareConsumer | None = None
        self._most = 0
        self._is_closed = False
        self._leaving: dict[tuple[str, int], set[int]] = {}
        """Offsets whose final acknowledgement has no outcome yet, by partition. No partition is ever taken out: one
        thread acknowledges while another one hears of outcomes."""

    def can_renew(self) -> bool:
        """Whether the group allows locks to be renewed; if nobody may tell, that is assumed."""
        known = {field.name for field in attrs.fields(ShareAdminConfig)}
        settings = {name: value for name, value in self._settings.items() if name in known}
        try:
            with KafkaShareAdmin(**settings) as admin:
                group = self._settings["group_id"]
                configs = admin.describe_group_configs([group], timeout_ms=10_000)[group]
        except KafkaShareError:
            return True
        entry = None if isinstance(configs, KafkaShareError) else configs.get("share.renew.acknowledge.enable")
        return entry is None or entry.value != "false"

    def note_lag(self, lag: int | None) -> None:
        """Keep what is known of the group."""
        self.lag = lag

    # ---- records

    def acquire(self, most: int, wait_ms: int, *, drain: bool) -> list[ShareRecord]:
        """Up to `most` records, as soon as there are any; none after `wait_ms` without.

        With `drain` the wait begins when the group has been joined, so that none means that there is nothing. Raises
        `LeaseAgentError` for what keeps the member from its records and does not pass by itself.
        """
        with self._using:
            self._open(most)
            self._settle()
            records: list[ShareRecord] = []
            filled, has_joined, fill_ms = 0, not drain, _FILL_MS
            ends_at_s = time.monotonic() + (_JOIN_MS if drain else wait_ms) / 1_000
            while len(records) < most and filled < self._max_bytes:
                began_at_s = time.monotonic()
                polled = self._without_doomed(self._poll(fill_ms if records else _poll_ms(ends_at_s)))
                fill_ms = _fill_ms(time.monotonic() - began_at_s)
                records += polled
                filled += sum(size_of(record) for record in polled)
                if records and not polled:
                    break
                if not has_joined and self._has_partitions():
                    has_joined, ends_at_s = True, time.monotonic() + wait_ms / 1_000
                if time.monotonic() >= ends_at_s:
                    self._demand(has_joined)
                    break
            assert self._consumer is not None
            self.lock_ms = self._consumer.acquisition_lock_timeout_ms or self.lock_ms
            return records

    def _open(self, most: int) -> None:
        """The window is fixed for a consumer's life, so another limit needs another one; nothing is held by then."""
        if self._is_closed:
            raise LeaseAgentError("the lease agent is ending")
        if self._consumer is None or self._most != most:
            if self._consumer is not None:
                self._consumer.close(_CLOSE_MS)
            self._most = most
            self._consumer = KafkaShareConsumer(
                *self._topics,
                **{
                    **self._settings,
                    "share_acknowledgement_mode": "explicit",
                    "share_acquire_mode": self._acquire_mode,
                    "explicit_window_records": most,
                    "max_poll_records": most,
                    "max_poll_interval_ms": _MOST_MS,
                    "fetch_max_bytes": self._max_bytes,
                    "release_backoff_ms": 0,
                },
            )
            self._consumer.set_acknowledgement_commit_callback(self._on_outcome)

    def _settle(self) -> None:
        """Wait for what was acknowledged: until then it takes room in the limit of locks.

        Sent along with a fetch, acknowledgements would not free it in time: a broker that has nothing to give looks
        again only when something else is asked of it, or when the time of the fetch is over.
        """
        assert self._consumer is not None
        if any(self._leaving.values()):
            with contextlib.suppress(KafkaShareError):  # outcomes are counted when they come; polls say what is wrong
                self._consumer.commit_sync(_SETTLE_MS)

    def _has_partitions(self) -> bool:
        assert self._consumer is not None
        health = self._consumer.health()
        return health.is_joined and bool(health.assigned)

    def _demand(self, has_joined: bool) -> None:
        if not has_joined:
            raise LeaseAgentError(
                f"the group {self._settings['group_id']} assigned no partition of {', '.join(self._topics)} within "
                f"{_JOIN_MS} ms: do the topics exist, and can the brokers be reached?"
            )

    def _poll(self, timeout_ms: int) -> Iterable[ShareRecord]:
        assert self._consumer is not None
        try:
            return self._consumer.poll(timeout_ms)
        except BrokerUnreachableError as error:
            log.warning("no broker can be reached; the agent goes on trying: %s", error)
        except UnsupportedVersionError as error:
            if self._acquire_mode != "record_limit":
                raise LeaseAgentError(str(error)) from error
            log.warning(
                "the brokers are older than Kafka 4.2: leases are rounded up to whole record batches, and locks cannot "
                "be renewed, so a batch has to be done within its lock time"
            )
            self.renews = False
            self._acquire_mode, most, self._most = "batch_optimized", self._most, 0
            self._open(most)
        except DataError as error:
            log.error("%s", error)
            if isinstance(error, CorruptRecordError):
                self.losses.append(str(error))
        except KafkaShareError as error:
            raise LeaseAgentError(str(error)) from error
        return []

    def _without_doomed(self, polled: Iterable[ShareRecord]) -> list[ShareRecord]:
        """With `reject_after`: records that were delivered more often are rejected instead of handed out."""
        if not self._reject_after:
            return list(polled)
        kept = []
        for record in polled:
            if record.delivery_count <= self._reject_after:
                kept.append(record)
            else:
                log.warning(
                    "rejected %s-%d@%d: delivered %d times",
                    record.topic, record.partition, record.offset, record.delivery_count,
                )  # fmt: skip
                self.rejected += 1
                self.acknowledge(HeldRecords([record]), {}, AcknowledgeType.REJECT)
        return kept

    # ---- acknowledgements

    def renew(self, lease: HeldRecords) -> None:
        """Start the locks of these records again, as far as they are held; what fails shows in `lock_lost`."""
        self._acknowledge(lease.held(), AcknowledgeType.RENEW)

    def acknowledge(
        self, lease: HeldRecords, decisions: Mapping[Place, AcknowledgeType], rest: AcknowledgeType
    ) -> Counter[AcknowledgeType]:
        """Acknowledge for good, by `decisions` and the others as `rest`; it is sent at once, without waiting.

        Returns how many of each type. Records whose lock is lost are not among them; they are tried nevertheless, since
        the broker may know better.
        """
        counts: Counter[AcknowledgeType] = Counter()
        lost = {_place_of(record) for record in lease.lost()}
        self._note_archived(_count_archived(lease.records, lost, decisions, rest))
        for kind, records in _by_type(lease.records, decisions, rest).items():
            held = [record for record in records if _place_of(record) not in lost] if lost else records
            counts[kind] = len(held)
            for where, here in groupby(held, _partition_of):
                self._leaving.setdefault(where, set()).update(map(_offset_of, here))
            self._acknowledge(records, kind)
        return counts

    def lost(self, lease: HeldRecords) -> None:
        """All locks of these records are lost, and nothing of them will be acknowledged."""
        self._note_archived(sum(record.is_last_delivery is True for record in lease.records))

    def _note_archived(self, records: int) -> None:
        if records:
            self.losses.append(
                f"{records} records were given back or lost after their last delivery: they are archived"
            )

    def _acknowledge(self, records: Iterable[ShareRecord], kind: AcknowledgeType) -> None:
        assert self._consumer is not None
        try:
            self._consumer.acknowledge_all(records, kind)
        except IllegalStateError as error:  # it is closed, or was while locks were lost: those are not held any more
            log.debug("%s", error)

    def _on_outcome(self, offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        for where, these in offsets.items():
            leaving = self._leaving.get(where.topic_partition, set())
            ended = leaving & these
            leaving -= ended
            self.refused += len(ended) if error is not None else 0

    def flush(self) -> None:
        """Wait until the brokers have answered everything that was acknowledged.

        Raises `LeaseAgentError` if they do not.
        """
        with self._using:
            if self._consumer is None or self._is_closed:
                return
            try:
                self._consumer.commit_sync(_FLUSH_MS)
            except KafkaShareError as error:
                raise LeaseAgentError(f"the brokers have not answered the acknowledgements: {error}") from error

    def close(self) -> None:
        """Leave the group: what is acknowledged is sent, everything else is released. Any thread; ends an `acquire`."""
        self._is_closed = True
        if self._consumer is not None:
            self._consumer.close(_CLOSE_MS)


def _poll_ms(ends_at_s: float) -> int:
    """How long to poll for the first records of a lease, for which there is time until then."""
    return max(_FILL_MS, min(_POLL_MS, int((ends_at_s - time.monotonic()) * 1_000)))


def _fill_ms(took_s: float) -> int:
    """How long to poll for more, when the last records took so long: a poll that ends sooner would miss as many."""
    return max(_FILL_MS, min(_MOST_FILL_MS, int(took_s * 1_000)))


def _by_type(
    records: Sequence[ShareRecord], decisions: Mapping[Place, AcknowledgeType], rest: AcknowledgeType
) -> dict[AcknowledgeType, Sequence[ShareRecord]]:
    if not decisions:
        return {rest: records}
    by_type: dict[AcknowledgeType, list[ShareRecord]] = {}
    for record in records:
        by_type.setdefault(decisions.get(_place_of(record), rest), []).append(record)
    return {**by_type}


def _count_archived(
    records: Sequence[ShareRecord],
    lost: set[Place],
    decisions: Mapping[Place, AcknowledgeType],
    rest: AcknowledgeType,
) -> int:
    """How many nobody will see again: their last delivery is lost or given back, and nobody has decided on that."""
    is_given_back = rest is AcknowledgeType.RELEASE
    return sum(
        record.is_last_delivery is True
        and (_place_of(record) in lost or (is_given_back and _place_of(record) not in decisions))
        for record in (records if lost or is_given_back else ())
    )
