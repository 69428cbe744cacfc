"""AgentHosts: hosts of lease agents as processes, on addresses of their own. For the tests of several agents."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, Self

from support.waiting import wait_until

from kafka_share.spark.agent_config import LOG

HOSTS: Final = ("127.0.0.5", "127.0.0.6")


def pid_of(folder: Path) -> int | None:
    """The process that has the log of an agent open; None if there is none."""
    log = (folder / LOG).resolve()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):
                if (process / "fd" / "2").resolve() == log:
                    return int(process.name)
    return None


class AgentHosts:
    """`kafka_share.spark.agent_host` on each of HOSTS; `certificate` and `authority`: files, for TLS."""

    def __init__(self, certificate: str = "", authority: str = "") -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="ks-", ignore_cleanup_errors=True)
        self._folder = Path(self._temporary.name)
        self._key_file = self._folder / "key"
        self._key_file.write_text(secrets.token_hex(32))
        self._certificate, self._authority = certificate, authority
        self._processes = [self._started(host) for host in HOSTS]
        self._places = ",".join(_place_of(process) for process in self._processes)

    def options(self) -> dict[str, str]:
        """Options of a query that has its agents here."""
        return {"agents": self._places, "agentsKeyFile": str(self._key_file), "dataPlaneCaFile": self._authority}

    def agents(self, host: str) -> list[int]:
        """The processes of the agents that run on this host."""
        folder = self._folder / host
        pids = [pid_of(one) for one in folder.iterdir()] if folder.exists() else []
        return [pid for pid in pids if pid is not None]

    def names(self, host: str) -> list[str]:
        """Of all agents that this host has started."""
        folder = self._folder / host
        return [one.name for one in folder.iterdir()] if folder.exists() else []

    def kill_agents(self, host: str) -> None:
        for pid in self.agents(host):
            os.kill(pid, signal.SIGKILL)

    def _started(self, host: str) -> subprocess.Popen[str]:
        command = ["--listen", f"{host}:0", "--key-file", str(self._key_file), "--agent-dir", str(self._folder / host)]
        certificate = ["--cert-file", self._certificate] if self._certificate else []
        return subprocess.Popen(
            [sys.executable, "-m", "kafka_share.spark.agent_host", *command, *certificate],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        for host in HOSTS:
            self.kill_agents(host)
        wait_until(lambda: not any(map(self.agents, HOSTS)), "agents are left")
        self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _place_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listening on "), line
    return line.split()[-1]
