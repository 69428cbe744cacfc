"""What a real Kafka runs from, and how its container is configured: with fakes of testcontainers and of the jars."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Self

import pytest
from conformance import kafka_container, kafka_targets
from conformance.kafka_container import KafkaContainer, engine_problem
from conformance.kafka_jars import KafkaUnavailableError
from conformance.kafka_probe import Answer
from conformance.kafka_server import KafkaFailedError
from conformance.kafka_settings import Security

pytestmark = pytest.mark.one_python
SETTINGS = {"group.share.min.record.lock.duration.ms": "1000"}
NO_JARS = "there are no jars"


class DockerFailedError(Exception):
    """Stands for docker's DockerException."""


class Engine:
    """A Docker engine, as far as testcontainers' client shows it; `wrong` is what its calls raise."""

    wrong: Exception | None = None
    address = "localhost"
    pings = 0
    closed = 0

    @property
    def client(self) -> Self:
        return self

    def ping(self) -> bool:
        type(self).pings += 1
        if self.wrong is not None:
            raise self.wrong
        return True

    def host(self) -> str:
        return self.address

    def close(self) -> None:
        type(self).closed += 1


class Container:
    """testcontainers' container; `made` are all of the test, `refusals` what the next starts raise."""

    made: list[Container]
    refusals: list[Exception]
    exit_code = 0

    def __init__(self, image: str) -> None:
        self.image = image
        self.env: dict[str, str] = {}
        self.ports: dict[int, int] = {}
        self.commands: list[list[str]] = []
        self.status = "created"
        self.made.append(self)

    def with_env(self, key: str, value: str) -> Self:
        self.env[key] = value
        return self

    def with_bind_ports(self, container: int, host: int) -> Self:
        self.ports[container] = host
        return self

    def start(self) -> Self:
        if self.refusals:
            raise self.refusals.pop(0)
        self.status = "running"
        return self

    def stop(self) -> None:
        self.status = "removed"

    def get_wrapped_container(self) -> Self:
        return self

    def reload(self) -> None:
        pass

    def exec(self, command: list[str]) -> tuple[int, bytes]:
        self.commands.append(command)
        return self.exit_code, b"what the tool said"

    def get_logs(self) -> tuple[bytes, bytes]:
        return b"first\nlast words\n", b""


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Container]]:
    """testcontainers and a broker that answers at once."""

    class FreshEngine(Engine):
        pass

    class FreshContainer(Container):
        made: list[Container] = []  # noqa: RUF012 - one list for each test
        refusals: list[Exception] = []  # noqa: RUF012 - one list for each test

    def answer(_: str, port: int) -> Answer | None:
        container = FreshContainer.made[-1]
        assert container.ports == {port: port}
        return Answer("id", frozenset({1}), share_apis=True)

    _put(monkeypatch, "testcontainers.core.docker_client", DockerClient=FreshEngine)
    _put(monkeypatch, "testcontainers.core.container", DockerContainer=FreshContainer)
    _put(monkeypatch, "docker.errors", DockerException=DockerFailedError)
    monkeypatch.setattr(kafka_container, "probe", answer)
    engine_problem.cache_clear()
    yield FreshContainer
    engine_problem.cache_clear()


def _put(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


def _engine() -> type[Engine]:
    found: type[Engine] = vars(sys.modules["testcontainers.core.docker_client"])["DockerClient"]
    return found


@pytest.fixture
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object, **__: object) -> None:
        raise KafkaUnavailableError(NO_JARS)

    monkeypatch.setattr(kafka_targets, "KafkaServer", unavailable)


# ---- the configuration


def test_the_container_is_one_plain_node_at_the_same_port_inside_and_outside(docker: type[Container]) -> None:
    with KafkaContainer("4.3.1", settings=SETTINGS) as kafka:
        [container] = docker.made
        [port] = container.ports
        assert kafka.bootstrap_servers == f"127.0.0.1:{port}"
        assert container.image == "apache/kafka:4.3.1"
        assert container.commands == []
        assert len(container.env.pop("CLUSTER_ID")) == 22
        assert container.env == {
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_NODE_ID": "1",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_LISTENERS": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:9093",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_LOG_DIRS": "/tmp/kafka-data",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "3",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "3",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS": "3",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS": "1000",
            "KAFKA_HEAP_OPTS": "-Xmx512m",
        }
        assert container.status == "running"
    assert container.status == "removed"


def test_share_groups_are_asked_for_after_the_start_when_the_version_is_4_1(docker: type[Container]) -> None:
    with KafkaContainer("4.1.2") as kafka:
        where = ["--bootstrap-server", kafka.bootstrap_servers]
        tool = "/opt/kafka/bin/kafka-features.sh"
        assert docker.made[0].commands == [[tool, *where, "upgrade", "--feature", "share.version=1"]]


def test_the_variable_keeps_lines_and_underscores_apart_when_a_property_has_them() -> None:
    assert kafka_container.variable("a.b-c_d") == "KAFKA_A_B___C__D"


# ---- a start that fails


def test_the_container_is_removed_when_the_tool_in_it_fails(docker: type[Container]) -> None:
    docker.exit_code = 1
    with pytest.raises(KafkaFailedError, match=r"kafka-features\.sh ended with 1 .*: what the tool said"):
        KafkaContainer("4.1.2")
    assert [container.status for container in docker.made] == ["removed"]


def test_the_end_of_the_log_is_told_when_the_broker_ends(
    docker: type[Container], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "reload", lambda container: setattr(container, "status", "exited"))
    with pytest.raises(KafkaFailedError, match=r"(?s)ended:.*last words"):
        KafkaContainer("4.3.1")
    assert [container.status for container in docker.made] == ["removed"]


def test_another_port_is_tried_when_somebody_took_the_first(docker: type[Container]) -> None:
    docker.refusals.append(DockerFailedError("Bind for 0.0.0.0:20001 failed: port is already allocated"))
    with KafkaContainer("4.3.1"):
        assert [container.status for container in docker.made] == ["removed", "running"]


def test_the_reason_is_one_line_when_the_image_cannot_be_had(docker: type[Container]) -> None:
    docker.refusals.append(DockerFailedError("pull access denied\nfor apache/kafka"))
    with pytest.raises(KafkaUnavailableError) as caught:
        KafkaContainer("4.3.1")
    assert str(caught.value) == "Docker did not start apache/kafka:4.3.1 (pull access denied for apache/kafka)"
    assert [container.status for container in docker.made] == ["removed"]


# ---- the choice


def test_the_engine_is_asked_once_and_let_go_when_it_answers(docker: type[Container]) -> None:
    assert engine_problem() is None
    assert engine_problem() is None
    assert (_engine().pings, _engine().closed) == (1, 1)


@pytest.mark.parametrize("wrong", [OSError("no such socket"), ValueError("odd\nanswer"), DockerFailedError()])
def test_there_is_no_engine_when_asking_for_it_fails(docker: type[Container], wrong: Exception) -> None:
    _engine().wrong = wrong
    problem = engine_problem()
    assert problem is not None
    assert problem.startswith("no Docker engine answers (")
    assert "\n" not in problem
    assert _engine().closed == 1


def test_there_is_no_engine_when_testcontainers_is_not_installed(
    docker: type[Container], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "testcontainers.core.docker_client", None)
    assert str(engine_problem()).startswith("testcontainers cannot be imported (")


def test_an_engine_is_of_no_use_when_its_ports_are_on_another_machine(docker: type[Container]) -> None:
    _engine().address = "10.0.0.7"
    assert engine_problem() == "the Docker engine's ports are at 10.0.0.7, not on this machine"


def test_jars_are_taken_when_docker_is_there_too(docker: type[Container], monkeypatch: pytest.MonkeyPatch) -> None:
    class FromJars:
        bootstrap_servers = "127.0.0.1:1"

        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(kafka_targets, "KafkaServer", FromJars)
    with kafka_targets.running("4.3.1") as target:
        assert target.bootstrap_servers == "127.0.0.1:1"
    assert docker.made == []
    assert _engine().pings == 0


@pytest.mark.usefixtures("no_jars")
def test_a_container_is_taken_when_there_are_no_jars(docker: type[Container]) -> None:
    with kafka_targets.running("4.2.1") as target:
        [container] = docker.made
        assert (target.bootstrap_servers, target.version) == (f"127.0.0.1:{min(container.ports)}", "4.2.1")
        assert container.env["KAFKA_GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS"] == "1000"
    assert container.status == "removed"


LIMITS = f"{NO_JARS}; and a Docker container is one node, without security and without kill: "


@pytest.mark.usefixtures("no_jars")
def test_a_container_is_not_taken_when_the_test_needs_three_nodes(docker: type[Container]) -> None:
    with pytest.raises(KafkaUnavailableError) as caught, kafka_targets.running("4.3.1", nodes=3):
        pass
    assert str(caught.value) == f"{LIMITS}the test needs 3 nodes"
    assert docker.made == []


@pytest.mark.usefixtures("no_jars")
def test_a_container_is_not_taken_when_the_test_kills_or_logs_in(docker: type[Container]) -> None:
    with pytest.raises(KafkaUnavailableError) as caught:
        kafka_targets.controlled("4.3.1", security=Security({"worker": "secret"}))
    assert str(caught.value) == f"{LIMITS}the test kills nodes or logs in"
    assert docker.made == []


@pytest.mark.usefixtures("no_jars")
@pytest.mark.parametrize("nodes", [1, 3])
def test_one_line_names_both_when_there_are_neither_jars_nor_an_engine(docker: type[Container], nodes: int) -> None:
    _engine().wrong = OSError("no such socket")
    with pytest.raises(KafkaUnavailableError) as caught, kafka_targets.running("4.3.1", nodes=nodes):
        pass
    assert str(caught.value) == f"{NO_JARS}; and no Docker engine answers (no such socket)"
