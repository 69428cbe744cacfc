"""Which handler answers which API, and which versions of it are offered: the one list that everything derives from.

`advertised_versions` is what ApiVersions tells and what the server accepts. An API that has no handler is not offered.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafka_share.broker.handlers import (
    api_versions,
    classic_group,
    committed_offsets,
    configs,
    describe_cluster,
    fetch,
    find_coordinator,
    groups,
    leader_epochs,
    list_offsets,
    metadata,
    produce,
    producer_ids,
    share_fetch,
    share_group,
    share_offsets,
    share_state,
    telemetry,
    topics,
    transactions,
)
from kafka_share.broker.kafka_version import KAFKA_4_3

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import Message, RequestContext
    from kafka_share.broker.kafka_version import Behaviour

    Handler: TypeAlias = Callable[[Cluster, RequestContext, Any, int], Message | None]

HANDLERS: Final[Mapping[int, Handler]] = MappingProxyType(
    {
        0: produce.handle,
        1: fetch.handle,
        2: list_offsets.handle,
        3: metadata.handle,
        8: committed_offsets.handle_commit,
        9: committed_offsets.handle_fetch,
        10: find_coordinator.handle,
        11: classic_group.handle_join,
        12: classic_group.handle_heartbeat,
        13: classic_group.handle_leave,
        14: classic_group.handle_sync,
        15: classic_group.handle_describe,
        16: groups.handle_list,
        18: api_versions.handle,
        19: topics.handle_create,
        20: topics.handle_delete,
        21: topics.handle_delete_records,
        22: producer_ids.handle,
        23: leader_epochs.handle,
        24: transactions.handle_add_partitions,
        25: transactions.handle_add_offsets,
        26: transactions.handle_end,
        28: transactions.handle_commit_offsets,
        32: configs.handle_describe,
        37: topics.handle_create_partitions,
        42: groups.handle_delete,
        44: configs.handle_alter,
        47: committed_offsets.handle_delete,
        60: describe_cluster.handle,
        74: configs.handle_list,
        76: share_group.handle_heartbeat,
        77: share_group.handle_describe,
        78: share_fetch.handle_share_fetch,
        79: share_fetch.handle_share_acknowledge,
        83: share_state.handle_initialize,
        84: share_state.handle_read,
        85: share_state.handle_write,
        86: share_state.handle_delete,
        87: share_state.handle_read_summary,
        90: share_offsets.handle_describe,
        91: share_offsets.handle_alter,
        92: share_offsets.handle_delete,
    }
)

TELEMETRY_HANDLERS: Final[Mapping[int, Handler]] = MappingProxyType(
    {71: telemetry.handle_subscriptions, 72: telemetry.handle_push}
)
"""Offered, in version 0, only while the cluster has a subscription to client metrics."""

KAFKA_VERSIONS: Final[Mapping[int, tuple[int, int]]] = MappingProxyType(
    {
        0: (0, 13),
        1: (4, 18),
        2: (1, 11),
        3: (0, 13),
        8: (2, 10),
        9: (1, 10),
        10: (0, 6),
        11: (0, 9),
        12: (0, 4),
        13: (0, 5),
        14: (0, 5),
        15: (0, 6),
        16: (0, 5),
        18: (0, 4),
        19: (2, 7),
        20: (1, 6),
        21: (0, 2),
        22: (0, 5),
        23: (2, 4),
        24: (0, 5),
        25: (0, 4),
        26: (0, 5),
        28: (0, 5),
        32: (1, 4),
        37: (0, 3),
        42: (0, 2),
        44: (0, 1),
        47: (0, 0),
        60: (0, 2),
        74: (0, 1),
        76: (1, 1),
        77: (1, 1),
        78: (1, 2),
        79: (1, 2),
        83: (0, 0),
        84: (0, 0),
        85: (0, 1),
        86: (0, 0),
        87: (0, 1),
        90: (0, 1),
        91: (0, 0),
        92: (0, 0),
    }
)
"""The versions that Kafka 4.3 offers of the APIs that this broker may have."""


def advertised_versions(behaviour: Behaviour = KAFKA_4_3) -> dict[int, tuple[int, int]]:
    """API key -> lowest and highest version that this broker offers."""
    versions = {**KAFKA_VERSIONS, **behaviour.api_versions}
    return {key: versions[key] for key in sorted(HANDLERS)}
