"""What `kafka-share doctor` concludes from facts: each cause by its code, and nothing from a healthy group."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_share.admin_values import (
    AclOperation,
    ConfigEntry,
    ConfigSource,
    ConfigType,
    GroupListing,
    GroupState,
    GroupType,
    PartitionDescription,
    ShareGroupDescription,
    ShareMemberDescription,
    TopicDescription,
)
from kafka_share.cli.doctor.diagnosis import diagnose
from kafka_share.cli.doctor.facts import Facts, PartitionFacts
from kafka_share.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from kafka_share.records import Node, TopicPartition

NODE = Node(1, "localhost", 9092)
READ = frozenset({AclOperation.READ})


def member(name: str = "m1", topics: tuple[str, ...] = ("t",), assigned: tuple[int, ...] = (0,)) -> Any:
    assignment = tuple(TopicPartition("t", n) for n in assigned)
    return ShareMemberDescription(name, 1, "app", "/10.0.0.7", None, topics, assignment)


def group(*members: ShareMemberDescription, operations: frozenset[AclOperation] | None = READ) -> ShareGroupDescription:
    state = GroupState.STABLE if members else GroupState.EMPTY
    return ShareGroupDescription("g", state, 1, 1, "simple", members, NODE, operations)


def topic(operations: frozenset[AclOperation] | None = READ) -> TopicDescription:
    return TopicDescription("t", UUID(int=1), False, (PartitionDescription(0, NODE, 0, (1,), (1,)),), operations)


def configs(**values: str) -> dict[str, ConfigEntry]:
    return {
        name: ConfigEntry(name, value, ConfigSource.DYNAMIC_GROUP_CONFIG, ConfigType.STRING, False, False, ())
        for name, value in ((key.replace("_", "."), value) for key, value in values.items())
    }


def partition(**changes: Any) -> PartitionFacts:
    """Healthy: 10 records, 6 of them finished, and something moved while it was observed."""
    values = {
        "partition": 0,
        "has_leader": True,
        "earliest": 0,
        "latest": 10,
        "start_offset": 6,
        "lag": 4,
        "later_lag": 2,
        "later_start_offset": 8,
    }
    return PartitionFacts(**{**values, **changes})


STILL = {"later_lag": 4, "later_start_offset": 6}
UNTOUCHED: dict[str, Any] = dict.fromkeys(("start_offset", "lag", "later_lag", "later_start_offset"))
HEALTHY = Facts(
    group_id="g",
    topic_name="t",
    share_version=1,
    offers_share_fetch=True,
    listing=GroupListing("g", GroupState.STABLE, "share", GroupType.SHARE, NODE),
    group=group(member()),
    topic=topic(),
    configs=configs(share_auto_offset_reset="earliest"),
    partitions=(partition(),),
    observed_ms=3_000,
)


def causes(**changes: Any) -> list[str]:
    return [finding.code for finding in diagnose(attrs.evolve(HEALTHY, **changes)) if finding.is_cause]


def test_no_cause_is_named_when_records_flow() -> None:
    """Where records flow the doctor names no cause, and remarks that the group gets on."""
    assert causes() == []
    assert [finding.code for finding in diagnose(HEALTHY)] == ["moving"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"offers_share_fetch": False}, "share-groups-not-offered"),
        ({"share_version": 0}, "share-groups-off"),
        ({"listing": GroupListing("g", GroupState.STABLE, "consumer", GroupType.CLASSIC, NODE)}, "other-group-type"),
        ({"topic": UnknownTopicOrPartitionError("no topic")}, "no-such-topic"),
        ({"topic": TopicAuthorizationFailedError("not for you")}, "no-read-permission-on-topic"),
        ({"topic": topic(frozenset({AclOperation.DESCRIBE}))}, "no-read-permission-on-topic"),
        (
            {"group": group(member(), operations=frozenset({AclOperation.DESCRIBE}))},
            "no-read-permission-on-group",
        ),
        ({"partitions": (partition(has_leader=False, earliest=None, latest=None),)}, "no-leader"),
        ({"partitions": (partition(earliest=10, **UNTOUCHED),)}, "topic-empty"),
        ({"listing": None}, "no-such-group"),
        ({"group": group()}, "no-members"),
        ({"group": group(member(topics=("other",), assigned=()))}, "not-subscribed"),
        ({"group": group(member(assigned=()))}, "not-assigned"),
        (
            {"partitions": (partition(**UNTOUCHED),), "configs": configs(share_auto_offset_reset="latest")},
            "starts-at-latest",
        ),
        ({"partitions": (partition(lag=-5, later_lag=-5),)}, "starts-beyond-the-end"),
        ({"partitions": (partition(lag=0, later_lag=0),)}, "nothing-new"),
        ({"partitions": (partition(**STILL),)}, "locks-held"),
        ({"partitions": (partition(**UNTOUCHED),)}, "locks-held"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_cause_is_named_when_the_facts_show_it(changes: dict[str, Any], expected: str) -> None:
    """Each reason why nothing arrives has a finding of its own."""
    assert expected in causes(**changes)


def test_nothing_else_is_said_when_one_reason_rules_out_all_others() -> None:
    """With share groups off, what the group and the topic look like explains nothing more."""
    assert causes(share_version=0, listing=None, partitions=()) == ["share-groups-off"]


def test_the_holder_is_named_when_records_wait_and_nothing_moves() -> None:
    """Who holds all locks is told with its member id, client id and address, and when the locks end."""
    [finding] = diagnose(
        attrs.evolve(HEALTHY, partitions=(partition(**STILL),), configs=configs(share_record_lock_duration_ms="15000"))
    )
    assert "member m1 (app at /10.0.0.7)" in finding.text
    assert "4 records wait" in finding.text
    assert "15000 ms" in finding.remedy


def test_all_members_of_the_partition_are_named_when_several_share_it() -> None:
    """With several members on a partition nobody can tell which of them holds the locks."""
    both = group(member("m1"), member("m2"), member("m3", assigned=(1,)))
    [finding] = diagnose(attrs.evolve(HEALTHY, group=both, partitions=(partition(**STILL),)))
    assert "one of the members m1 (app at /10.0.0.7), m2 (app at /10.0.0.7)" in finding.text
    assert "m3" not in finding.text


def test_disabled_renewal_is_a_remark_when_records_flow() -> None:
    """A group that allows no lock renewal is remarked on; it explains no silence by itself."""
    found = diagnose(attrs.evolve(HEALTHY, configs=configs(share_renew_acknowledge_enable="false")))
    assert {finding.code: finding.is_cause for finding in found} == {"moving": False, "renew-disabled": False}


def test_the_start_offset_stands_in_when_the_broker_tells_no_lag() -> None:
    """Kafka 4.1 tells no lag; what follows the start offset counts as waiting then."""
    blind = partition(lag=None, later_lag=None, later_start_offset=6)
    found = diagnose(attrs.evolve(HEALTHY, partitions=(blind,)))
    assert [finding.code for finding in found] == ["locks-held", "lag-unknown"]
