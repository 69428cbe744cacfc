"""AgentServer: the requests to a lease agent. One thread per connection reads a request, asks the desk, and answers.

Its doors: for everything a Unix socket that only this user can open, or a TCP port if the driver is on another host;
and a TCP port for tasks that fetch large splits and know the agent's data key, for nothing else.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from kafka_share.errors import KafkaShareError
from kafka_share.records import AcknowledgeType
from kafka_share.spark.channel import Channel
from kafka_share.spark.door import BACKLOG, Door
from kafka_share.spark.driver_process import ELSEWHERE
from kafka_share.spark.failures import LeaseAgentError
from kafka_share.spark.lease import Place
from kafka_share.spark.lease_desk import LeaseDesk

log: logging.Logger = logging.getLogger(__name__)

Reply = tuple[dict[str, Any], bytes]


class AgentServer:
    """`watch` is told the process of each driver on this host that attaches."""

    def __init__(self, desk: LeaseDesk, watch: Callable[[int], None], config_proof: str) -> None:
        self._desk = desk
        self._watch = watch
        self._config_proof = config_proof
        self._doors: list[Door] = []

    def listen(self, path: Path, key: bytes) -> None:
        """Open the door for drivers on this host. Raises OSError if it cannot be opened."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        path.chmod(0o600)
        self._open(listener, key, _DRIVERS, None)

    def listen_for_drivers(self, host: str, key: bytes, tls: ssl.SSLContext | None) -> int:
        """Open the door for a driver on another host; returns its port. Raises OSError if it cannot be opened."""
        return self._open(socket.create_server((host, 0), backlog=BACKLOG), key, _DRIVERS, tls).port

    def listen_for_tasks(self, host: str, key: bytes, tls: ssl.SSLContext | None) -> int:
        """Open the door for tasks; returns its port. Raises OSError if it cannot be opened."""
        return self._open(socket.create_server((host, 0), backlog=BACKLOG), key, _TASKS, tls).port

    def _open(
        self, listener: socket.socket, key: bytes, requests: Mapping[str, _Request], tls: ssl.SSLContext | None
    ) -> Door:
        door = Door(listener, key, partial(self._converse, requests), tls)
        door.open()
        self._doors.append(door)
        return door

    def _converse(self, requests: Mapping[str, _Request], channel: Channel) -> None:
        conversation = _Conversation(self._desk, self._watch, self._config_proof)
        try:
            while True:
                document, _ = channel.receive()
                channel.send(*_answer(conversation, document, requests))
        finally:
            conversation.ended()

    def close(self) -> None:
        """Take no further connections."""
        for door in self._doors:
            door.close()


class _Conversation:
    """One connection: it is a runner's from its `attach` on."""

    def __init__(self, desk: LeaseDesk, watch: Callable[[int], None], config_proof: str) -> None:
        self.desk = desk
        self.session: str | None = None
        self._watch = watch
        self._config_proof = config_proof

    def attach(self, session: str, driver_pid: int, config_proof: str) -> bool:
        """Whether the agent runs with the options of this runner; without, it cannot attach."""
        if config_proof != self._config_proof:
            return False
        self.session = session
        self.desk.attached(session, driver_pid)
        if driver_pid != ELSEWHERE:
            self._watch(driver_pid)
        return True

    def attached_session(self) -> str:
        if self.session is None:
            raise LeaseAgentError("only a runner that has attached may ask for this")
        return self.session

    def ended(self) -> None:
        if self.session is not None:
            self.desk.detached(self.session)


_Request = Callable[[_Conversation, dict[str, Any]], Reply]


def _answer(conversation: _Conversation, document: dict[str, Any], requests: Mapping[str, _Request]) -> Reply:
    try:
        request = requests.get(str(document.get("do")))
        if request is None:
            raise LeaseAgentError("the lease agent knows no such request: its version may be another one")
        return request(conversation, document)
    except KafkaShareError as error:
        return {"error": str(error), "kind": type(error).__name__}, b""
    except Exception as error:  # whatever it is, the other side must not wait for ever
        log.exception("a request failed")
        return {"error": f"a defect of the lease agent: {error!r}", "kind": "LeaseAgentError"}, b""


def _attach(conversation: _Conversation, document: dict[str, Any]) -> Reply:
    is_same = conversation.attach(str(document["session"]), int(document["driver"]), str(document["proof"]))
    return {"attached": is_same}, b""


def _acquire(conversation: _Conversation, document: dict[str, Any]) -> Reply:
    lease = conversation.desk.acquire(
        conversation.attached_session(),
        int(document["start"]),
        int(document["most"]),
        int(document["wait_ms"]),
        drain=bool(document["drain"]),
    )
    return ({"lease": lease.number, "records": lease.records} if lease else {"lease": None}), b""


def _rows(conversation: _Conversation, document: dict[str, Any]) -> Reply:
    splits = conversation.desk.rows(conversation.attached_session(), int(document["lease"]))
    if splits is None:
        return {"sizes": None}, b""
    inline = [split if len(split) <= document["most_inline"] else b"" for split in splits]
    return {"sizes": [len(split) for split in inline]}, b"".join(inline)


def _split(conversation: _Conversation, document: dict[str, Any]) -> Reply:
    return {}, conversation.desk.split(int(document["lease"]), int(document["index"]))


def _commit(conversation: _Conversation, document: dict[str, Any]) -> Reply:
    conversation.desk.commit(int(document["lease"]))
    return {}, b""


def _decide(conversation: _Conversation, document: dict[str, Any]) -> Reply:
    decisions = decisions_of(document["decisions"])
    if conversation.desk.is_batch:
        conversation.desk.settle(int(document["lease"]), decisions, AcknowledgeType.RELEASE)
    else:
        conversation.desk.decide(int(document["lease"]), decisions)
    return {}, b""


def _give_back(conversation: _Conversation, document: dict[str, Any]) -> Reply:
    conversation.desk.give_back(conversation.attached_session(), int(document["lease"]))
    return {}, b""


def _settle(conversation: _Conversation, document: dict[str, Any]) -> Reply:
    if not conversation.desk.is_batch:
        raise LeaseAgentError("the lease of a streaming query ends with its batch, and in no other way")
    conversation.desk.settle(int(document["lease"]), {}, AcknowledgeType[document["rest"]])
    return {}, b""


def _held(conversation: _Conversation, document: dict[str, Any]) -> Reply:
    return {"held": conversation.desk.is_held(int(document["lease"]))}, b""


def _counts(conversation: _Conversation, _: dict[str, Any]) -> Reply:
    return {"counts": conversation.desk.counts()}, b""


def _status(conversation: _Conversation, _: dict[str, Any]) -> Reply:
    desk = conversation.desk
    return {"is_batch": desk.is_batch, "counts": desk.counts(), "leases": desk.leases()}, b""


def _kind(conversation: _Conversation, _: dict[str, Any]) -> Reply:
    return {"is_batch": conversation.desk.is_batch}, b""


def _stop(conversation: _Conversation, _: dict[str, Any]) -> Reply:
    conversation.desk.stopped("a driver with other options has asked for it")
    return {}, b""


_DRIVERS: Final[Mapping[str, _Request]] = MappingProxyType(
    {
        "attach": _attach,
        "acquire": _acquire,
        "rows": _rows,
        "split": _split,
        "commit": _commit,
        "decide": _decide,
        "give_back": _give_back,
        "settle": _settle,
        "held": _held,
        "counts": _counts,
        "status": _status,
        "kind": _kind,
        "stop": _stop,
    }
)
_TASKS: Final[Mapping[str, _Request]] = MappingProxyType({"split": _split})


def decisions_of(rows: list[list[Any]]) -> dict[Place, AcknowledgeType]:
    """Decisions as they travel: topic, partition, offset, name of the type. RENEW is none."""
    decisions: dict[Place, AcknowledgeType] = {}
    for topic, partition, offset, name in rows:
        if name not in ("ACCEPT", "RELEASE", "REJECT"):
            raise LeaseAgentError("a decision about a record is ACCEPT, RELEASE or REJECT")
        decisions[str(topic), int(partition), int(offset)] = AcknowledgeType[name]
    return decisions
