"""Scenarios: metrics, and the id of a client that pushes them."""

from __future__ import annotations

import re

from conformance.our_client_probe.notation import listed, outcome
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import Scene


@scenario("metrics/names")
def _names(scene: Scene) -> str:
    """The names of the consumer's metrics, by group."""
    consumer = scene.held(2)
    scene.poll(consumer, "", 700)
    groups: dict[str, list[str]] = {}
    for group, values in consumer.metrics().items():
        if group.startswith("consumer"):
            groups[re.sub(r"\.node--?\d+$", ".node-N", group)] = sorted(values)
    return f"{{{', '.join(f'{group}={listed(names)}' for group, names in sorted(groups.items()))}}}"


@scenario("metrics/client-instance-id")
def _client_instance_id(scene: Scene) -> str:
    """The id for telemetry: switched off, with a negative timeout, from a broker that wants none."""
    off = scene.consumer(scene.group(), enable_metrics_push=False)
    on = scene.consumer(scene.named("g"), enable_metrics_push=True)  # Java's default, not ours
    told = [outcome(lambda: off.client_instance_id(500)), outcome(lambda: on.client_instance_id(-1))]
    found = outcome(lambda: "null" if on.client_instance_id(3_000) is None else "an id")
    return f"{' '.join(told)} {found}"
