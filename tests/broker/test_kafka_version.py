"""What the broker does as each version of Kafka, one test for each field of `Behaviour`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import attrs
import pytest
from broker.cluster_world import World, batch
from broker.share.probe import Probe
from click.testing import CliRunner

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.inspection import snapshot_of_window
from kafka_share.broker.kafka_version import BEHAVIOURS, DEFAULT_VERSION, KAFKA_4_3, advertised_versions, behaviour_of
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share.assignor import assign
from kafka_share.broker.share.state_batches import StateBatch
from kafka_share.broker.share.state_records import StateKey
from kafka_share.cli.broker import main as broker_command
from kafka_share.errors import (
    ConfigurationError,
    FencedLeaderEpochError,
    FencedMemberEpochError,
    FencedStateEpochError,
    GroupIdNotFoundError,
    InvalidConfigError,
    InvalidGroupIdError,
    InvalidRequestError,
    RebootstrapRequiredError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest
from kafka_share.protocol.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka_share.protocol.groups import DeleteGroupsRequest
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from kafka_share.protocol.share_offsets import AlterShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequest
from kafka_share.protocol.topics import CreatePartitionsRequest

VERSIONS = tuple(BEHAVIOURS)
MEMBER = "EEEEEEEEEEEEEEEEEEEEEA"
OTHER = "BBBBBBBBBBBBBBBBBBBBBA"
FAILED = "e=-1:UNKNOWN_SERVER_ERROR lock=0 []"
INVALID = "e=42:INVALID_REQUEST lock=0 []"


def each_version(*expected: object) -> pytest.MarkDecorator:
    """One value for 4.1, 4.2, 4.3 and 4.4 each."""
    return pytest.mark.parametrize(("version", "expected"), list(zip(VERSIONS, expected, strict=True)))


def probe(version: str, records: int = 0) -> tuple[Probe, UUID]:
    """A node with the topic t, which the group g starts at 0."""
    p = Probe(version)
    topic = p.topic("t")
    p.initialize("g", topic)
    if records:
        p.produce(topic, records)
    return p, topic


def loaded(version: str, records: int) -> tuple[Probe, UUID]:
    """As `probe`, with the share partition in memory, through a connection that stays open."""
    p, topic = probe(version)
    p.fetch(p.connect(), "g", "LLLLLLLLLLLLLLLLLLLLLA", 0, [(topic, 0, "")], wait=0)
    p.produce(topic, records)
    return p, topic


def beat(world: World, member: str, epoch: int, names: list[str] | None = None) -> Any:
    return world.ask(
        ShareGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, rack_id=None, subscribed_topic_names=names
        )
    )


def acquired(text: str) -> str:
    return text.partition("acq=")[2].partition(" ")[0]


# ---- the table


def test_the_broker_is_kafka_4_3_when_nothing_is_asked_for() -> None:
    assert behaviour_of(DEFAULT_VERSION) is KAFKA_4_3
    assert ReferenceBroker()._cluster.behaviour is KAFKA_4_3
    assert ReferenceBroker(kafka_version="4.1")._cluster.behaviour is BEHAVIOURS["4.1"]


@pytest.mark.parametrize("version", ["4", "4.0", "4.3.1", "5.0", ""])
def test_a_version_is_refused_when_it_is_none_of_the_four(version: str) -> None:
    with pytest.raises(ConfigurationError, match=r"4\.1, 4\.2, 4\.3, 4\.4"):
        ReferenceBroker(kafka_version=version)


def test_every_field_makes_a_difference_when_the_four_are_compared() -> None:
    for field in attrs.fields(type(KAFKA_4_3)):
        values = [getattr(behaviour, field.name) for behaviour in BEHAVIOURS.values()]
        assert any(value != values[0] for value in values), f"{field.name} says the same of all versions"


def test_the_command_lists_the_settings_of_the_version_when_it_is_asked_to() -> None:
    def listed(*arguments: str) -> set[str]:
        done = CliRunner().invoke(broker_command, [*arguments, "--list-config"])
        assert done.exit_code == 0
        return {line.split(" ")[0] for line in done.output.splitlines()}

    assert listed() == listed("--kafka-version", "4.3")
    newer = listed() - listed("--kafka-version", "4.1")
    assert newer == {key for key in BEHAVIOURS["4.1"].absent_config_keys if key.startswith("group.")}


def test_the_command_ends_with_2_when_it_does_not_know_the_version() -> None:
    assert CliRunner().invoke(broker_command, ["--kafka-version", "5.0", "--list-config"]).exit_code == 2


# ---- the protocol


@each_version((1, 10, 1, 0, 0), (1, 11, 2, 1, 1), (1, 11, 2, 1, 1), (1, 11, 2, 1, 1))
def test_offered_versions_are_those_of_the_release_when_clients_ask(version: str, expected: tuple[int, ...]) -> None:
    offered = advertised_versions(behaviour_of(version))
    assert (*offered[2], offered[78][1], offered[85][1], offered[90][1]) == expected
    assert offered.keys() == advertised_versions().keys()


@each_version(InvalidRequestError.code, 0, 0, 0)
def test_share_keys_are_refused_when_the_group_has_colons_before_4_2(version: str, expected: int) -> None:
    keys = ["a:b:c:AAAAAAAAAAAAAAAAAAAAAA:0", "g:AAAAAAAAAAAAAAAAAAAAAA:0"]
    answer = World(kafka_version=version).ask(FindCoordinatorRequest(key_type=2, coordinator_keys=keys))
    assert [one.error_code for one in answer.coordinators] == [expected, 0]


@each_version(False, True, True, True)
def test_acknowledge_errors_carry_a_text_when_the_version_sends_one(version: str, expected: bool) -> None:
    p, topic = probe(version, 3)
    c = p.connect()
    p.fetch(c, "g", MEMBER, 0, [(topic, 0, "")])
    p.send_fetch(c, "g", MEMBER, 1, [(topic, 0, "0~9:1")], wait=0)
    (entry,) = c.replies[0][1].responses[0].partitions
    assert entry.acknowledge_error_code == InvalidRequestError.code
    assert (entry.acknowledge_error_message is not None) == expected


# ---- configuration


@each_version(InvalidConfigError.code, InvalidConfigError.code, 0, 0)
def test_group_keys_of_4_3_are_unknown_when_the_version_is_older(version: str, expected: int) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = resource.AlterableConfig(name="share.delivery.count.limit", config_operation=0, value="3")
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=32, resource_name="g", configs=[change])], validate_only=False
    )
    assert World(kafka_version=version).ask(request).responses[0].error_code == expected


@each_version(7, 7, 12, 14)
def test_groups_are_described_with_the_keys_that_the_version_has(version: str, expected: int) -> None:
    assert len(_described(World(kafka_version=version))) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_broker_keys_of_4_3_are_refused_when_the_version_is_older(version: str) -> None:
    config = {"group.share.assignment.interval.ms": "5"}
    if version in ("4.3", "4.4"):
        assert _assignment_interval_ms(World(config=config, kafka_version=version)) == 5
        return
    with pytest.raises(ConfigurationError, match="not a setting"):
        World(config=config, kafka_version=version)
    assert _assignment_interval_ms(World(kafka_version=version)) == 0


def _assignment_interval_ms(world: World) -> int:
    return world.cluster.configs.group_settings("g").assignment_interval_ms


_NEW = ("group.share.heartbeat.interval.ms", 6_000, 4), ("group.share.heartbeat.interval.ms", 5_000, 5)
_OLD = (("share.heartbeat.interval.ms", 6_000, 5),)


@each_version(_OLD, _OLD, _NEW, _NEW)
def test_layers_of_a_group_value_are_described_when_the_version_knows_them(version: str, expected: object) -> None:
    world = World(config={"group.share.heartbeat.interval.ms": "6000"}, kafka_version=version)
    found = _described(world)["share.heartbeat.interval.ms"]
    assert found.config_source == expected[0][2]  # type: ignore[index]
    assert tuple((one.name, int(one.value), one.source) for one in found.synonyms) == expected


def _described(world: World) -> dict[str, Any]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=32, resource_name="g", configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=False)
    return {config.name: config for config in world.ask(request).results[0].configs}


# ---- members


@pytest.mark.behaviour("membership")
@each_version(1, 1, 2, 2)
def test_the_first_member_gets_the_epoch_after_the_version_s_first(version: str, expected: int) -> None:
    """The first member of a new group gets epoch 1 up to Kafka 4.2, and 2 from 4.3 on."""
    world = World(kafka_version=version)
    world.topic("t")
    assert beat(world, "m", 0, ["t"]).member_epoch == expected


@pytest.mark.behaviour("membership")
@each_version(0, InvalidRequestError.code, InvalidRequestError.code, InvalidRequestError.code)
def test_a_long_member_id_joins_when_the_version_has_no_limit(version: str, expected: int) -> None:
    """A member id of more than 36 characters is refused from Kafka 4.2 on."""
    world = World(kafka_version=version)
    assert beat(world, "m" * 37, 0, ["t"]).error_code == expected
    assert beat(world, "m" * 36, 0, ["t"]).error_code == 0


@pytest.mark.behaviour("membership")
@each_version(FencedMemberEpochError.code, 0, 0, 0)
def test_a_member_is_fenced_when_it_rejoins_far_behind_in_4_1(version: str, expected: int) -> None:
    """A member may join again with epoch 0; Kafka 4.1 fences it when its epoch has moved on."""
    world = World(kafka_version=version)
    world.topic("t")
    epoch = beat(world, "m", 0, ["t"]).member_epoch
    world.advance(1_000)
    epoch = beat(world, "m", epoch).member_epoch
    assert beat(world, "m", 0, ["t"]).error_code == expected


@pytest.mark.behaviour("membership")
@each_version(3, 0, 0, 0)
def test_the_epoch_moves_on_while_share_state_is_assigned_to_nobody_in_4_1(version: str, expected: int) -> None:
    """Members that gave up a topic stay in their epoch; in Kafka 4.1 each heartbeat moves it on."""
    world = World(kafka_version=version)
    world.topic("t")
    epoch = 0
    for names in (["t"], None, None, [], None):
        epoch = beat(world, "m", epoch, names).member_epoch
        world.advance(1_000)
    before = epoch
    for _ in range(3):
        epoch = beat(world, "m", epoch).member_epoch
        world.advance(1_000)
    assert epoch - before == expected


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize(("members", "partitions"), [(3, 2), (4, 2), (5, 3), (2, 3), (7, 3), (1, 4)])
def test_every_partition_has_an_owner_whether_or_not_copies_are_evened_out(
    even: bool, members: int, partitions: int
) -> None:
    topic = UUID(int=1)
    assignable = [(topic, index) for index in range(partitions)]
    current = assign({f"m{i}": {topic} for i in range(members)}, assignable, {}, evens_out_copies=even)
    for left in range(1, members):
        rest = {f"m{i}": {topic} for i in range(left, members)}
        current = assign(rest, assignable, current, evens_out_copies=even)
        assert {partition for owned in current.values() for partition in owned} == set(assignable)
        assert all(current.values())


@pytest.mark.behaviour("membership")
@each_version([1, 1, 1], [1, 1, 2], [1, 1, 2], [1, 1, 2])
def test_three_members_of_two_partitions_own_what_the_version_deals_out(version: str, expected: list[int]) -> None:
    """With more members than partitions everybody has at least one, and partitions are shared."""
    topic = UUID(int=1)
    even = behaviour_of(version).evens_out_copies
    found = assign({m: {topic} for m in "abc"}, [(topic, 0), (topic, 1)], {}, evens_out_copies=even)
    assert sorted(len(owned) for owned in found.values()) == expected


@pytest.mark.behaviour("membership")
@each_version(False, False, False, True)
def test_the_assignment_epoch_follows_when_the_last_member_leaves_in_4_4(version: str, expected: bool) -> None:
    """When the last member leaves, the assignment's epoch follows the group's only from Kafka 4.4 on."""
    world = World(kafka_version=version)
    beat(world, "m", 0, ["t"])
    beat(world, "m", -1)
    group = world.ask(ShareGroupDescribeRequest(group_ids=["g"])).groups[0]
    assert (group.group_epoch == group.assignment_epoch) == expected


@each_version(-1, -1, -1, 0)
def test_partitions_that_are_added_later_start_at_zero_in_4_4(version: str, expected: int) -> None:
    world = World(kafka_version=version)
    topic = world.topic("t")
    epoch = beat(world, "m", 0, ["t"]).member_epoch
    grow = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2, assignments=None)
    world.ask(CreatePartitionsRequest(topics=[grow], timeout_ms=1_000, validate_only=False))
    beat(world, "m", epoch)
    starts = [world.cluster.share_states.summary(StateKey("g", topic.id, index)).start_offset for index in (0, 1)]
    assert starts == [-1, expected]


# ---- share sessions


@pytest.mark.behaviour("membership")
@each_version(
    {"x": FAILED, "": FAILED, "m" * 37: FAILED, "+" * 22: FAILED, None: FAILED},
    {"x": "e=0 ", "": INVALID, "m" * 37: INVALID, "+" * 22: "e=0 ", None: FAILED},
    {"x": "e=0 ", "": INVALID, "m" * 37: INVALID, "+" * 22: "e=0 ", None: INVALID},
    {"x": "e=0 ", "": INVALID, "m" * 37: INVALID, "+" * 22: "e=0 ", None: INVALID},
)
def test_member_ids_are_taken_or_refused_as_the_version_does(version: str, expected: dict[str | None, str]) -> None:
    """Which member ids a fetch may have: 4.1 wants a UUID in base64, later versions 1 to 36 characters."""
    for member, answer in expected.items():
        p, topic = probe(version)
        assert p.fetch(p.connect(), "g", member, 0, [(topic, 0, "")], wait=0).startswith(answer)
        if answer != "e=0 ":
            assert p.ack(p.connect(), "g", member, 1) == answer
    p, topic = probe(version)
    assert p.fetch(p.connect(), "g", MEMBER, 0, [(topic, 0, "")], wait=0).startswith("e=0 ")


@each_version(FAILED, FAILED, INVALID, INVALID)
def test_a_null_group_id_fails_the_request_as_the_version_does(version: str, expected: str) -> None:
    p, topic = probe(version)
    assert p.fetch(p.connect(), None, MEMBER, 0, [(topic, 0, "")]) == expected


@pytest.mark.behaviour("share sessions")
@each_version("e=122:SHARE_SESSION_NOT_FOUND lock=0 []", *["e=0 lock=30000 []"] * 3)
def test_an_old_connection_ends_the_new_session_only_in_4_1(version: str, expected: str) -> None:
    """The end of an old connection leaves the member's newer session alone; Kafka 4.1 ends that too."""
    p, topic = loaded(version, 3)
    old, new = p.connect(), p.connect()
    p.fetch(old, "g", MEMBER, 0, [(topic, 0, "")])
    p.fetch(new, "g", MEMBER, 0, [(topic, 0, "")], wait=0)
    old.close()
    assert p.fetch(new, "g", MEMBER, 1, wait=0) == expected


@each_version("0~2x1", "0~2x2", "0~2x2", "0~2x2")
def test_a_delivery_stays_counted_when_its_session_ends_but_in_4_1(version: str, expected: str) -> None:
    p, topic = loaded(version, 3)
    c = p.connect()
    p.fetch(c, "g", MEMBER, 0, [(topic, 0, "")])
    p.ack(c, "g", MEMBER, -1)
    assert acquired(p.fetch(c, "g", OTHER, 0, [(topic, 0, "")])) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_s_records_are_held_with_their_count_when_their_release_cannot_be_stored(version: str) -> None:
    p, topic = loaded(version, 3)
    c = p.connect()
    p.fetch(c, "g", MEMBER, 0, [(topic, 0, "")])
    p.coordinator.delete(StateKey("g", topic, 0), p.now_ms)
    p.ack(c, "g", MEMBER, -1)
    found = p.node.share_partition("g", topic, 0)
    assert found is not None
    (held,) = snapshot_of_window(found).ranges
    assert (held.first, held.last, held.state.name, held.delivery_count) == (0, 2, "ACQUIRED", 1)
    assert held.member == MEMBER


# ---- fetching


@each_version(FAILED, FAILED, FAILED, "e=0 lock=30000 [id?-0 e=100:UNKNOWN_TOPIC_ID ae=0 acq= rec=empty]")
def test_an_unknown_topic_id_fails_the_fetch_or_its_partition(version: str, expected: str) -> None:
    p, _ = probe(version)
    c = p.connect()
    assert p.fetch(c, "g", MEMBER, 0, [(UUID(int=99), 0, "")], timed=True) == f"{expected} took<250ms"
    assert p.fetch(c, "g", MEMBER, 1, timed=True) == f"{expected} took<250ms"


@each_version(FAILED, FAILED, FAILED, "e=0 lock=30000 [id?-0 e=3:UNKNOWN_TOPIC_OR_PARTITION ae=0 acq= rec=empty]")
def test_a_topic_that_was_deleted_in_the_session_fails_the_fetch_or_its_partition(version: str, expected: str) -> None:
    p, topic = probe(version, 1)
    c = p.connect()
    p.fetch(c, "g", MEMBER, 0, [(topic, 0, "")])
    p.delete_topic(topic)
    assert p.fetch(c, "g", MEMBER, 1) == expected


_LISTED = "e=0 lock=30000 [t-0 e=0 ae=0 acq= rec=empty]"
_TRIPPED = "e=0 lock=30000 [t-0 e=-1:UNKNOWN_SERVER_ERROR ae=0 acq= rec=empty]"
_NOTHING = "e=0 lock=30000 []"


@each_version((_LISTED, _TRIPPED), *[(_NOTHING, _NOTHING)] * 3)
def test_a_fetch_of_nothing_looks_at_partitions_only_in_4_1(version: str, expected: tuple[str, str]) -> None:
    for limits, answer in zip(({"records": 0}, {"max_bytes": 0}), expected, strict=True):
        p, topic = loaded(version, 3)
        assert p.fetch(p.connect(), "g", MEMBER, 0, [(topic, 0, "")], timed=True, **limits) == f"{answer} took<250ms"


def _release(p: Probe, topic: UUID, holder: Any) -> None:
    p.ack(holder, "g", MEMBER, 1, [(topic, 0, "0~2:2")])


def _close(p: Probe, topic: UUID, holder: Any) -> None:
    p.ack(holder, "g", MEMBER, -1)


def _disconnect(p: Probe, topic: UUID, holder: Any) -> None:
    holder.close()


@pytest.mark.parametrize("give_back", [_release, _close, _disconnect])
@each_version(("took<250ms", ""), *[("took~3000ms", "0~2x2")] * 3)
def test_a_waiting_fetch_is_woken_by_a_release_only_in_4_1_and_then_gets_nothing(
    version: str, expected: tuple[str, str], give_back: Callable[[Probe, UUID, Any], None]
) -> None:
    p, topic = loaded(version, 3)
    holder, waiting = p.connect(), p.connect()
    p.fetch(holder, "g", MEMBER, 0, [(topic, 0, "")])
    p.fetch(waiting, "g", OTHER, 0, [(topic, 0, "")], wait=0)
    since_ms = p.now_ms
    p.send_fetch(waiting, "g", OTHER, 1, wait=3_000)
    give_back(p, topic, holder)
    answer = p.receive(waiting, since_ms=since_ms)
    assert (answer.rpartition(" ")[2], acquired(answer)) == expected


_HALVES = ["0~9x2", "0~9x3", "0~4x4", "0~0x5"]
_WHOLE = ["0~9x2", "0~9x3", "0~9x4", "0~9x5"]


@each_version(_WHOLE, _HALVES, _HALVES, _HALVES)
def test_records_that_come_back_again_and_again_are_throttled_from_4_2_on(version: str, expected: list[str]) -> None:
    p, topic = loaded(version, 10)
    c = p.connect()
    epoch, found = 0, acquired(p.fetch(c, "g", MEMBER, 0, [(topic, 0, "")]))
    for answer in expected:
        first, last = found.partition("x")[0].split("~")
        p.ack(c, "g", MEMBER, epoch + 1, [(topic, 0, f"{first}~{last}:2")])
        epoch += 2
        found = acquired(p.fetch(c, "g", MEMBER, epoch, wait=0))
        assert found == answer


@each_version("5~5x2,6~6x2,7~7x2", "5~7x2", "5~7x2", "5~7x2")
def test_offsets_with_states_of_their_own_come_as_one_range_from_4_2_on(version: str, expected: str) -> None:
    p, topic = loaded(version, 10)
    c = p.connect()
    p.fetch(c, "g", MEMBER, 0, [(topic, 0, "")])
    p.ack(c, "g", MEMBER, 1, [(topic, 0, "5~7:2")])
    assert acquired(p.fetch(c, "g", MEMBER, 2)) == expected


# ---- stored state


@each_version((None, -1), (3, 3), (3, 3), (3, 3))
def test_altering_offsets_does_something_from_4_2_on(version: str, expected: tuple[int | None, int]) -> None:
    world = World(kafka_version=version)
    topic = world.topic("t")
    world.cluster.append(topic.partitions[0], batch(5), world.now_ms)
    asked = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    partition = asked.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=3)
    names = ("t", "nosuch")
    answer = world.ask(
        AlterShareGroupOffsetsRequest(
            group_id="g", topics=[asked(topic_name=name, partitions=[partition]) for name in names]
        )
    )
    assert answer.error_code == 0
    found = {one.topic_name: one.partitions[0].error_code for one in answer.responses}
    unknown = {"nosuch": UnknownTopicOrPartitionError.code}
    assert found == (unknown if expected[0] is None else {**unknown, "t": 0})
    assert world.cluster.share_states.summary(StateKey("g", topic.id, 0)).start_offset == expected[1]


@each_version((0, 0), *[(GroupIdNotFoundError.code, InvalidGroupIdError.code)] * 3)
def test_deleting_the_offsets_of_no_topics_asks_for_the_group_from_4_2_on(
    version: str, expected: tuple[int, int]
) -> None:
    world = World(kafka_version=version)
    found = [world.ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=[])).error_code for group in ("g", "")]
    assert tuple(found) == expected


def _outcome(call: Callable[[], object]) -> int:
    try:
        call()
    except Refusal as refusal:
        return refusal.code
    return 0


@each_version(
    (FencedLeaderEpochError.code, 0, 0),
    (FencedLeaderEpochError.code, 0, 0),
    (0, 0, 0),
    (InvalidRequestError.code,) * 3,
)
def test_negative_epochs_are_fenced_taken_or_refused(version: str, expected: tuple[int, int, int]) -> None:
    p = Probe(version)
    key, other = StateKey("g", p.topic("t"), 0), StateKey("g", p.topic("u"), 0)
    p.coordinator.initialize(key, 5, 0, p.now_ms)
    p.coordinator.read(key, 3, p.now_ms)
    found = (
        _outcome(lambda: p.coordinator.read(key, -1, p.now_ms)),
        _outcome(lambda: _write(p, key, state_epoch=-1, leader_epoch=-1)),
        _outcome(lambda: p.coordinator.initialize(other, -5, 0, p.now_ms)),
    )
    assert found == expected


def _write(p: Probe, key: StateKey, *batches: StateBatch, **changes: int) -> None:
    given = {"state_epoch": 5, "leader_epoch": 3, "start_offset": -1, "delivery_complete_count": 0, **changes}
    p.coordinator.write(key, batches=batches, now_ms=p.now_ms, **given)


@each_version((6, 4, FencedStateEpochError.code), (5, 3, 0), (5, 3, 0), (5, 3, 0))
def test_a_write_raises_the_epochs_only_in_4_1(version: str, expected: tuple[int, int, int]) -> None:
    p = Probe(version)
    key = StateKey("g", p.topic("t"), 0)
    p.coordinator.initialize(key, 5, 0, p.now_ms)
    p.coordinator.read(key, 3, p.now_ms)
    _write(p, key, state_epoch=6, leader_epoch=4)
    summary = p.coordinator.summary(key)
    later = _outcome(lambda: _write(p, key, leader_epoch=9))
    assert (summary.state_epoch, summary.leader_epoch, later) == expected


@each_version((2, 1), (2, 1), (2, 1), (8, 5))
def test_a_lower_start_is_taken_but_in_4_4(version: str, expected: tuple[int, int]) -> None:
    p = Probe(version)
    key = StateKey("g", p.topic("t"), 0)
    p.coordinator.initialize(key, 5, 0, p.now_ms)
    _write(p, key, start_offset=8, delivery_complete_count=5)
    _write(p, key, start_offset=2, delivery_complete_count=1)
    summary = p.coordinator.summary(key)
    assert (summary.start_offset, summary.delivery_complete_count) == expected


@each_version(0, 0, 0, UnknownServerError.code)
def test_a_batch_that_ends_before_it_begins_is_refused_in_4_4(version: str, expected: int) -> None:
    p = Probe(version)
    key = StateKey("g", p.topic("t"), 0)
    p.coordinator.initialize(key, 5, 0, p.now_ms)
    assert _outcome(lambda: _write(p, key, StateBatch(61, 60, 2, 1))) == expected


def test_a_client_of_4_4_may_say_which_node_of_which_cluster_it_means() -> None:
    """The codes are those of Kafka 4.4.0."""
    world = World(kafka_version="4.4")

    def code(cluster_id: str | None, node_id: int) -> int:
        request = ApiVersionsRequest(
            client_software_name="x", client_software_version="1", cluster_id=cluster_id, node_id=node_id
        )
        answer = world.ask(request)
        assert bool(answer.api_keys) == (answer.error_code == 0)
        return int(answer.error_code)

    assert code(None, -1) == code("world", 1) == 0
    assert code("other", -1) == code(None, 1) == code(None, 9) == InvalidRequestError.code
    assert code("other", 1) == code("world", 9) == RebootstrapRequiredError.code


def test_the_deletion_of_groups_says_why_not_from_4_4_on() -> None:
    (refused,) = World(kafka_version="4.4").ask(DeleteGroupsRequest(groups_names=["missing"])).results
    assert (refused.error_code, bool(refused.error_message)) == (GroupIdNotFoundError.code, True)
    (refused,) = World().ask(DeleteGroupsRequest(groups_names=["missing"])).results
    assert refused.error_message is None
