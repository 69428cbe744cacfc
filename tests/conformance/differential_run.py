"""Plays a script on a pair of brokers, step by step on both at once, and tells where their answers differ.

Each script ends with what everybody can see then: the stored offsets, and what a new member gets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs
from conformance.differential_brokers import LOADER, Pair
from conformance.differential_script import (
    FIRST,
    HELD,
    LAST,
    NEXT,
    PARKED_MS,
    SHORT_LOCK_MS,
    WRONG,
    ZERO,
    Acknowledge,
    Alter,
    Close,
    Describe,
    Drop,
    Fetch,
    Produce,
    Reload,
    Said,
    Script,
    Step,
    Wait,
)
from support.share_requests import (
    ALTER_VERSION,
    DESCRIBE_VERSION,
    PRODUCE_VERSION,
    SHARE_VERSION,
    Acknowledged,
    Limits,
    acknowledge_request,
    acquired_in,
    alter_request,
    altered_text,
    describe_request,
    fetch_request,
    offsets_text,
    produce_request,
    share_text,
)
from support.waiting import happens_within, rest

_SETTLE_S: Final = 0.15
"""For what a broker does after it has answered: giving back the records of a session or connection that ended."""
_PARK_S: Final = 0.04
"""For a fetch to arrive and be found without records, before others act."""
_SURELY_PARKED_S: Final = 0.75 * PARKED_MS / 1000
_LOCKS_END_S: Final = 1.6 * SHORT_LOCK_MS / 1000
_SAFE_S: Final = 0.95 * SHORT_LOCK_MS / 1000
"""How long short locks surely hold on both brokers; of a script, what was answered later than that is not compared."""
_CENSUS: Final = "census"
_SESSION_ERRORS: Final = frozenset({122, 123})
"""SHARE_SESSION_NOT_FOUND and INVALID_SHARE_SESSION_EPOCH: a client would begin at epoch 0."""


@attrs.frozen
class Line:
    """What was asked, in full, and what both answered."""

    number: int
    asked: str
    real: str
    reference: str


@attrs.define
class _Member:
    epoch: int = 0
    held: dict[int, list[tuple[int, int]]] = attrs.Factory(dict)
    parked: str | None = None
    """The fetch that waits, as text."""
    parked_at_s: float = 0.0


class Run:
    """One script on both brokers; `lines` is what was seen, and ends with the first difference.

    Brokers do part of their work after they have answered, and nothing tells when it is done: there the script rests.
    What depends on locks that may have ended on one broker already, and not on the other, is left out.
    """

    def __init__(self, pair: Pair, script: Script) -> None:
        self.script = script
        self.lines: list[Line] = []
        self._pair = pair
        self._members: dict[str, _Member] = {}
        self._number = 0
        self._locked_since_s = time.monotonic()

    @property
    def differs(self) -> bool:
        return bool(self.lines) and self.lines[-1].real != self.lines[-1].reference

    def play(self) -> None:
        self._pair.prepare(
            self.script.partitions,
            {
                "share.record.lock.duration.ms": str(self.script.lock_ms),
                "share.delivery.count.limit": str(self.script.delivery_count_limit),
            },
        )
        self._locked_since_s = time.monotonic()
        for number, step in enumerate(self.script.steps):
            self._number = number
            if self._is_late():
                return
            self._take(step)
            if not self.differs:
                self._note_who_waits()
            if self.differs:
                return
        self._number = len(self.script.steps)
        self._end()

    def _end(self) -> None:
        for name in list(self._members):
            self._await_parked(name)
            if self.differs:
                return
        if not self._is_late():
            self._take(Describe())
        if not self.differs and not self._is_late():
            self._take(Fetch(_CENSUS, Limits(max_wait_ms=20)))

    def _is_late(self) -> bool:
        return self.script.lock_ms == SHORT_LOCK_MS and time.monotonic() > self._locked_since_s + _SAFE_S

    # ---- steps

    def _take(self, step: Step) -> None:
        member = getattr(step, "member", None)
        if member is not None and not isinstance(step, Drop):
            self._await_parked(member)
            if self.differs:
                return
        take: Callable[[Any], None] = getattr(self, f"_{type(step).__name__.lower()}")
        take(step)

    def _produce(self, step: Produce) -> None:
        for count in step.batches:
            for broker in self._pair.both:
                answer = broker.control(produce_request(broker.topic, step.partition, count), PRODUCE_VERSION)
                assert answer.responses[0].partition_responses[0].error_code == 0, answer

    def _fetch(self, step: Fetch) -> None:
        member = self._member(step.member)
        epoch = {NEXT: member.epoch, ZERO: 0, WRONG: member.epoch + 7}[step.epoch]
        said = () if epoch == 0 else self._resolve(member, step.said)
        asked = f"fetch {step.member} epoch={epoch} {step.limits} {list(said)}"
        for broker in self._pair.both:
            request = fetch_request(broker.topic, step.member, epoch, step.limits, said)
            broker.connection(step.member).send(request, SHARE_VERSION)
        member.epoch = epoch
        member.parked = asked
        if step.parked:
            member.parked_at_s = time.monotonic()
            rest(_PARK_S)
        else:
            self._await_parked(step.member)

    def _acknowledge(self, step: Acknowledge) -> None:
        member = self._member(step.member)
        said = self._resolve(member, step.said)
        asked = f"acknowledge {step.member} epoch={member.epoch} renew={step.renew} {list(said)}"
        answers = [
            broker.connection(step.member).call(
                acknowledge_request(broker.topic, step.member, member.epoch, said, is_renew_ack=step.renew),
                SHARE_VERSION,
            )
            for broker in self._pair.both
        ]
        self._note(asked, share_text, answers)
        self._advance(member, answers[0].error_code)

    def _close(self, step: Close) -> None:
        member = self._member(step.member)
        answers = [
            broker.connection(step.member).call(acknowledge_request(broker.topic, step.member, -1, ()), SHARE_VERSION)
            for broker in self._pair.both
        ]
        self._note(f"close {step.member}", share_text, answers)
        member.epoch = 0
        member.held.clear()
        rest(_SETTLE_S)

    def _drop(self, step: Drop) -> None:
        member = self._member(step.member)
        for broker in self._pair.both:
            broker.drop(step.member)
        # A broker sees the end of a connection whose fetch waits when that fetch is over.
        rest(_SETTLE_S + (PARKED_MS / 1000 if member.parked else 0))
        member.parked = None
        member.held.clear()

    def _wait(self, _: Wait) -> None:
        rest(_LOCKS_END_S)
        self._locked_since_s = time.monotonic()

    def _alter(self, step: Alter) -> None:
        starts = {step.partition: step.start}
        answers = [broker.control(alter_request(broker.topic, starts), ALTER_VERSION) for broker in self._pair.both]
        self._note(f"alter {starts}", altered_text, answers)

    def _describe(self, _: Describe) -> None:
        answers = [broker.control(describe_request(broker.topic), DESCRIBE_VERSION) for broker in self._pair.both]
        self._note("describe", offsets_text, answers)

    def _reload(self, _: Reload) -> None:
        for name in list(self._members):
            self._await_parked(name)
            if self.differs:
                return
        for broker in self._pair.both:
            broker.drop_all()
        rest(2 * _SETTLE_S)
        for member in self._members.values():
            member.held.clear()
        self._fetch(Fetch(LOADER, Limits(max_wait_ms=300, max_records=1), epoch=ZERO))
        self._close(Close(LOADER))

    def _note_who_waits(self) -> None:
        """Whether the step has ended a parked fetch; not asked where its time is nearly over."""
        for name, member in self._members.items():
            until_s = member.parked_at_s + _SURELY_PARKED_S
            if member.parked is None or time.monotonic() > until_s:
                continue
            rest(_PARK_S)
            ended = self._ended(name)
            if any(ended):  # what one broker has answered, the other may be about to
                happens_within(partial(self._have_all_ended, name), until_s - time.monotonic())
                ended = self._ended(name)
            if self._is_late():
                return
            if all(ended):
                self._await_parked(name)
            elif any(ended):
                real, reference = ("has ended" if one else "waits" for one in ended)
                self.lines.append(Line(self._number, f"the parked fetch of {name}", real, reference))
            if self.differs:
                return

    def _ended(self, name: str) -> list[bool]:
        """Of each broker, whether the parked fetch has an answer."""
        return [broker.connection(name).is_answered() for broker in self._pair.both]

    def _have_all_ended(self, name: str) -> bool:
        return all(self._ended(name))

    # ---- what members know

    def _member(self, name: str) -> _Member:
        return self._members.setdefault(name, _Member())

    @staticmethod
    def _resolve(member: _Member, said: tuple[Said, ...]) -> Acknowledged:
        """From what is meant to offsets. What was acknowledged is not held any more, except after RENEW."""
        found: list[tuple[int, int, int, int]] = []
        for one in said:
            held = member.held.get(one.partition, [])
            if isinstance(one.span, tuple):
                ranges = [one.span]
            elif not held:
                ranges = []
            else:
                ranges = {HELD: held, FIRST: [(held[0][0],) * 2], LAST: [(held[-1][1],) * 2]}[one.span]
                if one.kind != 4:
                    member.held[one.partition] = _without(held, ranges)
            found += [(one.partition, first, last, one.kind) for first, last in ranges]
        return found

    def _await_parked(self, name: str) -> None:
        member = self._member(name)
        asked, member.parked = member.parked, None
        if asked is None:
            return
        answers = [broker.connection(name).receive() for broker in self._pair.both]
        self._note(asked, share_text, answers)
        for partition, ranges in acquired_in(answers[0]).items():
            member.held[partition] = sorted(member.held.get(partition, []) + ranges)
        self._advance(member, answers[0].error_code)

    @staticmethod
    def _advance(member: _Member, error_code: int) -> None:
        member.epoch = 0 if error_code in _SESSION_ERRORS else member.epoch + 1

    def _note(self, asked: str, text: Callable[[Any], str], answers: list[Any]) -> None:
        if self._is_late():
            return
        real, reference = answers
        self.lines.append(Line(self._number, asked, text(real), text(reference)))


def _without(held: list[tuple[int, int]], gone: list[tuple[int, int]]) -> list[tuple[int, int]]:
    left = list(held)
    for first, last in gone:
        left = [
            piece for a, b in left for piece in ((a, min(b, first - 1)), (max(a, last + 1), b)) if piece[0] <= piece[1]
        ]
    return left
