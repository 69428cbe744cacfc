"""A bridge whose library is missing says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("bridge", "library", "extra"),
    [
        ("taskiq", "taskiq", "taskiq"),
        ("kombu", "kombu", "celery"),
        ("faststream", "faststream", "faststream"),
        ("faststream", "aiokafka", "faststream"),
    ],
)
def test_a_bridge_names_its_extra_when_its_library_is_missing(bridge: str, library: str, extra: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import kafka_share.bridges.{bridge}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pip install 'kafka-share[{extra}]'" in done.stderr.splitlines()[-1]
