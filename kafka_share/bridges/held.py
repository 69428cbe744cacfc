"""Records that another library works on: their locks are kept, and each is settled once, by any thread.

Made by the bridges, which poll. The library says when it has done with a record; nothing here knows the library.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Final, TypeAlias

from kafka_share.errors import ConsumerClosedError, IllegalStateError, InvalidArgumentError, KafkaShareError
from kafka_share.handling.leasing import Leasing
from kafka_share.harmless import excerpt
from kafka_share.network.clock import clock_ms
from kafka_share.records import AcknowledgeType, ShareRecord

Record: TypeAlias = ShareRecord[Any, Any]
Place: TypeAlias = tuple[str, int, int, int]

log: logging.Logger = logging.getLogger("kafka_share.bridges")

UNKNOWN_TASK_DELAY_MS: Final = 5_000
"""How long a record waits that this program has no task for: another one may be newer."""


def place_of(record: Record) -> Place:
    """Topic, partition, offset and the number of the delivery."""
    return (record.topic, record.partition, record.offset, record.delivery_count)


def shown(record: Record) -> str:
    """For logs: never the payload."""
    return f"{record.topic}-{record.partition}@{record.offset} (delivery {record.delivery_count})"


class HeldRecords:
    """The records of one consumer that are in work, or wait for it."""

    def __init__(self, consumer: Leasing, max_lease_ms: int) -> None:
        self._consumer = consumer
        self._max_lease_ms = max_lease_ms
        self._held: dict[Place, tuple[Record, int]] = {}
        """With the time until which the lock is renewed."""
        consumer.keep_locks(self._leased)

    def hold(self, record: Record) -> None:
        """The record was received: its lock is renewed from now on."""
        self._held[place_of(record)] = (record, clock_ms() + self._max_lease_ms)

    def settle(self, record: Record, kind: AcknowledgeType, delay_ms: int = 0) -> None:
        """Acknowledge the record; a second time does nothing. If it cannot be done any more, a WARNING says so.

        Raises `InvalidArgumentError` or TypeError for a delay that cannot be; the record is held as before then.
        """
        place = place_of(record)
        held = self._held.pop(place, None)
        if held is None:
            return
        try:
            if delay_ms:
                self._consumer.release(record, delay_ms)
            else:
                self._consumer.settle(record, kind, partial(_told, record))
        except (ConsumerClosedError, IllegalStateError) as error:
            _told(record, error)
        except (InvalidArgumentError, TypeError):
            self._held[place] = held
            raise

    def refuse(self, record: Record, why: str) -> None:
        """The record can be handled nowhere: it is rejected, with an ERROR."""
        log.error("%s: %s; it is rejected", shown(record), why)
        self.settle(record, AcknowledgeType.REJECT)

    def leave_to_others(self, record: Record, why: str) -> None:
        """The record cannot be handled here: it is released after a while, or refused on its last delivery."""
        if record.is_last_delivery:
            self.refuse(record, why)
        else:
            log.warning("%s: %s; it is released in %d ms", shown(record), why, UNKNOWN_TASK_DELAY_MS)
            self.settle(record, AcknowledgeType.RELEASE, UNKNOWN_TASK_DELAY_MS)

    def _leased(self) -> list[Record]:
        now_ms = clock_ms()
        return [record for record, until_ms in list(self._held.values()) if now_ms < until_ms and not record.lock_lost]


def _told(record: Record, error: KafkaShareError | None) -> None:
    if error is not None:
        text = excerpt(str(error))
        log.warning("%s: its acknowledgement failed, so it may be delivered again: %s", shown(record), text)
