"""The look-up of the group's delivery count limit: whose answer counts, and what happens without one."""

from __future__ import annotations

import pytest
from core.scripted_cluster import Harness

from kafka_share.errors import UnsupportedVersionError
from kafka_share.protocol.configs import DescribeConfigsRequest, DescribeConfigsResponse

GROUP, BROKER = 32, 4
_Result = DescribeConfigsResponse.DescribeConfigsResult
_Config = _Result.DescribeConfigsResourceResult
DENIED = 30
"""GROUP_AUTHORIZATION_FAILED."""


def looking_up() -> Harness:
    """Joined, with the look-up unanswered."""
    h = Harness()
    h.serves_configs = False
    return h.joined()


def result(kind: int, value: str | None, error: int = 0) -> _Result:
    name = "share.delivery.count.limit" if kind == GROUP else "group.share.delivery.count.limit"
    configs = [] if value is None else [_Config(name=name, value=value)]
    return _Result(error_code=error, resource_type=kind, resource_name="g", configs=configs)


@pytest.mark.parametrize(
    ("results", "limit"),
    [
        ([result(GROUP, "7"), result(BROKER, "5")], 7),
        ([result(GROUP, None), result(BROKER, "5")], 5),
        ([result(GROUP, "7", DENIED), result(BROKER, "5")], 5),
        ([result(GROUP, None, DENIED), result(BROKER, None, DENIED)], None),
        ([result(GROUP, "many"), result(BROKER, "-1")], None),
        ([], None),
    ],
)
def test_the_groups_config_counts_and_else_the_brokers(results: list[_Result], limit: int | None) -> None:
    """What is refused, missing or no number is not known; records that came before the answer know it, too."""
    h = looking_up()
    (fetched,) = h.delivering().partitions
    assert fetched.locks.delivery_limit.value is None
    h.answer(h.only(DescribeConfigsRequest), DescribeConfigsResponse(results=results))
    assert fetched.locks.delivery_limit.value == limit
    h.advance(60_000)
    assert not h.asked(DescribeConfigsRequest)


def test_it_is_asked_again_with_back_off_while_no_answer_comes() -> None:
    """A lost connection is no answer. Fetching does not wait for it."""
    h = looking_up()
    for _ in range(5):
        h.fail(h.only(DescribeConfigsRequest))
        assert not h.asked(DescribeConfigsRequest), "not at once"
        h.advance(3_000)
    h.answer(h.only(DescribeConfigsRequest), DescribeConfigsResponse(results=[result(GROUP, "3")]))
    (fetched,) = h.delivering().partitions
    assert fetched.locks.delivery_limit.value == 3


def test_it_is_not_asked_again_where_the_broker_does_not_know_the_request() -> None:
    h = looking_up()
    h.fail(h.only(DescribeConfigsRequest), UnsupportedVersionError("it has no DescribeConfigs"))
    h.advance(60_000)
    assert not h.asked(DescribeConfigsRequest)
    assert not h.errors
