"""AgentClient: how the driver's side of a query talks to a lease agent.

For the readers, the writer of decisions, the listener and the helpers. Agents of a user live in one folder, which only
that user may enter; an agent's name is enough to find it. A connection that breaks raises `AgentGoneError`.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from kafka_share.spark.agent_config import KEY, SOCKET, AgentAddress
from kafka_share.spark.channel import Channel
from kafka_share.spark.door import connected
from kafka_share.spark.driver_process import ELSEWHERE, driver_pid
from kafka_share.spark.failures import AgentGoneError, LeaseAgentError, LeaseLostError

_FETCH_S: Final = 60
_CONNECT_S: Final = 20
_ERRORS: Final = {"LeaseLostError": LeaseLostError}


@attrs.frozen
class SplitRows:
    """Where the rows of one split are: in it, or at the agent."""

    data: bytes
    index: int


@attrs.frozen
class SplitPlace:
    """Where a task fetches a split."""

    host: str
    port: int
    key: str = attrs.field(repr=False)
    lease: int
    index: int
    ca_file: str
    """Who has signed the agent's certificate; empty: it speaks no TLS."""


class AgentClient:
    """One connection to an agent. Used by one thread at a time."""

    def __init__(self, folder: Path, answer_s: float | None = None) -> None:
        """Raises `AgentGoneError` if there is no such agent. `answer_s`: how long to wait for answers; None: always."""
        self.folder: Path = folder
        try:
            self.address: AgentAddress = self.address_in(folder)
            sock = self._connected(answer_s)
        except (OSError, ValueError, TypeError) as error:
            raise AgentGoneError(f"there is no lease agent {folder.name} on this host (any more)") from error
        try:
            self._channel = Channel.connected(sock, bytes.fromhex(self.address.key))
        except EOFError as error:
            raise AgentGoneError(f"the lease agent {folder.name} has hung up") from error

    @staticmethod
    def address_in(folder: Path) -> AgentAddress:
        """Of the agent that has this folder. Raises OSError, ValueError or TypeError if it has none."""
        return AgentAddress(**json.loads((folder / KEY).read_text("utf-8")))

    def _connected(self, answer_s: float | None) -> socket.socket:
        if self.is_elsewhere:
            sock = connected(self.address.host, self.address.port, self.address.ca_file, answer_s or _CONNECT_S)
            sock.settimeout(answer_s)
            return sock
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(answer_s)
        try:
            sock.connect(str(self.folder / SOCKET))
        except OSError:
            sock.close()
            raise
        return sock

    @property
    def is_elsewhere(self) -> bool:
        """Whether the agent runs on another host."""
        return bool(self.address.host)

    def close(self) -> None:
        """Hang up. The agent takes that for the end of a runner, if this is one."""
        self._channel.close()

    def attach(self, proof: str) -> bool:
        """Be a runner from now on; `proof` is that of its options. False: the agent runs with other options."""
        driver = ELSEWHERE if self.is_elsewhere else driver_pid()
        reply, _ = self._ask("attach", session=secrets.token_hex(8), driver=driver, proof=proof)
        return bool(reply["attached"])

    def acquire(self, start: int, most: int, wait_ms: int, *, drain: bool) -> tuple[int, int] | None:
        """Number and records of the lease behind `start`, which is thereby committed; None: there is nothing."""
        reply, _ = self._ask("acquire", start=start, most=most, wait_ms=wait_ms, drain=drain)
        return None if reply["lease"] is None else (reply["lease"], reply["records"])

    def rows(self, lease: int, most_inline: int) -> list[SplitRows] | None:
        """The splits of a lease; those of more than `most_inline` bytes are fetched by the tasks. None: it is gone."""
        reply, blob = self._ask("rows", lease=lease, most_inline=most_inline)
        if reply["sizes"] is None:
            return None
        splits, at = [], 0
        for index, size in enumerate(reply["sizes"]):
            splits.append(SplitRows(blob[at : at + size], index))
            at += size
        return splits

    def commit(self, lease: int) -> None:
        """There is proof that the batch of this lease is committed."""
        self._ask("commit", lease=lease)

    def decide(self, lease: int, rows: Iterable[tuple[str, int, int, str]]) -> None:
        """What becomes of single records: of a streaming lease at its commit, of a batch lease now, which ends it."""
        self._ask("decide", lease=lease, decisions=[list(row) for row in rows])

    def give_back(self, lease: int) -> None:
        """Release a streaming lease: its batch is replayed empty."""
        self._ask("give_back", lease=lease)

    def settle(self, lease: int, rest: str) -> None:
        """End the lease of a batch read: ACCEPT or RELEASE."""
        self._ask("settle", lease=lease, rest=rest)

    def is_held(self, lease: int) -> bool:
        """Whether all records of the lease are still acquired."""
        reply, _ = self._ask("held", lease=lease)
        return bool(reply["held"])

    def is_batch(self) -> bool:
        """Whether its leases are those of a batch read."""
        reply, _ = self._ask("kind")
        return bool(reply["is_batch"])

    def counts(self) -> dict[str, int]:
        """What the agent has done so far."""
        reply, _ = self._ask("counts")
        counts: dict[str, int] = reply["counts"]
        return counts

    def status(self) -> dict[str, Any]:
        """What the agent has done so far, and its open leases."""
        reply, _ = self._ask("status")
        return reply

    def stop(self) -> None:
        """Have the agent release everything and end."""
        self._ask("stop")

    def _ask(self, request: str, **arguments: Any) -> tuple[dict[str, Any], bytes]:
        try:
            self._channel.send({"do": request, **arguments})
            reply, blob = self._channel.receive()
        except EOFError as error:
            raise AgentGoneError(f"the lease agent {self.folder.name} has ended or was killed; see its log") from error
        if "error" in reply:
            raise _ERRORS.get(reply["kind"], LeaseAgentError)(reply["error"])
        return reply, blob


def fetch_split(place: SplitPlace) -> bytes:
    """A task's way to a split that is at the agent. Raises `LeaseAgentError` if it cannot be had."""
    try:
        sock = connected(place.host, place.port, place.ca_file, _FETCH_S)
    except OSError as error:
        raise AgentGoneError(
            f"the lease agent cannot be reached at {place.host}:{place.port} ({error}): with executors on other hosts, "
            f"set dataPlaneHost to the driver's address, or dataPlane to inline"
        ) from error
    try:
        channel = Channel.connected(sock, bytes.fromhex(place.key))
        channel.send({"do": "split", "lease": place.lease, "index": place.index})
        reply, blob = channel.receive()
    except EOFError as error:
        raise AgentGoneError("the lease agent has hung up") from error
    finally:
        sock.close()
    if "error" in reply:
        raise LeaseAgentError(reply["error"])
    return blob


def find_agent(lease_id: str, folder: Path) -> tuple[AgentClient, int]:
    """The agent of a `leaseId`, and the number of the lease. Raises `AgentGoneError` if it has ended."""
    name, _, number = lease_id.rpartition("-")
    if not name.isalnum() or not number.isdecimal():
        raise LeaseAgentError("that is no leaseId of the source kafka_share")
    return AgentClient(folder / name), int(number)
