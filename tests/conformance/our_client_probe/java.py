"""What Apache's client answered on Apache's broker, as the Java program printed it; texts of errors are left out."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from conformance.probe_runs import CLIENT

VERSION: Final = "4.3.1"
"""Of Apache Kafka, client and broker."""


@functools.cache
def java_answers() -> Mapping[str, str]:
    """Scenario -> answer."""
    lines = CLIENT.reference(VERSION.rpartition(".")[0])
    return MappingProxyType({scenario: line[len(scenario) + 2 :] for scenario, line in lines.items()})
