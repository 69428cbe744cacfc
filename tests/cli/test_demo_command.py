"""`kafka-share demo`: options, exit codes and output, with the job itself replaced."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kafka_share._version import VERSION
from kafka_share.cli.demo import cluster, running
from kafka_share.cli.demo.cluster import ClusterError
from kafka_share.cli.demo.command import demo
from kafka_share.cli.demo.job import JobSettings, Observer
from kafka_share.cli.demo.ledger import Acknowledged, Delivered, Ledger, LedgerEvent, OutcomeKnown, WorkerStopped
from kafka_share.cli.demo.report import Report
from kafka_share.cli.demo.sources import Sources
from kafka_share.cli.main import main as cli
from kafka_share.records import AcknowledgeType


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["demo", "--bootstrap-server", "nowhere:9092", *arguments])


class Job:
    """Stands in for `run_job`: settles all sources but those named in `forgotten`."""

    def __init__(self) -> None:
        self.settings: JobSettings | None = None
        self.forgotten: list[str] = []
        self.error: BaseException | None = None
        self.logs_an_exception = False

    def __call__(self, settings: JobSettings, sources: Sources, observer: Observer) -> Report:
        self.settings = settings
        if self.error is not None:
            raise self.error
        if self.logs_an_exception:
            try:
                raise ValueError("cause")
            except ValueError:
                logging.getLogger("kafka_share.network").exception("the connection broke")
        ledger = Ledger(settings.workers, 5)
        size = 0
        observer.publishing(0, len(sources))
        for offset, (name, data) in enumerate(sources.contents()):
            ledger.publish(name, 0, offset)
            size += len(data)
            if name in self.forgotten:
                continue
            events: list[LedgerEvent] = [
                Delivered(0, 0, offset, 1),
                Acknowledged(0, 0, offset, AcknowledgeType.REJECT, reason="SyntaxError")
                if data
                else Acknowledged(0, 0, offset, AcknowledgeType.ACCEPT),
                OutcomeKnown(0, 0, offset, None),
            ]
            for event in events:
                ledger.handle(event)
        observer.publishing(ledger.published, len(sources))
        ledger.handle(WorkerStopped(0))
        observer.working(ledger)
        return Report.from_ledger(
            ledger, bytes_published=size, left_out=sources.left_out, seconds=2.0, seed=settings.seed
        )


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    job = Job()
    monkeypatch.setattr(running, "run_job", job)
    return job


@pytest.fixture
def files(tmp_path: Path) -> str:
    (tmp_path / "a[b].py").write_bytes(b"")
    (tmp_path / "bad.py").write_bytes(b"def (")
    return str(tmp_path)


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.exit_code == 0
    assert VERSION in result.output


def test_help_has_examples_and_exit_codes() -> None:
    result = CliRunner().invoke(cli, ["demo", "--help"])
    assert result.exit_code == 0
    assert "kafka-share demo --limit 200" in result.output
    assert "130  interrupted" in result.output


def test_every_option_has_a_help_text() -> None:
    assert all(option.help for option in demo.params if isinstance(option, click.Option))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "--workers"),
        (["--partitions", "many"], "--partitions"),
        (["--flaky", "1.5"], "--flaky"),
        (["--timeout", "0"], "--timeout"),
        (["--limit", "0"], "--limit"),
        (["--codec", "brotli"], "--codec"),
        (["--input", "/does/not/exist"], "--input"),
        (["--format", "xml"], "--format"),
        (["--seed", "-1"], "--seed"),
        (["--bootstrap-server", "nonsense"], "not host:port"),
        (["--workers", "1", "--stop-worker"], "at least two workers"),
        (["--no-such-option"], "--no-such-option"),
        (["argument"], "argument"),
    ],
)
def test_a_usage_error_is_told_when_an_option_is_wrong(arguments: list[str], message: str, job: Job) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert job.settings is None


def test_a_usage_error_is_told_when_the_input_has_no_python_file(tmp_path: Path, job: Job) -> None:
    result = invoke("--input", str(tmp_path))
    assert result.exit_code == 2
    assert "no *.py file" in result.output


def test_a_usage_error_is_told_when_keep_topic_meets_the_embedded_broker(job: Job) -> None:
    result = CliRunner().invoke(cli, ["demo", "--keep-topic"])
    assert result.exit_code == 2
    assert "--bootstrap-server" in result.output


def test_the_missing_package_is_named_when_a_codec_cannot_be_used(monkeypatch: pytest.MonkeyPatch, job: Job) -> None:
    monkeypatch.setattr(cluster, "_CODECS", {**cluster._CODECS, "zstd": (lambda: False, "zstandard")})
    result = invoke("--codec", "zstd")
    assert result.exit_code == 2
    assert "zstandard" in result.output


def test_the_default_codec_needs_no_further_package() -> None:
    assert cluster.missing_package("gzip") is None
    assert cluster.missing_package("none") is None


def test_the_package_of_every_codec_is_known() -> None:
    [codec] = [option for option in demo.params if option.name == "codec"]
    assert isinstance(codec.type, click.Choice)
    assert list(codec.type.choices) == list(cluster._CODECS)


def test_the_options_reach_the_job(job: Job, files: str) -> None:
    result = invoke("--input", files, "--workers", "3", "--partitions", "5", "--flaky", "0.5", "--seed", "7")
    assert result.exit_code == 0
    settings = job.settings
    assert settings is not None
    assert (settings.workers, settings.partitions, settings.flaky, settings.seed) == (3, 5, 0.5, 7)
    assert settings.bootstrap_servers == "nowhere:9092"
    assert settings.stop_worker
    assert settings.remove_topic
    assert settings.codec == "gzip"


def test_no_worker_is_stopped_when_there_is_one_only(job: Job, files: str) -> None:
    assert invoke("--input", files, "--workers", "1").exit_code == 0
    assert job.settings is not None
    assert not job.settings.stop_worker


def test_plain_text_is_written_when_the_output_is_no_terminal(job: Job, files: str) -> None:
    result = invoke("--input", files, "--seed", "7")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "\r" not in result.output
    lines = result.output.splitlines()
    assert "settled 2 of 2: 1 accepted, 1 rejected, 0 released, 0 redelivered" in lines
    assert "OK: each of the 2 files was settled exactly once." in lines
    assert any(line.split() == ["1", "stopped", "2", "0", "1", "0", "1", "0", "0"] for line in lines)
    assert any(line.split() == ["all", "2", "0", "1", "0", "1", "0", "0"] for line in lines)
    assert "  bad.py" in lines
    assert all(line == line.rstrip() for line in lines)


def test_the_exit_code_is_1_with_the_list_when_a_file_was_not_settled(job: Job, files: str) -> None:
    job.forgotten = ["a[b].py"]
    result = invoke("--input", files)
    assert result.exit_code == 1
    assert "FAILED: 1 problem." in result.output
    assert "  a[b].py: never settled (deliveries: 0)" in result.output


def test_json_stands_alone_on_standard_output_when_asked_for(job: Job, files: str) -> None:
    result = invoke("--input", files, "--format", "json", "--seed", "7")
    assert result.exit_code == 0
    told: dict[str, Any] = json.loads(result.stdout)
    assert told["ok"] is True
    assert told["files"] == 2
    assert told["settled"] == {"accepted": 1, "rejected": 1, "archived": 0}
    assert told["delivery_counts"] == {"1": 2}
    assert told["reject_reasons"] == {"SyntaxError": 1}
    assert told["files_per_second"] == 1.0
    assert told["workers"][0]["stopped"] is True
    assert told["seed"] == 7
    assert "settled 2 of 2" in result.stderr


def test_json_tells_the_problems_when_the_check_failed(job: Job, files: str) -> None:
    job.forgotten = ["bad.py"]
    result = invoke("--input", files, "--format", "json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["ok"] is False
    assert told["problems"] == ["bad.py: never settled (deliveries: 0)"]


def test_an_error_is_one_line_when_the_job_cannot_be_done(job: Job, files: str) -> None:
    job.error = ClusterError("no broker answers at nowhere:9092")
    result = invoke("--input", files)
    assert result.exit_code == 1
    assert "partitions of nowhere:9092" in result.output, "it says at once whom it asks"
    assert "Error: no broker answers at nowhere:9092\n" in result.output
    assert "Traceback" not in result.output


def test_an_error_keeps_its_stack_trace_when_debugging(job: Job, files: str) -> None:
    job.error = ClusterError("no broker answers at nowhere:9092")
    result = invoke("--input", files, "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "ClusterError: no broker answers at nowhere:9092" in result.stderr


@pytest.mark.parametrize("debug", [True, False])
def test_a_log_line_has_a_stack_trace_only_when_debugging(debug: bool, job: Job, files: str) -> None:
    job.logs_an_exception = True
    result = invoke("--input", files, *["--debug"][:debug])
    assert "ERROR kafka_share.network: the connection broke" in result.stderr
    assert ("Traceback" in result.stderr) == debug


def test_logging_is_as_it_was_when_the_command_has_ended(job: Job, files: str) -> None:
    root = logging.getLogger()
    before = root.level, list(root.handlers), logging.getLogger("kafka").level
    invoke("--input", files)
    assert (root.level, list(root.handlers), logging.getLogger("kafka").level) == before


def test_the_exit_code_is_130_when_interrupted(job: Job, files: str) -> None:
    job.error = KeyboardInterrupt()
    result = invoke("--input", files)
    assert result.exit_code == 130
    assert "Interrupted" in result.output
