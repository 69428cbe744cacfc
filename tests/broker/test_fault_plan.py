"""Planning faults: the ways to name an API and an error, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_share import errors
from kafka_share.broker import ApiKey
from kafka_share.broker.events import RequestContext
from kafka_share.broker.faults import FaultKind, FaultPlan


def request(api: ApiKey = ApiKey.SHARE_FETCH) -> RequestContext:
    return RequestContext(1, 1, "127.0.0.1", api, 1, 1, "client")


@pytest.mark.parametrize("api", [ApiKey.SHARE_FETCH, 78, "ShareFetch", "SHARE_FETCH", "sharefetch"])
def test_an_api_is_named_by_its_key_its_number_or_its_name(api: Any) -> None:
    plan = FaultPlan()
    plan.drop(api)
    fault = plan.take(request())
    assert fault is not None
    assert fault.kind is FaultKind.DROP_BEFORE


@pytest.mark.parametrize("error", [errors.NotLeaderOrFollowerError, errors.NotLeaderOrFollowerError(), 6])
def test_an_error_is_named_by_its_class_or_its_code(error: Any) -> None:
    plan = FaultPlan()
    plan.fail("ShareFetch", error)
    fault = plan.take(request())
    assert fault is not None
    assert (fault.kind, fault.error_code) == (FaultKind.ERROR, 6)


@pytest.mark.parametrize(
    ("api", "advice"),
    [
        ("ShareFech", "no API 'ShareFech': did you mean 'ShareFetch'"),
        ("xyz", "ApiKey lists those that it has"),
        (9_999, "no API 9999"),
        (None, "no API None"),
    ],
)
def test_an_api_that_the_broker_does_not_have_is_refused_by_every_kind_of_fault(api: Any, advice: str) -> None:
    plan = FaultPlan()
    for attempt in (
        lambda: plan.fail(api, 6),
        lambda: plan.delay(api, 1),
        lambda: plan.lose_reply(api),
        lambda: plan.drop(api),
        lambda: plan.garbage(api),
        lambda: plan.cut_frame(api),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=advice):
            attempt()  # type: ignore[no-untyped-call]
    assert plan.pending() == 0


@pytest.mark.parametrize(
    "error",
    [0, 99_999, -2, None, "NOT_LEADER_OR_FOLLOWER", errors.BrokerError, errors.WakeupError, errors.WakeupError()],
)
def test_an_error_that_no_broker_answers_with_is_refused(error: Any) -> None:
    plan = FaultPlan()
    with pytest.raises(errors.InvalidArgumentError, match=r"write a class of kafka_share\.errors"):
        plan.fail("ShareFetch", error)
    assert plan.pending() == 0


def test_the_repr_lists_what_is_to_come() -> None:
    plan = FaultPlan()
    assert repr(plan) == "<FaultPlan: nothing is planned>"
    plan.fail("ShareFetch", errors.NotLeaderOrFollowerError, times=2, node_id=1)
    plan.delay("Metadata", 50, client_id="c")
    plan.drop("AddPartitionsToTxn", applied=True)
    assert repr(plan) == (
        "<FaultPlan: ShareFetch: NOT_LEADER_OR_FOLLOWER on node 1, 2 to come; "
        "Metadata: delay of 50 ms for client 'c', 1 to come; AddPartitionsToTxn: drop after, 1 to come>"
    )


def test_the_repr_lists_what_happens_to_coordinators_and_persisters() -> None:
    plan = FaultPlan()
    plan.fail_log("__consumer_offsets", errors.CoordinatorNotAvailableError, times=2)
    plan.delay_persister("WriteShareGroupState", 50)
    plan.fail_persister("ReadShareGroupState", errors.NotCoordinatorError, times=3)
    assert repr(plan) == (
        "<FaultPlan: records of __consumer_offsets: COORDINATOR_NOT_AVAILABLE, 2 to come; "
        "WriteShareGroupState of a persister: delay of 50 ms, 1 to come; "
        "ReadShareGroupState of a persister: NOT_COORDINATOR, 3 to come>"
    )
