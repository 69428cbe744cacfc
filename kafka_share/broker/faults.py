"""Faults on order: what tests of clients need from a broker that otherwise behaves.

`ReferenceBroker.faults` is how users reach it; the server asks `take` for every request before the
cluster sees it. Faults are used up in the order in which they were planned; a request takes the first that fits it.

Faults may be planned from any thread: only the server's thread uses them up, and adding to a list or emptying it is one
step for all threads.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.error_answers import has_error_answer

if TYPE_CHECKING:
    from kafka_share.broker.events import RequestContext

MAX_PLANNED_FAULTS: Final = 10_000


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
    api_key: int
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


class FaultPlan:
    """The faults that are still to come. `api` is an API key; `times` how many requests are hit.

    All methods take `node_id` and `client_id` to hit only requests to that node, or of that client.
    """

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def fail(
        self, api: int, error_code: int, times: int = 1, *, node_id: int | None = None, client_id: str | None = None
    ) -> None:
        """Answer with an error code and do nothing. Raises `ValueError` if the API's answer has no place for one."""
        if not has_error_answer(api):
            raise ValueError(f"this broker has no error answer for API {api}")
        self._plan(Fault(FaultKind.ERROR, api, times, error_code=error_code, node_id=node_id, client_id=client_id))

    def delay(
        self, api: int, delay_ms: int, times: int = 1, *, node_id: int | None = None, client_id: str | None = None
    ) -> None:
        """Hold the answer back for `delay_ms` of the broker's clock."""
        self._plan(Fault(FaultKind.DELAY, api, times, delay_ms=delay_ms, node_id=node_id, client_id=client_id))

    def lose_reply(self, api: int, times: int = 1, *, node_id: int | None = None, client_id: str | None = None) -> None:
        """Do what the request asks and never answer."""
        self._plan(Fault(FaultKind.LOSE_REPLY, api, times, node_id=node_id, client_id=client_id))

    def drop(
        self,
        api: int,
        times: int = 1,
        *,
        applied: bool = False,
        node_id: int | None = None,
        client_id: str | None = None,
    ) -> None:
        """Close the connection instead of answering, before or (`applied`) after doing what the request asks."""
        kind = FaultKind.DROP_AFTER if applied else FaultKind.DROP_BEFORE
        self._plan(Fault(kind, api, times, node_id=node_id, client_id=client_id))

    def garbage(self, api: int, times: int = 1, *, node_id: int | None = None, client_id: str | None = None) -> None:
        """Do what the request asks and answer with bytes that mean nothing."""
        self._plan(Fault(FaultKind.GARBAGE, api, times, node_id=node_id, client_id=client_id))

    def cut_frame(self, api: int, times: int = 1, *, node_id: int | None = None, client_id: str | None = None) -> None:
        """Do what the request asks, send half of the answer and close the connection."""
        self._plan(Fault(FaultKind.CUT_FRAME, api, times, node_id=node_id, client_id=client_id))

    def clear(self) -> None:
        """Forget all faults that have not happened."""
        self._faults.clear()

    def pending(self) -> int:
        """How many faults are still to come."""
        return sum(fault.remaining for fault in list(self._faults))

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

    def _plan(self, fault: Fault) -> None:
        if fault.remaining < 1 or fault.delay_ms < 0:
            raise ValueError("a fault happens at least once, and later rather than earlier")
        if len(self._faults) >= MAX_PLANNED_FAULTS:
            raise ValueError(f"more than {MAX_PLANNED_FAULTS} faults are planned")
        self._faults.append(fault)
