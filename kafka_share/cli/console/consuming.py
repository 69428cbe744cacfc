"""The loop of `kafka-share-console`: poll, print, acknowledge what was printed.

A record is acknowledged after it has been written, so that what a broken pipe or Ctrl-C cuts off is given back to the
group. Raises what the consumer raises, and `ToolFailedError` for a record that cannot be printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import attrs

from kafka_share.cli.endings import ToolFailedError
from kafka_share.consumer import KafkaShareConsumer
from kafka_share.records import AcknowledgeType, ShareRecord

_LONGEST_POLL_MS: Final = 1_000

Record = ShareRecord[bytes | None, bytes | None]


@attrs.frozen(kw_only=True)
class Consumption:
    """What happens to the records of one consumer in explicit mode."""

    consumer: KafkaShareConsumer[bytes | None, bytes | None]
    write: Callable[[Record], None]
    """Print it; ValueError: it cannot be printed."""
    kind: AcknowledgeType
    """What each printed record is acknowledged with."""
    max_messages: int | None
    timeout_ms: int | None
    """End after this time without a record; None: never."""
    reject_on_error: bool
    """Whether a record that cannot be printed is rejected; otherwise its error is raised."""

    def run(self, count: Callable[[], None]) -> bool:
        """Until enough was printed or nothing came for too long; calls `count` for each record.

        Returns whether it was enough: False if the time ran out.
        """
        left = self.max_messages
        last_ns = time.monotonic_ns()
        while left is None or left > 0:
            waited_ms = (time.monotonic_ns() - last_ns) // 1_000_000
            if self.timeout_ms is not None and waited_ms >= self.timeout_ms:
                return False
            poll_ms = _LONGEST_POLL_MS
            if self.timeout_ms is not None:
                poll_ms = min(poll_ms, self.timeout_ms - waited_ms)
            records = self.consumer.poll(timeout_ms=poll_ms)
            # What is behind the last one asked for stays unacknowledged: closing gives it back to the group.
            for record in records[: len(records) if left is None else left]:
                self._process(record)
                count()
                last_ns = time.monotonic_ns()
                left = None if left is None else left - 1
        return True

    def _process(self, record: Record) -> None:
        try:
            self.write(record)
        except ValueError as error:
            if not self.reject_on_error:
                raise ToolFailedError(
                    f"the record of {record.topic}-{record.partition} at offset {record.offset} cannot be printed: "
                    f"{error} (choose another deserializer, or reject such records: --reject-message-on-error)"
                ) from error
            self.consumer.acknowledge(record, AcknowledgeType.REJECT)
        else:
            self.consumer.acknowledge(record, self.kind)
