"""Our admin client, the same calls on the reference broker and on real Apache Kafka.

The first sentence of each docstring is the scenario's row in docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conformance.admin_over_wire import Admin
from conformance.kafka_targets import Target
from conformance.share_flow import Flow, Keep, begin
from support.waiting import poll_until, wait_until

from kafka_share import (
    AcknowledgeType,
    AclOperation,
    ConfigChange,
    ConfigSource,
    GroupState,
    GroupType,
    KafkaShareAdmin,
    OffsetSpec,
    ShareGroupDescription,
    SharePartitionOffset,
    TopicPartition,
)
from kafka_share.errors import (
    GroupIdNotFoundError,
    InvalidConfigError,
    KafkaShareError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

RESET = "share.auto.offset.reset"
LOCK = "share.record.lock.duration.ms"
Names = Callable[[str], str]


@pytest.fixture
def flow(kafka: Target, kafka_admin: Admin, unique: Names, closing: Keep) -> Flow:
    return begin(kafka, kafka_admin, unique, closing)


@pytest.fixture(scope="session")
def ours(kafka: Target) -> Iterator[KafkaShareAdmin]:
    with KafkaShareAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


def alters_offsets(target: Target) -> bool:
    """Kafka 4.1 cannot alter offsets, nor does it tell a lag; it is the one that lacks ShareFetch version 2 as well."""
    return target.speaks_v2


def consumed(flow: Flow, count: int) -> None:
    """Accept the first `count` records of the topic, and leave."""
    consumer = flow.explicit()
    poll_until(consumer, count, consumer.acknowledge)
    assert set(consumer.commit_sync().values()) == {None}
    consumer.close()


def test_the_cluster_is_described(ours: KafkaShareAdmin, kafka: Target) -> None:
    """The admin client sees the nodes and that share groups are on."""
    found = ours.describe_cluster()
    assert len(found.nodes) == kafka.nodes
    assert found.controller in found.nodes
    assert found.share_version >= 1
    assert found.api_versions[77] == (1, 1)
    assert found.api_versions[90] == ((0, 1) if alters_offsets(kafka) else (0, 0))


@pytest.mark.behaviour("security")
def test_a_group_is_listed_and_described(flow: Flow, ours: KafkaShareAdmin) -> None:
    """The admin client lists a group by state in any case, and describes its member, epochs and allowed operations."""
    flow.produce(b"1")
    consumer = flow.explicit(client_id="described", client_rack="r1")
    poll_until(consumer, 1, consumer.acknowledge)
    listed = {g.group_id: g for g in ours.list_share_groups(["sTABLE"]).groups}[flow.group]
    assert (listed.state, listed.group_type, listed.protocol) == (GroupState.STABLE, GroupType.SHARE, "share")
    found = ours.describe_share_groups([flow.group, "nope"], include_authorized_operations=True)
    group = found[flow.group]
    assert isinstance(group, ShareGroupDescription)
    assert (group.state, group.assignor, group.group_epoch) == (GroupState.STABLE, "simple", group.assignment_epoch)
    assert group.authorized_operations is not None
    assert set(group.authorized_operations) == {
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    }
    (member,) = group.members
    assert (member.client_id, member.rack_id, member.client_host) == ("described", "r1", "/127.0.0.1")
    assert member.assignment == (TopicPartition(flow.topic, 0),)
    assert isinstance(found["nope"], GroupIdNotFoundError)
    consumer.close()
    assert ours.describe_share_groups([flow.group])[flow.group].state is GroupState.EMPTY  # type: ignore[union-attr]
    assert flow.group not in [g.group_id for g in ours.list_groups(types=["consumer", "classic"]).groups]


@pytest.mark.behaviour("administration")
def test_the_start_is_one_write_behind_and_the_lag_is_exact(flow: Flow, ours: KafkaShareAdmin, kafka: Target) -> None:
    """Nothing is shown until the first write; then the lag is exact (from 4.2), and the start one write behind."""
    where = TopicPartition(flow.topic, 0)
    flow.produce(*[b"%d" % number for number in range(10)])
    assert ours.list_share_group_offsets({flow.group: None}) == {flow.group: {}}
    consumer = flow.explicit()
    records = {record.offset: record for record in poll_until(consumer, 10)}
    assert ours.list_share_group_offsets({flow.group: [where]})[flow.group] == {where: None}

    def after(*offsets: int, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> tuple[int, int | None]:
        for offset in offsets:
            consumer.acknowledge(records[offset], kind)
        consumer.commit_sync()
        shown = ours.list_share_group_offsets({flow.group: [where]})[flow.group]
        assert not isinstance(shown, KafkaShareError)
        offset_now = shown[where]
        assert isinstance(offset_now, SharePartitionOffset)
        return offset_now.start_offset, offset_now.lag

    steps = [after(3, 4), after(5, kind=AcknowledgeType.REJECT), after(0), after(1, 2, 6, 7, 8)]
    assert [start for start, _ in steps] == [0, 0, 0, 1]
    lags: list[int | None] = [8, 7, 6, 1] if alters_offsets(kafka) else [None] * 4
    assert [lag for _, lag in steps] == lags
    assert after(9, kind=AcknowledgeType.RELEASE) == (9, 1 if alters_offsets(kafka) else None)


@pytest.mark.behaviour("administration")
def test_offsets_are_altered_where_the_broker_can(
    flow: Flow, ours: KafkaShareAdmin, kafka: Target, unique: Names
) -> None:
    """Altering makes the group at its offset; Kafka 4.1, which succeeds without effect, is noticed as unsupported."""
    flow.produce(*[b"%d" % number for number in range(10)])
    where, beyond, nowhere = TopicPartition(flow.topic, 0), TopicPartition(flow.topic, 7), TopicPartition("nix", 0)
    if not alters_offsets(kafka):
        with pytest.raises(UnsupportedVersionError, match=r"4\.1"):
            ours.alter_share_group_offsets(flow.group, {where: 8, nowhere: 0})
        return
    found = ours.alter_share_group_offsets(flow.group, {where: 8, beyond: 0, nowhere: 0})
    assert found[where] is None
    assert isinstance(found[beyond], UnknownTopicOrPartitionError)
    assert isinstance(found[nowhere], UnknownTopicOrPartitionError)
    shown = ours.list_share_group_offsets({flow.group: None})[flow.group]
    assert shown == {where: SharePartitionOffset(8, 0, 2)}
    assert flow.group in [g.group_id for g in ours.list_share_groups([GroupState.EMPTY]).groups]
    assert ours.alter_share_group_offsets(flow.group, {where: -1}) == {where: None}
    assert ours.list_share_group_offsets({flow.group: None})[flow.group] == {where: None}
    assert ours.alter_share_group_offsets(flow.group, {where: 9}) == {where: None}
    consumer = flow.explicit()
    assert [record.value for record in poll_until(consumer, 1, consumer.acknowledge)] == [b"9"]
    with pytest.raises(NonEmptyGroupError):
        ours.alter_share_group_offsets(flow.group, {where: 0})


@pytest.mark.behaviour("administration")
def test_offsets_and_groups_are_deleted(flow: Flow, ours: KafkaShareAdmin, unique: Names) -> None:
    """Offsets of a topic are deleted, then the group; members, missing topics and missing groups are errors."""
    flow.produce(b"1")
    where = TopicPartition(flow.topic, 0)
    consumed(flow, 1)
    deleted = ours.delete_share_group_offsets(flow.group, [flow.topic, "nix"])
    assert deleted[flow.topic] is None
    assert isinstance(deleted["nix"], UnknownTopicOrPartitionError)
    assert ours.list_share_group_offsets({flow.group: None}) == {flow.group: {}}
    with pytest.raises(GroupIdNotFoundError):
        ours.delete_share_group_offsets(unique("none"), [flow.topic])
    consumer = flow.member()
    consumer.poll(timeout_ms=100)
    wait_until(lambda: bool(members_of(ours, flow.group)))
    with pytest.raises(NonEmptyGroupError):
        ours.delete_share_group_offsets(flow.group, [flow.topic])
    busy = ours.delete_share_groups([flow.group, "nope"])
    assert isinstance(busy[flow.group], NonEmptyGroupError)
    assert isinstance(busy["nope"], GroupIdNotFoundError)
    consumer.close()
    assert ours.delete_share_groups([flow.group]) == {flow.group: None}
    assert isinstance(ours.describe_share_groups([flow.group])[flow.group], GroupIdNotFoundError)
    assert ours.list_share_group_offsets({flow.group: [where]}) == {flow.group: {where: None}}


def members_of(admin: KafkaShareAdmin, group: str) -> Any:
    found = admin.describe_share_groups([group])[group]
    return found.members if isinstance(found, ShareGroupDescription) else ()


@pytest.mark.behaviour("administration")
def test_group_configs_are_ensured_shown_and_refused(ours: KafkaShareAdmin, unique: Names) -> None:
    """Group configs are set once, shown with their source, unset again, and refused when they are not allowed."""
    group = unique("g")
    assert ours.ensure_group_config(group, {RESET: "earliest"}) == {RESET: ConfigChange(None, "earliest")}
    assert ours.ensure_group_config(group, {RESET: "earliest"}) == {}
    described = ours.describe_group_configs([group])[group]
    assert not isinstance(described, KafkaShareError)
    assert (described[RESET].value, described[RESET].source) == ("earliest", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert described[RESET].synonyms[0].source is ConfigSource.DYNAMIC_GROUP_CONFIG
    for bad in ({RESET: "EARLIEST"}, {"nix": "1"}, {LOCK: 1}, {RESET: "by_duration:x"}):
        with pytest.raises(InvalidConfigError):
            ours.alter_group_configs(group, bad)
    ours.alter_group_configs(group, {RESET: "by_duration:PT1H"}, validate_only=True)
    assert ours.ensure_group_config(group, {RESET: None}) == {RESET: ConfigChange("earliest", None)}
    described = ours.describe_group_configs([group])[group]
    assert not isinstance(described, KafkaShareError)
    assert (described[RESET].value, described[RESET].source) == ("latest", ConfigSource.DEFAULT_CONFIG)


def test_offsets_and_topics_are_looked_up(flow: Flow, ours: KafkaShareAdmin) -> None:
    """The admin client looks up earliest, latest and timed offsets, and describes topics without creating them."""
    flow.produce(b"1", b"2")
    where, nowhere = TopicPartition(flow.topic, 0), TopicPartition("nix", 0)
    earliest = ours.list_offsets({where: OffsetSpec.EARLIEST, nowhere: OffsetSpec.LATEST})
    assert earliest[where].offset == 0  # type: ignore[union-attr]
    assert isinstance(earliest[nowhere], UnknownTopicOrPartitionError)
    assert ours.list_offsets({where: OffsetSpec.LATEST})[where].offset == 2  # type: ignore[union-attr]
    timed = ours.list_offsets({where: 1})[where]
    assert timed.offset == 0  # type: ignore[union-attr]
    assert timed.timestamp_ms > 1_000_000  # type: ignore[union-attr,operator]
    assert ours.list_offsets({where: 2**40 * 1_000})[where] is None
    described = ours.describe_topics([flow.topic, "nix"], include_authorized_operations=True)
    topic = described[flow.topic]
    assert not isinstance(topic, KafkaShareError)
    assert [p.leader.id for p in topic.partitions if p.leader] == [1]
    assert topic.authorized_operations is not None
    assert AclOperation.READ in topic.authorized_operations
    assert isinstance(described["nix"], UnknownTopicOrPartitionError)
    assert "nix" not in ours.describe_topics()
