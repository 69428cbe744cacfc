"""The exporter of `kafka-share export-lag`; its HTTP server is prometheus-client's (the extra `prometheus`).

`command` calls `serve`. Every scrape asks the cluster, so that no scrape shows an old value.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import click
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.group_snapshot import GroupSnapshot, take_snapshots
from kafka_share.errors import KafkaShareError


def serve(admin: KafkaShareAdmin, groups: Iterable[str], listen: str, port: int) -> None:
    """Answer scrapes until Ctrl-C; port 0 takes a free one. No groups: all share groups."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LagCollector(admin, groups))
    server, thread = start_http_server(port, listen, registry)
    click.echo(f"serving metrics: http://{listen}:{server.server_port}/metrics")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass  # how it is ended
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class LagCollector:
    """Asks the cluster at each scrape (prometheus-client calls `collect`); one scrape at a time."""

    def __init__(self, admin: KafkaShareAdmin, groups: Iterable[str]) -> None:
        self._admin = admin
        self._groups = sorted(set(groups))
        self._lock = threading.Lock()

    def describe(self) -> list[Any]:
        """Nothing is asked when the collector is registered: the cluster may come later."""
        return []

    def collect(self) -> list[Metric]:
        with self._lock:
            try:
                self._admin.describe_cluster()  # groups that were named would each have the error of a dead cluster
                snapshots = take_snapshots(self._admin, self._groups or self._listed())
            except KafkaShareError:
                return [_gauge("kafka_share_cluster_up", "Whether the cluster could be asked.", (), {(): 0})]
        return metrics_of(snapshots)

    def _listed(self) -> list[str]:
        return [listing.group_id for listing in self._admin.list_share_groups().groups]


def metrics_of(snapshots: dict[str, GroupSnapshot | KafkaShareError]) -> list[Metric]:
    """The metric families of one scrape."""
    groups = {group_id: found for group_id, found in snapshots.items() if isinstance(found, GroupSnapshot)}
    partitions = [(group_id, one) for group_id, found in groups.items() for one in found.partitions]
    by_partition = ("group", "topic", "partition")
    lags = {(g, p.where.topic, str(p.where.partition)): p.lag for g, p in partitions if p.lag is not None}
    starts = {
        (g, p.where.topic, str(p.where.partition)): p.start_offset for g, p in partitions if p.start_offset is not None
    }
    members = {(group_id, found.state.value): len(found.members) for group_id, found in groups.items()}
    up = {(group_id,): int(group_id in groups) for group_id in snapshots}
    return [
        _gauge("kafka_share_cluster_up", "Whether the cluster could be asked.", (), {(): 1}),
        _gauge("kafka_share_group_up", "Whether the group could be described.", ("group",), up),
        _gauge("kafka_share_group_members", "Members of the group.", ("group", "state"), members),
        _gauge("kafka_share_group_lag", "Records that the group is not through with.", by_partition, lags),
        _gauge("kafka_share_group_start_offset", "First offset not finished, as stored.", by_partition, starts),
    ]


def _gauge(name: str, text: str, labels: tuple[str, ...], values: dict[Any, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
