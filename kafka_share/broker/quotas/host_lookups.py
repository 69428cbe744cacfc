"""Host names whose addresses the driver looks up, and the requests that wait for these.

Owned by the cluster. The handler of AlterClientQuotas adds requests, and whoever reads quotas from disk adds names; the
machine passes the names on to its driver, and what it found back. What it must not do: ask a resolver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.quotas.client_quotas import MAX_ENTITIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_share.broker.events import RequestContext
    from kafka_share.protocol.quotas import AlterClientQuotasRequest

MAX_LOOKUPS: Final = MAX_ENTITIES
"""Under way at once; at a start it may be all that have a quota. More are not begun: those hosts count as not found."""


@attrs.frozen(eq=False)
class WaitingRequest:
    """A request that names hosts."""

    context: RequestContext
    request: AlterClientQuotasRequest
    missing: dict[str, None] = attrs.field(factory=dict)
    """Hosts that have not been looked up yet."""
    addresses: dict[str, str] = attrs.field(factory=dict)
    """Of those that were found."""


class HostLookups:
    """Of one cluster. A name is looked up once, however many wait for it."""

    def __init__(self) -> None:
        self._under_way: dict[str, None] = {}
        self._new: list[str] = []
        self._waiting: list[WaitingRequest] = []

    def wait(self, context: RequestContext, request: AlterClientQuotasRequest, hosts: Iterable[str]) -> None:
        """Keep the request until all these hosts have been looked up."""
        waiting = WaitingRequest(context, request)
        waiting.missing.update((host, None) for host in hosts if self.look_up(host))
        self._waiting.append(waiting)

    def look_up(self, host: str) -> bool:
        """Have the host looked up, unless it is; returns whether that is possible now."""
        if host not in self._under_way:
            if len(self._under_way) >= MAX_LOOKUPS:
                return False
            self._under_way[host] = None
            self._new.append(host)
        return True

    def take_new(self) -> list[str]:
        """The names that the driver has to look up now."""
        new, self._new = self._new, []
        return new

    def looked_up(self, host: str, address: str | None) -> None:
        """What the driver has found."""
        self._under_way.pop(host, None)
        for waiting in self._waiting:
            if host in waiting.missing:
                del waiting.missing[host]
                if address is not None:
                    waiting.addresses[host] = address

    def take_done(self) -> list[WaitingRequest]:
        """The requests that need not wait any more."""
        if not self._waiting:
            return []
        done = [one for one in self._waiting if not one.missing]
        self._waiting = [one for one in self._waiting if one.missing]
        return done

    def connection_closed(self, connection_id: int) -> None:
        """Nobody waits on this connection any more."""
        self._waiting = [one for one in self._waiting if one.context.connection_id != connection_id]
