"""What the demo asks of a cluster before it starts, where brokers of different versions answer differently."""

from __future__ import annotations

import time

from kafka_share.broker import ReferenceBroker
from kafka_share.cli.demo.cluster import Cluster


def test_the_brokers_limit_counts_when_the_group_names_none() -> None:
    """Kafka below 4.3 has no delivery count limit among a group's configs: the broker's is asked for."""
    with (
        ReferenceBroker(config={"group.share.delivery.count.limit": 7}) as broker,
        Cluster(broker.bootstrap_servers, time.monotonic() + 60) as cluster,
    ):
        assert cluster._delivery_count_limit({}) == 7
