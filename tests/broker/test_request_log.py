"""The log of requests: what is kept, how much of it, and what is logged."""

from __future__ import annotations

import logging

import pytest
from support.wire_connection import WireConnection

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.events import RequestContext
from kafka_share.broker.request_log import MAX_KEPT_BYTES, MAX_KEPT_REQUESTS, RequestLog
from kafka_share.protocol.cluster import MetadataRequest

REQUEST = MetadataRequest(topics=[])


def context(number: int, api: ApiKey = ApiKey.METADATA) -> RequestContext:
    return RequestContext(1, 1, "127.0.0.1", api, 12, number, "somebody")


def kept(log: RequestLog) -> list[int]:
    return [one.correlation_id for one, _ in log.of()]


def test_the_oldest_requests_go_when_there_are_too_many_bytes() -> None:
    """However few they are, requests have no more bytes together than the bound, counted as they came."""
    log = RequestLog()
    for number in range(5):
        log.add(context(number), REQUEST, MAX_KEPT_BYTES // 3)
    assert kept(log) == [2, 3, 4]
    log.add(context(5), REQUEST, 1)
    assert kept(log) == [2, 3, 4, 5]


def test_the_last_request_is_kept_when_it_alone_is_over_the_bound() -> None:
    log = RequestLog()
    log.add(context(1), REQUEST, 10)
    log.add(context(2), REQUEST, MAX_KEPT_BYTES + 1)
    assert kept(log) == [2]
    log.add(context(3), REQUEST, 10)
    assert kept(log) == [3]


def test_the_oldest_requests_go_when_there_are_too_many() -> None:
    log = RequestLog()
    for number in range(MAX_KEPT_REQUESTS + 3):
        log.add(context(number), REQUEST, 10)
    assert kept(log) == list(range(3, MAX_KEPT_REQUESTS + 3))


def test_what_was_cleared_leaves_room_for_as_much_again() -> None:
    log = RequestLog()
    log.add(context(1), REQUEST, MAX_KEPT_BYTES)
    log.clear()
    log.add(context(2), REQUEST, MAX_KEPT_BYTES // 2)
    log.add(context(3, ApiKey.FETCH), REQUEST, MAX_KEPT_BYTES // 2)
    assert kept(log) == [2, 3]
    assert [one.correlation_id for one, _ in log.of(ApiKey.FETCH)] == [3]


def test_nothing_is_kept_when_nobody_wants_it(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that keeps no requests can still log them, one line for each, with its names for the APIs."""
    caplog.set_level(logging.DEBUG, "kafka_share.broker.request_log")
    log = RequestLog(keep=False)
    log.add(context(1), REQUEST, 10)
    assert kept(log) == []
    (line,) = caplog.messages
    assert line.startswith("somebody -> node 1: METADATA v12 MetadataRequest(")


@pytest.mark.parametrize(("keep", "count"), [(True, 1), (False, 0)])
def test_a_broker_keeps_requests_unless_it_is_told_not_to(keep: bool, count: int) -> None:
    with ReferenceBroker(keep_requests=keep) as broker:
        with WireConnection(broker.bootstrap_servers) as client:
            client.call(REQUEST, 12)
        assert len(broker.requests(ApiKey.METADATA)) == count
