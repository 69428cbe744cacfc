"""How the broker's machines say no: an error code with a text, to be put into an answer by the handler.

Raised by the machines, caught by the handlers; never leaves the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_share.broker.error_codes import ErrorCode
    from kafka_share.errors import BrokerError


class Refusal(Exception):  # noqa: N818  a refusal is an ordinary answer here, no error of the broker
    """A request, or a part of it, is answered with `code` (an int of Kafka's error codes) and `message` (our words)."""

    def __init__(self, error: type[BrokerError] | ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = error.code
        self.message = message
