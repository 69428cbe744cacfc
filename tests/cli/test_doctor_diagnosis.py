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
from kafka_share.cli.doctor.facts import Facts, Look, PartitionFacts
from kafka_share.cli.doctor.history import Deliveries, PartitionHistory
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


def partition(start: int | None = 6, lag: int | None = 4, *, end: int = 10, **changes: Any) -> PartitionFacts:
    """Healthy: 10 records, 6 of them finished, and something moved while it was observed."""
    values = {
        "partition": 0,
        "has_leader": True,
        "earliest": 0,
        "now": Look(start_offset=start, lag=lag, end_offset=end),
        "has_moved": True,
    }
    return PartitionFacts(**{**values, **changes})


def untouched(**changes: Any) -> PartitionFacts:
    """Nothing finished yet."""
    return partition(None, None, **{"has_moved": False, **changes})


def history(*, archived: tuple[Deliveries, ...] = (), released: tuple[Deliveries, ...] = ()) -> PartitionHistory:
    return PartitionHistory(NOW_MS - 60_000, NOW_MS - 1_000, archived, released)


NOW_MS = 1_800_000_000_000
STILL = {"has_moved": False}
COMMITTED = configs(share_auto_offset_reset="earliest", share_isolation_level="read_committed")
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
    now_ms=NOW_MS,
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
        ({"partitions": (partition(None, None, has_leader=False, earliest=None, now=Look()),)}, "no-leader"),
        ({"listing": None}, "no-such-group"),
        ({"group": group()}, "no-members"),
        ({"group": group(member(topics=("other",), assigned=()))}, "not-subscribed"),
        ({"group": group(member(assigned=()))}, "not-assigned"),
        (
            {"partitions": (untouched(),), "configs": configs(share_auto_offset_reset="latest")},
            "starts-at-latest",
        ),
        ({"partitions": (partition(15, -5),)}, "starts-beyond-the-end"),
        ({"partitions": (partition(10, 0, history=history(archived=(Deliveries(3, 4, 5),))),)}, "given-up"),
        ({"partitions": (partition(6, 4, stable_end=6, **STILL),), "configs": COMMITTED}, "open-transaction"),
        ({"partitions": (untouched(stable_end=0),), "configs": COMMITTED}, "open-transaction"),
        ({"partitions": (partition(history=history(released=(Deliveries(6, 6, 2),)), **STILL),)}, "delivered-again"),
        ({"partitions": (partition(has_moved=False),)}, "locks-held"),
        ({"partitions": (untouched(),)}, "locks-held"),
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
        attrs.evolve(
            HEALTHY, partitions=(partition(has_moved=False),), configs=configs(share_record_lock_duration_ms="15000")
        )
    )
    assert "member m1 (app at /10.0.0.7)" in finding.text
    assert "4 records wait" in finding.text
    assert "15000 ms" in finding.remedy


def test_all_members_of_the_partition_are_named_when_several_share_it() -> None:
    """With several members on a partition nobody can tell which of them holds the locks."""
    both = group(member("m1"), member("m2"), member("m3", assigned=(1,)))
    [finding] = diagnose(attrs.evolve(HEALTHY, group=both, partitions=(partition(has_moved=False),)))
    assert "one of the members m1 (app at /10.0.0.7), m2 (app at /10.0.0.7)" in finding.text
    assert "m3" not in finding.text


def test_disabled_renewal_is_a_remark_when_records_flow() -> None:
    """A group that allows no lock renewal is remarked on; it explains no silence by itself."""
    found = diagnose(attrs.evolve(HEALTHY, configs=configs(share_renew_acknowledge_enable="false")))
    assert {finding.code: finding.is_cause for finding in found} == {"moving": False, "renew-disabled": False}


def test_the_start_offset_stands_in_when_the_broker_tells_no_lag() -> None:
    """Kafka 4.1 tells no lag; what follows the start offset counts as waiting then."""
    blind = partition(6, None, has_moved=False)
    found = diagnose(attrs.evolve(HEALTHY, partitions=(blind,)))
    assert [finding.code for finding in found] == ["locks-held", "lag-unknown"]


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        pytest.param({"partitions": (partition(10, 0, has_moved=False),)}, ["nothing-new"], id="all finished"),
        pytest.param({"partitions": (partition(10, 0),)}, ["nothing-new", "moving"], id="finished just now"),
        pytest.param({"partitions": (untouched(earliest=10),)}, ["topic-empty"], id="empty"),
        pytest.param(
            {
                "partitions": (partition(), untouched(partition=1)),
                "configs": configs(share_auto_offset_reset="latest"),
                "group": group(member(assigned=(0, 1))),
            },
            ["starts-at-latest", "moving"],
            id="old records that nobody asked for",
        ),
        pytest.param(
            {"partitions": (partition(history=history(archived=(Deliveries(3, 3, 1),))),)},
            ["rejected", "moving"],
            id="rejected",
        ),
        pytest.param(
            {"partitions": (partition(history=history(released=(Deliveries(7, 7, 1),))),)}, ["moving"], id="released"
        ),
        pytest.param(
            {"partitions": (partition(stable_end=9),), "configs": COMMITTED}, ["moving", "open-transaction"], id="open"
        ),
    ],
)
@pytest.mark.behaviour("tools")
def test_nothing_is_wrong_with_a_healthy_group(changes: dict[str, Any], codes: list[str]) -> None:
    """`kafka-share doctor` names no cause while a healthy group works or waits: its exit code is 0, at any moment."""
    found = diagnose(attrs.evolve(HEALTHY, **changes))
    assert ([finding.code for finding in found], {finding.is_cause for finding in found}) == (codes, {False})


def test_what_was_archived_is_told_by_offsets_and_deliveries() -> None:
    """Given up on the last delivery and rejected before it are told apart, with the offsets and what to do."""
    archived = (Deliveries(2, 3, 1), Deliveries(5, 5, 5), Deliveries(8, 9, 5))
    partitions = (partition(10, 0, history=history(archived=archived), has_moved=False),)
    given_up, finished, rejected = sorted(
        diagnose(attrs.evolve(HEALTHY, partitions=partitions)), key=lambda finding: finding.code
    )
    assert (given_up.code, given_up.is_cause) == ("given-up", True)
    assert (
        "3 records were archived since 2027-01-15T07:59:00Z on the last of 5 deliveries (offsets 5, 8-9)"
        in given_up.text
    )
    assert "--topic t:0 --to-offset 5" in given_up.remedy
    assert (rejected.code, rejected.is_cause) == ("rejected", False)
    assert "before the last delivery (offsets 2-3)" in rejected.text
    assert "Those that were not accepted are named here" in finished.text


def test_what_finished_means_is_said_where_the_history_is_unknown() -> None:
    """A lag of 0 alone does not say that records were accepted, and the doctor does not pretend so."""
    partitions = (partition(10, 0, has_moved=False),)
    [finding] = diagnose(attrs.evolve(HEALTHY, partitions=partitions, history_unknown="not allowed"))
    assert "rejected, and when its last delivery has failed" in finding.text
    assert "cannot be told here: not allowed" in finding.text


def test_old_releases_do_not_hide_who_holds_the_locks() -> None:
    """Records that were given back long ago and acquired since are held, not delivered again and again."""
    old = PartitionHistory(NOW_MS - 900_000, NOW_MS - 600_000, (), (Deliveries(6, 6, 1),))
    assert causes(partitions=(partition(history=old, has_moved=False),)) == ["locks-held"]


def test_nobody_is_said_to_hold_locks_without_members_of_the_partition() -> None:
    """Members that do not subscribe are the one reason, and no second one contradicts it."""
    others = group(member(topics=("other",), assigned=()))
    assert causes(group=others, partitions=(partition(has_moved=False),)) == ["not-subscribed"]


def test_held_records_before_an_open_transaction_are_told_apart_from_those_behind_it() -> None:
    """Two records are held and two wait for a transaction: the locks are the cause, the transaction is a remark."""
    partitions = (partition(6, 4, stable_end=8, has_moved=False),)
    found = diagnose(attrs.evolve(HEALTHY, partitions=partitions, configs=COMMITTED))
    assert [(finding.code, finding.is_cause) for finding in found] == [
        ("locks-held", True),
        ("open-transaction", False),
    ]
    assert "2 records wait" in found[0].text
    assert "2 records from offset 8 on" in found[1].text


def test_commands_in_remedies_quote_what_comes_from_the_cluster() -> None:
    """A group id that the shell would run is quoted in the commands that a reader copies."""
    renew_off = configs(share_renew_acknowledge_enable="false")
    found = diagnose(attrs.evolve(HEALTHY, group_id="g; rm -rf /", configs=renew_off))
    assert "--group 'g; rm -rf /' " in {finding.code: finding.remedy for finding in found}["renew-disabled"]


@pytest.mark.parametrize(
    ("earlier", "later", "is_ahead"),
    [
        pytest.param(
            Look(start_offset=6, lag=4, end_offset=10), Look(start_offset=6, lag=3, end_offset=10), True, id="1"
        ),
        pytest.param(
            Look(start_offset=6, lag=4, end_offset=10), Look(start_offset=6, lag=9, end_offset=15), False, id="2"
        ),
        pytest.param(
            Look(start_offset=6, lag=4, end_offset=10), Look(start_offset=6, lag=8, end_offset=15), True, id="3"
        ),
        pytest.param(Look(end_offset=10), Look(start_offset=0, lag=9, end_offset=10), True, id="4"),
        pytest.param(Look(start_offset=6, end_offset=10), Look(start_offset=7, end_offset=10), True, id="5"),
        pytest.param(Look(end_offset=10), Look(end_offset=20), False, id="6"),
    ],
)
def test_only_finished_records_count_as_progress(earlier: Look, later: Look, is_ahead: bool) -> None:
    """A stuck group does not look alive because a producer goes on writing."""
    assert later.is_ahead_of(earlier) is is_ahead
