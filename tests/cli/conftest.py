"""For all tests of the tools: they compare standard error, and on a busy machine a broker may take its time."""

from __future__ import annotations

import pytest

from kafka_share.cli import clients


@pytest.fixture(autouse=True)
def no_remark_on_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools do not say whom they ask while they wait; `test_first_answer` has them do it."""
    monkeypatch.setattr(clients, "SILENT_MS", clients.FIRST_ANSWER_MS)
