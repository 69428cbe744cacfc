"""Apache Kafka's own command-line tools, as `java -cp JARS CLASS`, with what they printed.

Used by `test_java_tools`. The jars are those of `kafka_jars`. Where they cannot be had, `KafkaUnavailableError` says
why in one line.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import attrs
import pytest
from conformance.kafka_jars import class_path
from conformance.kafka_settings import LOGGING

VERSIONS: Final = ("4.3.1", "4.2.1")
"""The releases whose tools these tests know, the preferred one first: both print the same. 4.1 has other columns, and
the tools of 4.4.0 are missing from the registry."""

_TIMEOUT_S: Final = 90
_QUICK_START: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")

GROUPS: Final = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSUMER_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_GROUPS: Final = "org.apache.kafka.tools.GroupsCommand"
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
ACLS: Final = "org.apache.kafka.tools.AclCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
CONSOLE_SHARE: Final = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_SHARE: Final = "org.apache.kafka.tools.VerifiableShareConsumer"
PRODUCER_PERFORMANCE: Final = "org.apache.kafka.tools.ProducerPerformance"
SHARE_PERFORMANCE: Final = "org.apache.kafka.tools.ShareConsumerPerformance"


def chosen_version(config: pytest.Config) -> str | None:
    """The version whose tools are run; None unless the run was asked for a real Kafka of such a version."""
    option = config.getoption("kafka_versions")
    text = os.environ.get("KAFKA_SHARE_KAFKA_VERSIONS", "") if option is None else option
    chosen = VERSIONS if text == "all" else [version.strip() for version in text.split(",")]
    return next((version for version in VERSIONS if version in chosen), None)


@attrs.frozen
class Output:
    """What a tool printed; `rows` are the words of its non-empty lines."""

    stdout: str
    stderr: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.stdout.splitlines() if line.strip()]


class JavaTools:
    """The tools of one version, pointed at one broker. `folder` is for their logging configuration, and may have
    further classes."""

    def __init__(self, version: str, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        logging = folder / "log4j2.properties"
        logging.write_text(f"{LOGGING}appender.console.target = SYSTEM_ERR\n", encoding="utf-8")
        classes = f"{class_path(version)}{os.pathsep}{folder}"
        self._java = ["java", *_QUICK_START, f"-Dlog4j2.configurationFile={logging}", "-cp", classes]

    def run(self, tool: str, *arguments: str, expected_code: int | None = 0) -> Output:
        """Run a tool against the broker to its end; fails if its exit code is another one (None: any will do)."""
        return self.run_plain(tool, "--bootstrap-server", self.bootstrap, *arguments, expected_code=expected_code)

    def run_plain(self, tool: str, *arguments: str, expected_code: int | None = 0) -> Output:
        """`run` for tools that take the broker's address in another way."""
        done = subprocess.run(
            [*self._java, tool, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        assert expected_code in (None, done.returncode), (
            f"{tool} ended with {done.returncode}: {done.stdout}{done.stderr}"
        )
        return Output(done.stdout, done.stderr)
