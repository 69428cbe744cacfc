"""The rules of `kafka-share doctor` about what stands around a group: cluster, topic, rights, members.

`diagnosis` asks them in the order of `DECIDING` and `STANDING`. Pure functions.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from kafka_share.admin_values import AclOperation, GroupType, ShareGroupDescription, ShareMemberDescription
from kafka_share.cli.doctor.facts import Facts
from kafka_share.cli.doctor.finding import MAX_NAMED, Finding, Rule, cause, note, partitions_named
from kafka_share.cli.endings import with_remedy
from kafka_share.errors import KafkaShareError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError


def _share_groups_off(facts: Facts) -> Iterator[Finding]:
    if not facts.offers_share_fetch:
        yield cause(
            "share-groups-not-offered",
            "The brokers do not know share groups: they offer no ShareFetch.",
            "Use a cluster of Kafka 4.2 or later (4.1: as a preview).",
        )
    elif facts.share_version < 1:
        yield cause(
            "share-groups-off",
            "Share groups are switched off in this cluster: its feature share.version is at level 0.",
            "An administrator switches them on: kafka-features.sh --bootstrap-server … upgrade "
            "--feature share.version=1",
        )


def _other_type(facts: Facts) -> Iterator[Finding]:
    listing = facts.listing
    if listing is not None and listing.group_type not in (GroupType.SHARE, GroupType.UNKNOWN):
        yield cause(
            "other-group-type",
            f"'{facts.group_id}' is a group of type {listing.group_type.value}, not a share group; "
            "a share consumer cannot join it.",
            "Give the share consumers another group_id, or delete that group once it has no members.",
        )


def _no_topic(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.topic, UnknownTopicOrPartitionError):
        yield cause(
            "no-such-topic",
            f"There is no topic '{facts.topic_name}', or its user may not see it.",
            "Check the name; create the topic, or give the user DESCRIBE and READ on it.",
        )
    elif isinstance(facts.topic, TopicAuthorizationFailedError):
        yield _no_permission("topic", facts.topic_name)
    elif isinstance(facts.topic, KafkaShareError):
        yield cause("topic-unknown", f"The topic cannot be described: {facts.topic}", with_remedy(facts.topic))


def _no_permission(kind: str, name: str) -> Finding:
    return cause(
        f"no-read-permission-on-{kind}",
        f"The user of this command has no READ permission on the {kind} '{name}'.",
        f"Give it one: kafka-acls.sh --bootstrap-server … --add --allow-principal User:NAME --operation READ "
        f"--{kind} {shlex.quote(name)}. (If the consumers have another user, run this command with theirs: "
        "--command-config.)",
    )


def _permissions(facts: Facts) -> Iterator[Finding]:
    for kind, name, described in (("topic", facts.topic_name, facts.topic), ("group", facts.group_id, facts.group)):
        if described is None or isinstance(described, KafkaShareError) or described.authorized_operations is None:
            continue
        if not described.authorized_operations & {AclOperation.READ, AclOperation.ALL}:
            yield _no_permission(kind, name)


def _leaders(facts: Facts) -> Iterator[Finding]:
    headless = [p for p in facts.partitions if not p.has_leader]
    if headless:
        yield cause(
            "no-leader",
            f"{partitions_named(headless)} of '{facts.topic_name}' {'have' if len(headless) > 1 else 'has'} no leader; "
            "nobody can read there.",
            "Bring the brokers of their replicas back.",
        )


def _emptiness(facts: Facts) -> Iterator[Finding]:
    known = [p for p in facts.partitions if p.earliest is not None and p.now.end_offset is not None]
    if known and len(known) == len(facts.partitions) and not any(p.has_records for p in known):
        yield note(
            "topic-empty",
            f"The topic '{facts.topic_name}' is empty: no partition holds a record.",
            "Check the producer, and whether retention has deleted what there was.",
        )


def _members(facts: Facts) -> Iterator[Finding]:
    if facts.listing is None:
        yield cause(
            "no-such-group",
            f"There is no group '{facts.group_id}': no consumer has ever joined it, or it was deleted.",
            "Start a consumer; if one runs, check its group_id and bootstrap_servers.",
        )
    elif isinstance(facts.group, KafkaShareError):
        yield cause("group-unknown", f"The group cannot be described: {facts.group}", with_remedy(facts.group))
    elif not facts.group.members:
        yield cause(
            "no-members",
            f"The group '{facts.group_id}' has no members: nobody consumes.",
            "Start a consumer. One that runs but does not call poll leaves the group after max_poll_interval_ms.",
        )
    elif facts.topic is None:
        yield cause(
            "nothing-subscribed",
            f"No member of '{facts.group_id}' subscribes to a topic, and the group has no offsets.",
            "Subscribe to a topic. A consumer that subscribes joins with its first poll.",
        )
    elif not _subscribers(facts.group, facts.topic_name):
        yield _not_subscribed(facts, facts.group)
    else:
        yield from _assignments(facts, facts.group)


def _not_subscribed(facts: Facts, group: ShareGroupDescription) -> Finding:
    """A remark only, if nobody asked for the topic: the group may have left it for good."""
    topics = sorted({name for member in group.members for name in member.subscribed_topic_names})
    text = (
        f"No member of '{facts.group_id}' subscribes to '{facts.topic_name}'; they subscribe to "
        f"{', '.join(topics[:MAX_NAMED]) or 'nothing'}."
    )
    if facts.is_topic_asked_for:
        return cause("not-subscribed", text, f"Subscribe to '{facts.topic_name}'.")
    return note(
        "not-subscribed",
        text,
        "If it should, subscribe to it. If the group is done with it, have its offsets forgotten, without members: "
        f"kafka-share-groups --bootstrap-server … --delete-offsets --group {shlex.quote(facts.group_id)} "
        f"--topic {shlex.quote(facts.topic_name)}",
    )


def _assignments(facts: Facts, group: ShareGroupDescription) -> Iterator[Finding]:
    assigned = {where.partition for m in group.members for where in m.assignment if where.topic == facts.topic_name}
    alone = [p for p in facts.partitions if p.partition not in assigned]
    if alone:
        yield cause(
            "not-assigned",
            f"{partitions_named(alone)} of '{facts.topic_name}' {'are' if len(alone) > 1 else 'is'} assigned to no "
            "member yet.",
            "Wait for the next heartbeats; if it stays so, look at the log of the group's coordinator "
            f"({group.coordinator.host}:{group.coordinator.port}).",
        )


def _subscribers(group: ShareGroupDescription, topic: str) -> list[ShareMemberDescription]:
    return [member for member in group.members if topic in member.subscribed_topic_names]


DECIDING: Final[tuple[Rule, ...]] = (_share_groups_off, _other_type, _no_topic)
"""Each of them leaves nothing else to say."""
STANDING: Final[tuple[Rule, ...]] = (_permissions, _leaders, _emptiness, _members)
"""These add up."""
