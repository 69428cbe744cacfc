"""KafkaShareAdmin, the blocking façade: each call hands one operation to the background thread and waits for its end.

What an operation says to the brokers is decided by the generators of `core.admin`; `AsyncShareAdmin` (`aio`) awaits the
same ones.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterable, Mapping
from typing import Literal, Never, NoReturn, Self, Unpack

from kafka_share.admin_values import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigValue,
    GroupListings,
    GroupState,
    GroupType,
    ListedOffset,
    OffsetSpec,
    ShareGroupDescription,
    ShareGroupOffsets,
    TopicDescription,
)
from kafka_share.config import ShareAdminConfig, demand_keywords
from kafka_share.core.admin import cluster as cluster_operations
from kafka_share.core.admin import configs as config_operations
from kafka_share.core.admin import groups as group_operations
from kafka_share.core.admin import loaded as loaded_operations
from kafka_share.core.admin import log_offsets as log_operations
from kafka_share.core.admin import share_offsets as offset_operations
from kafka_share.core.admin import topics as topic_operations
from kafka_share.errors import IllegalStateError, KafkaShareError
from kafka_share.network.admin_calls import DEFAULT_CLOSE_TIMEOUT_MS, AdminCalls
from kafka_share.records import TopicPartition
from kafka_share.settings import ShareAdminSettings


class KafkaShareAdmin:
    """Manages share groups: lists, describes, offsets and lag, configs, deletion. Any number of threads may use it.

    `KafkaShareAdmin(**settings)`: the settings of `kafka_share.ShareAdminSettings`, in snake_case or Java's dotted
    names; `bootstrap_servers` is required. Every call takes `timeout_ms` (default: `default_api_timeout_ms`), within
    which passing troubles are retried; items that are not done by then have `OperationTimeoutError`.

    Where a call is about several items, its result has a value or an exception for each; what concerns the whole call
    is raised. Arguments that can never work raise `InvalidArgumentError` before anything is sent; after `close` every
    call raises `IllegalStateError`.
    """

    def __init__(self, *misplaced: Never, **settings: Unpack[ShareAdminSettings]) -> None:
        demand_keywords(misplaced, "KafkaShareAdmin")
        self._config = config = ShareAdminConfig.from_mapping({**settings})
        self._calls = AdminCalls(config)

    def list_share_groups(
        self, states: Iterable[GroupState | str] | None = None, *, timeout_ms: int | None = None
    ) -> GroupListings:
        """The share groups of the cluster, those in the given states only if any are given."""
        return self._calls.run(group_operations.list_groups(states, (GroupType.SHARE,)), timeout_ms)

    def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] | None = None,
        types: Iterable[GroupType | str] | None = None,
        timeout_ms: int | None = None,
    ) -> GroupListings:
        """The groups of the cluster, of all types or the given ones."""
        return self._calls.run(group_operations.list_groups(states, types), timeout_ms)

    def describe_share_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False, timeout_ms: int | None = None
    ) -> dict[str, ShareGroupDescription | KafkaShareError]:
        """Members, assignments, epochs. `GroupIdNotFoundError`: no such group, or it is of another type."""
        return self._calls.run(
            group_operations.describe_share_groups(group_ids, include_authorized_operations), timeout_ms
        )

    def list_share_group_offsets(
        self, groups: Mapping[str, Iterable[TopicPartition] | None], *, timeout_ms: int | None = None
    ) -> dict[str, ShareGroupOffsets | KafkaShareError]:
        """Start offset and lag per group and partition; None instead of partitions: all that have share state.

        A group that does not exist has no offsets, which is no error.
        """
        return self._calls.run(offset_operations.list_share_group_offsets(groups), timeout_ms)

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaShareError | None]:
        """Set where the group starts. Raises what concerns the group, such as `NonEmptyGroupError`."""
        return self._calls.run(offset_operations.alter_share_group_offsets(group_id, offsets), timeout_ms)

    def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaShareError | None]:
        """Forget the offsets of whole topics. Raises what concerns the group, such as `NonEmptyGroupError`."""
        return self._calls.run(offset_operations.delete_share_group_offsets(group_id, topics), timeout_ms)

    def loaded_share_partitions(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, bool | KafkaShareError]:
        """Whether each partition is held in its leader's memory for this group: then a reset does not reach it.

        It is for as long as a process that was a member is connected. Asks for READ on group and topics.
        """
        operation = loaded_operations.loaded_share_partitions(group_id, partitions, secrets.token_urlsafe(16))
        return self._calls.run(operation, timeout_ms)

    def delete_share_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaShareError | None]:
        """Delete groups without members."""
        return self._calls.run(group_operations.delete_share_groups(group_ids), timeout_ms)

    def describe_group_configs(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[str, ConfigEntry] | KafkaShareError]:
        """Every config of each group by name; the groups need not exist."""
        return self._calls.run(config_operations.describe_group_configs(group_ids), timeout_ms)

    def alter_group_configs(
        self,
        group_id: str,
        configs: Mapping[str, ConfigValue | None],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Set configs of a group, None to unset; all or none. Raises `InvalidConfigError` for a value not allowed."""
        self._calls.run(config_operations.alter_group_configs(group_id, configs, validate_only), timeout_ms)

    def ensure_group_config(
        self, group_id: str, configs: Mapping[str, ConfigValue | None], *, timeout_ms: int | None = None
    ) -> dict[str, ConfigChange]:
        """Set what is not set so already, and wait until every broker shows it; returns what was changed."""
        return self._calls.run(config_operations.ensure_group_config(group_id, configs), timeout_ms)

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ListedOffset | KafkaShareError | None]:
        """Offsets by `OffsetSpec`, or by time (ms since 1970): of the first record at or after it, None without one.

        With `read_committed`, LATEST is the last stable offset: where the oldest open transaction begins.
        """
        return self._calls.run(log_operations.list_offsets(partitions, isolation_level), timeout_ms)

    def describe_topics(
        self,
        topics: Iterable[str] | None = None,
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, TopicDescription | KafkaShareError]:
        """Partitions, leaders and ids; None: of all topics that the caller may see. Creates no topic."""
        return self._calls.run(topic_operations.describe_topics(topics, include_authorized_operations), timeout_ms)

    def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """Nodes, the level of share.version, and the API versions that a broker offers."""
        return self._calls.run(cluster_operations.describe_cluster(), timeout_ms)

    def close(self, timeout_ms: int = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """End the background thread and its connections; calls under way fail. Calling it again does nothing."""
        self._calls.close(timeout_ms)

    def __enter__(self) -> Self:
        if self._calls.is_closed:
            raise IllegalStateError("This admin client has already been closed.")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        calls = getattr(self, "_calls", None)
        if calls is not None and not calls.is_closed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)
            calls.close_soon()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KafkaShareAdmin cannot be pickled or copied: make one in each process")

    def __repr__(self) -> str:
        state = "closed" if self._calls.is_closed else "open"
        return f"<KafkaShareAdmin {state} client_id={self._config.client_id!r}>"
