"""What the background side reports: outcomes of acknowledgements, errors to be raised, requests that have ended.

Owned by `ApplicationSide` and used on the thread that polls. An output may be taken again after an interrupt, which
changes nothing, and everything stays until it has been raised or reported.
"""

from __future__ import annotations

from collections import deque

from kafka_share.core.events import AcknowledgementOutcome
from kafka_share.errors import KafkaShareError


class Reports:
    """Each error is raised once and each outcome reported once, in the order in which they came."""

    def __init__(self) -> None:
        self.is_wanted: bool = False
        """Whether anybody hears of outcomes that no call waits for."""
        self.errors: deque[KafkaShareError] = deque()
        """What no call has raised yet."""
        self.outcomes: deque[AcknowledgementOutcome] = deque()
        """What has not been reported to the application yet, the oldest first."""
        self._completed: tuple[int, bool] = (0, False)
        """The latest request that has ended, and whether it ran out of time: nobody waits for an earlier one."""

    # ---- taken over

    def add_outcome(self, outcome: AcknowledgementOutcome, *, is_again: bool) -> None:
        if not (is_again and any(known is outcome for known in self.outcomes)):
            self.outcomes.append(outcome)

    def add_error(self, error: KafkaShareError, *, is_again: bool) -> None:
        if not (is_again and any(known is error for known in self.errors)):
            self.errors.append(error)

    def complete(self, request_id: int, *, timed_out: bool) -> None:
        self._completed = max(self._completed, (request_id, timed_out))

    # ---- given to the calls

    def raise_error(self) -> None:
        """Raise the next error of the background side, each once."""
        if self.errors:
            try:
                raise self.errors[0]
            except KafkaShareError:
                self.errors.popleft()
                raise

    def pop_error(self) -> KafkaShareError | None:
        """The next error that no call has raised."""
        return self.errors.popleft() if self.errors else None

    def first_outcome(self) -> AcknowledgementOutcome | None:
        """The oldest outcome that has not been reported to the application yet."""
        return self.outcomes[0] if self.outcomes else None

    def drop_outcome(self) -> None:
        """It has been reported."""
        self.outcomes.popleft()

    def drop_outcomes(self) -> None:
        """Nobody wants to hear of what has ended so far."""
        self.outcomes.clear()

    def peek_outcomes(self) -> tuple[AcknowledgementOutcome, ...]:
        return tuple(self.outcomes)

    def completion_of(self, request_id: int) -> bool | None:
        """Of the latest commit or unsubscribe: None until it has been completed, then whether it ran out of time."""
        latest_id, timed_out = self._completed
        return timed_out if latest_id == request_id else None
