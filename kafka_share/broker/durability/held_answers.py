"""Answers that wait for the disk, as a machine: many are released by one fsync.

The server gives it what `BrokerMachine` has answered (`polled`), sends what comes back, and calls `commit` once its
loop has looked at all its connections (`is_waiting`), or when the interval is over (`is_behind`). What was written
while others waited is synced with them. Answers keep their order, and one that tells of what others wait for waits too:
who has read a record, or a topic's name, can rely on it.

Where the disk fails, requests that may have written something are answered with KAFKA_STORAGE_ERROR; readers get what
they asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kafka_share.broker.durability.fsync_policy import RequestClass, class_of
from kafka_share.broker.error_answers import error_answer
from kafka_share.broker.events import Reply
from kafka_share.broker.refusals import Refusal

if TYPE_CHECKING:
    from kafka_share.broker.durability.fsync_policy import FsyncPolicy
    from kafka_share.broker.durability.persistence import Persistence
    from kafka_share.broker.events import Message


@attrs.frozen
class Answer:
    """A reply, with the request that it is for."""

    reply: Reply
    request: Message

    @property
    def request_class(self) -> RequestClass:
        return class_of(self.reply.context.api_key, self.request)

    def unless(self, refusal: Refusal | None) -> Reply:
        """The reply, or the error if the disk has failed and the request may have written."""
        if refusal is None or self.request_class is RequestClass.READ:
            return self.reply
        context = self.reply.context
        return Reply(context, error_answer(self.request, context.api_version, refusal.code))


class HeldAnswers:
    """Of one broker."""

    def __init__(self, persistence: Persistence, policy: FsyncPolicy) -> None:
        self._persistence = persistence
        self._policy = policy
        self._held: list[Answer] = []

    @property
    def is_waiting(self) -> bool:
        """Whether answers wait for `commit`."""
        return bool(self._held)

    @property
    def is_behind(self) -> bool:
        """Whether something has to be synced within the policy's interval."""
        return self._persistence.is_dirty

    @property
    def interval_ms(self) -> int:
        return self._policy.interval_ms

    def polled(self, answers: list[Answer], now_ms: int) -> list[Reply]:
        """Write what has changed, and hold the answers if they have to wait; returns those that can go."""
        try:
            self._persistence.write(now_ms)
        except Refusal as refusal:
            return [answer.unless(refusal) for answer in answers]
        if self._persistence.is_dirty and (self._held or any(self._awaits_sync(answer) for answer in answers)):
            self._held += answers
            return []
        return [answer.reply for answer in answers]

    def _awaits_sync(self, answer: Answer) -> bool:
        return self._policy.awaits_sync(answer.request_class)

    def commit(self) -> tuple[list[Reply], Refusal | None]:
        """Sync everything; returns the answers that waited for it, and why it failed, if it did."""
        held, self._held = self._held, []
        problem = None
        if self._persistence.is_dirty:
            try:
                self._persistence.sync()
            except Refusal as refusal:
                problem = refusal
        return [answer.unless(problem) for answer in held], problem
