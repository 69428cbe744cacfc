"""All scenarios: importing the modules that hold them adds them to the registry."""

from __future__ import annotations

from conformance.our_client_probe import (  # noqa: F401 - imported for what they register
    administering,
    bad_records,
    committing,
    constructing,
    explicit,
    implicit,
    measuring,
    members,
    polling,
    renewing,
    subscribing,
)
from conformance.our_client_probe.registry import SCENARIOS

__all__ = ["SCENARIOS"]
