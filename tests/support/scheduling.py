"""Which tests of a parallel run go to one worker together, and which begin first: for tests/conftest.py.

Tests that share something costly, such as a real Kafka of one version, are not spread over the workers. Else each test
goes to the worker that is free next.
"""

from __future__ import annotations

import re
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

_TOGETHER: Final = (
    "tests/conformance/",
    "tests/cli/test_command_config.py",
    "tests/test_architecture.py",
    "tests/test_behaviours.py",
    "tests/test_workflows.py",
)
"""Files whose fixtures serve many tests, or which read the whole package once for all."""
_ON_SPARK: Final = ("tests/spark/test_faults.py", "tests/spark/test_page.py")
"""Files whose tests share one JVM."""
_VERSION: Final = re.compile(r"[\[-](\d\.\d)(?:\.\d)?[\]-]")
"""Of Apache Kafka, among the parameters of a test."""


def long_ones_first(items: list[pytest.Item]) -> None:
    """Tests with a time limit above the usual one come first; the others keep their order.

    A long test that began last would keep one worker busy after all others have ended.
    """
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


class BrokersTogether(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps tests together that share a broker, or a Spark."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_ON_SPARK):
            return "Spark"
        if not nodeid.startswith(_TOGETHER):
            return nodeid
        version = _VERSION.search(nodeid)
        return nodeid.split("::", 1)[0] if version is None else f"Kafka {version[1]}"
