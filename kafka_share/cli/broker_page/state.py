"""What the page shows, as one JSON document: topics, groups, and one group with its members and windows.

`server` asks for it on each look. It is made of what `ReferenceBroker` shows to tests. It is bounded: windows come as
runs of offsets that agree, a page of partitions at a time, and what was cut is said.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_share.broker.inspection import ShareGroupSnapshot, SharePartitionSnapshot, SnapshotRange
from kafka_share.broker.reference_broker import ReferenceBroker
from kafka_share.errors import InvalidArgumentError
from kafka_share.records import TopicPartition

MAX_ROWS: Final = 200
"""Topics, groups and members that are listed."""
PARTITIONS_ON_A_PAGE: Final = 20
MAX_RUNS: Final = 2_000
"""Of one share partition; the rest of its window is cut off."""
_DEFAULT_LOCK_MS: Final = 30_000


def state_of(broker: ReferenceBroker, group_id: str, page: int) -> dict[str, Any]:
    """The document; without a group of this id the first share group is shown, if there is one."""
    topics, groups = broker.topics(), broker.groups()
    shares = [name for name, kind in groups.items() if kind == "share"]
    shown = group_id if group_id in shares else next(iter(shares), None)
    return {
        "now_ms": broker.clock.now_ms(),
        "bootstrap_servers": broker.bootstrap_servers,
        "topics": [_topic(broker, name, count) for name, count in list(topics.items())[:MAX_ROWS]],
        "topics_total": len(topics),
        "groups": [_row(broker, name, kind) for name, kind in list(groups.items())[:MAX_ROWS]],
        "groups_total": len(groups),
        "counts": _counts(broker),
        "group": None if shown is None else _group(broker, shown, page),
    }


def _topic(broker: ReferenceBroker, name: str, partitions: int) -> dict[str, Any]:
    try:
        records = sum(broker.end_offset(name, index) for index in range(min(partitions, MAX_ROWS)))
    except InvalidArgumentError:  # it has been deleted meanwhile
        records = 0
    return {"name": name, "partitions": partitions, "end_offsets": records}


def _row(broker: ReferenceBroker, name: str, kind: str) -> dict[str, Any]:
    group = broker.share_group(name) if kind == "share" else None
    found = {"state": group.state, "members": len(group.members)} if group is not None else {}
    return {"id": name, "type": kind, "state": None, "members": None, **found}


def _counts(broker: ReferenceBroker) -> dict[str, int]:
    metrics = broker.metrics()
    kinds = ("Accept", "Release", "Reject", "Renew")
    counts = {kind: metrics.value("RecordAcknowledgementsPerSec", ackType=kind) for kind in kinds}
    return {**counts, "Lock ended": metrics.value("AcquisitionLockTimeoutPerSec")}


def _group(broker: ReferenceBroker, group_id: str, page: int) -> dict[str, Any] | None:
    group = broker.share_group(group_id)
    if group is None:
        return None
    pages = max(1, -(-len(group.initialised) // PARTITIONS_ON_A_PAGE))
    page = min(max(page, 0), pages - 1)
    members = list(group.members)
    own = broker.group_config(group_id)
    on_page = group.initialised[page * PARTITIONS_ON_A_PAGE : (page + 1) * PARTITIONS_ON_A_PAGE]
    return {
        "id": group_id,
        "state": group.state,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "lock_ms": int(own.get("share.record.lock.duration.ms", _DEFAULT_LOCK_MS)),
        "members": _members(group),
        "members_total": len(members),
        "page": page,
        "pages": pages,
        "partitions_total": len(group.initialised),
        "partitions": [found for one in on_page if (found := _partition(broker, group_id, one, members)) is not None],
    }


def _members(group: ShareGroupSnapshot) -> list[dict[str, Any]]:
    return [
        {
            "number": number,
            "id": member.member_id,
            "client_id": member.client_id,
            "epoch": member.epoch,
            "assigned": [f"{one.topic}-{one.partition}" for one in member.assigned[:MAX_ROWS]],
        }
        for number, member in enumerate(list(group.members.values())[:MAX_ROWS], 1)
    ]


def _partition(
    broker: ReferenceBroker, group_id: str, where: TopicPartition, members: list[str]
) -> dict[str, Any] | None:
    try:
        window = broker.share_partition(group_id, where.topic, where.partition)
        log_end, leader = broker.end_offset(where.topic, where.partition), broker.leader(where.topic, where.partition)
        stored = broker.stored_offset(group_id, where.topic, where.partition)
    except InvalidArgumentError:  # the topic has been deleted meanwhile
        return None
    start = window.start_offset if window is not None else stored
    finished = _finished(window) if window is not None else 0
    ranges = () if window is None else window.ranges
    now_ms = broker.clock.now_ms()
    return {
        "topic": where.topic,
        "partition": where.partition,
        "leader": leader,
        "is_loaded": window is not None,
        "start_offset": start if start >= 0 else None,
        "end_offset": window.end_offset if window is not None else None,
        "log_end_offset": log_end,
        "lag": max(0, log_end - start - finished) if start >= 0 else None,
        "runs": [_run(one, members, now_ms) for one in ranges[:MAX_RUNS]],
        "runs_total": len(ranges),
    }


def _finished(window: SharePartitionSnapshot) -> int:
    return sum(
        one.last - max(one.first, window.start_offset) + 1
        for one in window.ranges
        if one.state.is_terminal and one.last >= window.start_offset
    )


def _run(one: SnapshotRange, members: list[str], now_ms: int) -> list[Any]:
    """First and last offset, state, delivery count, number of the owner (0: none, or it left), its id, time left, and
    whether the state is being stored."""
    owner = members.index(one.member) + 1 if one.member in members else 0
    left_ms = None if one.lock_expires_at_ms is None or one.is_pending else max(0, one.lock_expires_at_ms - now_ms)
    state = one.state.name.capitalize()
    return [one.first, one.last, state, one.delivery_count, owner, one.member, left_ms, one.is_pending]
