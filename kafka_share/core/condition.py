"""What holds of a consumer as a whole: whether it is a member, what it may fetch, and what is wrong with it now.

The machines of a core note in `Troubles` what does not pass by itself in a moment, and when it has passed.
`ShareConsumerCore` tells the application's side a `Condition` when it has changed; polls raise from it, `health` shows
it.
"""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from kafka_share.errors import KafkaShareError
from kafka_share.records import TopicPartition


@attrs.frozen
class Trouble:
    """An error that has not passed."""

    error: KafkaShareError
    since_ms: int
    is_raised: bool
    """Whether polls raise it as long as it lasts."""
    is_fatal: bool
    """Whether it lasts until the consumer is closed."""


@attrs.frozen
class Condition:
    """A consumer at one moment. The default is one that has not begun, or has ended."""

    is_joined: bool = False
    assigned: tuple[TopicPartition, ...] = ()
    missing_topics: tuple[str, ...] = ()
    trouble: Trouble | None = None
    """The worst that there is."""


class Troubles:
    """By what they are about: a second trouble with one thing takes the place of the first, and keeps its time."""

    def __init__(self) -> None:
        self.version: int = 0
        """Grows with every change."""
        self._by_source: dict[Hashable, Trouble] = {}

    @property
    def is_empty(self) -> bool:
        return not self._by_source

    def begin(
        self, source: Hashable, error: KafkaShareError, now_ms: int, *, is_raised: bool = True, is_fatal: bool = False
    ) -> None:
        known = self._by_source.get(source)
        since_ms = now_ms if known is None else known.since_ms
        self._by_source[source] = Trouble(error, since_ms, is_raised, is_fatal)
        self.version += 1

    def end(self, source: Hashable) -> None:
        """It has passed, or there was none."""
        if self._by_source.pop(source, None) is not None:
            self.version += 1

    def forget(self) -> None:
        """The application has left its topics: only what is fatal concerns it any more."""
        self._by_source = {source: trouble for source, trouble in self._by_source.items() if trouble.is_fatal}
        self.version += 1

    @property
    def worst(self) -> Trouble | None:
        """A fatal one before those that are raised, those before others, and the oldest first."""
        order = sorted(self._by_source.values(), key=lambda one: (not one.is_fatal, not one.is_raised, one.since_ms))
        return order[0] if order else None
