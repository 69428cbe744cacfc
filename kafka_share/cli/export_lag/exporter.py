"""The exporter of `kafka-share export-lag`; prometheus-client writes the metrics (the extra `prometheus`).

`command` calls `serve`. Every scrape asks the cluster, so that no scrape shows an old value; scrapes that come at the
same time share one answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import GroupState
from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.group_snapshot import GroupSnapshot, take_snapshots
from kafka_share.cli.http_server import Answer, HttpServer
from kafka_share.cli.output import print_line
from kafka_share.errors import KafkaShareError

_STATES = (GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD, GroupState.UNKNOWN)
"""Each is a series of every group, so that a change begins no new one."""


def serve(admin: KafkaShareAdmin, groups: Iterable[str], listen: str, port: int) -> None:
    """Answer scrapes until SIGTERM or Ctrl-C; port 0 takes a free one. No groups: all share groups.

    Raises `ToolFailedError` if it cannot listen there.
    """
    asyncio.run(_serve(admin, sorted(set(groups)), listen, port))


async def _serve(admin: KafkaShareAdmin, groups: list[str], listen: str, port: int) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # not on Windows
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    with ThreadPoolExecutor(1, "export-lag") as executor:
        scrapes = Scrapes(lambda: exposition(scrape(admin, groups)), executor)
        pages = {"/metrics": scrapes.answer, "/healthz": _alive}
        try:
            async with HttpServer(pages, listen, port) as server:
                host = f"[{listen}]" if ":" in listen else listen
                print_line(f"serving metrics: http://{host}:{server.port}/metrics")
                await stopped.wait()
        except OSError as error:
            raise ToolFailedError(f"it cannot listen on {listen}:{port}: {os.strerror(error.errno or 0)}") from error
        finally:
            admin.close()  # ends a call that is under way, for which the executor would wait


async def _alive() -> Answer:
    return Answer(b"ok\n")


class Scrapes:
    """One scrape runs at a time, and at most one waits; who comes meanwhile shares the one that waits."""

    def __init__(self, collect: Callable[[], bytes], executor: ThreadPoolExecutor) -> None:
        self._collect = collect
        self._executor = executor
        self._running: asyncio.Task[bytes] | None = None
        self._waiting: asyncio.Task[bytes] | None = None

    async def answer(self) -> Answer:
        """What the cluster says after this was called."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._after(self._running))
        return Answer(await asyncio.shield(self._waiting), CONTENT_TYPE_LATEST)

    async def _after(self, running: asyncio.Task[bytes] | None) -> bytes:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._waiting = self._waiting, None
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._collect)


def scrape(admin: KafkaShareAdmin, groups: Iterable[str]) -> list[Metric]:
    """Ask the cluster; no groups: all share groups. A cluster that cannot be asked is a metric, not an error."""
    try:
        admin.describe_cluster()  # groups that were named would each have the error of a dead cluster
        return metrics_of(take_snapshots(admin, list(groups) or _listed(admin)))
    except KafkaShareError:
        return [_gauge("kafka_share_cluster_up", "Whether the cluster could be asked.", (), {(): 0})]


def _listed(admin: KafkaShareAdmin) -> list[str]:
    return [listing.group_id for listing in admin.list_share_groups().groups]


def exposition(metrics: list[Metric]) -> bytes:
    """The metrics as Prometheus reads them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(metrics))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        return self._metrics


def metrics_of(snapshots: dict[str, GroupSnapshot | KafkaShareError]) -> list[Metric]:
    """The metric families of one scrape."""
    groups = {group_id: found for group_id, found in snapshots.items() if isinstance(found, GroupSnapshot)}
    partitions = [(group_id, one) for group_id, found in groups.items() for one in found.partitions]
    by_partition = ("group", "topic", "partition")
    lags = {(g, p.where.topic, str(p.where.partition)): p.lag for g, p in partitions if p.lag is not None}
    starts = {
        (g, p.where.topic, str(p.where.partition)): p.start_offset for g, p in partitions if p.start_offset is not None
    }
    members = {(group_id,): len(found.members) for group_id, found in groups.items()}
    states = {
        (group_id, state.value): int(found.state is state) for group_id, found in groups.items() for state in _STATES
    }
    up = {(group_id,): int(group_id in groups) for group_id in snapshots}
    return [
        _gauge("kafka_share_cluster_up", "Whether the cluster could be asked.", (), {(): 1}),
        _gauge("kafka_share_group_up", "Whether the group could be described.", ("group",), up),
        _gauge("kafka_share_group_members", "Members of the group.", ("group",), members),
        _gauge(
            "kafka_share_group_state", "1 for the state of the group, 0 for the others.", ("group", "state"), states
        ),
        _gauge("kafka_share_group_lag", "Records that the group is not through with.", by_partition, lags),
        _gauge("kafka_share_group_start_offset", "First offset not finished, as stored.", by_partition, starts),
    ]


def _gauge(name: str, text: str, labels: tuple[str, ...], values: dict[Any, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
