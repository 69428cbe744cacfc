"""The message modules say what the schemas say, and their classes behave as values."""

from __future__ import annotations

import pickle
import shutil
import uuid
from copy import deepcopy
from pathlib import Path
from typing import Any

import generate_messages
import message_modules
import pytest

from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.groups import DescribeGroupsResponse
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.messages import MODULES
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse

KINDS = ("Request", "Response")
PARTS = ("Key", "Value")


def test_the_modules_are_up_to_date_when_the_check_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_messages.main(["--check"]) == 0, capsys.readouterr().err
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == set(message_modules.MODULES)


def test_the_check_fails_and_writing_repairs_it_when_a_module_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (*message_modules.MODULES, *message_modules.RECORD_MODULES):
        shutil.copy(generate_messages.PROTOCOL / f"{name}.py", tmp_path)
    monkeypatch.setattr(generate_messages, "PROTOCOL", tmp_path)
    stale, missing = tmp_path / "share_group.py", tmp_path / "share_fetch.py"
    stale.write_text("something else")
    missing.unlink()
    assert generate_messages.main(["--check"]) == 1
    assert capsys.readouterr().err == f"out of date: {stale}\nout of date: {missing}\n"
    assert generate_messages.main([]) == 0
    assert generate_messages.main(["--check"]) == 0


def test_unknown_arguments_are_refused_when_the_generator_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_messages.main(["--help-me"]) == 2
    assert "usage" in capsys.readouterr().err


def test_every_schema_is_used_when_the_modules_are_written() -> None:
    used = {f"{api}{kind}" for _, apis in message_modules.MODULES.values() for api in apis for kind in KINDS}
    used |= {
        f"{one}{part}" for _, records in message_modules.RECORD_MODULES.values() for one in records for part in PARTS
    }
    assert {path.stem for path in generate_messages.SCHEMAS.glob("*.json")} == used
    for message, field in message_modules.CHANGES:
        assert f'"name": "{field}"' in (generate_messages.SCHEMAS / f"{message}.json").read_text()


TOPIC = ShareFetchRequest.FetchTopic(topic_id=uuid.UUID(int=1))


def test_fields_have_their_defaults_when_a_message_is_made() -> None:
    request = ShareFetchRequest(topics=[TOPIC])
    assert (request.group_id, request.member_id, request.max_bytes, request.is_renew_ack) == (
        None,
        "",
        2**31 - 1,
        False,
    )
    assert request.forgotten_topics_data == []
    assert request.forgotten_topics_data is not ShareFetchRequest().forgotten_topics_data
    assert request.unknown_tags is None
    assert DescribeGroupsResponse.DescribedGroup().authorized_operations is None


def test_messages_are_equal_when_their_fields_are() -> None:
    assert ShareFetchRequest(topics=[TOPIC]) == ShareFetchRequest(topics=[deepcopy(TOPIC)])
    assert ShareFetchRequest(topics=[TOPIC]) != ShareFetchRequest()
    assert ShareFetchRequest() != MetadataRequest()
    with pytest.raises(TypeError, match="unhashable"):
        hash(TOPIC)


def test_a_message_shows_what_differs_from_its_defaults_when_it_is_printed() -> None:
    request = ShareFetchRequest(group_id="g", member_id="", topics=[TOPIC])
    topic_id = "UUID('00000000-0000-0000-0000-000000000001')"
    assert repr(request) == f"ShareFetchRequest(group_id='g', topics=[FetchTopic(topic_id={topic_id})])"


def test_views_of_a_frame_become_bytes_when_a_message_is_pickled_copied_or_printed() -> None:
    data: Any = ProduceRequest.TopicProduceData.PartitionProduceData
    original = data(index=3, records=memoryview(bytearray(b"abc"))[1:].toreadonly(), _7=b"tag")
    assert repr(original) == "PartitionProduceData(index=3, records=b'bc')"
    for copy in (pickle.loads(pickle.dumps(original)), deepcopy(original)):
        assert copy == original
        assert type(copy.records) is bytes
        assert copy.unknown_tags == {"_7": b"tag"}


def test_a_keyword_that_is_no_field_is_refused_when_a_message_is_made() -> None:
    message: Any = ShareFetchResponse
    with pytest.raises(TypeError, match="ShareFetchResponse has no field group"):
        message(group="g", _1=b"")


def test_an_answer_is_expected_when_a_request_is_no_produce_request_without_acks() -> None:
    assert ShareFetchRequest().expect_response()
    assert ProduceRequest(acks=-1).expect_response()
    assert not ProduceRequest(acks=0).expect_response()
