"""Plays scenarios on a target, many at once: nearly all of their time is waiting.

Called by `test_our_client_probe`. An answer that depends on how long something took may be spoilt by the company; the
test then plays that scenario again, alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from conformance.kafka_targets import REFERENCE
from conformance.our_client_probe.all_scenarios import SCENARIOS
from conformance.our_client_probe.notation import error_text
from conformance.our_client_probe.scene import Scene
from conformance.probe_runs import CLIENT

_SETTINGS: Final[Mapping[str, str]] = dict(setting.split("=", 1) for setting in CLIENT.settings)
_ASSIGNMENT_INTERVAL: Final = ("group.share.assignment.interval.ms", "1000")
"""Kafka's default, which the reference broker has only when it is told."""


def settings(target_id: str) -> dict[str, str]:
    """Of the broker: those that the Java program ran with."""
    return dict([*_SETTINGS.items(), _ASSIGNMENT_INTERVAL] if target_id == REFERENCE else _SETTINGS)


def play(bootstrap_servers: str, name: str) -> str:
    """What our client answered. An error that the scenario did not expect is an answer too."""
    with Scene(bootstrap_servers, f"s{uuid.uuid4().hex[:10]}") as scene:
        try:
            return SCENARIOS[name](scene)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - it has to be seen beside Java's answer
            return f"THROWN {error_text(error)} {error}"


def play_all(bootstrap_servers: str, names: Iterable[str], at_once: int) -> Mapping[str, str]:
    """Scenario -> answer."""
    played = list(names)
    with ThreadPoolExecutor(at_once) as pool:
        return dict(zip(played, pool.map(lambda name: play(bootstrap_servers, name), played), strict=True))
