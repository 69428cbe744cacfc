"""What the machines of one consumer's core want done, in their order.

Owned by `ShareConsumerCore`, which hands it to the driver after every step. Every machine adds to it; none reads it.
"""

from __future__ import annotations

from kafka_share.core.events import Log, Output, RaiseError
from kafka_share.core.log_events import LOG_EVENTS
from kafka_share.errors import KafkaShareError


class Outputs:
    def __init__(self) -> None:
        self._waiting: list[Output] = []
        self._is_silenced = False
        """After a fatal error nothing more is raised."""

    def add(self, *outputs: Output) -> None:
        self._waiting.extend(outputs)

    def raise_error(self, error: KafkaShareError, *, fatal: bool = False) -> None:
        """Have poll raise this; nothing follows a fatal one."""
        if not self._is_silenced:
            self.add(RaiseError(error, fatal))
        self._is_silenced = self._is_silenced or fatal

    def note(self, event: str, **fields: str | int) -> None:
        """Have the driver log that something changed; `event` is one of `LOG_EVENTS`."""
        assert tuple(fields) == LOG_EVENTS[event].fields, f"{event} is logged with other fields: {fields}"
        self.add(Log(event, fields))

    def take(self) -> list[Output]:
        """Everything since the last time."""
        outputs, self._waiting = self._waiting, []
        return outputs

    @property
    def is_empty(self) -> bool:
        return not self._waiting
