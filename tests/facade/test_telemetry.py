"""The push of metrics to a broker that asks for them, on real sockets (KIP-714, KIP-1076)."""

from __future__ import annotations

from typing import Any

import pytest
from support.consumers import Consumer, MakeConsumer
from support.waiting import poll_until, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.errors import IllegalStateError, InvalidArgumentError

GET, PUSH = 71, 72
SHARE = "org.apache.kafka.consumer.share."


def wait_for_pushes(broker: ReferenceBroker, count: int) -> list[Any]:
    wait_until(lambda: len(list(broker.client_metrics())) >= count, "no metrics arrive")
    return list(broker.client_metrics())


@pytest.fixture
def topic(broker: ReferenceBroker, topic: str) -> str:
    broker.produce_batch(topic, [b"a", b"b"])
    return topic


@pytest.mark.behaviour("metrics")
def test_share_metrics_arrive_when_a_broker_subscribes_to_them(
    broker: ReferenceBroker, make_consumer: MakeConsumer, topic: str
) -> None:
    """A subscription to the share consumer's metrics gets their names and values, and a last push at close."""
    broker.subscribe_to_client_metrics(SHARE, interval_ms=100, delta=False)
    consumer = make_consumer(topic)
    assert len(poll_until(consumer, 2)) == 2
    wait_for_pushes(broker, 2)
    consumer.close()
    pushes = broker.client_metrics()
    last = pushes[-1]
    assert last.is_terminating
    assert not any(push.is_terminating for push in pushes[:-1])
    assert last.client_id == "kafka-share"
    assert last.codec == "zstd"
    assert len(last.names) >= 17
    assert all(name.startswith(SHARE) for name in last.names)
    values = {point.name: point.value for point in last.batch.points}
    assert values[f"{SHARE}fetch.manager.records.consumed.total"] == 2
    assert f"{SHARE}poll.idle.ratio.avg" in values
    assert f"{SHARE}fetch.manager.bytes.consumed.rate" in values
    assert last.batch.resource["group_id"] == "g"
    assert last.batch.at_ms > 1_700_000_000_000


def test_neither_api_is_called_when_the_broker_does_not_offer_it(broker: ReferenceBroker, consumer: Consumer) -> None:
    """A broker without a receiver of metrics never sees one of the two requests, and close is as quick as ever."""
    assert len(poll_until(consumer, 2)) == 2
    assert consumer.client_instance_id(timeout_ms=20_000) is None
    consumer.close()
    assert broker.requests(GET) == broker.requests(PUSH) == []


def test_neither_api_is_called_when_the_push_is_off(
    broker: ReferenceBroker, make_consumer: MakeConsumer, topic: str
) -> None:
    """With enable_metrics_push off nothing is pushed, whatever a broker asks for."""
    broker.subscribe_to_client_metrics("*", interval_ms=100)
    with make_consumer(topic, enable_metrics_push=False) as consumer:
        assert len(poll_until(consumer, 2)) == 2
    assert broker.requests(GET) == broker.requests(PUSH) == []


def test_client_instance_id_is_that_of_the_pushes(
    broker: ReferenceBroker, make_consumer: MakeConsumer, topic: str
) -> None:
    """The id is known before the first poll, stays the same, and is known after close too."""
    broker.subscribe_to_client_metrics("*", interval_ms=100)
    consumer = make_consumer(topic)
    name = consumer.client_instance_id(timeout_ms=20_000)
    assert name is not None
    (push, *_) = wait_for_pushes(broker, 1)
    assert push.client_instance_id == name
    consumer.close()
    assert consumer.client_instance_id(timeout_ms=0) == name


def test_client_instance_id_is_refused_when_the_push_is_off(make_consumer: MakeConsumer) -> None:
    """Without enable_metrics_push there is no id; timeouts that cannot be are refused as everywhere."""
    with pytest.raises(IllegalStateError, match="enable_metrics_push"):
        make_consumer("t", enable_metrics_push=False).client_instance_id(timeout_ms=0)
    with pytest.raises(InvalidArgumentError, match="negative"):
        make_consumer("t").client_instance_id(timeout_ms=-1)
    with pytest.raises(TypeError, match="whole number of milliseconds"):
        make_consumer("t").client_instance_id(timeout_ms="5")  # type: ignore[arg-type]


def test_client_instance_id_is_none_when_no_broker_answers(make_consumer: MakeConsumer) -> None:
    """Nobody at the bootstrap address: the time runs out, and nothing is raised."""
    consumer = make_consumer("t", bootstrap_servers="127.0.0.1:1")
    assert consumer.client_instance_id(timeout_ms=50) is None
    consumer.close()
    assert consumer.client_instance_id(timeout_ms=50) is None


def test_metric_of_the_application_is_pushed_until_it_is_unregistered(
    broker: ReferenceBroker, make_consumer: MakeConsumer, topic: str
) -> None:
    """A function of the application is called for each push, as long as it is registered."""
    broker.subscribe_to_client_metrics("org.example.", interval_ms=100)
    consumer = make_consumer(topic)
    consumer.register_metric_for_subscription("org.example.backlog", lambda: 42)
    consumer.poll(timeout_ms=0)
    (push, *_) = wait_for_pushes(broker, 1)
    assert [(point.name, point.value) for point in push.batch.points] == [("org.example.backlog", 42)]
    consumer.unregister_metric_from_subscription("org.example.backlog")
    consumer.unregister_metric_from_subscription("org.example.never")
    consumer.close()
    assert broker.client_metrics()[-1].names == ()
    with pytest.raises(TypeError, match="function"):
        consumer.register_metric_for_subscription("x", 5)  # type: ignore[arg-type]


def test_new_subscription_is_followed_when_the_operator_changes_it(
    broker: ReferenceBroker, make_consumer: MakeConsumer, topic: str
) -> None:
    """After a change the broker refuses the old subscription, and the client pushes what is wanted now."""
    broker.subscribe_to_client_metrics(f"{SHARE}fetch.", interval_ms=50)
    consumer = make_consumer(topic)
    consumer.poll(timeout_ms=0)
    wait_for_pushes(broker, 1)
    broker.subscribe_to_client_metrics(f"{SHARE}coordinator.", interval_ms=50, codecs=["gzip"])
    seen = len(broker.client_metrics())
    new = wait_for_pushes(broker, seen + 1)[-1]
    assert (new.codec, all(name.startswith(f"{SHARE}coordinator.") for name in new.names)) == ("gzip", True)
    assert len(broker.requests(GET)) == 2
