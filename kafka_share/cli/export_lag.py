"""`kafka-share export-lag`: Prometheus metrics of share groups over HTTP, for autoscalers and alerts.

Every scrape asks the cluster, so that a scrape never shows an old value. The exporter itself is prometheus-client's, an
optional dependency (the extra `prometheus`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.admin_client import admin_client
from kafka_share.cli.exit_codes import OURS
from kafka_share.cli.front import ToolFailedError, connection_options, debug_option, sub_command, timeout_option
from kafka_share.cli.group_snapshot import GroupSnapshot, take_snapshots
from kafka_share.errors import KafkaShareError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_EPILOG: Final = """\b
Examples:
  kafka-share export-lag --bootstrap-server localhost:9092 --port 9400
  kafka-share export-lag --bootstrap-server localhost:9092 --group order-workers --listen 127.0.0.1

\b
Metrics:
  kafka_share_group_lag{group,topic,partition}           records that the group is not through with
  kafka_share_group_start_offset{group,topic,partition}  first offset that is not finished, as stored
  kafka_share_group_members{group,state}                 members of the group
  kafka_share_group_up{group}                            1 if the group could be described, else 0
  kafka_share_cluster_up                                 1 if the cluster could be asked, else 0
Brokers tell lag and start offset of a partition from the first stored acknowledgement on; Kafka 4.1 tells no lag.
"""


@sub_command("export-lag", epilog=_EPILOG)
@connection_options
@click.option("--group", "groups", multiple=True, help="Only this group; may be repeated.  [default: all share groups]")
@click.option("--listen", default="0.0.0.0", show_default=True, help="Address to serve on.")
@click.option("--port", type=click.IntRange(0, 65535), default=9400, show_default=True, help="0 takes a free port.")
@timeout_option
@debug_option
def export_lag(
    bootstrap_server: str,
    command_config: Path | None,
    groups: tuple[str, ...],
    listen: str,
    port: int,
    timeout_ms: int,
    debug: bool,
) -> int:
    """Serve lag, start offsets and members of share groups as Prometheus metrics, until Ctrl-C."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise ToolFailedError("it needs prometheus-client: pip install 'kafka-share[prometheus]'") from None
    with admin_client(bootstrap_server, command_config, timeout_ms, debug) as admin:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(LagCollector(admin, groups))
        server, thread = start_http_server(port, listen, registry)
        click.echo(f"serving metrics: http://{listen}:{server.server_port}/metrics")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return OURS.ok
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
    return OURS.ok


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
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
