"""The admin façades, blocking and asyncio, on a reference broker of three nodes: what users and tools see."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from facade.admin_callers import CALLERS
from support.waiting import looks, poll_until, wait_until
from support.wire_connection import WireConnection

from kafka_share import (
    AcknowledgeType,
    AclOperation,
    ConfigChange,
    ConfigSource,
    GroupState,
    GroupType,
    KafkaShareConsumer,
    ListedOffset,
    OffsetSpec,
    ShareGroupDescription,
    SharePartitionOffset,
    TopicPartition,
)
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    GroupIdNotFoundError,
    InvalidConfigError,
    NonEmptyGroupError,
    OperationTimeoutError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest
from kafka_share.protocol.committed_offsets import OffsetCommitRequest
from kafka_share.protocol.share_group import ShareGroupDescribeRequest
from kafka_share.protocol.share_offsets import AlterShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequest

RESET = "share.auto.offset.reset"
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
Make = Callable[..., Any]


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(nodes=3) as running:
        running.create_topic("t", partitions=3)
        running.create_topic("u")
        yield running


@pytest.fixture(params=list(CALLERS))
def make_admin(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[Any] = []

    def make(broker: ReferenceBroker, **settings: Any) -> Any:
        made.append(CALLERS[request.param](bootstrap_servers=broker.bootstrap_servers, **settings))
        return made[-1]

    yield make
    for admin in made:
        admin.finish()


@pytest.fixture
def admin(broker: ReferenceBroker, make_admin: Make) -> Any:
    return make_admin(broker)


@contextlib.contextmanager
def member(broker: ReferenceBroker, group: str, *topics: str, **config: Any) -> Iterator[KafkaShareConsumer[Any, Any]]:
    config.setdefault("share_acknowledgement_mode", "explicit")
    with KafkaShareConsumer[Any, Any](
        *topics, bootstrap_servers=broker.bootstrap_servers, group_id=group, **config
    ) as consumer:
        yield consumer


def consume(broker: ReferenceBroker, group: str, topic: str, count: int) -> list[Any]:
    """Read `count` records of a topic from its start, accept them, and leave."""
    broker.set_group_config(group, share_auto_offset_reset="earliest")
    with member(broker, group, topic) as consumer:
        found = poll_until(consumer, count, consumer.acknowledge)
        assert set(consumer.commit_sync().values()) == {None}
    return found


def commit_offset(broker: ReferenceBroker, group: str) -> None:
    """Make a classic group, as a client does that only commits offsets; by raw requests to each node."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[topic(name="t", partitions=[partition])]
    )
    address = broker.bootstrap_servers.split(",")[broker.coordinator(group) - 1]
    with WireConnection(address) as client:
        answer = client.call(request, 8)
    assert answer.topics[0].partitions[0].error_code == 0


# ---- groups


@pytest.mark.behaviour("administration")
def test_share_groups_of_all_nodes_are_listed_by_state(broker: ReferenceBroker, admin: Any) -> None:
    """Groups of all coordinators are one list; states filter in any case; groups of other types are not in it."""
    names = [f"g{number}" for number in range(6)]
    admin.alter_share_group_offsets("new", {T0: 0})
    commit_offset(broker, "classic")
    with contextlib.ExitStack() as members:
        for name in names:
            poll = members.enter_context(member(broker, name, "t")).poll
            poll(timeout_ms=100)
        assert len({broker.coordinator(name) for name in names}) > 1
        everything = admin.list_share_groups()
        assert [g.group_id for g in everything.groups] == sorted([*names, "new"])
        assert everything.errors == {}
        assert {(g.protocol, g.group_type) for g in everything.groups} == {("share", GroupType.SHARE)}
        assert [g.coordinator.id for g in everything.groups if g.group_id == "g3"] == [broker.coordinator("g3")]
        assert [g.group_id for g in admin.list_share_groups(["sTABLE"]).groups] == names
        assert [g.group_id for g in admin.list_share_groups([GroupState.EMPTY]).groups] == ["new"]
        assert admin.list_share_groups(["Dancing"]).groups == ()
    others = admin.list_groups(types=["Classic"]).groups
    assert [(g.group_id, g.group_type) for g in others] == [("classic", GroupType.CLASSIC)]
    assert len(admin.list_groups().groups) == len(names) + 2


def test_groups_are_listed_beside_the_error_of_a_node_that_fails(broker: ReferenceBroker, admin: Any) -> None:
    """A node that refuses is named with its error; the groups of the others are there."""
    admin.alter_share_group_offsets("g", {T0: 0})
    failing = broker.coordinator("g") % 3 + 1
    broker.faults.fail(16, -1, node_id=failing)
    found = admin.list_share_groups()
    assert [g.group_id for g in found.groups] == ["g"]
    assert [(node.id, error.name) for node, error in found.errors.items()] == [(failing, "UNKNOWN_SERVER_ERROR")]


@pytest.mark.behaviour("administration")
def test_a_group_is_described_with_its_members(broker: ReferenceBroker, admin: Any) -> None:
    """A group is described with state, epochs, assignor, coordinator and members; an unknown one has an error."""
    commit_offset(broker, "classic")
    with member(broker, "g", "t", "missing", client_id="me", client_rack="r1", allow_auto_create_topics=False) as one:
        for _ in looks("the member was assigned nothing"):
            one.poll(timeout_ms=50)
            found = admin.describe_share_groups(["g", "nope", "classic"], include_authorized_operations=True)
            if isinstance(found["g"], ShareGroupDescription) and any(m.assignment for m in found["g"].members):
                break
        group = found["g"]
        assert isinstance(group, ShareGroupDescription)
        assert (group.state, group.assignor) == (GroupState.STABLE, "simple")
        assert group.coordinator.id == broker.coordinator("g")
        assert group.group_epoch == group.assignment_epoch >= 2
        assert group.authorized_operations is not None
        assert AclOperation.DELETE in group.authorized_operations
        (described,) = group.members
        assert (described.client_id, described.client_host, described.rack_id) == ("me", "/127.0.0.1", "r1")
        assert set(described.subscribed_topic_names) == {"t", "missing"}
        assert described.assignment == (T0, T1, T2)
        assert described.member_epoch == group.group_epoch
    for name in ("nope", "classic"):
        assert isinstance(found[name], GroupIdNotFoundError), name
    emptied = admin.describe_share_groups(["g"])["g"]
    assert (emptied.state, emptied.members, emptied.authorized_operations) == (GroupState.EMPTY, (), None)


@pytest.mark.behaviour("administration")
def test_groups_without_members_are_deleted_and_their_ids_are_free_again(broker: ReferenceBroker, admin: Any) -> None:
    """A group with members stays, an unknown one is an error, an empty one goes with its offsets and frees its id."""
    broker.produce("u", b"1")
    consume(broker, "gone", "u", 1)
    with member(broker, "busy", "t") as busy:
        busy.poll(timeout_ms=100)
        found = admin.delete_share_groups(["gone", "busy", "nope"])
    assert found["gone"] is None
    assert isinstance(found["busy"], NonEmptyGroupError)
    assert isinstance(found["nope"], GroupIdNotFoundError)
    assert admin.list_share_group_offsets({"gone": None}) == {"gone": {}}
    assert isinstance(admin.describe_share_groups(["gone"])["gone"], GroupIdNotFoundError)
    commit_offset(broker, "gone")
    assert [g.group_type for g in admin.list_groups(types=["classic"]).groups] == [GroupType.CLASSIC]
    consumed = consume(broker, "busy", "u", 1)
    assert consumed[0].delivery_count == 1


# ---- offsets


@pytest.mark.behaviour("broker")
def test_offsets_and_lag_follow_what_is_acknowledged(broker: ReferenceBroker, admin: Any) -> None:
    """The lag is unknown until the first acknowledgement; then released records count, accepted and rejected do not."""
    broker.set_group_config("g", share_auto_offset_reset="earliest")
    broker.produce_batch("u", [b"0", b"1", b"2"])
    where = TopicPartition("u", 0)
    assert admin.list_share_group_offsets({"g": None}) == {"g": {}}
    with member(broker, "g", "u") as consumer:
        records = poll_until(consumer, 3)
        assert admin.list_share_group_offsets({"g": None})["g"] == {where: None}
        kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
        for record, kind in zip(records, kinds, strict=True):
            consumer.acknowledge(record, kind)
        consumer.commit_sync()
        offset = admin.list_share_group_offsets({"g": [where, TopicPartition("nix", 4)]})["g"]
        assert offset[where].lag == 1
        assert offset[TopicPartition("nix", 4)] is None
        broker.produce("u", b"3")
        assert admin.list_share_group_offsets({"g": None})["g"][where].lag == 2


@pytest.mark.behaviour("administration")
def test_what_another_member_holds_counts_in_the_lag(broker: ReferenceBroker, admin: Any) -> None:
    """A record that one of two members has fetched and not acknowledged is part of the lag until it is."""
    broker.set_group_config("g", share_auto_offset_reset="earliest")
    where = TopicPartition("u", 0)

    def lag() -> Any:
        return admin.list_share_group_offsets({"g": None})["g"][where].lag

    broker.produce("u", b"0")
    with member(broker, "g", "u") as one, member(broker, "g", "u") as two:
        poll_until(one, 1, one.acknowledge)
        one.commit_sync()
        assert lag() == 0
        broker.produce("u", b"1")
        (held,) = poll_until(two, 1)
        assert lag() == 1
        two.acknowledge(held)
        two.commit_sync()
        assert lag() == 0


@pytest.mark.behaviour("broker")
def test_altered_offsets_are_shown_and_used(broker: ReferenceBroker, admin: Any) -> None:
    """Altering offsets makes a missing group, and a consumer begins there; unknown partitions have an error each."""
    broker.produce_batch("u", [b"%d" % number for number in range(10)])
    where = TopicPartition("u", 0)
    wanted = {where: 8, T0: 100, T1: -1, TopicPartition("u", 7): 0, TopicPartition("nix", 0): 0}
    altered = admin.alter_share_group_offsets("g", wanted)
    assert [altered[w] for w in (where, T0, T1)] == [None] * 3
    assert all(isinstance(altered[w], UnknownTopicOrPartitionError) for w in list(wanted)[3:])
    shown = admin.list_share_group_offsets({"g": None})["g"]
    assert shown == {where: SharePartitionOffset(8, 0, 2), T0: SharePartitionOffset(100, 0, -100), T1: None}
    assert [(g.group_id, g.state) for g in admin.list_share_groups().groups] == [("g", GroupState.EMPTY)]
    assert [record.value for record in consume(broker, "g", "u", 2)] == [b"8", b"9"]


@pytest.mark.behaviour("administration")
def test_offsets_of_a_group_with_members_cannot_be_changed(broker: ReferenceBroker, admin: Any) -> None:
    """Offsets can be altered and deleted only while the group is empty, and deleted only if the group exists."""
    with member(broker, "g", "t") as consumer:
        consumer.poll(timeout_ms=100)
        with pytest.raises(NonEmptyGroupError):
            admin.alter_share_group_offsets("g", {T0: 0})
        with pytest.raises(NonEmptyGroupError):
            admin.delete_share_group_offsets("g", ["t"])
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_share_group_offsets("nope", ["t"])


@pytest.mark.behaviour("administration")
def test_deleted_offsets_begin_anew_and_the_other_topic_stays(broker: ReferenceBroker, admin: Any) -> None:
    """A topic whose offsets were deleted starts by the group's reset policy again; other topics keep their place."""
    broker.produce("u", b"u")
    broker.produce("t", b"t")
    for topic in ("u", "t"):
        consume(broker, "g", topic, 1)
    before = admin.list_share_group_offsets({"g": [T0]})
    deleted = admin.delete_share_group_offsets("g", ["u", "nix"])
    assert deleted["u"] is None
    assert isinstance(deleted["nix"], UnknownTopicOrPartitionError)
    assert TopicPartition("u", 0) not in admin.list_share_group_offsets({"g": None})["g"]
    assert admin.list_share_group_offsets({"g": [T0]}) == before
    assert [record.delivery_count for record in consume(broker, "g", "u", 1)] == [1]


@pytest.mark.behaviour("administration")
def test_kafka_4_1_tells_no_lag_and_cannot_alter(make_admin: Make) -> None:
    """With Kafka 4.1 altering offsets is raised as unsupported, and offsets are shown without a lag."""
    with ReferenceBroker(kafka_version="4.1") as old:
        old.create_topic("u")
        old.produce("u", b"1")
        admin = make_admin(old)
        consume(old, "g", "u", 1)
        offset = admin.list_share_group_offsets({"g": None})["g"][TopicPartition("u", 0)]
        assert (offset.start_offset, offset.lag) == (0, None)
        with pytest.raises(UnsupportedVersionError, match=r"4\.1"):
            admin.alter_share_group_offsets("g", {TopicPartition("u", 0): 0, TopicPartition("nix", 0): 0})
        assert admin.describe_cluster().api_versions[DescribeShareGroupOffsetsRequest.API_KEY] == (0, 0)


def test_share_groups_that_are_switched_off_are_unsupported(make_admin: Make) -> None:
    """Without the feature share.version groups have UnsupportedVersionError, and the cluster shows level 0."""
    with ReferenceBroker(share_version=0) as off:
        admin = make_admin(off)
        assert admin.describe_cluster().share_version == 0
        assert isinstance(admin.describe_share_groups(["g"])["g"], UnsupportedVersionError)
        assert isinstance(admin.list_share_group_offsets({"g": None})["g"], UnsupportedVersionError)
        with pytest.raises(UnsupportedVersionError):
            admin.alter_share_group_offsets("g", {T0: 0})
        assert admin.list_share_groups().groups == ()


# ---- configs


@pytest.mark.behaviour("administration")
def test_group_configs_are_set_shown_and_unset(broker: ReferenceBroker, admin: Any) -> None:
    """A set config has source DYNAMIC_GROUP_CONFIG, an unset one the default again; what is not allowed is refused."""
    admin.alter_group_configs("g", {RESET: "earliest", "share.record.lock.duration.ms": 20_000})
    entry = admin.describe_group_configs(["g"])["g"][RESET]
    assert (entry.value, entry.source) == ("earliest", ConfigSource.DYNAMIC_GROUP_CONFIG)
    admin.alter_group_configs("g", {RESET: "by_duration:PT1H"}, validate_only=True)
    for bad in ({RESET: "EARLIEST"}, {"nix": "1"}, {"share.record.lock.duration.ms": 1}, {RESET: "by_duration:x"}):
        with pytest.raises(InvalidConfigError):
            admin.alter_group_configs("g", bad)
    assert admin.describe_group_configs(["g"])["g"][RESET].value == "earliest"
    admin.alter_group_configs("g", {RESET: None})
    entry = admin.describe_group_configs(["g"])["g"][RESET]
    assert (entry.value, entry.source) == ("latest", ConfigSource.DEFAULT_CONFIG)


@pytest.mark.behaviour("administration")
def test_an_ensured_config_is_there_for_the_first_member(broker: ReferenceBroker, admin: Any) -> None:
    """Ensured group configs change only what differs, and count for a member that joins right afterwards."""
    broker.produce("u", b"early")
    assert admin.ensure_group_config("g", {RESET: "earliest"}) == {RESET: ConfigChange(None, "earliest")}
    assert admin.ensure_group_config("g", {RESET: "earliest"}) == {}
    with member(broker, "g", "u") as consumer:
        assert poll_until(consumer, 1, consumer.acknowledge)[0].value == b"early"


# ---- the cluster


def test_the_cluster_topics_and_offsets_are_described(broker: ReferenceBroker, admin: Any) -> None:
    """Nodes, leaders and ids, and offsets by place and by time, as tools need them."""
    found = admin.describe_cluster()
    assert [node.id for node in found.nodes] == [1, 2, 3]
    assert found.controller in found.nodes
    assert found.share_version == 1
    topic = admin.describe_topics(["t", "nix"])
    assert [p.leader.id for p in topic["t"].partitions] == [broker.leader("t", number) for number in range(3)]
    assert isinstance(topic["nix"], UnknownTopicOrPartitionError)
    assert topic["t"].authorized_operations is None
    allowed = admin.describe_topics(["t"], include_authorized_operations=True)["t"].authorized_operations
    assert {AclOperation.READ, AclOperation.DESCRIBE} < allowed
    assert list(admin.describe_topics()) == ["t", "u"]
    broker.produce("t", b"1", timestamp_ms=1_000)
    broker.produce("t", b"2", timestamp_ms=2_000)
    listed = {spec: admin.list_offsets({T0: spec})[T0] for spec in (*OffsetSpec, 1_500, 9_000)}
    assert listed[OffsetSpec.EARLIEST].offset == 0
    assert listed[OffsetSpec.LATEST].offset == 2
    assert listed[1_500] == ListedOffset(1, 2_000, 0)
    assert listed[9_000] is None


# ---- coordinators that move, brokers that fail


@pytest.mark.behaviour("administration")
@pytest.mark.parametrize("code", [14, 15, 16])
def test_everything_answers_when_the_coordinator_refuses_at_first(
    broker: ReferenceBroker, admin: Any, code: int
) -> None:
    """Every group request survives a coordinator that is loading, away or elsewhere."""
    for api in (77, 90, 91, 92, 42):
        broker.faults.fail(api, code)
    assert admin.alter_share_group_offsets("g", {T0: 1}) == {T0: None}
    assert admin.describe_share_groups(["g"])["g"].state is GroupState.EMPTY
    assert admin.list_share_group_offsets({"g": [T0]})["g"][T0].start_offset == 1
    assert admin.delete_share_group_offsets("g", ["t"]) == {"t": None}
    assert admin.delete_share_groups(["g"]) == {"g": None}
    assert broker.faults.pending() == 0


@pytest.mark.behaviour("administration")
def test_a_call_follows_the_coordinator_that_moves_between_look_up_and_request(
    broker: ReferenceBroker, admin: Any
) -> None:
    """The coordinator dies with the request in its hands: the call looks it up again, and the lag is still right."""
    broker.produce("t", b"1")
    admin.alter_share_group_offsets("g", {T0: 0})
    first = broker.coordinator("g")
    broker.clear_requests()
    broker.faults.delay(DescribeShareGroupOffsetsRequest.API_KEY, 60_000, node_id=first)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(admin.list_share_group_offsets, {"g": [T0]})
        wait_until(lambda: broker.requests(DescribeShareGroupOffsetsRequest.API_KEY))
        broker.stop_node(first)
        assert call.result()["g"][T0] == SharePartitionOffset(0, 0, 1)
    assert broker.coordinator("g") != first
    assert len(broker.requests(FindCoordinatorRequest.API_KEY)) == 2


def test_a_lost_answer_is_asked_for_again(broker: ReferenceBroker, admin: Any) -> None:
    """A connection that breaks after the broker has acted does not fail the call: the request is repeated."""
    broker.faults.drop(AlterShareGroupOffsetsRequest.API_KEY, applied=True)
    assert admin.alter_share_group_offsets("g", {T0: 5}) == {T0: None}
    broker.faults.cut_frame(ShareGroupDescribeRequest.API_KEY)
    assert admin.describe_share_groups(["g"])["g"].group_id == "g"


def test_calls_end_with_their_timeout_when_nobody_answers(broker: ReferenceBroker, admin: Any) -> None:
    """A call ends when its time is up, also while its request is under way."""
    broker.faults.delay(ShareGroupDescribeRequest.API_KEY, 60_000, times=10)
    assert isinstance(admin.describe_share_groups(["g"], timeout_ms=1_000)["g"], OperationTimeoutError)
    broker.faults.clear()
    for node in (1, 2, 3):
        broker.stop_node(node)
    with pytest.raises(OperationTimeoutError):
        admin.describe_cluster(timeout_ms=200)
