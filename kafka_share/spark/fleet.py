"""Fleet: the lease agents of one streaming query as one. A batch is the union of what each of them leases.

For `stream_reader`. Mostly there is one agent, on the driver's host; with the option `agents` there is one on each host
that it names. A batch whose rows are not all there any more has none: what is left of it is given back.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from kafka_share.spark.agent_client import AgentClient
from kafka_share.spark.agent_config import KEY
from kafka_share.spark.failures import AgentGoneError

log: logging.Logger = logging.getLogger(__name__)

NO_LEASE: Final = 0
"""Instead of the number of a lease: the agent has given nothing to that batch."""
_OF_ALL: Final = ("oldest_lease_ms", "lag")
"""What is not counted by each agent for itself."""


@attrs.frozen
class FleetLease:
    """One batch: for each agent its lease, or `NO_LEASE`; and the records of all."""

    leases: tuple[int, ...]
    records: int


class Fleet:
    """`clients` in the order of the offset's agents. Used by one thread at a time."""

    def __init__(self, clients: Sequence[AgentClient]) -> None:
        self.clients: tuple[AgentClient, ...] = tuple(clients)
        self._turn = 0

    @property
    def folders(self) -> tuple[str, ...]:
        return tuple(str(client.folder) for client in self.clients)

    def attach(self, proof: str) -> bool:
        """Be the runner of all of them. False: they run with other options."""
        attached = [client.attach(proof) for client in self.clients]
        return all(attached)

    def acquire(self, starts: Sequence[int], most: int, wait_ms: int, *, drain: bool) -> FleetLease | None:
        """What comes behind the batch of `starts`, which is thereby committed; None: there is nothing.

        Where fewer records than agents are wanted they take turns; with `drain` all are asked before it is nothing.
        """
        if not any(starts):
            starts = [NO_LEASE] * len(self.clients)
        left = len(self.clients)
        while left > 0:
            shares = self._shares(most)
            leases = self._ask(starts, shares, wait_ms, drain=drain)
            if any(leases):
                numbers = tuple(lease[0] if lease else NO_LEASE for lease in leases)
                return FleetLease(numbers, sum(lease[1] for lease in leases if lease))
            left = left - sum(share > 0 for share in shares) if drain else 0
        return None

    def _shares(self, most: int) -> list[int]:
        """How many records each agent is asked for; what does not come out even goes round."""
        agents = len(self.clients)
        each, more = divmod(most, agents)
        shares = [each + ((index - self._turn) % agents < more) for index in range(agents)]
        self._turn = (self._turn + more) % agents
        return shares

    def _ask(
        self, starts: Sequence[int], shares: Sequence[int], wait_ms: int, *, drain: bool
    ) -> list[tuple[int, int] | None]:
        asked = [
            partial(client.acquire, start, share, wait_ms, drain=drain) if share else partial(_commit, client, start)
            for client, start, share in zip(self.clients, starts, shares, strict=True)
        ]
        for client in self.clients:
            if client.is_elsewhere:
                os.utime(client.folder / KEY)  # it is in use: see launch
        if len(asked) == 1:
            return [asked[0]()]
        with ThreadPoolExecutor(len(asked)) as at_once:
            return [answer.result() for answer in [at_once.submit(one) for one in asked]]

    def commit(self, leases: Sequence[int]) -> None:
        """There is proof that this batch is committed."""
        for client, lease in zip(self.clients, leases, strict=True):
            _commit(client, lease)

    def give_back(self, leases: Sequence[int]) -> None:
        """A part of this batch is gone, so it is replayed empty: release the rest."""
        for client, lease in zip(self.clients, leases, strict=True):
            if lease != NO_LEASE:
                client.give_back(lease)

    def counts(self) -> dict[str, int]:
        """What all of them have done so far."""
        total: dict[str, int] = {}
        for client in self.clients:
            for name, count in client.counts().items():
                before = total.get(name, 0)
                total[name] = max(before, count) if name in _OF_ALL else before + count
        return total

    def stop(self) -> None:
        """Have those that are still there release everything and end; hang up."""
        for client in self.clients:
            with contextlib.suppress(AgentGoneError):
                client.stop()
        self.close()

    def close(self) -> None:
        """Hang up. The agents take that for the end of a runner."""
        for client in self.clients:
            client.close()


def earlier_fleet(folders: Sequence[str], leases: Sequence[int], proof: str, *, is_committed: bool) -> Fleet | None:
    """The agents that a checkpoint names, if all of them live and have these options: by `proof`.

    If not, those that live release what they have and end; but what they leased to this batch is accepted if that is
    known to be committed.
    """
    found: dict[AgentClient, int] = {}
    for folder, lease in zip(folders, leases, strict=True):
        with contextlib.suppress(AgentGoneError):
            found[AgentClient(Path(folder))] = lease
    fleet = Fleet([*found])
    with contextlib.suppress(AgentGoneError):
        if len(found) == len(folders):
            if fleet.attach(proof):
                return fleet
            log.warning("the options have changed: what the agents of the earlier run hold is released")
    for client, lease in found.items():
        with contextlib.suppress(AgentGoneError):
            if is_committed:
                _commit(client, lease)
    fleet.stop()
    return None


def _commit(client: AgentClient, lease: int) -> None:
    if lease != NO_LEASE:
        client.commit(lease)
