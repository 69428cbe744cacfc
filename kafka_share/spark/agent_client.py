"""AgentClient: how the driver's side of a query talks to its lease agent, and starts one.

For the readers, the writer of decisions, the listener and the helpers. Agents of a user live in one folder, which only
that user may enter; an agent's name is enough to find it. A connection that breaks raises `AgentGoneError`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from kafka_share.spark.agent_config import KEY, LOG, READY, SOCKET, AgentConfig
from kafka_share.spark.channel import KEY_BYTES, Channel
from kafka_share.spark.driver_process import driver_pid
from kafka_share.spark.failures import AgentGoneError, LeaseAgentError, LeaseLostError
from kafka_share.spark.lease import LeaseTerms
from kafka_share.spark.options import SourceOptions

MOST_SOCKET_PATH_BYTES: Final = 100
"""Of a Unix socket; the operating system allows a few more."""
_NO_LIMIT: Final = 2**31 - 1
_FETCH_S: Final = 60
_OLD_S: Final = 24 * 3_600
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
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(answer_s)
        try:
            keys = json.loads((folder / KEY).read_text("utf-8"))
            sock.connect(str(folder / SOCKET))
            self._channel = Channel.connected(sock, bytes.fromhex(keys["key"]))
        except (OSError, ValueError, EOFError) as error:
            sock.close()
            raise AgentGoneError(f"there is no lease agent {folder.name} on this host (any more)") from error
        self.data_key: str = keys["data_key"]
        self.data_port: int = keys["port"]
        self.group_id: str = keys["group"]

    def close(self) -> None:
        """Hang up. The agent takes that for the end of a runner, if this is one."""
        self._channel.close()

    def attach(self, options: SourceOptions) -> bool:
        """Be a runner from now on. False: the agent runs with other options."""
        proof = _proof(options)
        reply, _ = self._ask("attach", session=secrets.token_hex(8), driver=driver_pid(), proof=proof)
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
        sock = socket.create_connection((place.host, place.port), timeout=_FETCH_S)
        if place.ca_file:
            tls = ssl.create_default_context(cafile=place.ca_file)
            with contextlib.ExitStack() as on_failure:
                on_failure.callback(sock.close)
                sock = tls.wrap_socket(sock, server_hostname=place.host)
                on_failure.pop_all()
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


def start_agent(options: SourceOptions, name: str, *, is_batch: bool) -> AgentClient:
    """Start an agent of this name and connect to it; FileExistsError if there is or was one.

    Raises `LeaseAgentError` if it cannot run.
    """
    folder = _own_folder(options.agents_folder) / name
    if len(os.fsencode(folder / SOCKET)) > MOST_SOCKET_PATH_BYTES:
        raise LeaseAgentError(f"{folder} is too long for the path of a socket: set agentDir to a shorter one")
    folder.mkdir(mode=0o700)
    text = json.dumps(attrs.asdict(_config(options, folder, is_batch=is_batch)))
    ready, ready_of_agent = os.pipe()
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "kafka_share.spark.agent", str(ready_of_agent)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in map(os.path.abspath, sys.path) if path)},
            pass_fds=(ready_of_agent,),
            start_new_session=True,
        )
    threading.Thread(target=process.wait, name="agent-reaper", daemon=True).start()  # it leaves no zombie behind
    os.close(ready_of_agent)
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(text.encode())
    with open(ready, encoding="utf-8") as told:
        answer = told.read()
    if answer != READY:
        raise LeaseAgentError(f"the lease agent cannot run: {answer or f'see {folder / LOG}'}")
    return AgentClient(folder)


def _config(options: SourceOptions, folder: Path, *, is_batch: bool) -> AgentConfig:
    terms = LeaseTerms(
        grace_ms=options.grace_ms,
        max_replays=_NO_LIMIT if is_batch else options.max_replays,
        max_lease_ms=options.max_lease_ms,
        ttl_ms=options.lease_ttl_ms if is_batch else None,
        renews=options.renew,
        renew_fraction=options.renew_fraction,
    )
    return AgentConfig(
        folder=str(folder),
        key=secrets.token_hex(KEY_BYTES),
        data_key=secrets.token_hex(KEY_BYTES),
        proof=_proof(options),
        topics=list(options.topics),
        settings=options.consumer_settings(),
        terms=attrs.asdict(terms),
        max_bytes=options.max_bytes,
        reject_after=options.reject_after,
        fail_on_data_loss=options.fail_on_data_loss,
        include_headers=options.include_headers,
        split_bytes=options.split_bytes,
        min_splits=options.min_partitions or os.cpu_count() or 1,
        data_host="" if options.data_plane == "inline" else options.data_plane_host,
        data_cert_file=os.path.abspath(options.data_cert_file) if options.data_cert_file else "",
        data_key_file=os.path.abspath(options.data_key_file) if options.data_key_file else "",
        metrics_host=options.metrics_host,
        metrics_port=options.metrics_port,
    )


def _proof(options: SourceOptions) -> str:
    """Equal for equal options, those that name secrets included, and telling nothing of them."""
    text = repr(attrs.asdict(attrs.evolve(options, load_id="")))
    return hmac.digest(b"kafka_share.spark", text.encode(), hashlib.sha256).hex()


def _own_folder(folder: Path) -> Path:
    """The folder of this user's agents; agents that ended long ago have left only their logs there, which go now."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or not folder.is_dir() or folder.is_symlink():
        raise LeaseAgentError(f"{folder} belongs to somebody else, or others may enter it: set agentDir to another one")
    for one in folder.iterdir():
        if one.is_dir() and time.time() - one.stat().st_mtime > _OLD_S and not (one / SOCKET).exists():
            shutil.rmtree(one, ignore_errors=True)
    return folder


def find_agent(lease_id: str, folder: Path) -> tuple[AgentClient, int]:
    """The agent of a `leaseId`, and the number of the lease. Raises `AgentGoneError` if it has ended."""
    name, _, number = lease_id.rpartition("-")
    if not name.isalnum() or not number.isdecimal():
        raise LeaseAgentError("that is no leaseId of the source kafka_share")
    return AgentClient(folder / name), int(number)


def new_agent_name() -> str:
    """Unique."""
    return secrets.token_hex(8)
