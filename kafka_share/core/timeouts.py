"""What a timeout may be that is given to a call; the façades of the consumer and of the admin client ask."""

from __future__ import annotations

from kafka_share.errors import InvalidArgumentError


def checked_timeout(value: int) -> int:
    """A whole number of milliseconds, 0 or more.

    Raises TypeError if it is no whole number, `InvalidArgumentError` below zero.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"timeout_ms is a whole number of milliseconds, not {value!r}")
    if value < 0:
        raise InvalidArgumentError(f"timeout_ms is {value}; it cannot be negative")
    return value
