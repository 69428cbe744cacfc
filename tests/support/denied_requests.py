"""The requests that `denials.py` sends under each set of ACLs: one or more of every API, about things called "open",
"shut" and "missing". Structs are written as dictionaries.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Final

from kafka_share.broker.api_keys import ApiKey
from kafka_share.protocol.messages import MESSAGES
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.schema import Struct, schema_of

NAMES: Final = ("open", "shut", "missing")
UNKNOWN: Final = uuid.UUID(int=7)
MEMBER: Final = "bUVtYmVyT2ZBbGljZQAAAA"
"""Of the share group; 16 bytes in base64."""
_RECORD: Final = (0, 1_700_000_000_000, None, b"x", ())
_BATCH: Final = encode_batch([_RECORD])
_IN_TRANSACTION: Final = encode_batch(
    [_RECORD], producer_id=999_999, producer_epoch=0, base_sequence=0, is_transactional=True
)
_PRODUCER: Final = {"producer_id": 999_999}
_OLD: Final = "v3_and_below_"

Asked = tuple[str, int, Any]
"""A title, the version, the request."""


def requests(ids: dict[str, uuid.UUID]) -> Iterator[Asked]:
    """`ids` are those of the topics."""
    for api, version, values, *more in _rows(ids):
        request = _made(schema_of(MESSAGES[api][0]).struct, values)
        yield " ".join([api.label, *more]), version, request


def _made(struct: Struct, values: dict[str, Any]) -> Any:
    inner = {field.name: field.struct for field in struct.fields}
    made = {}
    for name, value in values.items():
        below = inner[name]
        if below is not None and isinstance(value, list):
            made[name] = [_made(below, one) for one in value]
        else:
            made[name] = value
    return struct.data_class(**made)


def _rows(ids: dict[str, uuid.UUID]) -> Iterator[Any]:
    by_id = [{"topic_id": one} for one in (ids["open"], ids["shut"], UNKNOWN)]
    yield from _logs(by_id)
    yield from _topics(by_id)
    yield from _settings()
    yield from _classic_groups(by_id, ids)
    yield from _consumer_groups()
    yield from _share_groups(ids)
    yield from _share_offsets(ids)
    yield from _transactions()
    yield from _cluster()
    yield from _acls()
    yield ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g", "h", "s", "missing"]}
    deleted = [{"name": name} for name in ("open-gone", "shut", "missing", "open-missing")]
    states = [*deleted, {"topic_id": ids["shut-gone"]}, {"topic_id": UNKNOWN}]
    yield ApiKey.DELETE_TOPICS, 6, {"timeout_ms": 9000, "topics": states}
    yield ApiKey.DELETE_TOPICS, 5, {"timeout_ms": 9000, "topic_names": ["open-gone", "shut-gone", "missing"]}


def _each(parts: str, part: Any, key: str = "name", names: tuple[str, ...] = NAMES) -> list[dict[str, Any]]:
    """A topic for each name, with one part."""
    return [{key: name, parts: [part]} for name in names]


def _logs(by_id: list[dict[str, Any]]) -> Iterator[Any]:
    written: dict[str, Any] = {"timeout_ms": 1000, "acks": 1}
    plain = {"index": 0, "records": _BATCH}
    yield ApiKey.PRODUCE, 9, {**written, "topic_data": _each("partition_data", plain)}
    yield ApiKey.PRODUCE, 13, {**written, "topic_data": [{**one, "partition_data": [plain]} for one in by_id]}, "by id"
    inside = {"index": 0, "records": _IN_TRANSACTION}
    written = {"timeout_ms": 1000, "acks": -1, "topic_data": [{"name": "open", "partition_data": [inside]}]}
    for transactional_id in ("t", "u", None):
        named = f"in transaction {transactional_id}"
        yield ApiKey.PRODUCE, 9, {**written, "transactional_id": transactional_id}, named
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    yield ApiKey.FETCH, 12, {"max_wait_ms": 0, "topics": _each("partitions", part, "topic")}
    yield ApiKey.FETCH, 17, {"max_wait_ms": 0, "topics": [{**one, "partitions": [part]} for one in by_id]}, "by id"
    part = {"partition_index": 0, "timestamp": -1}
    yield ApiKey.LIST_OFFSETS, 7, {"topics": _each("partitions", part)}
    part = {"partition": 0, "leader_epoch": 0}
    yield ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": _each("partitions", part, "topic")}
    part = {"partition_index": 0, "offset": 0}
    yield ApiKey.DELETE_RECORDS, 2, {"timeout_ms": 1000, "topics": _each("partitions", part)}
    yield ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": _each("partition_indexes", 0)}


def _topics(by_id: list[dict[str, Any]]) -> Iterator[Any]:
    named = [{"name": name} for name in NAMES]
    stays = {"allow_auto_topic_creation": False}
    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    yield ApiKey.METADATA, 10, {"topics": named, **stays, **operations}
    yield ApiKey.METADATA, 1, {"topics": named[:2]}
    yield ApiKey.METADATA, 12, {"topics": None, "include_topic_authorized_operations": True}, "of all"
    yield ApiKey.METADATA, 12, {"topics": [{"name": None, **one} for one in by_id], **stays}, "by id"
    yield ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": named}
    yield ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []}, "of all"
    created = [
        {"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("open-new", "shut-new", "open")
    ]
    yield ApiKey.CREATE_TOPICS, 7, {"topics": created, "validate_only": True}
    grown = [{"name": name, "count": 2} for name in NAMES]
    yield ApiKey.CREATE_PARTITIONS, 3, {"topics": grown, "validate_only": True, "timeout_ms": 9000}


def _settings() -> Iterator[Any]:
    values = {2: ("retention.ms", "86400000"), 32: ("share.auto.offset.reset", "earliest")}
    kinds = ((2, "open"), (2, "shut"), (32, "g"), (32, "h"))
    described = [{"resource_type": kind, "resource_name": name} for kind, name in ((4, "1"), *kinds)]
    yield ApiKey.DESCRIBE_CONFIGS, 4, {"resources": described}
    for api, version in ((ApiKey.INCREMENTAL_ALTER_CONFIGS, 1), (ApiKey.ALTER_CONFIGS, 2)):
        altered = [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": values[kind][0], "value": values[kind][1]}],
            }
            for kind, name in (kinds if version == 1 else kinds[:2])
        ]
        yield api, version, {"validate_only": True, "resources": altered}
    yield ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [16]}


def _classic_groups(by_id: list[dict[str, Any]], ids: dict[str, uuid.UUID]) -> Iterator[Any]:
    for kind, keys in ((0, ["g", "h"]), (1, ["t", "u"]), (2, [f"g:{ids['open']}:0"])):
        version = 6 if kind == 2 else 4
        yield ApiKey.FIND_COORDINATOR, version, {"key_type": kind, "coordinator_keys": keys}, str(kind)
    yield ApiKey.FIND_COORDINATOR, 3, {"key_type": 0, "key": "h"}
    member = {"generation_id": 1, "member_id": "m"}
    times = {"session_timeout_ms": 6000, "rebalance_timeout_ms": 6000}
    part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    fetched = _each("partition_indexes", 0, names=NAMES[:2])
    for group in ("g", "h"):
        one = {"group_id": group}
        yield ApiKey.JOIN_GROUP, 5, {**one, **times, "protocol_type": "x", "protocols": [{"name": "p"}]}
        yield ApiKey.SYNC_GROUP, 3, {**one, **member}
        yield ApiKey.HEARTBEAT, 4, {**one, **member}
        yield ApiKey.LEAVE_GROUP, 4, {**one, "members": [{"member_id": "m"}]}
        yield ApiKey.OFFSET_COMMIT, 8, {**one, "topics": _each("partitions", part)}
        yield ApiKey.OFFSET_COMMIT, 10, {**one, "topics": [{**named, "partitions": [part]} for named in by_id]}, "by id"
        yield ApiKey.OFFSET_FETCH, 7, {**one, "topics": fetched}
        yield ApiKey.OFFSET_FETCH, 7, {**one, "topics": None}, "of all"
    for topics, title in ((fetched, "of groups"), (None, "of groups, all")):
        groups = [{"group_id": group, "topics": topics} for group in ("g", "h")]
        yield ApiKey.OFFSET_FETCH, 9, {"groups": groups}, title
    yield ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g", "h"], "include_authorized_operations": True}
    yield ApiKey.LIST_GROUPS, 4, {}
    for group in ("g", "h"):
        topics = _each("partitions", {"partition_index": 0}, names=NAMES[:2])
        yield ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": topics}, group


def _consumer_groups() -> Iterator[Any]:
    member = {"member_id": "c" * 22, "rebalance_timeout_ms": 5000, "topic_partitions": []}
    for group, topic in (("c", "open"), ("c", "shut"), ("h", "open")):
        named = {"group_id": group, "subscribed_topic_names": [topic]}
        yield ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {**member, **named}, group, topic
    described = {"group_ids": ["c", "h"], "include_authorized_operations": True}
    yield ApiKey.CONSUMER_GROUP_DESCRIBE, 1, described
    leaving = {"group_id": "c", "member_id": "c" * 22, "member_epoch": -1}
    yield ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, leaving, "leaving"


def _share_groups(ids: dict[str, uuid.UUID]) -> Iterator[Any]:
    member = {"member_id": MEMBER}
    for group, topic in (("h", "open"), ("s", "shut"), ("s", "open")):
        named = {"group_id": group, "subscribed_topic_names": [topic]}
        yield ApiKey.SHARE_GROUP_HEARTBEAT, 1, {**member, **named}, group, topic
    described = {"group_ids": ["s", "h"], "include_authorized_operations": True}
    yield ApiKey.SHARE_GROUP_DESCRIBE, 1, described
    member = {"group_id": "s", "member_id": MEMBER}
    limits = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1000, "max_records": 1, "batch_size": 1}

    def topics(first: int | None) -> list[dict[str, Any]]:
        batch = {"first_offset": first, "last_offset": first, "acknowledge_types": [1]}
        part = {"partition_index": 0, "acknowledgement_batches": [] if first is None else [batch]}
        return [{"topic_id": ids[name], "partitions": [part]} for name in NAMES[:2]]

    for group in ("h", "s"):
        yield ApiKey.SHARE_FETCH, 1, {**member, "group_id": group, **limits, "topics": topics(None)}, group
    limits["max_wait_ms"] = limits["min_bytes"] = 0
    acknowledging = {**member, **limits, "share_session_epoch": 1, "topics": topics(0)}
    yield ApiKey.SHARE_FETCH, 1, acknowledging, "acknowledging"
    for group, epoch, first in (("h", 1, 90), ("s", 2, 90), ("s", 3, None)):
        values = {**member, "group_id": group, "share_session_epoch": epoch, "topics": topics(first)}
        yield ApiKey.SHARE_ACKNOWLEDGE, 1, values, group, str(first)
    yield ApiKey.SHARE_FETCH, 1, {**member, "share_session_epoch": -1}, "the last"
    yield ApiKey.SHARE_GROUP_HEARTBEAT, 1, {**member, "member_epoch": -1}, "leaving"


def _share_offsets(ids: dict[str, uuid.UUID]) -> Iterator[Any]:
    topics = _each("partitions", 0, "topic_name")
    groups = [{"group_id": group, "topics": topics} for group in ("s", "h")]
    yield ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, {"groups": groups}
    yield ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, {"groups": [{"group_id": "s", "topics": None}]}, "of all"
    part = {"partition_index": 0, "start_offset": 0}
    for group in ("h", "s"):
        topics = _each("partitions", part, "topic_name")
        yield ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, {"group_id": group, "topics": topics}, group
    for group in ("h", "s"):
        topics = [{"topic_name": name} for name in NAMES]
        yield ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, {"group_id": group, "topics": topics}, group
    state = [{"topic_id": ids["open-gone"], "partitions": [{"partition": 0}]}]
    for api in (
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ):
        yield api, 0, {"group_id": "x", "topics": state}


def _transactions() -> Iterator[Any]:
    for transactional_id in ("t", "u", None):
        values = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}
        yield ApiKey.INIT_PRODUCER_ID, 4, values, str(transactional_id)
    for transactional_id, names in (("t", ("open", "shut")), ("t", NAMES), ("u", ("open",))):
        topics = _each("partitions", 0, names=names)
        old = {_OLD + "transactional_id": transactional_id, _OLD + "producer_id": 999_999, _OLD + "topics": topics}
        yield ApiKey.ADD_PARTITIONS_TO_TXN, 3, old, transactional_id, str(len(names))
    verified = {**_PRODUCER, "transactional_id": "t", "topics": _each("partitions", 0), "verify_only": True}
    yield ApiKey.ADD_PARTITIONS_TO_TXN, 4, {"transactions": [verified]}, "of a broker"
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    for transactional_id, group in (("t", "g"), ("t", "h"), ("u", "g")):
        values = {**_PRODUCER, "transactional_id": transactional_id, "group_id": group}
        yield ApiKey.ADD_OFFSETS_TO_TXN, 3, values, transactional_id, group
        topics = _each("partitions", part, names=("shut", "missing"))
        yield ApiKey.TXN_OFFSET_COMMIT, 3, {**values, "topics": topics}, transactional_id, group
    for transactional_id in ("t", "u"):
        yield ApiKey.END_TXN, 3, {**_PRODUCER, "transactional_id": transactional_id}, transactional_id
    topics = _each("partition_indexes", 0, names=("missing",))
    yield ApiKey.WRITE_TXN_MARKERS, 1, {"markers": [{**_PRODUCER, "topics": topics}]}
    yield ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["t", "u"]}
    yield ApiKey.LIST_TRANSACTIONS, 0, {}


def _cluster() -> Iterator[Any]:
    yield ApiKey.DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": True}
    yield ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": []}
    yield ApiKey.ELECT_LEADERS, 2, {"topic_partitions": _each("partitions", 0, "topic", ("open",))}
    moved = _each("partitions", {"partition_index": 0, "replicas": None}, names=("open",))
    yield ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, {"topics": moved}
    yield ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None}
    yield ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "nobody"}]}
    yield ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [{"name": "nobody", "mechanism": 1}]}


def _acls() -> Iterator[Any]:
    wanted = {
        "resource_type_filter": 2,
        "resource_name_filter": "none",
        "principal_filter": None,
        "host_filter": None,
        "permission_type": 1,
    }
    for operation in (3, 99):
        yield ApiKey.DESCRIBE_ACLS, 3, {**wanted, "operation": operation}, str(operation)
    rest = {"principal": "User:x", "host": "*", "operation": 3, "permission_type": 3}
    created = [
        {"resource_type": 4, "resource_name": "other", **rest},
        {"resource_type": 2, "resource_name": "", **rest},
    ]
    yield ApiKey.CREATE_ACLS, 3, {"creations": created}
    yield ApiKey.DELETE_ACLS, 3, {"filters": [{**wanted, "operation": 3}]}
