"""The two consumers as a worker uses them: they keep the locks of what is leased, and tell outcomes to a function.

Made by the drivers and the bridges. Beside that they are what their base classes are, with settings of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from kafka_share.application.awaited_outcomes import OnOutcome
from kafka_share.application.facade import ConsumerFacade
from kafka_share.async_consumer import AsyncShareConsumer
from kafka_share.consumer import KafkaShareConsumer
from kafka_share.core.metrics.measurements import WorkerMeasurements
from kafka_share.errors import CallerError, ConfigurationError, KafkaShareError, UnsupportedVersionError
from kafka_share.records import AcknowledgeType, ShareRecord

Record = ShareRecord[Any, Any]

_NEEDED: Final = MappingProxyType(
    {
        "share_acknowledgement_mode": "explicit",
        "protect_locks": True,
        "send_ahead": False,
    }
)


def leasing_settings(
    given: Mapping[str, Any], own: Mapping[str, Any], owner: str, instead: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """The settings of such a consumer: those that a user has given, its owner's own, and what it needs.

    Raises `ConfigurationError` for a given one that `owner`, such as "a worker", sets itself. `instead` has the names
    under which it may be set there.
    """
    fixed = {**_NEEDED, **own}
    names = {name.replace(".", "_") for name in given}
    for name in fixed:
        if name in names:
            hint = f": use {instead[name]}" if name in instead else ""
            raise ConfigurationError(f"{name} cannot be set on {owner}, which sets it itself{hint}")
    usual = {} if "share_acquire_mode" in names else {"share_acquire_mode": "record_limit"}
    return {**given, **usual, **fixed}


class Leasing(ConsumerFacade[Any, Any]):
    """What is added to both. The consumer has an open window."""

    def keep_locks(self, leased: Callable[[], Sequence[Record]]) -> None:
        """Renew the locks of what `leased` returns, when that is due. It is called on the background thread."""
        self._application.leased = leased

    def is_final(self, error: KafkaShareError) -> bool:
        """Whether this error of a poll lasts until another consumer is made."""
        return isinstance(error, (CallerError, UnsupportedVersionError)) or self.health().is_fatal

    def measure(self, worker: WorkerMeasurements) -> None:
        """Have `metrics` show the numbers of a worker beside those of the consumer."""
        self._own_driver().measurements.worker = worker

    def settle(self, record: Record, kind: AcknowledgeType, on_outcome: OnOutcome) -> None:
        """Acknowledge. `on_outcome` is called once, at the latest by close, on the background thread or this one.

        Raises `IllegalStateError` for a record that is not in flight, `ConsumerClosedError` after close.
        """
        self._origin.enter()
        self._calls.acknowledge_delivery(record, kind, on_outcome)

    def settle_all(self, settled: Collection[tuple[Record, AcknowledgeType, OnOutcome]]) -> None:
        """`settle` for many; the `on_outcome` of one that is not in flight is told the `IllegalStateError`."""
        self._origin.enter()
        self._calls.acknowledge_deliveries(settled)


class LeasingConsumer(Leasing, KafkaShareConsumer[Any, Any]):
    """For handlers on threads."""


class AsyncLeasingConsumer(Leasing, AsyncShareConsumer[Any, Any]):
    """For handlers that are coroutines."""
