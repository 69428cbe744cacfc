"""What is to become of single requests: refused, lost, applied but not answered, answered late.

Planned by the fault plan, taken by the broker of the simulation when a request arrives.
"""

from __future__ import annotations

import enum

import attrs

from kafka_share.broker.api_keys import api_key_of
from kafka_share.broker.events import RequestContext


class FateKind(enum.Enum):
    LOSE_REQUEST = "lost request"
    """Never arrives, nor anything behind it on the connection."""
    LOSE_REPLY = "lost reply"
    """Applied; no answer ever comes, nor any later one on the connection."""
    CUT_BEFORE = "cut before"
    """Not applied; the connection breaks."""
    CUT_AFTER = "cut after"
    """Applied; the connection breaks instead of an answer."""
    DELAY = "late reply"
    """Applied; the answer comes `number` ms later."""
    ERROR = "error answer"
    """Not applied; the answer is the error code `number`."""


@attrs.define(eq=False)
class Fate:
    """For the next `remaining` requests of an API, of one client or any."""

    kind: FateKind
    api_key: int
    client: str | None
    number: int = 0
    remaining: int = 1

    @property
    def name(self) -> str:
        return f"error answer {self.number}" if self.kind is FateKind.ERROR else self.kind.value


class Fates:
    """Fates that have not happened yet; a request takes the first that fits."""

    def __init__(self) -> None:
        self._planned: list[Fate] = []

    def plan(self, fate: Fate) -> None:
        api_key_of(fate.api_key)
        self._planned.append(fate)

    def clear(self) -> None:
        self._planned.clear()

    def take(self, context: RequestContext) -> Fate | None:
        for fate in self._planned:
            if fate.api_key == context.api_key and fate.client in (None, context.client_id):
                fate.remaining -= 1
                if not fate.remaining:
                    self._planned.remove(fate)
                return fate
        return None
