"""How the lease agents of this user on this host stand: for `kafka-share watch`. Needs neither Spark nor pyarrow.

Asking costs an agent nothing: it does not count as a runner. An agent that ends meanwhile, or does not answer soon, is
left out.
"""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any, Final

import attrs

from kafka_share.spark.agent_client import AgentClient
from kafka_share.spark.agent_config import KEY
from kafka_share.spark.failures import LeaseAgentError
from kafka_share.spark.options import agents_folder

log: logging.Logger = logging.getLogger(__name__)

_ANSWER_S: Final = 2.0


@attrs.frozen
class LeaseStatus:
    """One open lease. `age_ms` counts from its acquisition."""

    number: int
    age_ms: int
    records: int
    renewals: int
    """How often all of its locks were renewed."""
    records_lost: int
    replays: int


@attrs.frozen
class AgentStatus:
    """One agent; `counts` as in the progress of its query."""

    name: str
    is_batch: bool
    counts: dict[str, int]
    leases: tuple[LeaseStatus, ...]


def agents_of_group(group_id: str, agent_dir: str = "") -> tuple[AgentStatus, ...]:
    """The agents that are members of this group, by their names. `agent_dir` is the option agentDir of the source."""
    if not hasattr(socket, "AF_UNIX"):
        return ()  # Windows has no agents
    folder = agents_folder(agent_dir)
    if not _is_own(folder):
        return ()
    found = (_status(one, group_id) for one in sorted(folder.iterdir()) if (one / KEY).exists())
    return tuple(status for status in found if status is not None)


def _is_own(folder: Path) -> bool:
    """Somebody else's folder has none of this user's agents."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return folder.is_dir() and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _status(folder: Path, group_id: str) -> AgentStatus | None:
    try:
        client = AgentClient(folder, answer_s=_ANSWER_S)
    except LeaseAgentError as error:
        log.debug("%s", error)
        return None
    try:
        if client.address.group_id != group_id:
            return None
        return _status_of(folder.name, client.status())
    except LeaseAgentError as error:
        log.debug("%s", error)
        return None
    finally:
        client.close()


def _status_of(name: str, document: dict[str, Any]) -> AgentStatus:
    leases = tuple(LeaseStatus(**lease) for lease in document["leases"])
    return AgentStatus(name, document["is_batch"], document["counts"], leases)
