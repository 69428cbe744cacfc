"""What `kafka-share doctor` knows before it judges: one look at the cluster, and a second one at what moves.

`gather` asks through the admin client and changes nothing; it joins no group and acquires no record. What could not be
learned is kept as the error it ended with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import attrs

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import (
    ConfigEntry,
    GroupListing,
    ListedOffset,
    OffsetSpec,
    ShareGroupDescription,
    SharePartitionOffset,
    TopicDescription,
)
from kafka_share.errors import KafkaShareError
from kafka_share.records import TopicPartition

SHARE_FETCH_API: Final = 78

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class PartitionFacts:
    """One partition of the topic; None is what nobody could tell."""

    partition: int
    has_leader: bool
    earliest: int | None
    latest: int | None
    start_offset: int | None
    """Of the group, as stored; None until something was finished."""
    lag: int | None
    later_lag: int | None
    """The same after the time of observation."""
    later_start_offset: int | None

    @property
    def record_count(self) -> int:
        """Of the log, as its offsets say; 0 if they are not known."""
        return 0 if self.earliest is None or self.latest is None else self.latest - self.earliest

    @property
    def has_records(self) -> bool:
        return self.record_count > 0

    @property
    def waiting(self) -> int | None:
        """Records that the group has not finished: the lag, or without one what follows the start offset."""
        if self.lag is not None:
            return self.lag
        if self.start_offset is not None and self.latest is not None:
            return self.latest - self.start_offset
        return None

    @property
    def has_moved(self) -> bool:
        """Whether the group got on, or records were added, while it was observed."""
        return (self.lag, self.start_offset) != (self.later_lag, self.later_start_offset)


@attrs.frozen(kw_only=True)
class Facts:
    """Everything that the diagnosis looks at."""

    group_id: str
    topic_name: str
    share_version: int
    offers_share_fetch: bool
    listing: GroupListing | None
    """How the cluster lists a group of this id; None: there is none."""
    group: ShareGroupDescription | KafkaShareError
    topic: TopicDescription | KafkaShareError
    configs: Mapping[str, ConfigEntry] | KafkaShareError
    partitions: tuple[PartitionFacts, ...] = ()
    observed_ms: int = 0

    def config(self, name: str) -> str | None:
        """The value that is in force for the group; None where the brokers do not know the config, or would not say."""
        if isinstance(self.configs, KafkaShareError) or name not in self.configs:
            return None
        return self.configs[name].value


def gather(admin: KafkaShareAdmin, group_id: str, topic: str, observe_ms: int, wait_ms: Callable[[int], None]) -> Facts:
    """Look, wait `observe_ms` by `wait_ms`, look again at the offsets.

    Raises `KafkaShareError` if the cluster itself cannot be asked.
    """
    cluster = admin.describe_cluster()
    listings = {listing.group_id: listing for listing in admin.list_groups().groups}
    described = _one(admin.describe_topics([topic], include_authorized_operations=True), topic)
    facts = Facts(
        group_id=group_id,
        topic_name=topic,
        share_version=cluster.share_version,
        offers_share_fetch=SHARE_FETCH_API in cluster.api_versions,
        listing=listings.get(group_id),
        group=_one(admin.describe_share_groups([group_id], include_authorized_operations=True), group_id),
        topic=described,
        configs=_one(admin.describe_group_configs([group_id]), group_id),
    )
    if isinstance(described, KafkaShareError):
        return facts
    before = _offsets(admin, group_id, described)
    if before:
        wait_ms(observe_ms)
    partitions = _partitions(admin, described, before, _offsets(admin, group_id, described))
    return attrs.evolve(facts, partitions=partitions, observed_ms=observe_ms)


def _one(results: Mapping[str, T | KafkaShareError], key: str) -> T | KafkaShareError:
    return results[key]


def _offsets(
    admin: KafkaShareAdmin, group_id: str, topic: TopicDescription
) -> dict[TopicPartition, SharePartitionOffset]:
    """Of the partitions that have an offset of this group."""
    wanted = [TopicPartition(topic.name, p.partition) for p in topic.partitions]
    found = admin.list_share_group_offsets({group_id: wanted})[group_id]
    if isinstance(found, KafkaShareError):
        return {}
    return {where: offset for where, offset in found.items() if isinstance(offset, SharePartitionOffset)}


def _partitions(
    admin: KafkaShareAdmin,
    topic: TopicDescription,
    before: Mapping[TopicPartition, SharePartitionOffset],
    after: Mapping[TopicPartition, SharePartitionOffset],
) -> tuple[PartitionFacts, ...]:
    led = [TopicPartition(topic.name, p.partition) for p in topic.partitions if p.leader is not None]
    earliest = admin.list_offsets(dict.fromkeys(led, OffsetSpec.EARLIEST)) if led else {}
    latest = admin.list_offsets(dict.fromkeys(led, OffsetSpec.LATEST)) if led else {}
    partitions = []
    for described in topic.partitions:
        where = TopicPartition(topic.name, described.partition)
        then, now = before.get(where), after.get(where)
        partitions.append(
            PartitionFacts(
                partition=described.partition,
                has_leader=described.leader is not None,
                earliest=_number(earliest.get(where)),
                latest=_number(latest.get(where)),
                start_offset=then.start_offset if then else None,
                lag=then.lag if then else None,
                later_lag=now.lag if now else None,
                later_start_offset=now.start_offset if now else None,
            )
        )
    return tuple(partitions)


def _number(listed: ListedOffset | KafkaShareError | None) -> int | None:
    return listed.offset if isinstance(listed, ListedOffset) else None
