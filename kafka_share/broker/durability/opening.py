"""Opening a data directory on the disk of this machine: the cluster that is in it. Called by `ReferenceBroker`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka_share.broker.durability.disk import DiskError
from kafka_share.broker.durability.persistence import Persistence
from kafka_share.broker.durability.real_disk import RealDisk
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import ConfigurationError, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka_share.broker.cluster import Cluster


def open_cluster(
    data_dir: Path, new_cluster: Callable[..., Cluster], cluster_id: str, nodes: int, now_ms: int
) -> tuple[Persistence, Cluster]:
    """The cluster in the directory, made by `new_cluster`, and what keeps it there from now on.

    `cluster_id` is that of a new one. Raises `ConfigurationError` if the directory cannot be used.
    """
    with ExitStack() as undo:
        try:
            disk = RealDisk(data_dir)
            undo.callback(disk.close)
            persistence = Persistence(disk, cluster_id, nodes)
            cluster = new_cluster(cluster_id=persistence.cluster_id, log_files=persistence.log_files)
            persistence.recover(cluster, now_ms)
        except (DiskError, Refusal, RemoteProtocolError) as error:
            raise ConfigurationError(f"the data directory cannot be used: {error}") from error
        undo.pop_all()
    return persistence, cluster
