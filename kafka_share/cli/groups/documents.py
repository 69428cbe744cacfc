"""The JSON output of `kafka-share-groups`: one document per run, pure functions from values to what `json` takes.

Keys are words in snake_case; what is unknown is null; an error has a `code` and a `message`. Unlike the tables, a lag
below zero is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_share.admin_values import (
    ConfigChange,
    ConfigEntry,
    ConfigSource,
    GroupListing,
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffset,
)
from kafka_share.cli.endings import Problem, problem_of
from kafka_share.errors import KafkaShareError
from kafka_share.records import Node, TopicPartition

Document = dict[str, Any]


def listed(listing: GroupListing) -> Document:
    return {"group": listing.group_id, "state": listing.state.value}


def offsets(group_id: str, found: Mapping[TopicPartition, SharePartitionOffset | KafkaShareError | None]) -> Document:
    return {"group": group_id, "partitions": [_offset(tp, offset) for tp, offset in sorted(found.items())]}


def _offset(tp: TopicPartition, offset: SharePartitionOffset | KafkaShareError | None) -> Document:
    known = offset if isinstance(offset, SharePartitionOffset) else None
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "start_offset": None if known is None else known.start_offset,
        "leader_epoch": None if known is None else known.leader_epoch,
        "lag": None if known is None else known.lag,
        **({"error": problem_of(offset)._asdict()} if isinstance(offset, KafkaShareError) else {}),
    }


def state(group_id: str, group: ShareGroupDescription) -> Document:
    return {
        "group": group_id,
        "coordinator": _node(group.coordinator),
        "state": group.state.value,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "member_count": len(group.members),
    }


def members(group_id: str, group: ShareGroupDescription) -> Document:
    return {"group": group_id, "members": [_member(member) for member in group.members]}


def _member(member: ShareMemberDescription) -> Document:
    return {
        "member_id": member.member_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "host": member.client_host,
        "rack": member.rack_id,
        "subscribed_topics": list(member.subscribed_topic_names),
        "assignment": [{"topic": tp.topic, "partition": tp.partition} for tp in member.assignment],
    }


def _node(node: Node) -> Document:
    return {"id": node.id, "host": node.host, "port": node.port}


def configs(group_id: str, entries: Iterable[ConfigEntry], *, all_of_them: bool) -> Document:
    shown = [e for e in entries if all_of_them or e.source is ConfigSource.DYNAMIC_GROUP_CONFIG]
    return {
        "group": group_id,
        "configs": {
            e.name: {"value": e.value, "source": e.source.name, "sensitive": e.is_sensitive}
            for e in sorted(shown, key=lambda e: e.name)
        },
    }


def new_offsets(
    group_id: str, planned: Mapping[TopicPartition, int], warnings: Iterable[str], *, executed: bool
) -> Document:
    return {
        "group": group_id,
        "executed": executed,
        "partitions": [
            {"topic": tp.topic, "partition": tp.partition, "new_offset": offset}
            for tp, offset in sorted(planned.items())
        ],
        "warnings": list(warnings),
    }


def topic_results(group_id: str, results: Mapping[str, Problem | None]) -> Document:
    return {
        "group": group_id,
        "topics": [{"topic": topic, "error": _error(problem)} for topic, problem in sorted(results.items())],
    }


def deletions(results: Mapping[str, Problem | None]) -> Document:
    return {"groups": [{"group": group_id, "error": _error(problem)} for group_id, problem in results.items()]}


def failed(group_id: str, error: KafkaShareError) -> Document:
    return {"group": group_id, "error": _error(problem_of(error))}


def _error(problem: Problem | None) -> Document | None:
    return None if problem is None else problem._asdict()


def config_changes(group_id: str, changes: Mapping[str, ConfigChange]) -> Document:
    return {
        "group": group_id,
        "changed": {name: {"before": one.before, "after": one.after} for name, one in sorted(changes.items())},
    }
