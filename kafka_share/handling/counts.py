"""What a worker counts: records by what happened to them. `Jobs` changes it, and everybody may read it."""

from __future__ import annotations

import attrs

from kafka_share.errors import KafkaShareError
from kafka_share.handling.job import Job
from kafka_share.records import AcknowledgeType


@attrs.define
class Counts:
    """Records since the start, by what happened to them."""

    received: int = 0
    """Delivered to this worker."""
    redelivered: int = 0
    """Of these, on their second or a later delivery."""
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    dead_lettered: int = 0
    """Accepted after a copy was written to a dead-letter topic."""
    deferred: int = 0
    """Accepted after a copy was written to a retry topic."""
    failed: int = 0
    """How often a handler raised, or a value could not be deserialized."""
    retried: int = 0
    """How often a handler was to be called again under the same lock."""
    lost: int = 0
    """Records whose lock was lost before they were settled. They are delivered again."""
    late: int = 0
    """Records whose handler succeeded after the lock was lost, so that they were not accepted (`LockLostError`)."""
    unknown: int = 0
    """Acknowledgements that failed, or whose outcome is not known. The records may be delivered again."""

    def add_outcome(self, job: Job, error: KafkaShareError | None) -> None:
        """The acknowledgement of this record was applied, or this is why not."""
        if error is not None:
            self.unknown += 1
        elif job.kind is AcknowledgeType.ACCEPT and job.copy is not None:
            self.deferred += job.copy.attempt > 0
            self.dead_lettered += job.copy.attempt == 0
        elif job.kind is AcknowledgeType.ACCEPT:
            self.accepted += 1
        elif job.kind is AcknowledgeType.REJECT:
            self.rejected += 1
        else:
            self.released += 1
