"""What a worker does with a record whose handler raised: actions as values, and the policy that chooses one.

Users write the actions; `Jobs` asks the policy. Nothing here knows a consumer or a clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from kafka_share.config_checks import whole_number
from kafka_share.errors import ConfigurationError, RecordDeserializationError
from kafka_share.producing.dead_letters import default_topic

MAX_RETRY_DELAY_MS: Final = 86_400_000
"""No record of a retry topic waits for longer, whatever its headers say."""
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


def _topic_name(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not (isinstance(value, str) and _TOPIC.fullmatch(value)):
        raise ConfigurationError(f"{attribute.name} is {value!r}: write the name of a topic")


@attrs.frozen
class Reject:
    """The record is never delivered again."""


@attrs.frozen
class DeadLetter:
    """A copy of the record is written to a dead-letter topic, and then the record is accepted.

    It stays here under its lock until the copy is written, however long that takes. The copy has the key, the value and
    the headers as they were received, and headers that say where it comes from and why.
    """

    topic: str | None = attrs.field(default=None, validator=attrs.validators.optional(_topic_name))
    """None: "dlq." and the name of the record's topic. It has to exist, unless brokers create topics by themselves."""
    max_bytes: int | None = attrs.field(default=None, validator=attrs.validators.optional(whole_number(1)))
    """If key, value and headers of the dead letter would be more than this, uncompressed, it has none of the record: it
    says where that is, and the record is accepted. An ERROR names it. None: every record is copied."""

    def topic_for(self, topic: str) -> str:
        """Where a record of this topic goes."""
        return default_topic(topic) if self.topic is None else self.topic


@attrs.frozen
class Release:
    """The record is delivered again, here or elsewhere. This spends a delivery; on the last one it is `Reject`.

    With `ShareWorker(on_last_delivery=DeadLetter())` it is `DeadLetter` there.
    """

    delay_ms: int = attrs.field(default=0, validator=whole_number(0, 900_000))
    """It stays locked for this long before, which spends nothing. At most 900,000 (15 minutes)."""


def _end(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, (Release, Reject, DeadLetter)):
        raise ConfigurationError(f"{attribute.name} is {value!r}: write Release(…), Reject() or DeadLetter()")


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
    then: Release | Reject | DeadLetter | RetryTopic = attrs.field(default=Release())
    """What becomes of a record that is given up."""

    @then.validator
    def _check_then(self, attribute: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, RetryTopic):
            _end(self, attribute, value)

    def pause_ms(self, tries: int) -> int:
        """The pause after this many tries."""
        return min(self.backoff_max_ms, self.backoff_ms << min(tries - 1, 40))


@attrs.frozen
class RetryTopic:
    """A copy of the record is written to another topic, and then the record is accepted.

    A worker that gets the copy waits until its time has come, and then calls the handler. Until it is written, the
    record stays here under its lock. That takes neither a place in the window nor a delivery in the meantime.
    """

    topic: str = attrs.field(validator=_topic_name)
    """It has to exist, unless brokers create topics by themselves. This worker reads it, or another one."""
    delay_ms: int = attrs.field(default=60_000, validator=whole_number(0, MAX_RETRY_DELAY_MS))
    """How long after the copy is written it is to be tried: at most a day."""
    attempts: int = attrs.field(default=3, validator=whole_number(1))
    """After this many copies, over all workers, the record is given up."""
    then: Release | Reject | DeadLetter = attrs.field(default=Release(), validator=_end)
    """What becomes of a record that is given up."""


Ending: TypeAlias = Release | Reject | DeadLetter
Action: TypeAlias = Retry | RetryTopic | Ending
_ACTIONS: Final = (Retry, RetryTopic, Release, Reject, DeadLetter)
ActionOrChooser: TypeAlias = Action | Callable[[Any], Action]
OnError: TypeAlias = Mapping[type[Exception], ActionOrChooser]
"""Exception class → what to do, or a function of the exception that returns it. The closest class counts."""

DEFAULT: Final[OnError] = MappingProxyType(
    {Exception: Retry(), RecordDeserializationError: Release(delay_ms=5_000)},
)
"""docs/adr/0021-what-a-worker-does-with-failures.md has the reasons."""


class Policy:
    """Chooses the action for an exception, and knows which delivery is the last."""

    def __init__(
        self,
        on_error: OnError | None = None,
        max_deliveries: int | None = None,
        on_last_delivery: Reject | DeadLetter | None = None,
    ) -> None:
        """Raises `ConfigurationError` for what is no mapping from exception classes to actions."""
        self.on_last_delivery: Reject | DeadLetter = Reject() if on_last_delivery is None else on_last_delivery
        """What a release becomes on the last delivery of a record."""
        if not isinstance(self.on_last_delivery, (Reject, DeadLetter)):
            raise ConfigurationError(f"on_last_delivery is {on_last_delivery!r}: write Reject() or DeadLetter()")
        if max_deliveries is not None and (type(max_deliveries) is not int or max_deliveries < 1):
            raise ConfigurationError("max_deliveries is None or a whole number from 1")
        self._actions: dict[type[Exception], ActionOrChooser] = {**DEFAULT, **(on_error or {})}
        self._max_deliveries = max_deliveries
        for kind, action in self._actions.items():
            if not _is_exception_class(kind):
                raise ConfigurationError(f"on_error has the key {kind!r}: its keys are classes of exceptions")
            if not (isinstance(action, _ACTIONS) or _is_function(action)):
                raise ConfigurationError(
                    f"on_error[{kind.__name__}] is {action!r}: write Retry(…), RetryTopic(…), Release(…), Reject(), "
                    f"DeadLetter() or a function of the exception that returns one of them"
                )

    def action_for(self, error: Exception) -> Action:
        """Of the closest class. A function of the user's that fails itself is no reason to lose a record: `Retry`."""
        found = next(self._actions[kind] for kind in type(error).__mro__ if kind in self._actions)
        if isinstance(found, _ACTIONS):
            return found
        try:
            chosen = found(error)
        except Exception as mistake:  # noqa: BLE001 - it is shown with the failure of the handler
            error.add_note(f"on_error raised {mistake!r}")
            return Retry()
        return _checked(chosen, error)

    def dead_letter_topics(self, topic: str) -> set[str]:
        """Where records of this topic may go, as far as that is known without an exception."""
        actions = [*self._actions.values(), self.on_last_delivery]
        actions += [action.then for action in actions if isinstance(action, Retry)]
        actions += [action.then for action in actions if isinstance(action, RetryTopic)]
        return {action.topic_for(topic) for action in actions if isinstance(action, DeadLetter)}

    def is_last(self, delivery_count: int, is_last_delivery: bool | None) -> bool:
        """Whether a release would be the end of the record: by the group's limit, or by `max_deliveries`."""
        by_own_limit = self._max_deliveries is not None and delivery_count >= self._max_deliveries
        return by_own_limit or is_last_delivery is True


def _checked(chosen: object, error: Exception) -> Action:
    if isinstance(chosen, _ACTIONS):
        return chosen
    error.add_note(f"on_error returned {chosen!r}, which is no action of a worker")
    return Retry()


def _is_exception_class(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def _is_function(action: object) -> bool:
    """`Reject` without parentheses is a callable, too."""
    return callable(action) and not isinstance(action, type)
