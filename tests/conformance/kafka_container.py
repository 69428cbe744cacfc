"""A real Apache Kafka in a Docker container, for machines that have Docker but neither Java nor Kafka's jars.

    with KafkaContainer("4.3.1", settings={"group.share.min.record.lock.duration.ms": "1000"}) as kafka:
        kafka.bootstrap_servers               # "127.0.0.1:20001"

Called by `kafka_targets`, which prefers the jars (`kafka_server`). It is one node with a PLAINTEXT listener and nothing
else: a test that kills nodes, or needs more of them, or security, is not for a container. testcontainers starts and
removes it, and is imported only when it is needed. Raises `KafkaUnavailableError` where no container can run, and
`KafkaFailedError`, with the end of the container's log, where Kafka does not start in it.

Shown so far: the choice and the container's configuration, by `test_kafka_container`; and, for 4.1.2 and 4.3.1, that
the class by which the image reads its environment makes of it a broker that answers. Not shown: a container that runs.
"""

from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from conformance.kafka_jars import KafkaUnavailableError
from conformance.kafka_probe import probe
from conformance.kafka_server import START_TIMEOUT_S, KafkaFailedError, free_ports, new_cluster_id
from conformance.kafka_settings import HOST, small_internal_topics
from support.waiting import happens_within

IMAGE: Final = "apache/kafka"
SHARE_GROUPS: Final = ("/opt/kafka/bin/kafka-features.sh", "upgrade", "--feature", "share.version=1")
"""What gives Kafka 4.1 share groups; the image cannot be told to format its storage with them."""

_CONTROLLER_PORT: Final = 9093
"""Inside the container, where nobody else can have it: the ports of the host that are chosen from are higher."""
_HEAP: Final = "-Xmx512m"
_HERE: Final = ("localhost", HOST)
_PORT_TAKEN: Final = ("port is already allocated", "address already in use")
_ATTEMPTS: Final = 3
_LOG_TAIL_LINES: Final = 15
_REASON_LENGTH: Final = 200


@functools.cache
def engine_problem() -> str | None:
    """Why no container can run here, in one line; None: a Docker engine answers. Asked once in a run."""
    with warnings.catch_warnings():
        # docker's client forgets its socket when nobody answers; collected here, where nobody is warned of it.
        warnings.simplefilter("ignore", ResourceWarning)
        problem = _ask_engine()
        gc.collect()
    return problem


def _ask_engine() -> str | None:
    try:
        from testcontainers.core.docker_client import DockerClient  # type: ignore[import-not-found, unused-ignore]
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the package, it is of no use here
        return f"testcontainers cannot be imported ({_line(error)})"
    try:
        engine = DockerClient()
        try:
            engine.client.ping()
            host = engine.host()
        finally:
            engine.client.close()
    except Exception as error:  # noqa: BLE001 - no socket, no permission, an odd answer: all mean that there is no engine
        return f"no Docker engine answers ({_line(error)})"
    # The broker advertises the loopback address, at which the ports of an engine elsewhere are not.
    return None if host in _HERE else f"the Docker engine's ports are at {host}, not on this machine"


class KafkaContainer:
    """A running broker; the constructor returns when it answers."""

    def __init__(self, version: str, *, settings: Mapping[str, str] | None = None) -> None:
        problem = engine_problem()
        if problem is not None:
            raise KafkaUnavailableError(problem)
        self.version = version
        for attempt in range(1, _ATTEMPTS + 1):
            with free_ports(1) as ports:
                self._port = ports[0]
            self._container = _configured(version, self._port, settings or {})
            try:
                self._start()
                return
            except BaseException as error:
                self.close()
                # Somebody else was quicker to take the port.
                if attempt == _ATTEMPTS or not any(text in str(error) for text in _PORT_TAKEN):
                    raise

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self._port}"

    def close(self) -> None:
        """End the broker and remove the container with its data."""
        self._container.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- starting

    def _start(self) -> None:
        from docker.errors import DockerException  # type: ignore[import-untyped, import-not-found, unused-ignore]

        try:
            self._container.start()
        except DockerException as error:
            # Most often the image is not here and its registry does not answer.
            raise KafkaUnavailableError(f"Docker did not start {IMAGE}:{self.version} ({_line(error)})") from error
        self._await_answer()
        if self.version.startswith("4.1."):
            tool, *arguments = SHARE_GROUPS
            self._run([tool, "--bootstrap-server", self.bootstrap_servers, *arguments])

    def _await_answer(self) -> None:
        def serves() -> bool:
            wrapped = self._container.get_wrapped_container()
            wrapped.reload()
            if wrapped.status in ("exited", "dead"):
                raise KafkaFailedError(f"the container of Kafka {self.version} ended:\n{self._tail()}")
            answer = probe(HOST, self._port)
            return answer is not None and answer.share_apis and bool(answer.node_ids)

        if not happens_within(serves, START_TIMEOUT_S):
            raise KafkaFailedError(f"the container of Kafka {self.version} does not answer:\n{self._tail()}")

    def _run(self, command: list[str]) -> None:
        code, output = self._container.exec(command)
        if code != 0:
            text = output.decode(errors="replace")[-2000:]
            raise KafkaFailedError(f"{command[0]} ended with {code} in the container: {text}")

    def _tail(self) -> str:
        text = b"".join(self._container.get_logs()).decode(errors="replace")
        return "\n".join(text.splitlines()[-_LOG_TAIL_LINES:])


def environment(port: int, settings: Mapping[str, str]) -> dict[str, str]:
    """What the image makes the broker's properties of: those that a node of jars has, in a container's addresses."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        # Not the bootstrap servers, as with the jars: the image formats the storage with no word on the first voters.
        "controller.quorum.voters": f"1@{HOST}:{_CONTROLLER_PORT}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://{HOST}:{_CONTROLLER_PORT}",
        # The same address for the broker itself, which calls its own coordinators, and for the tests outside.
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": "/tmp/kafka-data",
        **small_internal_topics(1),
        **settings,
    }
    named = {variable(name): value for name, value in properties.items()}
    return {**named, "CLUSTER_ID": new_cluster_id(), "KAFKA_HEAP_OPTS": _HEAP}


def variable(name: str) -> str:
    """The environment variable that the image takes a broker property from: "log.dirs" -> "KAFKA_LOG_DIRS"."""
    return "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _configured(version: str, port: int, settings: Mapping[str, str]) -> Any:
    from testcontainers.core.container import DockerContainer  # type: ignore[import-not-found, unused-ignore]

    container = DockerContainer(f"{IMAGE}:{version}").with_bind_ports(port, port)
    for name, value in environment(port, settings).items():
        container = container.with_env(name, value)
    return container


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:_REASON_LENGTH]
