"""The control port of the reference broker: what it can do, what it refuses, and the examples on its page."""

from __future__ import annotations

import base64
import inspect
import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from cli.http_peer import asked, served
from support.documentation import ROOT, blocks_of
from support.waiting import poll_until

from kafka_share import KafkaShareConsumer
from kafka_share.broker import BrokerClock, ReferenceBroker
from kafka_share.broker.faults import FaultPlan
from kafka_share.cli.control.operations import ACTIONS, LOOKS
from kafka_share.cli.control.server import control_server
from kafka_share.cli.http_server import MAX_BODY_BYTES

PAGE = ROOT / "docs" / "reference-broker.md"


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(nodes=2, clock=BrokerClock(manual=True)) as running:
        yield running


@pytest.fixture
def port(broker: ReferenceBroker) -> Iterator[int]:
    with served(control_server(broker, "127.0.0.1", 0)) as port:
        yield port


JSON = {"Content-Type": "application/json"}


def ask(
    port: int, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    status, shown, data = asked(port, path, method, body, headers)
    assert shown["Content-Type"] == "application/json"
    document = json.loads(data)
    assert list(document) == ["result" if status == 200 else "error"]
    return status, document.get("result", document.get("error"))


def look(port: int, path: str) -> Any:
    status, result = ask(port, "GET", path)
    assert status == 200, result
    return result


def act(port: int, path: str, **given: Any) -> Any:
    status, result = ask(port, "POST", path, json.dumps(given).encode(), JSON)
    assert status == 200, result
    return result


def test_a_test_in_another_language_can_do_what_one_in_python_can(broker: ReferenceBroker, port: int) -> None:
    act(port, "/create_topic", name="t", partitions=2, config={"max.message.bytes": 2_000})
    act(port, "/set_group_config", group="g", config={"share.auto.offset.reset": "earliest"})
    assert look(port, "/group_config?group=g") == {"share.auto.offset.reset": "earliest"}
    assert act(port, "/produce", topic="t", value="v", key="k", headers={"h": "x"}, timestamp_ms=5) == 0
    raw = base64.b64encode(b"\xff").decode()
    assert act(port, "/produce", topic="t", value={"base64": raw}, key=None) == 1
    found = look(port, "/records?topic=t&partition=0&read_committed=true")
    assert found["total"] == 2
    first, second = found["records"]
    assert (first["key"], first["value"], first["headers"], first["timestamp"]) == ("k", "v", [["h", "x"]], 5)
    assert (second["key"], second["value"]) == (None, {"base64": raw})
    assert (look(port, "/topics"), look(port, "/end_offset?topic=t")) == ({"t": 2}, 2)
    consumer: KafkaShareConsumer[Any, Any]
    with KafkaShareConsumer("t", bootstrap_servers=look(port, "/bootstrap_servers"), group_id="g") as consumer:
        assert len(poll_until(consumer, 2)) == 2
        assert look(port, "/groups") == {"g": "share"}
        assert len(look(port, "/share_group?group=g")["members"]) == 1
        (held,) = [one for one in look(port, "/share_partition?group=g&topic=t")["ranges"] if one["last"] == 1]
        assert (held["state"], held["delivery_count"]) == ("ACQUIRED", 1)
        before = look(port, "/now_ms")
        act(port, "/advance", span_ms=30_000)
        assert look(port, "/now_ms") == before + 30_000
        assert look(port, "/share_partition?group=g&topic=t")["ranges"][0]["state"] == "AVAILABLE"
        assert look(port, "/stored_offset?group=g&topic=t") == 0
    leader = look(port, "/leader?topic=t&partition=1")
    act(port, "/stop_node", node_id=leader)
    assert look(port, "/leader?topic=t&partition=1") == 3 - leader
    assert look(port, "/coordinator?group=g") == 3 - leader
    act(port, "/start_node", node_id=leader)
    act(port, "/set_quota", entity={"user": None}, values={"producer_byte_rate": 1000, "consumer_byte_rate": None})
    act(port, "/set_broker_config", config={"num.partitions": 3})
    assert act(port, "/delete_records", topic="t", partition=0, before_offset=1) == 1
    act(port, "/faults/fail", api="ShareFetch", error="NOT_LEADER_OR_FOLLOWER", times=2)
    act(port, "/faults/drop", api="Produce", applied=True, client_id="x")
    act(port, "/faults/delay_persister", api="WriteShareGroupState", delay_ms=1_000)
    act(port, "/faults/fail_persister", api="ReadShareGroupState", error="COORDINATOR_NOT_AVAILABLE", times=2)
    act(port, "/faults/fail_log", topic="__share_group_state", error="COORDINATOR_NOT_AVAILABLE", times=2)
    assert look(port, "/faults/pending") == 8
    act(port, "/faults/clear")
    assert look(port, "/faults/pending") == 0
    act(port, "/delete_topic", name="t")
    act(port, "/reset")
    assert look(port, "/topics") == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "/advance", b"{", 400, "not JSON"),
        ("POST", "/advance", b"[" * 100_000, 400, "not JSON"),
        ("POST", "/advance", b"[]", 400, "JSON object"),
        ("POST", "/advance", b"", 400, "span_ms is missing"),
        ("POST", "/advance", b'{"span_ms": 1, "more": 2}', 400, "there is no 'more'"),
        ("POST", "/advance", b'{"span_ms": "1"}', 400, "whole number"),
        ("POST", "/advance", b'{"span_ms": true}', 400, "whole number"),
        ("POST", "/advance", b'{"span_ms": 1e3}', 400, "whole number"),
        ("POST", "/advance", b'{"span_ms": -1}', 400, ""),
        ("POST", "/produce", b'{"topic": "t", "value": {"base64": "?"}}', 400, "base64"),
        ("POST", "/produce", b'{"topic": "missing", "value": "v"}', 400, "no topic"),
        ("POST", "/create_topic", b'{"name": "a/b"}', 400, ""),
        ("POST", "/set_broker_config", b'{"config": {"nosuch": 1}}', 400, "nosuch"),
        ("POST", "/set_quota", b'{"entity": {"user": "u"}, "values": {"x": 1}}', 400, "quota"),
        ("POST", "/set_quota", b'{"entity": {"user": "u"}, "values": {"request_percentage": NaN}}', 400, "of numbers"),
        ("POST", "/faults/fail", b'{"api": "ShareFetch", "error": "NOSUCH"}', 400, "error of Kafka"),
        ("POST", "/faults/delay", b'{"api": "Nosuch", "delay_ms": 1}', 400, ""),
        ("POST", "/faults/fail_log", b'{"topic": "t", "error": "NOT_COORDINATOR"}', 400, "no coordinator writes to"),
        ("POST", "/start_node", b'{"node_id": 1}', 409, "is running"),
        ("POST", "/nosuch", b"{}", 404, ""),
        ("POST", "/topics", b"{}", 405, ""),
        ("GET", "/advance", None, 405, ""),
        ("GET", "/end_offset", None, 400, "topic is missing"),
        ("GET", "/end_offset?topic=t&partition=x", None, 400, "whole number"),
        ("GET", "/end_offset?topic=t&topic=u", None, 400, "twice"),
        ("GET", "/records?topic=t&read_committed=maybe", None, 400, "true or false"),
    ],
)
def test_bad_input_gets_a_clear_error_and_changes_nothing(
    broker: ReferenceBroker, port: int, method: str, path: str, body: bytes | None, status: int, said: str
) -> None:
    now_ms = broker.clock.now_ms()
    got, error = ask(port, method, path, body, JSON if method == "POST" else None)
    assert got == status
    assert said in error
    assert (broker.topics(), broker.clock.now_ms(), broker.faults.pending()) == ({}, now_ms, 0)


def test_a_node_whose_port_somebody_has_is_not_started(broker: ReferenceBroker, port: int) -> None:
    broker.create_topic("t")
    addresses = [address.rsplit(":", 1) for address in broker.bootstrap_servers.split(",")]
    for node_id in (1, 2):
        act(port, "/stop_node", node_id=node_id)
    host, taken = addresses[1]
    with socket.create_server((host, int(taken))):
        for path, given in (("/start_node", b'{"node_id": 2}'), ("/reset", b"{}")):
            status, error = ask(port, "POST", path, given, JSON)
            assert (status, "in use" in error) == (409, True), error
        assert list(look(port, "/topics")) == ["t"]
        act(port, "/start_node", node_id=1)
    act(port, "/stop_node", node_id=1)
    act(port, "/reset")
    assert look(port, "/topics") == {}
    for host, listened in addresses:
        socket.create_connection((host, int(listened))).close()


def test_a_defect_is_answered_and_logged(
    broker: ReferenceBroker, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down() -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(broker, "topics", break_down)
    assert ask(port, "GET", "/topics") == (500, "Internal Server Error: what went wrong stands in the log")
    assert "GET /topics could not be answered" in caplog.text
    assert "ZeroDivisionError: a defect" in caplog.text
    assert ask(port, "GET", "/groups")[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({**JSON, "Origin": "http://localhost"}, 403),
        ({**JSON, "Host": "evil.example"}, 421),
        ({**JSON, "Content-Length": str(MAX_BODY_BYTES + 1)}, 413),
        ({**JSON, "Content-Length": "-1"}, 411),
        ({**JSON, "Content-Length": "2", "Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_a_request_that_a_web_site_could_send_or_that_is_too_large_is_refused(
    broker: ReferenceBroker, port: int, headers: dict[str, str], status: int
) -> None:
    assert ask(port, "POST", "/create_topic", b'{"name": "t"}', headers)[0] == status
    assert broker.topics() == {}


def test_every_operation_has_the_words_of_the_python_method() -> None:
    for name, operation in (*LOOKS.items(), *ACTIONS.items()):
        owner: Any = FaultPlan if name.startswith("faults/") else ReferenceBroker
        method = getattr(owner, name.removeprefix("faults/"), None)
        if method is None or not callable(method) or name == "set_quota":
            assert name in ("now_ms", "bootstrap_servers", "set_quota")
            continue
        parameters = inspect.signature(method).parameters
        assert {one.name for one in operation.parameters} <= set(parameters), name
        needed = {one.name for one in parameters.values() if one.default is one.empty and one.kind.name[:3] != "VAR"}
        assert needed - {"self"} <= {one.name for one in operation.parameters if one.required}, name


def test_the_page_lists_the_operations() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## A control port")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+) /([\w/]+)` \|", text, re.MULTILINE)
    assert listed == [("GET", name) for name in LOOKS] + [("POST", name) for name in ACTIONS]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples are calls of curl")
def test_the_examples_of_the_page_do_what_it_says() -> None:
    """What follows a call as a comment is its answer; … stands for anything."""
    (block,) = [one for one in blocks_of(PAGE) if "curl" in one.code]
    start, *calls = block.code.splitlines()
    assert start == "kafka-share-broker --control 8081"
    expected = [line.removeprefix("# ") for line in calls if line.startswith("# ")]
    command = [sys.executable, "-c", "from kafka_share.cli.broker import main; main()", "--control", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            printed = dict(process.stdout.readline().split(": ", 1) for _ in range(2))
            script = "\n".join(calls).replace("http://127.0.0.1:8081/", printed["control"].strip())
            done = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True, timeout=60, check=False)
        finally:
            process.terminate()
    assert done.returncode == 0, done.stderr
    for answer, said in zip(done.stdout.splitlines(), expected, strict=True):
        assert re.fullmatch(re.escape(said).replace("…", ".*"), answer)
