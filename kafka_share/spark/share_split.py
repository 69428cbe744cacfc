"""ShareSplit: one task's part of a lease, and how the task reads it.

Made by the readers on the driver, pickled by Spark, read on the executors: any number of times, with the same rows each
time. A split has its rows in it; only one that is too large says where to fetch them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from kafka_share.spark.agent_client import AgentClient, SplitPlace, fetch_split
from kafka_share.spark.data_plane import most_inline
from kafka_share.spark.driver_conf import driver_conf
from kafka_share.spark.fleet import NO_LEASE, Fleet
from kafka_share.spark.options import SourceOptions
from kafka_share.spark.splits import decode_split


class ShareSplit(InputPartition):
    """`data` has the rows, or `place` says where they are."""

    def __init__(self, data: bytes, place: SplitPlace | None = None) -> None:
        self.data: bytes = data
        self.place: SplitPlace | None = place

    def __repr__(self) -> str:
        where = "inline" if self.place is None else "at the agent"
        return f"<ShareSplit {where}, {len(self.data)} bytes>"  # Spark logs partitions: neither rows nor the key


def splits_of(client: AgentClient, lease: int, options: SourceOptions) -> list[ShareSplit] | None:
    """The splits of a lease; None if it is gone."""
    rows = client.rows(lease, most_inline(options, driver_conf(), is_elsewhere=client.is_elsewhere))
    if rows is None:
        return None
    address = client.address
    host = address.host or options.data_plane_host

    def place_of(index: int) -> SplitPlace:
        return SplitPlace(host, address.data_port, address.data_key, lease, index, options.data_ca_file)

    return [ShareSplit(one.data, None if one.data else place_of(one.index)) for one in rows]


def splits_of_all(fleet: Fleet, leases: Sequence[int], options: SourceOptions) -> list[ShareSplit] | None:
    """The splits of a batch; None if a part of it is gone, and then nothing of it is held any more."""
    asked = [(client, lease) for client, lease in zip(fleet.clients, leases, strict=True) if lease != NO_LEASE]
    parts = [splits_of(client, lease, options) for client, lease in asked]
    whole = [split for part in parts if part is not None for split in part]
    if None not in parts:
        return whole
    fleet.give_back(leases)
    return None


def read_split(split: Any, columns: Sequence[str]) -> Iterator[Any]:
    """The record batches of a split; none for the split that Spark makes up when there are none."""
    if isinstance(split, ShareSplit):
        data = split.data if split.place is None else fetch_split(split.place)
        yield from decode_split(data, columns)
