"""The page of the reference broker: its data, who may read it, and what a browser makes of it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.chromium import CHROMIUM, NO_CHROMIUM, Chromium
from cli.http_peer import asked, served
from support.waiting import poll_until, wait_until

from kafka_share import AcknowledgeType, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.cli.broker_page.server import page_server
from kafka_share.cli.broker_page.state import MAX_ROWS, MAX_RUNS, PARTITIONS_ON_A_PAGE, state_of

GROUP, TOPIC = "workers", "orders"


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    """One record of each state in flight, and one that nobody has fetched."""
    with ReferenceBroker() as running:
        running.create_topic(TOPIC)
        running.set_group_config(GROUP, share_auto_offset_reset="earliest")
        running.produce_batch(TOPIC, [b"work"] * 4)
        consumer: KafkaShareConsumer[Any, Any]
        with KafkaShareConsumer(
            TOPIC,
            bootstrap_servers=running.bootstrap_servers,
            group_id=GROUP,
            client_id="shop",
            share_acknowledgement_mode="explicit",
        ) as consumer:
            records = poll_until(consumer, 4)
            for record, kind in zip(
                records[1:], (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.RELEASE), strict=True
            ):
                consumer.acknowledge(record, kind)
            consumer.commit_sync()
            running.produce(TOPIC, b"later")
            yield running


@pytest.fixture
def port(broker: ReferenceBroker) -> Iterator[int]:
    with served(page_server(broker, "127.0.0.1", 0)) as port:
        yield port


def get(port: int, path: str, host: str | None = None) -> tuple[int, http.client.HTTPMessage, bytes]:
    return asked(port, path, headers=None if host is None else {"Host": host})


def test_the_document_has_each_state_with_its_owner_when_records_are_in_flight(broker: ReferenceBroker) -> None:
    group = state_of(broker, GROUP, 0)["group"]
    assert [(one["number"], one["client_id"], one["assigned"]) for one in group["members"]] == [
        (1, "shop", [f"{TOPIC}-0"])
    ]
    (partition,) = group["partitions"]
    assert [run[:5] for run in partition["runs"]] == [
        [0, 0, "Acquired", 1, 1],
        [1, 1, "Acknowledged", 1, 0],
        [2, 2, "Archived", 1, 0],
        [3, 3, "Available", 1, 0],
    ]
    assert 0 < partition["runs"][0][6] <= group["lock_ms"]
    assert (partition["start_offset"], partition["log_end_offset"], partition["lag"]) == (0, 5, 3)


@pytest.fixture
def storing(broker: ReferenceBroker) -> Iterator[str]:
    """A group whose acknowledgement is being stored, all the time."""
    broker.set_group_config("slow", share_auto_offset_reset="earliest")
    consumer: KafkaShareConsumer[Any, Any]
    with KafkaShareConsumer(TOPIC, bootstrap_servers=broker.bootstrap_servers, group_id="slow") as consumer:
        poll_until(consumer, 5)
        broker.faults.delay_persister("WriteShareGroupState", 20_000)
        consumer.commit_async()
        wait_until(lambda: not broker.faults.pending())
        yield "slow"
        broker.advance(20_000)


def test_the_document_says_what_is_being_stored(broker: ReferenceBroker, storing: str) -> None:
    (partition,) = state_of(broker, storing, 0)["group"]["partitions"]
    assert partition["runs"][0][2:] == ["Acknowledged", 1, 0, "", None, True]


def test_the_document_is_cut_into_pages_when_there_are_many_partitions(broker: ReferenceBroker) -> None:
    broker.create_topic("many", partitions=PARTITIONS_ON_A_PAGE + 1)
    with KafkaShareConsumer("many", bootstrap_servers=broker.bootstrap_servers, group_id="big") as consumer:
        broker.set_group_config("big", share_auto_offset_reset="earliest")
        broker.produce("many", b"work")
        poll_until(consumer, 1)
        first, last = (state_of(broker, "big", page)["group"] for page in (0, 99))
    assert (len(first["partitions"]), first["partitions_total"]) == (PARTITIONS_ON_A_PAGE, PARTITIONS_ON_A_PAGE + 1)
    assert (last["page"], last["pages"], len(last["partitions"])) == (1, 2, 1)
    assert MAX_RUNS >= 2_000


def test_the_first_share_group_is_shown_when_none_of_this_name_exists(broker: ReferenceBroker) -> None:
    assert state_of(broker, "nobody", 0)["group"]["id"] == GROUP
    broker.reset()
    assert state_of(broker, "nobody", 0)["group"] is None


@pytest.mark.parametrize(("host", "status"), [(None, 200), ("localhost:1", 200), ("[::1]", 200), ("evil.example", 421)])
def test_a_name_that_leads_here_is_refused_when_it_is_not_this_machines(
    port: int, host: str | None, status: int
) -> None:
    assert [get(port, path, host)[0] for path in ("/", "/state.json")] == [status] * 2


def test_the_page_loads_nothing_from_elsewhere_and_the_data_is_json(port: int) -> None:
    status, headers, page = get(port, "/")
    assert status == 200
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert b"http://" not in page.replace(b"http://www.w3.org", b"")
    assert b"https://" not in page
    status, headers, body = get(port, f"/state.json?group={GROUP}&page=x")
    assert (status, headers["Content-Type"], json.loads(body)["group"]["id"]) == (200, "application/json", GROUP)
    assert get(port, "/page.html")[0] == 404


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
CELL = "document.activeElement.getAttribute('aria-valuetext')"
DETAIL = "document.getElementById('detail').textContent"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    with Chromium(tmp_path) as browser:
        yield browser


def tab_to(browser: Chromium, wanted: str) -> None:
    """Press Tab until the element that has the focus has what is wanted."""
    for _ in range(100):  # the page is live: what had the focus may be gone, and Tab begins at the top
        browser.press("Tab")
        if browser.value(f"document.activeElement.{wanted}") is True:
            return
    pytest.fail(f"Tab does not lead to {wanted}")


@pytest.mark.timeout(120)  # it starts a browser
@needs_browser
def test_a_browser_shows_members_and_windows_when_it_opens_the_page(port: int, browser: Chromium) -> None:
    browser.open(f"http://127.0.0.1:{port}/?group={GROUP}")
    browser.wait_for("document.querySelectorAll('canvas[role=slider]').length === 1")
    found = browser.value("document.body.innerHTML")
    assert ">shop</td>" in found
    assert "start offset 0, end offset 3, log end 5, lag 3, leader 1" in found
    assert "1 Acquired, 1 Acknowledged, 1 Archived, 1 Available" in found
    assert 'aria-label="Window of orders-0"' in found
    assert 'aria-valuetext="offset 0, Acquired"' in found


@pytest.mark.timeout(120)  # it starts a browser
@needs_browser
def test_a_browser_shows_what_is_being_stored(port: int, browser: Chromium, storing: str) -> None:
    browser.open(f"http://127.0.0.1:{port}/?group={storing}")
    browser.wait_for("document.querySelectorAll('canvas[role=slider]').length === 1")
    tab_to(browser, "matches('canvas[role=slider]')")
    assert browser.value(CELL) == "offset 0, Acknowledged, being stored"
    assert "Acknowledged, delivery count 1. This is being stored; meanwhile nobody" in browser.value(DETAIL)


@pytest.mark.timeout(120)  # it starts a browser
@needs_browser
def test_each_record_of_a_window_can_be_looked_at_when_there_is_only_a_keyboard(port: int, browser: Chromium) -> None:
    browser.open(f"http://127.0.0.1:{port}/?group={GROUP}")
    browser.wait_for("document.querySelectorAll('canvas[role=slider]').length === 1")
    tab_to(browser, "id === 'pause'")
    browser.press("Enter")
    browser.wait_for("document.getElementById('live').textContent === 'paused'")
    tab_to(browser, f"textContent === '{GROUP}'")
    tab_to(browser, "matches('canvas[role=slider]')")
    assert browser.value(CELL) == "offset 0, Acquired"
    assert "Offset 0 of orders-0: Acquired by member 1 (shop), delivery count 1." in browser.value(DETAIL)
    shown = []
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home", "PageDown"):
        browser.press(key)
        shown.append(browser.value(CELL))
    assert shown == [
        "offset 1, Acknowledged",
        "offset 2, Archived",
        "offset 3, Available",
        "offset 3, Available",
        "offset 2, Archived",
        "offset 0, Acquired",
        "offset 3, Available",
    ]
    assert "Offset 3 of orders-0: Available, delivery count 1." in browser.value(DETAIL)
    browser.press("Tab")
    assert browser.value("document.activeElement === document.body") is True


@pytest.mark.timeout(120)  # it starts a browser
@needs_browser
def test_the_page_stays_complete_and_says_what_it_cuts_when_there_is_much(
    broker: ReferenceBroker, port: int, browser: Chromium
) -> None:
    """300 topics, 45 share partitions, and a window of 3,000 records."""
    for number in range(MAX_ROWS + 98):
        broker.create_topic(f"topic-{number}")
    broker.create_topic("many", partitions=45)
    broker.set_group_config("big", share_auto_offset_reset="earliest", share_partition_max_record_locks=4_000)
    for partition in range(45):
        broker.produce_batch("many", [b"work"] * (3_000 if partition == 44 else 1), partition=partition)
    with KafkaShareConsumer(
        "many", bootstrap_servers=broker.bootstrap_servers, group_id="big", max_poll_records=3_000
    ) as consumer:
        poll_until(consumer, 3_044)
        browser.open(f"http://127.0.0.1:{port}/?group=big")
        browser.wait_for(f"document.querySelectorAll('canvas[role=slider]').length === {PARTITIONS_ON_A_PAGE}")
        assert browser.value("document.getElementById('topics-note').textContent") == "200 of 300 topics are shown."
        for page in (2, 3):
            tab_to(browser, "textContent === 'Next'")
            browser.press("Enter")
            shown = f"page {page} of 3, 45 share partitions"
            browser.wait_for(f"document.getElementById('pages').textContent.includes('{shown}')")
        assert browser.value("document.querySelectorAll('canvas[role=slider]').length") == 5
        browser.wait_for("document.body.textContent.includes('3000 Acquired')")
        tab_to(browser, "getAttribute('aria-label') === 'Window of many-44'")
        browser.press("End")
        assert browser.value(CELL) == "offset 2999, Acquired"
        broker.produce("topic-0", b"more")
        browser.wait_for("document.getElementById('topics').rows[1].cells[2].textContent === '1'")
        assert browser.value(CELL) == "offset 2999, Acquired"
