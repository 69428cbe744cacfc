"""Hypothesis strategies for what a share consumer sends, made from the schemas, with values that a broker may meet.

Values come by the field's name where a name says what is sensible; a broker that gets nothing but random numbers shows
only its first check. Groups, members and topics are a few, so that requests meet what earlier ones left.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import attrs
from hypothesis import strategies as st

from kafka_share.protocol.schema import Field, Struct, schema_of

_MEMBERS = ("MbVbHqqGQ2uZ6ZbHnhoZ0g", "KvRkX1TzTJ2dMWHHZqYHtQ", "")
_NUMBERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


@attrs.frozen
class Known:
    """What exists on the broker: requests name it, or something that does not exist."""

    group: str
    topic: str
    topic_id: uuid.UUID


def requests(request_class: Any, version: int, known: Known) -> st.SearchStrategy[Any]:
    """Requests with every field of the version set, and tagged fields that no broker knows."""
    schema = schema_of(request_class)
    return _structs(schema.struct, version, _by_name(known), tagged=schema.is_flexible(version))


def _by_name(known: Known) -> Mapping[str, st.SearchStrategy[Any]]:
    offset = st.integers(-1, 12)
    epoch = st.integers(-1, 3)
    groups = st.sampled_from([known.group, known.group, f"{known.group}-other", ""])
    topics = st.sampled_from([known.topic, known.topic, "no-such-topic", "", "ü" * 200])
    return {
        "group_id": groups,
        "group_ids": groups,
        "member_id": st.sampled_from(_MEMBERS),
        "rack_id": st.sampled_from(["r", ""]),
        "topic_name": topics,
        "subscribed_topic_names": topics,
        "topic_id": st.sampled_from([known.topic_id, known.topic_id, uuid.UUID(int=7)]),
        "partition_index": st.integers(0, 2),
        "partition": st.integers(0, 2),
        "partitions": st.integers(0, 2),
        "member_epoch": epoch,
        "share_session_epoch": epoch,
        "state_epoch": epoch,
        "leader_epoch": epoch,
        "max_wait_ms": st.integers(-1, 20),
        "min_bytes": st.integers(-1, 2),
        "max_bytes": st.sampled_from([1 << 20, 1, 0]),
        "max_records": st.integers(-1, 20),
        "batch_size": st.integers(-1, 20),
        "share_acquire_mode": st.integers(0, 2),
        "first_offset": offset,
        "last_offset": offset,
        "start_offset": offset,
        "acknowledge_types": st.integers(-1, 5),
        "delivery_state": st.sampled_from([0, 2, 4, 9]),
        "delivery_count": st.integers(0, 5),
        "delivery_complete_count": offset,
        "name": topics,
        "key": groups,
        "coordinator_keys": groups,
        "key_type": st.integers(0, 3),
        "cluster_id": st.sampled_from(["no-such-cluster", ""]),
        "client_software_name": st.sampled_from(["wire-check", ""]),
        "client_software_version": st.sampled_from(["1", ""]),
    }


def _structs(
    struct: Struct, version: int, by_name: Mapping[str, st.SearchStrategy[Any]], *, tagged: bool
) -> st.SearchStrategy[Any]:
    fields = {f.name: _values(f, version, by_name, tagged=tagged) for f in struct.fields if f.in_version(version)}
    tags = st.dictionaries(st.integers(100, 1 << 20), st.binary(max_size=8), max_size=1) if tagged else st.just({})

    def make(values: dict[str, Any], unknown: dict[int, bytes]) -> Any:
        return struct.data_class(**values, **{f"_{tag}": content for tag, content in unknown.items()})

    return st.builds(make, st.fixed_dictionaries(fields), tags)


def _values(
    field: Field, version: int, by_name: Mapping[str, st.SearchStrategy[Any]], *, tagged: bool
) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        one = _structs(field.struct, version, by_name, tagged=tagged)
    elif field.name in by_name:
        one = by_name[field.name]
    elif field.type in _NUMBERS:
        bits = _NUMBERS[field.type]
        one = st.integers(-(1 << bits), (1 << bits) - 1)
    else:
        assert field.type == "bool", f"{field.name} of type {field.type} has no values"
        one = st.booleans()
    values = st.lists(one, max_size=3) if field.is_array else one
    return st.one_of(st.none(), values, values, values) if field.is_nullable(version) else values
