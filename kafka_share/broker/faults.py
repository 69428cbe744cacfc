"""Faults on order: what tests of clients need from a broker that otherwise behaves.

`ReferenceBroker.faults` is how users reach it; the server asks `take` for every request before the
cluster sees it, and the cluster asks for what it writes and for the requests of its persisters. Faults are used up in
the order in which they were planned; a request takes the first that fits it.

Faults may be planned from any thread: only the server's thread uses them up, and adding to a list or emptying it is one
step for all threads.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from kafka_share.broker.api_keys import ApiKey, api_key_of
from kafka_share.broker.share.persister import PersisterFault
from kafka_share.broker.storage.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from kafka_share.errors import ERRORS, BrokerError, InvalidArgumentError

if TYPE_CHECKING:
    from kafka_share.broker.api_keys import Api
    from kafka_share.broker.events import RequestContext

Failure: TypeAlias = int | BrokerError | type[BrokerError]
"""An error that a broker may answer with: a class of `kafka_share.errors`, an instance of one, or Kafka's code."""

K = TypeVar("K")
V = TypeVar("V")

MAX_PLANNED_FAULTS: Final = 10_000
_OF_PERSISTERS: Final = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
)


class FaultKind(enum.Enum):
    """What goes wrong. "Applied" means that the cluster has done what the request asked for."""

    ERROR = "error"
    """Not applied; the answer carries an error code."""
    DELAY = "delay"
    """Applied; the answer is held back. Later answers on the connection wait behind it."""
    LOSE_REPLY = "lose reply"
    """Applied; no answer ever comes, and the connection stays open."""
    DROP_BEFORE = "drop before"
    """Not applied; the connection closes."""
    DROP_AFTER = "drop after"
    """Applied; the connection closes instead of an answer."""
    GARBAGE = "garbage"
    """Applied; a frame of the right length and correlation id comes, with nonsense in it."""
    CUT_FRAME = "cut frame"
    """Applied; half of the answer comes, then the connection closes."""


@attrs.define(eq=False)
class Fault:
    """A planned fault: what, for which requests, how many times."""

    kind: FaultKind
    api_key: ApiKey
    remaining: int = 1
    error_code: int = 0
    delay_ms: int = 0
    node_id: int | None = None
    client_id: str | None = None

    def fits(self, context: RequestContext) -> bool:
        """Whether this request is one of those meant."""
        return (
            context.api_key == self.api_key
            and self.node_id in (None, context.node_id)
            and self.client_id in (None, context.client_id)
        )

    def __repr__(self) -> str:
        what = self.kind.value
        if self.kind is FaultKind.ERROR:
            what = ERRORS[self.error_code].name
        elif self.kind is FaultKind.DELAY:
            what = f"delay of {self.delay_ms} ms"
        where = "" if self.node_id is None else f" on node {self.node_id}"
        whose = "" if self.client_id is None else f" for client {self.client_id!r}"
        return f"{self.api_key.label}: {what}{where}{whose}, {self.remaining} to come"


class FaultPlan:
    """The faults that are still to come.

    All methods take the API as an `ApiKey`, by Kafka's name ("ShareFetch") or by its number, `times`, how many requests
    are hit, and `node_id` and `client_id` to hit only requests to that node, or of that client. All raise
    `InvalidArgumentError` (a `ValueError`) for what can never happen.
    """

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._log_faults: list[tuple[str, type[BrokerError]]] = []
        self._late: list[tuple[ApiKey, int]] = []
        self._refused: list[tuple[ApiKey, type[BrokerError]]] = []

    def __repr__(self) -> str:
        others = [f"records of {topic}: {error.name}" for topic, error in list(self._log_faults)]
        others += [f"{api.label} of a persister: delay of {delay_ms} ms" for api, delay_ms in list(self._late)]
        others += [f"{api.label} of a persister: {error.name}" for api, error in list(self._refused)]
        planned = [
            *map(repr, list(self._faults)),
            *(f"{one}, {times} to come" for one, times in Counter(others).items()),
        ]
        return f"<FaultPlan: {'; '.join(planned) or 'nothing is planned'}>"

    def fail(
        self, api: Api, error: Failure, times: int = 1, *, node_id: int | None = None, client_id: str | None = None
    ) -> None:
        """Answer with an error and do nothing: `fail("ShareFetch", NotLeaderOrFollowerError)`."""
        code = _error_code(error)
        self._plan(FaultKind.ERROR, api, times, error_code=code, node_id=node_id, client_id=client_id)

    def delay(
        self, api: Api, delay_ms: int, times: int = 1, *, node_id: int | None = None, client_id: str | None = None
    ) -> None:
        """Hold the answer back for `delay_ms` of the broker's clock."""
        self._plan(FaultKind.DELAY, api, times, delay_ms=delay_ms, node_id=node_id, client_id=client_id)

    def lose_reply(self, api: Api, times: int = 1, *, node_id: int | None = None, client_id: str | None = None) -> None:
        """Do what the request asks and never answer."""
        self._plan(FaultKind.LOSE_REPLY, api, times, node_id=node_id, client_id=client_id)

    def drop(
        self,
        api: Api,
        times: int = 1,
        *,
        applied: bool = False,
        node_id: int | None = None,
        client_id: str | None = None,
    ) -> None:
        """Close the connection instead of answering, before or (`applied`) after doing what the request asks."""
        kind = FaultKind.DROP_AFTER if applied else FaultKind.DROP_BEFORE
        self._plan(kind, api, times, node_id=node_id, client_id=client_id)

    def garbage(self, api: Api, times: int = 1, *, node_id: int | None = None, client_id: str | None = None) -> None:
        """Do what the request asks and answer with bytes that mean nothing."""
        self._plan(FaultKind.GARBAGE, api, times, node_id=node_id, client_id=client_id)

    def cut_frame(self, api: Api, times: int = 1, *, node_id: int | None = None, client_id: str | None = None) -> None:
        """Do what the request asks, send half of the answer and close the connection."""
        self._plan(FaultKind.CUT_FRAME, api, times, node_id=node_id, client_id=client_id)

    def fail_log(self, topic: str, error: Failure, times: int = 1) -> None:
        """Refuse what coordinators write to "__share_group_state" or "__consumer_offsets": nothing of it happens."""
        if topic not in (SHARE_GROUP_STATE, CONSUMER_OFFSETS):
            raise InvalidArgumentError(f"no coordinator writes to {topic!r}")
        _plan_more(self._log_faults, topic, ERRORS[_error_code(error)], times)

    def delay_persister(self, api: Api, delay_ms: int, times: int = 1) -> None:
        """Have requests of the broker's own to its share coordinator arrive `delay_ms` of its clock later.

        "WriteShareGroupState" is sent with what is acknowledged or released, and when locks end;
        "ReadShareGroupState" when a share partition is fetched for the first time; "InitializeShareGroupState" when a
        group has new partitions. Until it has arrived nothing of it has happened, and later ones about the same share
        partition wait behind it.
        """
        if delay_ms < 0:
            raise InvalidArgumentError("a request arrives later rather than earlier")
        _plan_more(self._late, _key_of_persisters(api), delay_ms, times)

    def fail_persister(self, api: Api, error: Failure, times: int = 1) -> None:
        """Refuse such requests when they arrive: nothing of them happens. One may be late, too."""
        _plan_more(self._refused, _key_of_persisters(api), ERRORS[_error_code(error)], times)

    def clear(self) -> None:
        """Forget all faults that have not happened."""
        for planned in (self._faults, self._log_faults, self._late, self._refused):
            planned.clear()

    def pending(self) -> int:
        """How many faults are still to come."""
        others = len(self._log_faults) + len(self._late) + len(self._refused)
        return sum(fault.remaining for fault in list(self._faults)) + others

    def take_log_fault(self, topic: str) -> type[BrokerError] | None:
        """What the next record of a coordinator in this topic is refused with. For the server's thread only."""
        return _take_first(self._log_faults, topic)

    def take_persister_fault(self, api: ApiKey) -> PersisterFault | None:
        """What the next such request of a persister suffers, if anything. For the server's thread only."""
        if not self._late and not self._refused:
            return None
        return PersisterFault(_take_first(self._late, api) or 0, _take_first(self._refused, api))

    def take(self, context: RequestContext) -> Fault | None:
        """The fault that this request suffers, if any; it is used up by this. For the server's thread only."""
        fault = next((one for one in list(self._faults) if one.fits(context)), None)
        if fault is not None:
            fault.remaining -= 1
            if fault.remaining == 0:
                self._forget(fault)
        return fault

    def _forget(self, fault: Fault) -> None:
        try:
            self._faults.remove(fault)
        except ValueError:
            pass  # another thread has called clear()

    def _plan(self, kind: FaultKind, api: Api, times: int, **details: Any) -> None:
        fault = Fault(kind, api_key_of(api), times, **details)
        if fault.remaining < 1 or fault.delay_ms < 0:
            raise InvalidArgumentError("a fault happens at least once, and later rather than earlier")
        if len(self._faults) >= MAX_PLANNED_FAULTS:
            raise InvalidArgumentError(f"more than {MAX_PLANNED_FAULTS} faults are planned")
        self._faults.append(fault)


def _plan_more(planned: list[tuple[K, V]], of: K, what: V, times: int) -> None:
    if times < 1 or len(planned) + times > MAX_PLANNED_FAULTS:
        raise InvalidArgumentError(f"1 to {MAX_PLANNED_FAULTS} faults can be planned")
    planned += [(of, what)] * times


def _take_first(planned: list[tuple[K, V]], of: K) -> V | None:
    """The first one that fits; it is used up by this."""
    found = next((one for one in list(planned) if one[0] == of), None)
    if found is None:
        return None
    try:
        planned.remove(found)
    except ValueError:
        pass  # another thread has called clear()
    return found[1]


def _key_of_persisters(api: Api) -> ApiKey:
    key = api_key_of(api)
    if key not in _OF_PERSISTERS:
        names = ", ".join(one.label for one in _OF_PERSISTERS)
        raise InvalidArgumentError(f"the broker's own requests to the share coordinator are {names}, not {key.label}")
    return key


def _error_code(error: Any) -> int:
    """The code of an error that a broker may answer with. Raises `InvalidArgumentError` for anything else."""
    is_error = isinstance(error, BrokerError) or (isinstance(error, type) and issubclass(error, BrokerError))
    code = error.code if is_error else error
    if isinstance(code, int) and code in ERRORS and error is not BrokerError:
        return code
    raise InvalidArgumentError(
        f"{error!r} is no error that Kafka answers with: write a class of kafka_share.errors, such as "
        "NotLeaderOrFollowerError, or its code"
    )
