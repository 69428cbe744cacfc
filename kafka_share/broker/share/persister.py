"""The persister: how share partitions and the group coordinator reach the share coordinator, at once or late.

Each node has one for its share partitions, the group coordinator of share groups another. A request is normally
carried out before the call returns. A fault (`FaultPlan.delay_persister`, `fail_persister`) makes it late, refuses it,
or both. A late request is carried out when it arrives, as if it had been that long on its way: until then nothing of it
is stored, and if its node stops it never is. Requests about one share partition keep their order, so those behind a
late one wait for it; other share partitions do not.

`then` is told the answer, or the `Refusal`, and when that was; it may ask again. What the persister must not do: know
what a request says.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import attrs

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.deadlines import Deadlines
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import CoordinatorNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka_share.broker.share.share_coordinator import ShareCoordinator, StoredState
    from kafka_share.broker.share.state_batches import StateBatch
    from kafka_share.broker.share.state_records import StateKey
    from kafka_share.errors import BrokerError

A = TypeVar("A")
T = TypeVar("T")

MAX_WAITING: Final = 10_000
"""More requests about one share partition do not wait: they are refused."""


class StateWrite(NamedTuple):
    """What a share partition writes, as of when it does so."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


@attrs.frozen
class PersisterFault:
    """What a request suffers: it arrives `delay_ms` later, and is refused then if there is an `error`."""

    delay_ms: int = 0
    error: type[BrokerError] | None = None


_ON_TIME: Final = PersisterFault()


def no_fault(api: ApiKey) -> PersisterFault | None:
    """Everything is well."""
    return None


@attrs.frozen
class _Waiting:
    at_ms: int
    carry_out: Callable[[int], None]


class Persister:
    """`fault_of` is asked about each request: InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState."""

    def __init__(
        self, coordinator: ShareCoordinator, fault_of: Callable[[ApiKey], PersisterFault | None] = no_fault
    ) -> None:
        self._coordinator = coordinator
        self._fault_of = fault_of
        self.waiting: dict[StateKey, deque[_Waiting]] = {}
        """Late requests, and those behind them. Empty nearly always: who looks before they poll saves a call."""
        self._due: Deadlines[StateKey] = Deadlines()
        """When the first one arrives."""

    def __len__(self) -> int:
        """How many requests wait."""
        return sum(map(len, self.waiting.values()))

    # ---- requests: see `ShareCoordinator`

    def initialize(
        self,
        key: StateKey,
        state_epoch: int,
        start_offset: int,
        now_ms: int,
        then: Callable[[Refusal | None, int], None],
    ) -> None:
        asked = (state_epoch, start_offset)
        self._ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, key, self._initialize, asked, then, now_ms)

    def _initialize(self, key: StateKey, asked: tuple[int, int], now_ms: int) -> None:
        self._coordinator.initialize(key, *asked, now_ms)

    def read(
        self, key: StateKey, leader_epoch: int, now_ms: int, then: Callable[[StoredState | Refusal, int], None]
    ) -> None:
        self._ask(ApiKey.READ_SHARE_GROUP_STATE, key, self._coordinator.read, leader_epoch, then, now_ms)

    def write(self, key: StateKey, write: StateWrite, now_ms: int, then: Callable[[Refusal | None, int], None]) -> None:
        self._ask(ApiKey.WRITE_SHARE_GROUP_STATE, key, self._write, write, then, now_ms)

    def _write(self, key: StateKey, write: StateWrite, now_ms: int) -> None:
        self._coordinator.write(
            key,
            state_epoch=write.state_epoch,
            leader_epoch=write.leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            batches=write.batches,
            now_ms=now_ms,
        )

    def _ask(
        self,
        api: ApiKey,
        key: StateKey,
        request: Callable[[StateKey, A, int], T],
        asked: A,
        then: Callable[[T | Refusal, int], None],
        now_ms: int,
    ) -> None:
        fault = self._fault_of(api) or _ON_TIME
        if not fault.delay_ms and (not self.waiting or key not in self.waiting):
            _carry_out(request, key, asked, fault.error, then, now_ms)
            return
        waiting = self.waiting.setdefault(key, deque())
        if len(waiting) >= MAX_WAITING:
            then(Refusal(CoordinatorNotAvailableError, "too many requests wait for the share coordinator"), now_ms)
            return
        at_ms = max(now_ms + fault.delay_ms, waiting[-1].at_ms if waiting else now_ms)
        waiting.append(_Waiting(at_ms, partial(_carry_out, request, key, asked, fault.error, then)))
        if len(waiting) == 1:
            self._due.set(key, at_ms)

    # ---- time

    def poll(self, now_ms: int) -> None:
        """Carry out the requests that have arrived by now."""
        for key in self._due.take_due(now_ms):
            waiting = self.waiting[key]
            while waiting and waiting[0].at_ms <= now_ms:
                waiting.popleft().carry_out(now_ms)  # what is asked meanwhile comes behind the others
            if waiting:
                self._due.set(key, waiting[0].at_ms)
            else:
                del self.waiting[key]
                self._due.discard(key)

    def wake_at_ms(self) -> int | None:
        """When the next late request arrives."""
        return self._due.next_at_ms()

    def check(self) -> None:
        """Assert the invariants."""
        assert len(self._due) == len(self.waiting)
        for key, waiting in self.waiting.items():
            times = [one.at_ms for one in waiting]
            assert times == sorted(times), "a request would overtake another one"
            assert self._due.at_ms(key) == times[0]


def _carry_out(
    request: Callable[[StateKey, A, int], T],
    key: StateKey,
    asked: A,
    error: type[BrokerError] | None,
    then: Callable[[T | Refusal, int], None],
    now_ms: int,
) -> None:
    answer: T | Refusal
    try:
        if error is not None:
            raise Refusal(error, "a test has ordered it")
        answer = request(key, asked, now_ms)
    except Refusal as refusal:
        answer = refusal
    then(answer, now_ms)


class CountDown:
    """Several requests of which only the end of the last matters: `ended` has to be called `count` times.

    `then` is told when that was; with a `count` of 0 nobody has to wait.
    """

    def __init__(self, count: int, then: Callable[[int], None]) -> None:
        self._left = count
        self._then = then

    def ended(self, now_ms: int) -> None:
        """One of them has ended."""
        self._left -= 1
        if not self._left:
            self._then(now_ms)
