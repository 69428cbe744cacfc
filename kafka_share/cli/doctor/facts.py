"""What `kafka-share doctor` knows before it judges: one look at the cluster, more of them at what moves.

`gather` asks through the admin client and changes nothing; it joins no group and acquires no record. What could not be
learned is kept as the error it ended with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal, TypeAlias
from uuid import UUID

import attrs

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import (
    ClusterDescription,
    ConfigEntry,
    GroupListing,
    ListedOffset,
    OffsetSpec,
    ShareGroupDescription,
    SharePartitionOffset,
    TopicDescription,
)
from kafka_share.cli.doctor.history import PartitionHistory
from kafka_share.errors import KafkaShareError, UnknownTopicOrPartitionError
from kafka_share.records import TopicPartition

SHARE_FETCH_API: Final = 78
STATE_TOPIC: Final = "__share_group_state"
"""Where the share coordinator writes what becomes of records."""
_LOOK_EVERY_MS: Final = 500


@attrs.frozen(kw_only=True)
class Look:
    """How one partition stood at one moment; None is what nobody could tell."""

    start_offset: int | None = None
    """Of the group, as stored; None until something was finished."""
    lag: int | None = None
    end_offset: int | None = None
    """Of the log."""

    @property
    def finished(self) -> int | None:
        """Records that the group has finished, counted from offset 0."""
        return None if self.lag is None or self.end_offset is None else self.end_offset - self.lag

    def is_ahead_of(self, earlier: Look) -> bool:
        """Whether the group has finished records since the earlier look. Records that were added do not count."""
        if self.finished is not None and earlier.finished is not None and self.finished > earlier.finished:
            return True
        if earlier.start_offset is None:
            return self.start_offset is not None
        return self.start_offset is not None and self.start_offset > earlier.start_offset


@attrs.frozen(kw_only=True)
class PartitionFacts:
    """One partition of the topic; None is what nobody could tell."""

    partition: int
    has_leader: bool
    earliest: int | None
    now: Look
    has_moved: bool
    """Whether the group finished records while it was observed."""
    stable_end: int | None = None
    """Where the oldest open transaction begins, or the end of the log; None if the group reads uncommitted records."""
    history: PartitionHistory | None = None

    @property
    def record_count(self) -> int:
        """Of the log, as its offsets say; 0 if they are not known."""
        return 0 if self.earliest is None or self.now.end_offset is None else self.now.end_offset - self.earliest

    @property
    def has_records(self) -> bool:
        return self.record_count > 0

    @property
    def waiting(self) -> int | None:
        """Records that the group has not finished: the lag, or without one what follows the start offset."""
        if self.now.lag is not None:
            return self.now.lag
        if self.now.start_offset is not None and self.now.end_offset is not None:
            return self.now.end_offset - self.now.start_offset
        return None

    @property
    def behind_a_transaction(self) -> int:
        """Records that nobody gets before a producer has ended its transaction."""
        if self.stable_end is None or self.now.end_offset is None:
            return 0
        return max(0, self.now.end_offset - self.stable_end)


@attrs.frozen(kw_only=True)
class Facts:
    """Everything that the diagnosis looks at."""

    group_id: str
    topic_name: str
    """Empty if there is no topic to look at."""
    share_version: int
    offers_share_fetch: bool
    listing: GroupListing | None
    """How the cluster lists a group of this id; None: there is none."""
    group: ShareGroupDescription | KafkaShareError
    topic: TopicDescription | KafkaShareError | None
    """None: the group names no topic, and nobody else has."""
    configs: Mapping[str, ConfigEntry] | KafkaShareError
    partitions: tuple[PartitionFacts, ...] = ()
    observed_ms: int = 0
    history_unknown: str | None = None
    """Why nobody can say what became of the records that the group has finished; None if it is known."""
    now_ms: int = 0
    """When it was looked, in milliseconds since 1970."""
    is_topic_asked_for: bool = True
    """Whether the user named the topic; otherwise the group did."""

    def config(self, name: str) -> str | None:
        """The value that is in force for the group; None where the brokers do not know the config, or would not say."""
        if isinstance(self.configs, KafkaShareError) or name not in self.configs:
            return None
        return self.configs[name].value


ReadHistories: TypeAlias = Callable[[UUID, Sequence[int], int], "dict[int, PartitionHistory] | str"]
"""Topic id, partitions, number of partitions of the log -> what `state_log.read_histories` returns."""


def gather(
    admin: KafkaShareAdmin,
    cluster: ClusterDescription,
    group_id: str,
    topic: str | None,
    observe_ms: int,
    wait_ms: Callable[[int], None],
    read_histories: ReadHistories,
) -> tuple[Facts, ...]:
    """Look, wait by `wait_ms` until what waits has moved, at most `observe_ms`, and look at the rest.

    Returns the facts about the topic; without one, about each topic that the group's members subscribe to or that it
    has offsets of, by name. Where the group names none either, what is known of the group alone. Raises
    `KafkaShareError` if the cluster itself cannot be asked.
    """
    listings = {listing.group_id: listing for listing in admin.list_groups().groups}
    group = admin.describe_share_groups([group_id], include_authorized_operations=True)[group_id]
    names = [topic] if topic is not None else _topics_of(admin, group_id, group)
    described = admin.describe_topics(names, include_authorized_operations=True) if names else {}
    of_group = Facts(
        group_id=group_id,
        topic_name="",
        share_version=cluster.share_version,
        offers_share_fetch=SHARE_FETCH_API in cluster.api_versions,
        listing=listings.get(group_id),
        group=group,
        topic=None,
        configs=admin.describe_group_configs([group_id])[group_id],
        now_ms=time.time_ns() // 1_000_000,
        is_topic_asked_for=topic is not None,
    )
    if not names:
        return (of_group,)
    found = [attrs.evolve(of_group, topic_name=name, topic=described[name]) for name in names]
    there = [one for one in described.values() if not isinstance(one, KafkaShareError)]
    if not there:
        return tuple(found)
    progress = _observe(admin, group_id, _partitions(there), observe_ms, wait_ms)
    return tuple(_with_partitions(admin, facts, progress, read_histories) for facts in found)


def _topics_of(admin: KafkaShareAdmin, group_id: str, group: ShareGroupDescription | KafkaShareError) -> list[str]:
    """The topics that the group itself names."""
    names = set[str]()
    if not isinstance(group, KafkaShareError):
        names.update(name for member in group.members for name in member.subscribed_topic_names)
    offsets = admin.list_share_group_offsets({group_id: None})[group_id]
    if not isinstance(offsets, KafkaShareError):
        names.update(where.topic for where in offsets)
    return sorted(names)


def _with_partitions(admin: KafkaShareAdmin, facts: Facts, progress: _Progress, read_histories: ReadHistories) -> Facts:
    """The same with what is known of the topic's partitions; unchanged if the topic cannot be described."""
    topic = facts.topic
    if topic is None or isinstance(topic, KafkaShareError):
        return facts
    histories = {} if facts.listing is None else _histories(admin, topic, read_histories)
    known = {} if isinstance(histories, str) else histories
    led = _led([topic])
    earliest = _log_offsets(admin, led, OffsetSpec.EARLIEST)
    stable = {}
    if facts.config("share.isolation.level") == "read_committed":
        stable = _log_offsets(admin, led, OffsetSpec.LATEST, "read_committed")
    places = {p.partition: TopicPartition(topic.name, p.partition) for p in topic.partitions}
    partitions = tuple(
        PartitionFacts(
            partition=p.partition,
            has_leader=p.leader is not None,
            earliest=earliest.get(places[p.partition]),
            now=progress.looks[places[p.partition]],
            has_moved=places[p.partition] in progress.moved,
            stable_end=stable.get(places[p.partition]),
            history=known.get(p.partition),
        )
        for p in topic.partitions
    )
    return attrs.evolve(
        facts,
        partitions=partitions,
        observed_ms=progress.observed_ms,
        history_unknown=histories if isinstance(histories, str) else None,
    )


@attrs.frozen
class _Progress:
    moved: AbstractSet[TopicPartition]
    looks: Mapping[TopicPartition, Look]
    """How all stood at last."""
    observed_ms: int


@attrs.frozen
class _Places:
    wanted: Sequence[TopicPartition]
    led: Sequence[TopicPartition]
    """Those that have a leader."""


def _partitions(topics: Sequence[TopicDescription]) -> _Places:
    return _Places(
        [TopicPartition(topic.name, p.partition) for topic in topics for p in topic.partitions], _led(topics)
    )


def _led(topics: Sequence[TopicDescription]) -> list[TopicPartition]:
    return [TopicPartition(t.name, p.partition) for t in topics for p in t.partitions if p.leader is not None]


def _observe(
    admin: KafkaShareAdmin, group_id: str, places: _Places, observe_ms: int, wait_ms: Callable[[int], None]
) -> _Progress:
    """Which partitions moved, how all stood at last, and how long it took.

    Each pair of looks errs towards standing still: at first the ends are asked after the lags, then before them, so
    that records added in between do not look like work done.
    """
    first = _look(admin, group_id, places, ends_first=False)
    latest, moved, waited_ms = first, set[TopicPartition](), 0
    while waited_ms < observe_ms and any(_waits(look) for where, look in latest.items() if where not in moved):
        step_ms = min(_LOOK_EVERY_MS, observe_ms - waited_ms)
        wait_ms(step_ms)
        waited_ms += step_ms
        latest = _look(admin, group_id, places, ends_first=True)
        moved |= {where for where, look in latest.items() if look.is_ahead_of(first[where])}
    return _Progress(moved, latest, waited_ms)


def _waits(look: Look) -> bool:
    """Whether there is something to wait for; a group that has finished nothing yet may get on, too."""
    return look.lag != 0 and look.end_offset != 0


def _look(admin: KafkaShareAdmin, group_id: str, places: _Places, *, ends_first: bool) -> dict[TopicPartition, Look]:
    ends = _log_offsets(admin, places.led, OffsetSpec.LATEST) if ends_first else {}
    found = admin.list_share_group_offsets({group_id: places.wanted})[group_id]
    offsets = {} if isinstance(found, KafkaShareError) else found
    if not ends_first:
        ends = _log_offsets(admin, places.led, OffsetSpec.LATEST)
    looks = {}
    for where in places.wanted:
        offset = offsets.get(where)
        known = offset if isinstance(offset, SharePartitionOffset) else None
        looks[where] = Look(
            start_offset=known.start_offset if known else None,
            lag=known.lag if known else None,
            end_offset=ends.get(where),
        )
    return looks


def _histories(
    admin: KafkaShareAdmin, topic: TopicDescription, read_histories: ReadHistories
) -> dict[int, PartitionHistory] | str:
    log = admin.describe_topics([STATE_TOPIC])[STATE_TOPIC]
    if isinstance(log, UnknownTopicOrPartitionError):
        return f"this cluster has no topic {STATE_TOPIC}, or the user of this command may not see it"
    if isinstance(log, KafkaShareError):
        return str(log)
    return read_histories(topic.topic_id, [p.partition for p in topic.partitions], len(log.partitions))


def _log_offsets(
    admin: KafkaShareAdmin,
    led: Sequence[TopicPartition],
    spec: OffsetSpec,
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
) -> dict[TopicPartition, int]:
    """Without those that have no answer."""
    found = admin.list_offsets(dict.fromkeys(led, spec), isolation_level=isolation_level) if led else {}
    return {where: offset.offset for where, offset in found.items() if isinstance(offset, ListedOffset)}
