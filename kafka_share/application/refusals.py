"""What an acknowledgement is refused with: `deliveries` raises it, or tells it to those who wait for the outcome."""

from __future__ import annotations

from kafka_share.application.delivery import Record
from kafka_share.errors import IllegalStateError, InvalidArgumentError, InvalidRecordStateError


def implicit() -> IllegalStateError:
    return IllegalStateError(
        "The consumer acknowledges implicitly; set share_acknowledgement_mode to explicit to do it yourself."
    )


def given_up(record: Record) -> InvalidRecordStateError:
    return InvalidRecordStateError(
        f"the lock of {record.topic}-{record.partition}@{record.offset} was lost before it was acknowledged"
    )


def not_in_flight(topic: str, partition: int, offset: int) -> IllegalStateError:
    return IllegalStateError(
        f"The record of {topic}-{partition} at offset {offset} cannot be acknowledged: it is not in flight here."
    )


def not_undelivered(topic: str, partition: int, offset: int) -> IllegalStateError:
    return IllegalStateError(
        f"Offset {offset} of {topic}-{partition} cannot be acknowledged by its offset: "
        f"that is for records that could not be delivered and have not been committed since."
    )


def not_renewable(topic: str, partition: int, offset: int) -> InvalidArgumentError:
    return InvalidArgumentError(f"Offset {offset} of {topic}-{partition} was not delivered, so it cannot be renewed.")
