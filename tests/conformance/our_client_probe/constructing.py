"""Scenarios: what the constructor takes and refuses. Settings are named as Java names them, values are Python's."""

from __future__ import annotations

from typing import Any, Final

from conformance.our_client_probe.notation import outcome
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import Scene

SETTINGS: Final[tuple[tuple[str, Any], ...]] = (
    ("group.id", None),
    ("group.id", ""),
    ("group.id", "   "),
    ("auto.offset.reset", "earliest"),
    ("enable.auto.commit", "false"),
    ("group.instance.id", "a"),
    ("isolation.level", "read_committed"),
    ("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor"),
    ("interceptor.classes", ""),
    ("session.timeout.ms", 45000),
    ("heartbeat.interval.ms", 3000),
    ("group.protocol", "consumer"),
    ("group.remote.assignor", "x"),
    ("auto.commit.interval.ms", 5),
    ("max.partition.fetch.bytes", 5),
    ("exclude.internal.topics", "true"),
    ("share.acknowledgement.mode", "EXPLICIT"),
    ("share.acknowledgement.mode", "auto"),
    ("share.acknowledgement.mode", ""),
    ("share.acquire.mode", "RECORD_LIMIT"),
    ("share.acquire.mode", "x"),
    ("max.poll.records", 0),
    ("max.poll.records", -1),
    ("fetch.max.bytes", -1),
    ("fetch.max.bytes", 0),
    ("fetch.min.bytes", -1),
    ("fetch.max.wait.ms", -1),
    ("max.poll.interval.ms", 0),
    ("default.api.timeout.ms", -1),
    ("bootstrap.servers", ""),
    ("bootstrap.servers", None),
    ("no.such.config", "1"),
    ("internal.leave.group.on.close", "true"),
    ("request.timeout.ms", 100),
    ("client.rack", " "),
)


def _constructed(scene: Scene, setting: str, value: Any) -> str:
    config = {name.replace("_", "."): given for name, given in scene.settings(scene.named("g")).items()}
    config[setting] = value
    if value is None:
        del config[setting]
    return outcome(lambda: scene.made(config).close(timeout_ms=0))


def _add(setting: str, value: Any) -> None:
    text = "null" if value is None else f"'{value}'"
    scenario(f"ctor/{setting}={text}")(lambda scene: _constructed(scene, setting, value))


for _setting, _value in SETTINGS:
    _add(_setting, _value)


@scenario("ctor/no-deserializer")
def _no_deserializer(scene: Scene) -> str:
    """No deserializers are given."""
    return outcome(lambda: scene.consumer(scene.named("g")).close())
