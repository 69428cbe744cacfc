"""The asyncio façades: the same methods as the blocking ones, awaited.

They run the same generators on the same background thread as `admin`: a handler that blocks the user's event loop holds
up nothing but itself.
"""

from __future__ import annotations

import asyncio
import secrets
import warnings
from collections.abc import Iterable, Mapping
from typing import Literal, Never, NoReturn, Self, TypeVar, Unpack

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
from kafka_share.core.admin.conversation import Operation
from kafka_share.errors import IllegalStateError, KafkaShareError
from kafka_share.network.admin_calls import DEFAULT_CLOSE_TIMEOUT_MS, AdminCalls
from kafka_share.network.blocking import call_in_thread
from kafka_share.records import TopicPartition
from kafka_share.settings import ShareAdminSettings

T = TypeVar("T")


class AsyncShareAdmin:
    """`KafkaShareAdmin` for asyncio: the same settings, arguments, results and errors; every method is awaited.

    Any number of tasks may use it, of any event loop. Cancelling a call makes the client forget it; what had been sent
    may still take effect. Use it with `async with`, or await `close`.
    """

    def __init__(self, *misplaced: Never, **settings: Unpack[ShareAdminSettings]) -> None:
        demand_keywords(misplaced, "AsyncShareAdmin")
        self._config = config = ShareAdminConfig.from_mapping({**settings})
        self._calls = AdminCalls(config)

    async def list_share_groups(
        self, states: Iterable[GroupState | str] | None = None, *, timeout_ms: int | None = None
    ) -> GroupListings:
        """As `KafkaShareAdmin.list_share_groups`."""
        return await self._run(group_operations.list_groups(states, (GroupType.SHARE,)), timeout_ms)

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] | None = None,
        types: Iterable[GroupType | str] | None = None,
        timeout_ms: int | None = None,
    ) -> GroupListings:
        """As `KafkaShareAdmin.list_groups`."""
        return await self._run(group_operations.list_groups(states, types), timeout_ms)

    async def describe_share_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False, timeout_ms: int | None = None
    ) -> dict[str, ShareGroupDescription | KafkaShareError]:
        """As `KafkaShareAdmin.describe_share_groups`."""
        return await self._run(
            group_operations.describe_share_groups(group_ids, include_authorized_operations), timeout_ms
        )

    async def list_share_group_offsets(
        self, groups: Mapping[str, Iterable[TopicPartition] | None], *, timeout_ms: int | None = None
    ) -> dict[str, ShareGroupOffsets | KafkaShareError]:
        """As `KafkaShareAdmin.list_share_group_offsets`."""
        return await self._run(offset_operations.list_share_group_offsets(groups), timeout_ms)

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaShareError | None]:
        """As `KafkaShareAdmin.alter_share_group_offsets`."""
        return await self._run(offset_operations.alter_share_group_offsets(group_id, offsets), timeout_ms)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaShareError | None]:
        """As `KafkaShareAdmin.delete_share_group_offsets`."""
        return await self._run(offset_operations.delete_share_group_offsets(group_id, topics), timeout_ms)

    async def loaded_share_partitions(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, bool | KafkaShareError]:
        """As `KafkaShareAdmin.loaded_share_partitions`."""
        operation = loaded_operations.loaded_share_partitions(group_id, partitions, secrets.token_urlsafe(16))
        return await self._run(operation, timeout_ms)

    async def delete_share_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaShareError | None]:
        """As `KafkaShareAdmin.delete_share_groups`."""
        return await self._run(group_operations.delete_share_groups(group_ids), timeout_ms)

    async def describe_group_configs(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[str, ConfigEntry] | KafkaShareError]:
        """As `KafkaShareAdmin.describe_group_configs`."""
        return await self._run(config_operations.describe_group_configs(group_ids), timeout_ms)

    async def alter_group_configs(
        self,
        group_id: str,
        configs: Mapping[str, ConfigValue | None],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """As `KafkaShareAdmin.alter_group_configs`."""
        await self._run(config_operations.alter_group_configs(group_id, configs, validate_only), timeout_ms)

    async def ensure_group_config(
        self, group_id: str, configs: Mapping[str, ConfigValue | None], *, timeout_ms: int | None = None
    ) -> dict[str, ConfigChange]:
        """As `KafkaShareAdmin.ensure_group_config`."""
        return await self._run(config_operations.ensure_group_config(group_id, configs), timeout_ms)

    async def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ListedOffset | KafkaShareError | None]:
        """As `KafkaShareAdmin.list_offsets`."""
        return await self._run(log_operations.list_offsets(partitions, isolation_level), timeout_ms)

    async def describe_topics(
        self,
        topics: Iterable[str] | None = None,
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, TopicDescription | KafkaShareError]:
        """As `KafkaShareAdmin.describe_topics`."""
        return await self._run(topic_operations.describe_topics(topics, include_authorized_operations), timeout_ms)

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """As `KafkaShareAdmin.describe_cluster`."""
        return await self._run(cluster_operations.describe_cluster(), timeout_ms)

    async def close(self, timeout_ms: int = DEFAULT_CLOSE_TIMEOUT_MS) -> None:
        """As `KafkaShareAdmin.close`."""
        await call_in_thread("kafka-share close", lambda: self._calls.close(timeout_ms))

    async def _run(self, operation: Operation[T], timeout_ms: int | None) -> T:
        return await asyncio.wrap_future(self._calls.submit(operation, timeout_ms))

    async def __aenter__(self) -> Self:
        if self._calls.is_closed:
            raise IllegalStateError("This admin client has already been closed.")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        calls = getattr(self, "_calls", None)
        if calls is not None and not calls.is_closed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)
            calls.close_soon()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an AsyncShareAdmin cannot be pickled or copied: make one in each process")

    def __repr__(self) -> str:
        state = "closed" if self._calls.is_closed else "open"
        return f"<AsyncShareAdmin {state} client_id={self._config.client_id!r}>"
