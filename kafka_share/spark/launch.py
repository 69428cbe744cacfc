"""Starts the process of a lease agent, and waits until it listens.

For the driver's side of a query, and for the host of agents. Needs no Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import attrs

from kafka_share.spark.agent_config import KEY, LOG, READY, SOCKET, AgentConfig
from kafka_share.spark.failures import LeaseAgentError

MOST_SOCKET_PATH_BYTES: Final = 100
"""Of a Unix socket; the operating system allows a few more."""
_OLD_S: Final = 24 * 3_600


def new_folder(agents_folder: Path, name: str) -> Path:
    """The folder of a new agent; FileExistsError if there is or was one.

    Raises `LeaseAgentError` if there can be none.
    """
    folder = _own_folder(agents_folder) / name
    if len(os.fsencode(folder / SOCKET)) > MOST_SOCKET_PATH_BYTES:
        raise LeaseAgentError(f"{folder} is too long for the path of a socket: set agentDir to a shorter one")
    folder.mkdir(mode=0o700)
    return folder


def launch_agent(config: AgentConfig) -> None:
    """Start the process in its folder. Raises `LeaseAgentError` if it cannot run."""
    log_file = Path(config.folder) / LOG
    ready, ready_of_agent = os.pipe()
    with log_file.open("wb") as log:
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
        stdin.write(json.dumps(attrs.asdict(config)).encode())
    with open(ready, encoding="utf-8") as told:
        answer = told.read()
    if answer != READY:
        raise LeaseAgentError(f"the lease agent cannot run: {answer or f'see {log_file}'}")


def _own_folder(folder: Path) -> Path:
    """The folder of this user's agents; agents that ended long ago have left only their logs there, which go now."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or not folder.is_dir() or folder.is_symlink():
        raise LeaseAgentError(f"{folder} belongs to somebody else, or others may enter it: set agentDir to another one")
    for one in folder.iterdir():
        if one.is_dir() and time.time() - _used_at_s(one) > _OLD_S and not (one / SOCKET).exists():
            shutil.rmtree(one, ignore_errors=True)
    return folder


def _used_at_s(folder: Path) -> float:
    """That of an agent on another host has the address only, which is touched with each batch."""
    address = folder / KEY
    return address.stat().st_mtime if address.exists() else folder.stat().st_mtime
