"""A cluster that does not answer: every tool says soon whom it asks, and not much later that nobody is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.test_one_grammar import commands
from click.testing import CliRunner, Result

from kafka_share import KafkaShareAdmin
from kafka_share.admin_values import ClusterDescription
from kafka_share.broker import ReferenceBroker
from kafka_share.cli import clients
from kafka_share.cli.main import main
from kafka_share.errors import BrokerUnreachableError, OperationTimeoutError

NOWHERE = "127.0.0.1:1"
WORDS = {
    "console": ("--topic", "t"),
    "dlq list": (),
    "dlq replay": ("--yes",),
    "dlq show": (),
    "doctor": ("--group", "g"),
    "groups": ("--list",),
    "perf": ("--topic", "t", "--num-records", "1"),
    "watch": ("--group", "g"),
}
"""What each tool cannot do without."""
SILENT = ("groups", "watch")
"""Of those that --timeout gives the time of a call, the ones that say nothing at first."""
ASKING = f"Asking {NOWHERE} …\n"


@pytest.fixture(autouse=True)
def no_remark_on_silence() -> None:
    """Here it is looked at."""


class Silence:
    """The first questions to a cluster are not answered, and take no time; what each of them would have waited."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, questions: int = 1_000) -> None:
        self.waited_ms: list[int | None] = []
        self._questions = questions
        self._real = KafkaShareAdmin.describe_cluster
        monkeypatch.setattr(KafkaShareAdmin, "describe_cluster", lambda *given, **options: self(*given, **options))

    def __call__(self, admin: KafkaShareAdmin, timeout_ms: int | None = None) -> ClusterDescription:
        self.waited_ms.append(timeout_ms)
        if len(self.waited_ms) > self._questions:
            return self._real(admin)
        raise OperationTimeoutError("not done") from BrokerUnreachableError("refused")


def run(name: str, *words: str) -> Result:
    return CliRunner().invoke(main, [*name.split(), *WORDS[name], "--bootstrap-server", NOWHERE, *words])


def test_every_tool_that_needs_an_answer_is_looked_at() -> None:
    """The others do not give up: the demo connects by kafka-python, with a limit of its own; for export-lag a silent
    cluster is a metric, and a worker waits for its brokers.
    """
    asking = {n for n, command in commands().items() if any("--bootstrap-server" in p.opts for p in command.params)}
    assert asking - {"demo", "export-lag", "worker"} == set(WORDS)


@pytest.mark.parametrize("name", WORDS)
def test_a_tool_names_whom_it_asks_and_then_that_nobody_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    silence = Silence(monkeypatch)
    result = run(name)
    assert result.exit_code == 1
    assert silence.waited_ms == ([10_000] if name == "doctor" else [1_500, 8_500])
    assert result.stderr.startswith(ASKING)
    assert result.output.count("Asking") == 1
    said = f"Error: no broker answers at {NOWHERE}: nothing came within 10000 ms; the last trouble was: refused (check"
    assert said in (result.stdout if name == "groups" else result.stderr), "as Kafka's own tool for groups does"


@pytest.mark.parametrize("name", WORDS)
def test_the_error_is_an_object_for_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Silence(monkeypatch)
    result = run(name, "--format", "json")
    assert (result.exit_code, result.stdout) == (1, "")
    error = json.loads(result.stderr.removeprefix(ASKING))["error"]
    assert error["code"] == "BROKER_UNREACHABLE"
    assert NOWHERE in error["message"]


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize(
    ("chosen_ms", "waited_ms"), [(300, [300]), (1_500, [1_500]), (30_000, [1_500, 28_500]), (60_000, [1_500, 58_500])]
)
def test_a_timeout_of_the_users_is_the_limit(
    name: str, chosen_ms: int, waited_ms: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On the command line or in the property file, longer or shorter than the tools' own, or the default itself."""
    file = tmp_path / "client.properties"
    file.write_text(f"default.api.timeout.ms={chosen_ms}\n")
    for words in (("--timeout", str(chosen_ms)), ("--command-config", str(file))):
        silence = Silence(monkeypatch)
        result = run(name, *words)
        assert (result.exit_code, silence.waited_ms) == (1, waited_ms)
        assert f"nothing came within {chosen_ms} ms" in result.output


@pytest.mark.parametrize("words", [(), ("--produce",)])
def test_a_timeout_in_the_console_s_property_file_is_the_limit(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = Silence(monkeypatch)
    assert run("console", *words, "--command-property", "default.api.timeout.ms=20000").exit_code == 1
    assert silence.waited_ms == [1_500, 18_500]


@pytest.mark.parametrize("name", SILENT)
def test_a_cluster_that_answers_late_is_worked_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says why nothing was shown so far; then the tool does what it was asked for."""
    more: dict[str, Any] = {"groups": (), "watch": ("--count", "1")}
    with ReferenceBroker() as broker:
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        silence = Silence(monkeypatch, questions=1)
        result = CliRunner().invoke(
            main, [name, *WORDS[name], *more[name], "--bootstrap-server", broker.bootstrap_servers]
        )
    assert silence.waited_ms[:2] == [1_500, 8_500]
    assert result.stderr.startswith(f"Asking {broker.bootstrap_servers} …\n")
    assert "no broker answers" not in result.output


def test_a_cluster_that_answers_in_time_is_worked_on_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "SILENT_MS", clients.FIRST_ANSWER_MS)  # as a busy machine needs
    with ReferenceBroker() as broker:
        result = CliRunner().invoke(main, ["groups", "--list", "--bootstrap-server", broker.bootstrap_servers])
    assert "Asking" not in result.output
