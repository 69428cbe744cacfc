"""The versions of Apache Kafka that a run was asked for, as parameters of tests.

For the conftest files of the suites that run on a real Kafka.
"""

from __future__ import annotations

import os
from typing import Any, Final

import pytest
from conformance.kafka_server import VERSIONS

REAL_KAFKA_TIMEOUT_S: Final = 600
"""The first test on a version fetches it, if it is not there yet, and starts it."""


def chosen_versions(config: pytest.Config) -> list[str]:
    """Of --kafka-versions, or of the environment variable that stands for it."""
    chosen = config.getoption("kafka_versions")
    text = os.environ.get("KAFKA_SHARE_KAFKA_VERSIONS", "") if chosen is None else chosen
    if text == "all":
        return list(VERSIONS)
    return [version.strip() for version in text.split(",") if version.strip()]


def on_real(version: str) -> Any:
    """The parameter of a test that runs on this version."""
    return pytest.param(version, marks=[pytest.mark.real_kafka, pytest.mark.timeout(REAL_KAFKA_TIMEOUT_S)])
