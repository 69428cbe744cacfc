"""A real Apache Kafka cluster on this machine, without Docker: for tests, and by hand (`python kafka_server.py 4.3.1`).

    with KafkaServer("4.3.1", nodes=3, settings={"group.share.min.record.lock.duration.ms": "1000"}) as kafka:
        kafka.bootstrap_servers               # "127.0.0.1:20001,127.0.0.1:20005,127.0.0.1:20009"
        kafka.kill(2); kafka.restart(2)       # kill -9, and the same data again

Each cluster has free ports, a folder of its own under the system's temporary one, and a keeper process that ends it
when the owner ends, however that happens (see `support.keeper`). Raises `KafkaUnavailableError` where no Kafka can run,
and `KafkaFailedError`, with the end of the node's log, where one does not start.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, Self

from conformance.kafka_jars import VERSIONS, KafkaUnavailableError, class_path
from conformance.kafka_probe import probe
from conformance.kafka_settings import (
    HOST,
    LOGGING,
    Certificates,
    Plan,
    Security,
    make_certificates,
    scram_credentials,
    write_properties,
)
from support.keeper import Keeper
from support.waiting import happens_within

__all__ = ["VERSIONS", "KafkaFailedError", "KafkaServer", "KafkaUnavailableError", "Security"]

START_TIMEOUT_S: Final = 120
STOP_TIMEOUT_S: Final = 60
FEATURES: Final = ("share.version=1",)
"""Kafka 4.1 has share groups only when they are asked for; later versions have them anyway."""

_PORTS: Final = range(15_000, 30_000)
"""Below those that operating systems give to outgoing connections: a node that restarts finds its port free."""
_CHANCE: Final = random.SystemRandom()
"""Not the generator that tests seed alike in each process: two clusters would try the same ports."""
_ATTEMPTS: Final = 3
_LOG_TAIL_LINES: Final = 15
_LIGHT_COMPILER: Final = "-XX:TieredStopAtLevel=1"


class KafkaFailedError(RuntimeError):
    """A node did not start, ended by itself, or was told something that cannot be done."""


class KafkaServer:
    """A running cluster; the constructor returns when every node answers and knows the others."""

    def __init__(
        self,
        version: str,
        *,
        nodes: int = 1,
        settings: Mapping[str, str] | None = None,
        security: Security | None = None,
        features: Sequence[str] = FEATURES,
        heap: str = "512m",
        starts_quickly: bool = False,
    ) -> None:
        """`starts_quickly`: for a minute of tests, a third of which Java would spend on compiling thoroughly."""
        if not 1 <= nodes <= 3:
            raise ValueError(f"a test cluster has 1 to 3 nodes, not {nodes}")
        self.version = version
        self.nodes = nodes
        self.certificates: Certificates | None = None
        """Of the listeners SASL_SSL and SSL, if the cluster is secured."""
        self._options = [f"-Xmx{heap}", "-XX:+UseSerialGC", *([_LIGHT_COMPILER] if starts_quickly else [])]
        self._jars = class_path(version)
        for attempt in range(1, _ATTEMPTS + 1):
            self._folder = Path(tempfile.mkdtemp(prefix=f"kafka-{version}-"))
            self._keeper = Keeper(self._folder)
            try:
                self._start(settings or {}, security, features)
                return
            except BaseException as error:
                self.close()
                # Somebody else was quicker to take one of the ports.
                if attempt == _ATTEMPTS or "Address already in use" not in str(error):
                    raise

    # ---- the cluster

    def bootstrap(self, listener: str = "PLAINTEXT") -> str:
        """The nodes' addresses of one listener: PLAINTEXT, or one of `kafka_settings.SECURED`."""
        return ",".join(f"{HOST}:{ports[listener]}" for ports in self._ports)

    @property
    def bootstrap_servers(self) -> str:
        return self.bootstrap()

    def kill(self, node: int) -> None:
        """End a node (1 is the controller too) as a crash would: kill -9."""
        self._end(node, signal.SIGKILL)

    def stop(self, node: int) -> None:
        """End a node in good order: it hands its partitions over first."""
        self._end(node, signal.SIGTERM)

    def restart(self, node: int) -> None:
        """Start an ended node on its old data and its old port; returns when it answers."""
        if self._keeper.exit_code(str(node)) is None:
            raise KafkaFailedError(f"node {node} is running")
        self._launch(node)
        self._await_answer([node])

    def run_class(self, name: str, *arguments: str) -> str:
        """Run one of Kafka's own classes, such as a command-line tool; returns what it printed."""
        command = [*self._java(_LIGHT_COMPILER), name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise KafkaFailedError(f"{name} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout

    def log(self, node: int) -> str:
        """What a node has logged so far."""
        file = self._log_file(node)
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def close(self) -> None:
        """End all nodes and remove their data. Calling it again does nothing."""
        self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- starting

    def _start(self, settings: Mapping[str, str], security: Security | None, features: Sequence[str]) -> None:
        (self._folder / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        if security is not None:
            self.certificates = make_certificates(self._folder / "tls")
        self._cluster_id = new_cluster_id()
        members = range(1, self.nodes + 1)
        with free_ports(1 + self.nodes * 4) as ports:
            plan = Plan(self.nodes, ports[0], settings, security, self.certificates)
            self._ports = [dict(zip(plan.listeners, ports[1 + 4 * i :], strict=False)) for i in range(self.nodes)]
            for node in members:
                file = self._folder / f"node{node}.properties"
                write_properties(file, plan, node, self._ports[node - 1], self._folder / f"data{node}")
                self._format(node, file, features, security)
        for node in members:
            self._launch(node)
        self._await_answer(members)

    def _format(self, node: int, file: Path, features: Sequence[str], security: Security | None) -> None:
        quorum = "--standalone" if node == 1 else "--no-initial-controllers"
        wanted = [text for feature in features for text in ("--feature", feature)]
        where = ["--cluster-id", self._cluster_id, "--config", str(file)]
        self.run_class("kafka.tools.StorageTool", "format", *where, quorum, *wanted, *scram_credentials(security))

    def _launch(self, node: int) -> None:
        command = [*self._java(*self._options), "kafka.Kafka", str(self._folder / f"node{node}.properties")]
        self._keeper.start(str(node), command, self._log_file(node))

    def _java(self, *options: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        return ["java", *options, logging, "-cp", self._jars]

    def _await_answer(self, nodes: Iterable[int]) -> None:
        """Until these nodes answer, belong to this cluster, and know all nodes that run."""
        running = frozenset(n for n in range(1, self.nodes + 1) if self._keeper.exit_code(str(n)) is None)
        for node in nodes:
            port = self._ports[node - 1]["PLAINTEXT"]

            def serves(node: int = node, port: int = port) -> bool:
                code = self._keeper.exit_code(str(node))
                if code is not None:
                    raise KafkaFailedError(
                        f"node {node} of Kafka {self.version} ended with {code}:\n{self._tail(node)}"
                    )
                answer = probe(HOST, port)
                if answer is not None and answer.cluster_id not in (None, "", self._cluster_id):
                    raise KafkaFailedError(f"Address already in use: port {port} answers for {answer.cluster_id}")
                return answer is not None and answer.share_apis and answer.node_ids >= running

            if not happens_within(serves, START_TIMEOUT_S):
                raise KafkaFailedError(f"node {node} of Kafka {self.version} does not answer:\n{self._tail(node)}")

    def _end(self, node: int, number: signal.Signals) -> None:
        if self._keeper.exit_code(str(node)) is not None:
            raise KafkaFailedError(f"node {node} is not running")
        self._keeper.signal(str(node), number)
        if not happens_within(lambda: self._keeper.exit_code(str(node)) is not None, STOP_TIMEOUT_S):
            raise KafkaFailedError(f"node {node} did not end within {STOP_TIMEOUT_S} s after {number.name}")

    def _log_file(self, node: int) -> Path:
        return self._folder / f"node{node}.log"

    def _tail(self, node: int) -> str:
        return "\n".join(self.log(node).splitlines()[-_LOG_TAIL_LINES:])


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Ports that nobody listens on, kept from others until the block ends."""
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for port in _CHANCE.sample(_PORTS, len(_PORTS)):
            taken = held.enter_context(socket.socket())
            try:
                taken.bind((HOST, port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                break
        else:
            raise KafkaFailedError(f"there are no {count} free ports in {_PORTS}")
        yield found


def new_cluster_id() -> str:
    """22 characters of url-safe base64, as Kafka writes its ids; those that begin with "-" look like an option."""
    while (text := base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass
    return text


# ---- by hand


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Run a real Apache Kafka until Ctrl-C, SIGTERM or the end of input. Lines of standard input: "
        "kill N, stop N, restart N, log N."
    )
    parser.add_argument("version", help=f"for example {', '.join(VERSIONS)}")
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 2, 3))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker setting")
    parser.add_argument("--feature", action="append", default=[], metavar="NAME=LEVEL", help="default: share.version=1")
    parser.add_argument("--user", action="append", default=[], metavar="NAME:PASSWORD", help="adds TLS and SASL")
    parser.add_argument("--acls", action="store_true", help="allow only what ACLs allow")
    return parser.parse_args()


def _obey(kafka: KafkaServer, line: str) -> str:
    commands: Mapping[str, Callable[[int], object]] = {
        "kill": kafka.kill,
        "stop": kafka.stop,
        "restart": kafka.restart,
        "log": kafka.log,
    }
    try:
        name, number = line.split()
        return str(commands[name](int(number)) or "done")
    except (ValueError, KeyError, IndexError, KafkaFailedError) as error:
        return f"{line.strip()!r} was not done: {error}"


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    given = _arguments()
    signal.signal(signal.SIGTERM, _interrupt)
    users = dict(user.split(":", 1) for user in given.user)
    security = Security(users, acls=given.acls) if users or given.acls else None
    settings = dict(setting.split("=", 1) for setting in given.set)
    features = given.feature or FEATURES
    try:
        with KafkaServer(
            given.version, nodes=given.nodes, settings=settings, security=security, features=features
        ) as kafka:
            print(f"bootstrap: {kafka.bootstrap_servers}", flush=True)  # noqa: T201
            if security is not None:
                for listener in ("SASL_PLAINTEXT", "SASL_SSL", "SSL"):
                    print(f"{listener}: {kafka.bootstrap(listener)}", flush=True)  # noqa: T201
                print(kafka.certificates, flush=True)  # noqa: T201
            for line in sys.stdin:
                print(_obey(kafka, line), flush=True)  # noqa: T201
    except KeyboardInterrupt:
        pass
    except (KafkaUnavailableError, KafkaFailedError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
