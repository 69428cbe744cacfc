"""New start offsets of a share group: which partitions, and where to, by the reset options and the cluster's answers.

`changing` calls `plan_reset` and carries the plan out, or only shows it. Nothing is altered here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import ListedOffset, OffsetSpec, SharePartitionOffset
from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.groups.rules import Options
from kafka_share.cli.groups.targets import parse_offsets_file, parse_span_ms, parse_time_ms, parse_topics
from kafka_share.errors import KafkaShareError, UnknownTopicOrPartitionError
from kafka_share.records import TopicPartition


@attrs.frozen
class Plan:
    """`offsets` where the group is to start; `warnings` where that is not quite what was asked for."""

    offsets: dict[TopicPartition, int]
    warnings: tuple[str, ...] = ()


def plan_reset(admin: KafkaShareAdmin, options: Options) -> Plan:
    """Look up the partitions and their new offsets.

    Raises `ToolFailedError` for a partition that does not exist, and a value that cannot work; what the admin client
    raises.
    """
    wanted = _Reset(admin, options.group[0], options.timeout_ms)
    if options.from_file is not None:
        offsets = parse_offsets_file(options.from_file.read(), wanted.group_id, options.from_file.name)
        _require(
            admin, {tp.topic: tuple(q.partition for q in offsets if q.topic == tp.topic) for tp in offsets}, options
        )
        return wanted.inside_the_logs(offsets)
    target = _time_target(options)
    partitions = _partitions(admin, options)
    if options.to_earliest:
        return Plan(wanted.ends(partitions, OffsetSpec.EARLIEST))
    if options.to_latest:
        return Plan(wanted.ends(partitions, OffsetSpec.LATEST))
    if options.to_offset is not None:
        return wanted.inside_the_logs(dict.fromkeys(partitions, options.to_offset))
    if options.shift_by is not None:
        return wanted.shifted(partitions, options.shift_by)
    if options.to_current:
        return wanted.current(partitions)
    assert target is not None, "rules has seen to it that there is a target"
    return wanted.at_time(partitions, target)


def _time_target(options: Options) -> int | None:
    """Read before the cluster is asked anything, so that a time that cannot be read fails at once."""
    if options.to_datetime is not None:
        return parse_time_ms(options.to_datetime)
    if options.by_duration is not None:
        return time.time_ns() // 1_000_000 - parse_span_ms(options.by_duration)
    return None


def _partitions(admin: KafkaShareAdmin, options: Options) -> list[TopicPartition]:
    """--topic wins over --all-topics, which means: those the group has offsets for."""
    if options.topic:
        return _require(admin, parse_topics(options.topic), options)
    group_id = options.group[0]
    found = admin.list_share_group_offsets({group_id: None}, timeout_ms=options.timeout_ms)[group_id]
    if isinstance(found, KafkaShareError):
        raise found
    return sorted(found)


def _require(
    admin: KafkaShareAdmin, chosen: Mapping[str, tuple[int, ...] | None], options: Options
) -> list[TopicPartition]:
    """All the chosen partitions. Raises `ToolFailedError` if one does not exist."""
    described = admin.describe_topics(chosen, timeout_ms=options.timeout_ms)
    partitions: list[TopicPartition] = []
    missing: list[str] = []
    for topic, numbers in chosen.items():
        description = described[topic]
        if isinstance(description, UnknownTopicOrPartitionError):
            raise ToolFailedError(f"topic {topic!r} does not exist; nothing was reset", code=description.name)
        if isinstance(description, KafkaShareError):
            raise description
        existing = [one.partition for one in description.partitions]
        partitions += [TopicPartition(topic, number) for number in (existing if numbers is None else numbers)]
        missing += [f"{topic}-{number}" for number in numbers or () if number not in existing]
    if missing:
        text = f"these partitions do not exist: {', '.join(missing)}; nothing was reset"
        raise ToolFailedError(text, code=UnknownTopicOrPartitionError.name)
    return partitions


@attrs.frozen
class _Reset:
    admin: KafkaShareAdmin
    group_id: str
    timeout_ms: int

    def ends(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        found = self._listed(dict.fromkeys(partitions, spec))
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    def at_time(self, partitions: Iterable[TopicPartition], time_ms: int) -> Plan:
        found = self._listed(dict.fromkeys(partitions, time_ms))
        late = [tp for tp, offset in found.items() if offset is None]
        ends = self.ends(late, OffsetSpec.LATEST)
        offsets = {tp: ends[tp] if offset is None else offset.offset for tp, offset in found.items()}
        return Plan(offsets, tuple(f"{tp} has no record at or after that time: it is set to its end" for tp in late))

    def current(self, partitions: Iterable[TopicPartition]) -> Plan:
        starts = self._starts(partitions)
        unknown = [tp for tp, start in starts.items() if start is None]
        ends = self.ends(unknown, OffsetSpec.LATEST)
        offsets = {tp: ends[tp] if start is None else start for tp, start in starts.items()}
        return Plan(offsets, tuple(f"{tp} has no start offset yet: it is set to its end" for tp in unknown))

    def shifted(self, partitions: Iterable[TopicPartition], by: int) -> Plan:
        starts = self._starts(partitions)
        unknown = [str(tp) for tp, start in starts.items() if start is None]
        if unknown:
            raise ToolFailedError(f"these partitions have no start offset to shift: {', '.join(unknown)}")
        return self.inside_the_logs({tp: start + by for tp, start in starts.items() if start is not None})

    def inside_the_logs(self, wanted: Mapping[TopicPartition, int]) -> Plan:
        """Offsets before the first record or beyond the end are moved there."""
        first, end = self.ends(wanted, OffsetSpec.EARLIEST), self.ends(wanted, OffsetSpec.LATEST)
        offsets = {tp: min(max(offset, first[tp]), end[tp]) for tp, offset in wanted.items()}
        return Plan(
            offsets,
            tuple(
                f"{tp} has no offset {wanted[tp]}: it is set to its {'first record' if wanted[tp] < offset else 'end'}"
                for tp, offset in offsets.items()
                if wanted[tp] != offset
            ),
        )

    def _starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        asked = list(partitions)
        found = self.admin.list_share_group_offsets({self.group_id: asked}, timeout_ms=self.timeout_ms)[self.group_id]
        if isinstance(found, KafkaShareError):
            raise found
        starts: dict[TopicPartition, int | None] = {}
        for tp in asked:
            offset = found[tp]
            if isinstance(offset, KafkaShareError):
                raise offset
            starts[tp] = offset.start_offset if isinstance(offset, SharePartitionOffset) else None
        return starts

    def _listed(self, wanted: Mapping[TopicPartition, Any]) -> dict[TopicPartition, ListedOffset | None]:
        if not wanted:
            return {}
        listed: dict[TopicPartition, ListedOffset | None] = {}
        for tp, offset in self.admin.list_offsets(wanted, timeout_ms=self.timeout_ms).items():
            if isinstance(offset, KafkaShareError):
                raise offset
            listed[tp] = offset
        return listed
