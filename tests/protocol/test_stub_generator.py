"""The stubs beside the message modules say what the schemas say, and mypy takes them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mypy import api

from kafka_share.protocol import generate_stubs

STRICT_USER = """\
from __future__ import annotations
import uuid
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_share.protocol.classic import MetadataResponse

topic = ShareFetchRequest.FetchTopic(topic_id=uuid.UUID(int=1), partitions=[])
request = ShareFetchRequest(group_id="g", member_id=None, topics=[topic])
def leaders(response: MetadataResponse) -> list[int]:
    return [p.leader_id for t in response.topics for p in t.partitions]
def records(response: ShareFetchResponse) -> bytes | memoryview | None:
    return response.responses[0].partitions[0].records
"""


def test_the_stubs_are_up_to_date_when_the_check_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_stubs.main(["--check"]) == 0, capsys.readouterr().err


def test_the_check_fails_and_writing_repairs_it_when_a_stub_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module: Any = SimpleNamespace(
        __name__="share_group", __file__=str(tmp_path / "share_group.py"), **vars_of(generate_stubs.share_group)
    )
    monkeypatch.setattr(generate_stubs, "MODULES", (module,))
    assert generate_stubs.main(["--check"]) == 1
    assert "share_group.pyi" in capsys.readouterr().err
    assert generate_stubs.main([]) == 0
    assert generate_stubs.main(["--check"]) == 0
    (tmp_path / "share_group.pyi").write_text("something else")
    assert generate_stubs.main(["--check"]) == 1


def vars_of(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in ("__all__", *module.__all__)}


def test_unknown_arguments_are_refused_when_the_generator_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_stubs.main(["--help-me"]) == 2
    assert "usage" in capsys.readouterr().err


def test_strict_mypy_knows_the_fields_when_a_user_is_checked(tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    wrong = {
        "request.no_such_field": '"ShareFetchRequest" has no attribute "no_such_field"',
        "ShareFetchRequest(max_records='5')": 'has incompatible type "str"; expected "int"',
        "name: str = request.group_id": "Incompatible types in assignment",
    }
    user.write_text(STRICT_USER + "\n".join(wrong) + "\n")
    report, errors, _ = api.run(
        [
            "--strict",
            "--config-file=",
            "--follow-imports=silent",
            "--no-pretty",
            "--cache-dir",
            str(tmp_path),
            str(user),
        ]
    )
    assert errors == ""
    found = [line for line in report.splitlines() if ": error: " in line]
    assert len(found) == len(wrong), report
    for line, problem in zip(found, wrong.values(), strict=True):
        assert problem in line
