"""What a worker does with a record whose handler raised: actions as values, and the policy that chooses one.

Users write the actions; `Jobs` asks the policy. Nothing here knows a consumer or a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from kafka_share.config_checks import whole_number
from kafka_share.errors import ConfigurationError, RecordDeserializationError


@attrs.frozen
class Reject:
    """The record is never delivered again."""


@attrs.frozen
class Release:
    """The record is delivered again, here or elsewhere. This spends a delivery; on the last one it is `Reject`."""

    delay_ms: int = attrs.field(default=0, validator=whole_number(0, 900_000))
    """It stays locked for this long before, which spends nothing. At most 900,000 (15 minutes)."""


@attrs.frozen
class Retry:
    """The handler is called again with the same record, which stays locked meanwhile: that spends no delivery.

    What other records do decides how often. If others succeed between its failures, a record has `attempts`. If new
    records fail as well, three or more in a row, it is an outage, and the record is tried until its lease ends
    (`max_lease_ms`). If there is nothing to compare with, it is tried until the pause has grown to `backoff_max_ms`.
    """

    attempts: int = attrs.field(default=3, validator=whole_number(1))
    """After this many failures, while other records succeed, the record is given up."""
    backoff_ms: int = attrs.field(default=1_000, validator=whole_number(1))
    """Pause before the second try. It doubles with each further one…"""
    backoff_max_ms: int = attrs.field(default=60_000, validator=whole_number(1))
    """…up to this."""
    then: Release | Reject = attrs.field(default=Release())
    """What becomes of a record that is given up."""

    @then.validator
    def _check_then(self, _: object, value: object) -> None:
        if not isinstance(value, (Release, Reject)):
            raise ConfigurationError(f"then is {value!r}: write Release(…) or Reject()")

    def pause_ms(self, tries: int) -> int:
        """The pause after this many tries."""
        return min(self.backoff_max_ms, self.backoff_ms << min(tries - 1, 40))


Action: TypeAlias = Retry | Release | Reject
ActionOrChooser: TypeAlias = Action | Callable[[Any], Action]
OnError: TypeAlias = Mapping[type[Exception], ActionOrChooser]
"""Exception class → what to do, or a function of the exception that returns it. The closest class counts."""

DEFAULT: Final[OnError] = MappingProxyType(
    {Exception: Retry(), RecordDeserializationError: Release(delay_ms=5_000)},
)
"""docs/adr/0021-what-a-worker-does-with-failures.md has the reasons."""


class Policy:
    """Chooses the action for an exception, and knows which delivery is the last."""

    def __init__(self, on_error: OnError | None = None, max_deliveries: int | None = None) -> None:
        """Raises `ConfigurationError` for what is no mapping from exception classes to actions."""
        if max_deliveries is not None and (type(max_deliveries) is not int or max_deliveries < 1):
            raise ConfigurationError("max_deliveries is None or a whole number from 1")
        self._actions: dict[type[Exception], ActionOrChooser] = {**DEFAULT, **(on_error or {})}
        self._max_deliveries = max_deliveries
        for kind, action in self._actions.items():
            if not _is_exception_class(kind):
                raise ConfigurationError(f"on_error has the key {kind!r}: its keys are classes of exceptions")
            if not (isinstance(action, (Retry, Release, Reject)) or _is_function(action)):
                raise ConfigurationError(
                    f"on_error[{kind.__name__}] is {action!r}: write Retry(…), Release(…), Reject() "
                    f"or a function of the exception that returns one of them"
                )

    def action_for(self, error: Exception) -> Action:
        """Of the closest class. A function of the user's that fails itself is no reason to lose a record: `Retry`."""
        found = next(self._actions[kind] for kind in type(error).__mro__ if kind in self._actions)
        if isinstance(found, (Retry, Release, Reject)):
            return found
        try:
            chosen = found(error)
        except Exception as mistake:  # noqa: BLE001 - it is shown with the failure of the handler
            error.add_note(f"on_error raised {mistake!r}")
            return Retry()
        return _checked(chosen, error)

    def is_last(self, delivery_count: int, is_last_delivery: bool | None) -> bool:
        """Whether a release would be the end of the record: by the group's limit, or by `max_deliveries`."""
        by_own_limit = self._max_deliveries is not None and delivery_count >= self._max_deliveries
        return by_own_limit or is_last_delivery is True


def _checked(chosen: object, error: Exception) -> Action:
    if isinstance(chosen, (Retry, Release, Reject)):
        return chosen
    error.add_note(f"on_error returned {chosen!r}, which is no Retry, Release or Reject")
    return Retry()


def _is_exception_class(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def _is_function(action: object) -> bool:
    """`Reject` without parentheses is a callable, too."""
    return callable(action) and not isinstance(action, type)
