"""The scenarios by the names that they have in the Java program, in the order of its output.

The modules of this folder that hold scenarios add themselves by `scenario` when `all_scenarios` imports them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.our_client_probe.scene import Scene

Scenario = Callable[[Scene], str]
SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    """Adds the function that plays it: it returns what the consumer answered, in the notation of the Java program."""

    def add(play: Scenario) -> Scenario:
        assert name not in SCENARIOS, f"{name} is there twice"
        SCENARIOS[name] = play
        return play

    return add
