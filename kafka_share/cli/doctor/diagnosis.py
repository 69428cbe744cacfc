"""The judgement of `kafka-share doctor`: from facts to findings, each with its remedy. Pure functions.

A rule looks at the facts and says what it finds; `diagnose` asks them in an order in which a reader would: what rules
out everything else first. A cause explains that nothing arrives; a note is worth knowing and explains less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from kafka_share.admin_values import AclOperation, GroupType, ShareGroupDescription, ShareMemberDescription
from kafka_share.cli.doctor.facts import Facts, PartitionFacts
from kafka_share.cli.endings import with_remedy
from kafka_share.errors import KafkaShareError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError

_CONFIG: Final = "kafka-share-groups --bootstrap-server … --alter --group {group} --add-config {change}"
_MAX_NAMED: Final = 5
"""How many members or partitions are named; of more, only their number."""


@attrs.frozen(kw_only=True)
class Finding:
    """One reason, or one remark."""

    code: str
    """For scripts: a name that stays the same between versions."""
    is_cause: bool
    text: str
    remedy: str


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """All findings, causes first. Without a cause, nothing that the cluster tells explains a silent consumer."""
    for rule in _DECIDING:
        found = tuple(rule(facts))
        if found:
            return found
    found = tuple(finding for rule in _RULES for finding in rule(facts))
    return tuple(sorted(found, key=lambda finding: not finding.is_cause))


def _cause(code: str, text: str, remedy: str) -> Finding:
    return Finding(code=code, is_cause=True, text=text, remedy=remedy)


def _note(code: str, text: str, remedy: str) -> Finding:
    return Finding(code=code, is_cause=False, text=text, remedy=remedy)


# ---- rules that leave nothing else to say


def _share_groups_off(facts: Facts) -> Iterator[Finding]:
    if not facts.offers_share_fetch:
        yield _cause(
            "share-groups-not-offered",
            "The brokers do not know share groups: they offer no ShareFetch.",
            "Use a cluster of Kafka 4.2 or later (4.1: as a preview).",
        )
    elif facts.share_version < 1:
        yield _cause(
            "share-groups-off",
            "Share groups are switched off in this cluster: its feature share.version is at level 0.",
            "An administrator switches them on: kafka-features.sh --bootstrap-server … upgrade "
            "--feature share.version=1",
        )


def _other_type(facts: Facts) -> Iterator[Finding]:
    listing = facts.listing
    if listing is not None and listing.group_type not in (GroupType.SHARE, GroupType.UNKNOWN):
        yield _cause(
            "other-group-type",
            f"'{facts.group_id}' is a group of type {listing.group_type.value}, not a share group; "
            "a share consumer cannot join it.",
            "Give the share consumers another group_id, or delete that group once it has no members.",
        )


def _no_topic(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.topic, UnknownTopicOrPartitionError):
        yield _cause(
            "no-such-topic",
            f"There is no topic '{facts.topic_name}', or its user may not see it.",
            "Check the name; create the topic, or give the user DESCRIBE and READ on it.",
        )
    elif isinstance(facts.topic, TopicAuthorizationFailedError):
        yield _no_permission("topic", facts.topic_name)
    elif isinstance(facts.topic, KafkaShareError):
        yield _cause("topic-unknown", f"The topic cannot be described: {facts.topic}", with_remedy(facts.topic))


def _no_permission(kind: str, name: str) -> Finding:
    return _cause(
        f"no-read-permission-on-{kind}",
        f"The user of this command has no READ permission on the {kind} '{name}'.",
        f"Give it one: kafka-acls.sh --bootstrap-server … --add --allow-principal User:NAME --operation READ "
        f"--{kind} {name}. (If the consumers have another user, run this command with theirs: --command-config.)",
    )


# ---- rules that add up


def _permissions(facts: Facts) -> Iterator[Finding]:
    for kind, name, described in (("topic", facts.topic_name, facts.topic), ("group", facts.group_id, facts.group)):
        if isinstance(described, KafkaShareError) or described.authorized_operations is None:
            continue
        if not described.authorized_operations & {AclOperation.READ, AclOperation.ALL}:
            yield _no_permission(kind, name)


def _leaders(facts: Facts) -> Iterator[Finding]:
    headless = [p for p in facts.partitions if not p.has_leader]
    if headless:
        yield _cause(
            "no-leader",
            f"{_partitions(headless)} of '{facts.topic_name}' {_have(headless)} no leader; nobody can read there.",
            "Bring the brokers of their replicas back.",
        )


def _emptiness(facts: Facts) -> Iterator[Finding]:
    known = [p for p in facts.partitions if p.earliest is not None and p.latest is not None]
    if known and len(known) == len(facts.partitions) and not any(p.has_records for p in known):
        yield _cause(
            "topic-empty",
            f"The topic '{facts.topic_name}' is empty: no partition holds a record.",
            "Check the producer, and whether retention has deleted what there was.",
        )


def _members(facts: Facts) -> Iterator[Finding]:
    if facts.listing is None:
        yield _cause(
            "no-such-group",
            f"There is no group '{facts.group_id}': no consumer has ever joined it, or it was deleted.",
            "Start a consumer; if one runs, check its group_id and bootstrap_servers.",
        )
    elif isinstance(facts.group, KafkaShareError):
        yield _cause("group-unknown", f"The group cannot be described: {facts.group}", with_remedy(facts.group))
    elif not facts.group.members:
        yield _cause(
            "no-members",
            f"The group '{facts.group_id}' has no members: nobody consumes.",
            "Start a consumer. One that runs but does not call poll leaves the group after max_poll_interval_ms.",
        )
    elif not _subscribers(facts.group, facts.topic_name):
        topics = sorted({name for member in facts.group.members for name in member.subscribed_topic_names})
        yield _cause(
            "not-subscribed",
            f"No member of '{facts.group_id}' subscribes to '{facts.topic_name}'; they subscribe to "
            f"{', '.join(topics[:_MAX_NAMED]) or 'nothing'}.",
            f"Subscribe to '{facts.topic_name}'.",
        )
    else:
        yield from _assignments(facts, facts.group)


def _assignments(facts: Facts, group: ShareGroupDescription) -> Iterator[Finding]:
    assigned = {where.partition for m in group.members for where in m.assignment if where.topic == facts.topic_name}
    alone = [p for p in facts.partitions if p.partition not in assigned]
    if alone:
        yield _cause(
            "not-assigned",
            f"{_partitions(alone)} of '{facts.topic_name}' {_are(alone)} assigned to no member yet.",
            "Wait for the next heartbeats; if it stays so, look at the log of the group's coordinator "
            f"({group.coordinator.host}:{group.coordinator.port}).",
        )


def _subscribers(group: ShareGroupDescription, topic: str) -> list[ShareMemberDescription]:
    return [member for member in group.members if topic in member.subscribed_topic_names]


def _start(facts: Facts) -> Iterator[Finding]:
    reset = facts.config("share.auto.offset.reset")
    untouched = [p for p in facts.partitions if p.start_offset is None and p.has_records]
    if untouched and reset == "latest":
        yield _cause(
            "starts-at-latest",
            f"The group has finished nothing in {_partitions(untouched)}, and share.auto.offset.reset is latest: it "
            "gets only records that are written after it has begun to read there.",
            "For the records that are there already, before the first consumer starts: "
            + _CONFIG.format(group=facts.group_id, change="share.auto.offset.reset=earliest")
            + "; later: kafka-share-groups --reset-offsets --to-earliest, without members.",
        )
    beyond = [p for p in facts.partitions if p.lag is not None and p.lag < 0]
    if beyond:
        yield _cause(
            "starts-beyond-the-end",
            f"In {_partitions(beyond)} the group starts beyond the end of the log.",
            "Reset its offsets without members: kafka-share-groups --reset-offsets --to-latest",
        )
    finished = [p for p in facts.partitions if p.waiting == 0]
    if finished and len(finished) == len(facts.partitions):
        yield _cause(
            "nothing-new",
            f"The group is through with every record of '{facts.topic_name}': its lag is 0.",
            "Nothing is wrong; new records will arrive.",
        )


def _locks(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.group, KafkaShareError) or not facts.group.members:
        return
    stuck = [p for p in facts.partitions if _is_stuck(p, facts)]
    moving = [p for p in facts.partitions if p.has_moved]
    if moving:
        yield _note(
            "moving",
            f"In {_partitions(moving)} the group got on, or records were added, within {facts.observed_ms} ms.",
            "Records arrive at some member: with several members look at all of them.",
        )
    for partition in stuck:
        yield _locks_held(partition, facts, facts.group)


def _is_stuck(partition: PartitionFacts, facts: Facts) -> bool:
    """There are records and members, and nothing moves: some member keeps what it has acquired."""
    if partition.has_moved:
        return False
    if partition.start_offset is None:
        return partition.has_records and facts.config("share.auto.offset.reset") != "latest"
    return (partition.waiting or 0) > 0


def _locks_held(partition: PartitionFacts, facts: Facts, group: ShareGroupDescription) -> Finding:
    holders = [m for m in group.members if (facts.topic_name, partition.partition) in m.assignment]
    names = ", ".join(f"{m.member_id} ({m.client_id} at {m.client_host})" for m in holders[:_MAX_NAMED])
    who = {0: "nobody that is a member now", 1: f"member {names}"}.get(len(holders), f"one of the members {names}")
    lock_ms = facts.config("share.record.lock.duration.ms") or "30000"
    waiting = partition.record_count if partition.waiting is None else partition.waiting
    return _cause(
        "locks-held",
        f"In partition {partition.partition} {waiting} records wait and nothing moved within {facts.observed_ms} ms: "
        f"they are held under acquisition locks by {who}.",
        "See what that application does with them: acknowledged late or never, they come back only when their lock "
        f"ends ({lock_ms} ms), as long as it is not renewed. With share.isolation.level read_committed an open "
        "transaction of a producer looks the same.",
    )


def _renew(facts: Facts) -> Iterator[Finding]:
    if facts.config("share.renew.acknowledge.enable") == "false":
        yield _note(
            "renew-disabled",
            "The group does not allow lock renewal: an acknowledgement of type RENEW fails, and its record is given "
            "to somebody else when the lock ends.",
            "Renew nothing, or " + _CONFIG.format(group=facts.group_id, change="share.renew.acknowledge.enable=true"),
        )


def _lag_unknown(facts: Facts) -> Iterator[Finding]:
    blind = [p for p in facts.partitions if p.start_offset is not None and p.lag is None]
    if blind:
        yield _note(
            "lag-unknown",
            f"The brokers do not tell the lag of {_partitions(blind)} (Kafka 4.1 does not); it is taken from the start "
            "offset, which is stored late.",
            "Kafka 4.2 and later tell it.",
        )


Rule = Callable[[Facts], Iterator[Finding]]
_DECIDING: Final[tuple[Rule, ...]] = (_share_groups_off, _other_type, _no_topic)
_RULES: Final[tuple[Rule, ...]] = (
    _permissions,
    _leaders,
    _emptiness,
    _members,
    _start,
    _locks,
    _renew,
    _lag_unknown,
)


def _partitions(found: list[PartitionFacts]) -> str:
    numbers = [str(p.partition) for p in found]
    if len(numbers) > _MAX_NAMED:
        return f"{len(numbers)} partitions"
    return f"partition{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _have(found: list[PartitionFacts]) -> str:
    return "have" if len(found) > 1 else "has"


def _are(found: list[PartitionFacts]) -> str:
    return "are" if len(found) > 1 else "is"
