"""Client metrics at the reference broker: when the APIs are offered, and which pushes are taken."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from broker.cluster_world import World

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.client_metrics import MAX_CLIENTS, MetricsSubscription
from kafka_share.broker.kafka_version import advertised_versions
from kafka_share.protocol import otlp
from kafka_share.protocol.compression import compress
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.otlp import Batch, Point
from kafka_share.protocol.record_format import CODEC_NUMBERS
from kafka_share.protocol.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest

INTERVAL_MS = 10_000
WANTED = MetricsSubscription(("a.",), INTERVAL_MS, max_bytes=200, codecs=("zstd", "gzip"))
BATCH = Batch(
    (Point("a.b", 1.5), Point("a.c", 7.0, True, {"node_id": "node-1"})), 1_000, 2_000, True, {"group_id": "g"}
)


@pytest.fixture
def world() -> World:
    made = World()
    made.cluster.want_client_metrics(WANTED)
    return made


def ask(world: World, name: UUID | None = None) -> Any:
    return world.ask(GetTelemetrySubscriptionsRequest(client_instance_id=name), 0)


def push(world: World, name: UUID, **fields: Any) -> int:
    values: dict[str, Any] = {
        "client_instance_id": name,
        "subscription_id": WANTED.id,
        "terminating": False,
        "compression_type": CODEC_NUMBERS["zstd"],
        "metrics": compress("zstd", otlp.encode(BATCH)),
    }
    code: int = world.ask(PushTelemetryRequest(**{**values, **fields}), 0).error_code
    return code


def offered(world: World) -> set[int]:
    return {api.api_key for api in world.ask(ApiVersionsRequest(), 4).api_keys}


def test_apis_are_offered_only_while_metrics_are_wanted() -> None:
    """As on a Kafka without a receiver of metrics, the two APIs do not exist unless somebody wants metrics."""
    world = World()
    without = set(advertised_versions())
    assert offered(world) == without
    world.cluster.want_client_metrics(WANTED)
    telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert offered(world) == without | telemetry
    world.cluster.want_client_metrics(None)
    assert offered(world) == without


def test_client_gets_an_id_and_keeps_it(world: World) -> None:
    """A client without an id is given one; one that has an id gets the same again, with what is wanted."""
    answer = ask(world)
    assert answer.client_instance_id not in (None, UUID(int=0))
    again = ask(world, answer.client_instance_id)
    assert again.client_instance_id == answer.client_instance_id
    assert (again.push_interval_ms, again.telemetry_max_bytes, again.delta_temporality) == (INTERVAL_MS, 200, True)
    assert again.accepted_compression_types == [4, 1]
    assert again.requested_metrics == ["a."]


def test_push_is_kept_with_its_names(world: World) -> None:
    """What arrives is decompressed and decoded, and can be looked at."""
    name = ask(world).client_instance_id
    assert push(world, name) == 0
    (found,) = world.cluster.client_metrics.pushes
    assert (found.client_id, found.client_instance_id, found.is_terminating) == ("test", name, False)
    assert (found.names, found.codec, found.batch) == (("a.b", "a.c"), "zstd", BATCH)


def test_push_is_refused_when_it_is_not_what_was_asked_for(world: World) -> None:
    """Unknown clients, other subscriptions, codecs and sizes, and bytes that are no metrics each get their code."""
    name = ask(world).client_instance_id
    assert push(world, UUID(int=5)) == 42
    assert push(world, name, subscription_id=WANTED.id + 1) == 117
    assert push(world, name, compression_type=CODEC_NUMBERS["lz4"]) == 76
    assert push(world, name, compression_type=9) == 76
    assert push(world, name, compression_type=0, metrics=b"x" * 201) == 118
    assert push(world, name, compression_type=0, metrics=b"nonsense") == 42
    assert list(world.cluster.client_metrics.pushes) == []


def test_push_is_throttled_when_it_comes_before_its_interval(world: World) -> None:
    """A second push within the interval is refused; the last one of a client is not, and nothing comes after it."""
    name = ask(world).client_instance_id
    assert push(world, name) == 0
    assert push(world, name) == 89
    world.advance(INTERVAL_MS)
    assert push(world, name) == 0
    assert push(world, name, terminating=True) == 0
    world.advance(INTERVAL_MS)
    assert push(world, name) == 42
    assert [found.is_terminating for found in world.cluster.client_metrics.pushes] == [False, False, True]


def test_client_has_to_ask_again_when_the_subscription_changes(world: World) -> None:
    """The old subscription's id is refused after a change, and the new one is taken once the client has asked."""
    name = ask(world).client_instance_id
    changed = MetricsSubscription(("b.",), INTERVAL_MS)
    world.cluster.want_client_metrics(changed)
    assert push(world, name) == 117
    assert push(world, name, subscription_id=changed.id) == 117
    assert ask(world, name).subscription_id == changed.id
    assert push(world, name, subscription_id=changed.id) == 0


def test_clients_are_forgotten_when_they_are_too_many(world: World) -> None:
    """The table of clients is bounded: the oldest has to ask again."""
    first = ask(world).client_instance_id
    for _ in range(MAX_CLIENTS):
        latest = world.cluster.client_metrics.subscribe(None)[0]
    assert push(world, first) == 42
    assert push(world, latest) == 0


def test_both_apis_refuse_when_nobody_wants_metrics_any_more(world: World) -> None:
    """A connection that was opened before may still ask."""
    name = ask(world).client_instance_id
    world.cluster.want_client_metrics(None)
    assert ask(world, name).error_code == 42
    assert push(world, name) == 42
