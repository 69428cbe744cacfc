"""What a worker was made with, checked: the façade makes it, the drivers and the rules are made by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import attrs

from kafka_share.config_checks import whole_number
from kafka_share.errors import ConfigurationError, KafkaShareError
from kafka_share.handling.policy import Policy
from kafka_share.handling.turns import ByKey, InBatches, InOrder, KeyOf, Turns, key_of
from kafka_share.producing.producer import RecordProducer, checked_producer

OrderedBy: TypeAlias = Literal["key"] | KeyOf | None
OnNotAccepted: TypeAlias = Callable[[Any, KafkaShareError], object]

MOST_HANDLERS: Final = 10_000
MOST_PROCESSES: Final = 256


@attrs.frozen(kw_only=True)
class Plan:
    """Raises `ConfigurationError` for what is out of range, or does not go together."""

    topics: tuple[str, ...]
    handler: Callable[..., Any]
    takes_lease: bool
    """Whether the handler has a second parameter."""
    policy: Policy = attrs.field()
    concurrency: int = attrs.field(validator=whole_number(1, MOST_HANDLERS))
    processes: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(whole_number(1, MOST_PROCESSES))
    )
    """None: handlers run in this process."""
    batch_records: int | None = attrs.field(default=None, validator=attrs.validators.optional(whole_number(1)))
    """How many records a call gets at most; None: one, which is no list."""
    batch_wait_ms: int = attrs.field(default=0, validator=whole_number(0))
    ordered_by: OrderedBy = attrs.field(default=None)
    max_lease_ms: int = attrs.field(validator=whole_number(1))
    expected_ms: int | None = attrs.field(default=None, validator=attrs.validators.optional(whole_number(1)))
    drain_timeout_ms: int = attrs.field(validator=whole_number(0))
    on_not_accepted: OnNotAccepted | None = attrs.field(default=None)
    producer: RecordProducer | None = attrs.field(default=None, converter=attrs.converters.optional(checked_producer))
    """None: one that is made from the settings."""
    settings: dict[str, Any]
    """Of the consumer."""

    @ordered_by.validator
    def _check_order(self, _: object, value: object) -> None:
        if value not in (None, "key") and not callable(value):
            raise ConfigurationError('ordered_by is "key", or a function of a record that returns its key')
        if value is not None and self.batch_records is not None:
            raise ConfigurationError("ordered_by and batch_records exclude each other: set one of them")

    @on_not_accepted.validator
    def _check_hook(self, _: object, value: object) -> None:
        if value is not None and not callable(value):
            raise ConfigurationError("on_not_accepted is a function of a record and an error")

    @policy.validator
    def _check_circles(self, _: object, policy: Policy) -> None:
        for topic in self.topics:
            for target in sorted(policy.dead_letter_topics(topic).intersection(self.topics)):
                raise ConfigurationError(f"dead letters of {topic} would go to {target}, which this worker reads")

    @property
    def handler_name(self) -> str:
        """For logs."""
        return getattr(self.handler, "__qualname__", None) or type(self.handler).__name__

    @property
    def handlers(self) -> int:
        """How many run at a time."""
        return self.concurrency if self.processes is None else self.processes

    @property
    def enough_records(self) -> int:
        """While more wait for a busy handler none are fetched: half of what the window has beside those in work."""
        in_work = self.handlers * (self.batch_records or 1)
        window: int = self.settings.get("explicit_window_records", 0)
        return max(0, window - in_work) // 2

    def turns(self) -> Turns:
        """Whose turn it is."""
        if self.batch_records is not None:
            return InBatches(self.batch_records, self.batch_wait_ms)
        if self.ordered_by is None:
            return InOrder()
        return ByKey(key_of if self.ordered_by == "key" else self.ordered_by)
