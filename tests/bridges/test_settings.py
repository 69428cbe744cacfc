"""What bridges ask of their consumers."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_share.bridges.settings import bridge_settings
from kafka_share.config import ShareConsumerConfig


@pytest.mark.parametrize(
    ("given", "max_lease_ms", "interval_ms"),
    [({}, 900_000, 900_000), ({}, 1_000, 300_000), ({"max.poll.interval.ms": 7}, 900_000, 7)],
)
def test_a_member_does_not_leave_the_group_while_its_records_are_renewed(
    given: dict[str, Any], max_lease_ms: int, interval_ms: int
) -> None:
    """A library whose workers are all busy asks for no records, so nothing is polled."""
    settings = bridge_settings({"bootstrap_servers": "a:1", "group_id": "g", **given}, 5, max_lease_ms)
    assert ShareConsumerConfig.from_mapping(settings).max_poll_interval_ms == interval_ms
