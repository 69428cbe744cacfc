"""The soak run itself, for seconds: its members join, leave and die, and its account is made."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.documentation import ROOT, environment


@pytest.mark.timeout(300)
def test_a_short_run_loses_nothing_and_settles_nothing_twice() -> None:
    """While members join, leave and are killed, each record is delivered, and settled at most once."""
    words = ["--minutes", "0.1", "--step-minutes", "0.05", "--churn-seconds", "1", "--lock-ms", "2000", "--rate", "200"]
    command = [sys.executable, "-m", "soak.soak", *words]
    done = subprocess.run(
        command,
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lag at the end: 0; lost: 0 []; complaints: 0" in done.stdout
    produced = int(done.stdout.rpartition("produced ")[2].split(",")[0])
    assert produced > 100
