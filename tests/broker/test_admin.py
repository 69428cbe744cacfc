"""Topics, configuration, metadata and discovery through the cluster."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from broker.cluster_world import World

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.configs.configs import Configs, ResourceType
from kafka_share.broker.error_answers import error_answer
from kafka_share.broker.handlers.handler_table import HANDLERS
from kafka_share.broker.kafka_version import advertised_versions
from kafka_share.errors import (
    ConfigurationError,
    CoordinatorNotAvailableError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    TopicAlreadyExistsError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import DescribeClusterRequest, FindCoordinatorRequest, MetadataRequest
from kafka_share.protocol.configs import (
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.messages import MESSAGES, decode_response, encode_response
from kafka_share.protocol.schema import Struct, schema_of
from kafka_share.protocol.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest


def create(world: World, name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> Any:
    topic = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[
            topic(
                name=name,
                num_partitions=partitions,
                replication_factor=factor,
                assignments=[
                    topic.CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
                    for index, nodes in fields.pop("assignments", {}).items()
                ],
                configs=[
                    topic.CreatableTopicConfig(name=key, value=value)
                    for key, value in fields.pop("configs", {}).items()
                ],
            )
        ],
        timeout_ms=1_000,
        **fields,
    )
    return world.ask(request).topics[0]


def metadata(world: World, *names: str, version: int = 12, create_missing: bool = False) -> Any:
    topic = MetadataRequest.MetadataRequestTopic
    return world.ask(
        MetadataRequest(topics=[topic(name=name) for name in names], allow_auto_topic_creation=create_missing), version
    )


def test_partitions_are_spread_over_the_nodes_when_a_topic_is_created() -> None:
    world = World(nodes=3)
    made = create(world, "t", 6, 2)
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 6, 2)
    (topic,) = metadata(world, "t").topics
    assert topic.topic_id == made.topic_id
    assert sorted(p.leader_id for p in topic.partitions) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(p.replica_nodes)) == 2 and p.leader_id == p.replica_nodes[0] for p in topic.partitions)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "a/b"}, InvalidTopicError),
        ({"name": ".."}, InvalidTopicError),
        ({"name": "x" * 250}, InvalidTopicError),
        ({"name": "there"}, TopicAlreadyExistsError),
        ({"name": "t", "partitions": 0}, InvalidPartitionsError),
        ({"name": "t", "factor": 3}, InvalidReplicationFactorError),
        ({"name": "t", "assignments": {0: [1]}}, InvalidRequestError),
        ({"name": "t", "partitions": -1, "factor": -1, "assignments": {1: [1]}}, InvalidReplicaAssignmentError),
        ({"name": "t", "partitions": -1, "factor": -1, "assignments": {0: [9]}}, InvalidReplicaAssignmentError),
        ({"name": "t", "partitions": -1, "factor": -1, "assignments": {0: [1, 1]}}, InvalidReplicaAssignmentError),
        (
            {"name": "t", "partitions": -1, "factor": -1, "assignments": {0: [1], 1: [2, 1]}},
            InvalidReplicaAssignmentError,
        ),
        ({"name": "t", "configs": {"nosuch": "1"}}, InvalidConfigError),
        ({"name": "t", "configs": {"max.message.bytes": "-1"}}, InvalidConfigError),
    ],
)
def test_a_topic_is_refused_when_it_cannot_be(fields: dict[str, Any], error: Any) -> None:
    world = World(nodes=2)
    world.topic("there")
    refused = create(world, **fields)
    assert refused.error_code == error.code
    assert refused.error_message
    assert [topic.name for topic in world.cluster.topics] == ["there"]


def test_nothing_is_made_when_the_request_only_validates() -> None:
    world = World()
    assert create(world, "t", -1, -1, validate_only=True).num_partitions == 1
    assert list(world.cluster.topics) == []


def test_a_topic_gets_another_id_when_it_is_made_again() -> None:
    world = World()
    first = create(world, "t").topic_id
    state = DeleteTopicsRequest.DeleteTopicState
    deleted = world.ask(DeleteTopicsRequest(topics=[state(name=None, topic_id=first)], timeout_ms=1)).responses[0]
    assert (deleted.error_code, deleted.name) == (0, "t")
    assert create(world, "t").topic_id != first
    gone = world.ask(DeleteTopicsRequest(topics=[state(name=None, topic_id=first)], timeout_ms=1)).responses[0]
    assert gone.error_code == UnknownTopicIdError.code
    by_name = world.ask(DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=1), 5).responses
    assert [result.error_code for result in by_name] == [0, UnknownTopicOrPartitionError.code]


def test_a_topic_only_grows_when_partitions_are_created() -> None:
    world = World(nodes=2)
    world.topic("t", 2)

    def grow(count: int, assignments: list[list[int]] | None = None, name: str = "t") -> int:
        topic = CreatePartitionsRequest.CreatePartitionsTopic
        given = None if assignments is None else [topic.CreatePartitionsAssignment(broker_ids=a) for a in assignments]
        request = CreatePartitionsRequest(topics=[topic(name=name, count=count, assignments=given)], timeout_ms=1)
        return int(world.ask(request).results[0].error_code)

    assert grow(2) == grow(1) == InvalidPartitionsError.code
    assert grow(4, [[1]]) == InvalidReplicaAssignmentError.code
    assert grow(4, [[1], [9]]) == InvalidReplicaAssignmentError.code
    assert grow(4) == 0
    assert grow(6, [[2], [2]]) == 0
    assert [p.leader_id for p in metadata(world, "t").topics[0].partitions][4:] == [2, 2]
    assert grow(7, name="missing") == UnknownTopicOrPartitionError.code


def test_each_topic_or_resource_is_refused_when_a_request_names_it_twice() -> None:
    world = World()
    topic = CreateTopicsRequest.CreatableTopic
    twice = [topic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]) for _ in range(2)]
    answered = world.ask(CreateTopicsRequest(topics=twice, timeout_ms=1)).topics
    assert {one.error_code for one in answered} == {InvalidRequestError.code}
    assert list(world.cluster.topics) == []
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    value = resource.AlterableConfig(name="share.isolation.level", config_operation=0, value="read_committed")
    group = resource(resource_type=32, resource_name="g", configs=[value])
    altered = world.ask(IncrementalAlterConfigsRequest(resources=[group, group])).responses
    assert [one.error_code for one in altered] == [InvalidRequestError.code] * 2
    both = resource(resource_type=32, resource_name="g", configs=[value, value])
    assert world.ask(IncrementalAlterConfigsRequest(resources=[both])).responses[0].error_code == (
        InvalidRequestError.code
    )
    assert not world.cluster.group_settings("g").read_committed


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (2, "missing", UnknownTopicOrPartitionError),
        (4, "7", InvalidRequestError),
        (32, "", InvalidRequestError),
        (99, "x", InvalidRequestError),
    ],
)
def test_a_description_is_refused_when_there_is_no_such_resource(kind: int, name: str, error: Any) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name)
    (described,) = World().ask(DescribeConfigsRequest(resources=[resource])).results
    assert (described.error_code, described.configs) == (error.code, [])
    assert described.error_message


def test_the_only_node_may_have_settings_of_its_own_but_one_of_several_may_not() -> None:
    world = World()
    assert alter(world, {"message.max.bytes": "7"}, name="", kind=4) == 0
    assert alter(world, {"message.max.bytes": "5"}, name="1", kind=4) == 0
    assert describe(world, "1", 4, ["message.max.bytes"]) == {"message.max.bytes": ("5", 2)}
    assert describe(world, "", 4) == {"message.max.bytes": ("7", 3)}
    assert world.cluster.configs.topic_value("t", "max.message.bytes") == "5"
    assert alter(world, {"message.max.bytes": None}, name="1", kind=4, operation=1) == 0
    assert world.cluster.configs.topic_value("t", "max.message.bytes") == "7"
    assert alter(World(nodes=2), {"message.max.bytes": "5"}, name="1", kind=4) == InvalidRequestError.code


def test_a_broker_setting_that_nobody_knows_is_kept_as_a_secret() -> None:
    world = World()
    assert alter(world, {"my.password": "x"}, name="", kind=4) == 0
    resource = DescribeConfigsRequest.DescribeConfigsResource
    (described,) = (
        world.ask(
            DescribeConfigsRequest(resources=[resource(resource_type=4, resource_name="", configuration_keys=None)])
        )
        .results[0]
        .configs
    )
    assert (described.name, described.value, described.is_sensitive) == ("my.password", None, True)
    assert alter(world, {"my.password": None}, name="", kind=4, operation=1) == 0
    assert describe(world, "", 4) == {}


def test_items_of_a_list_come_and_go_one_by_one() -> None:
    world = World()
    world.topic("t")
    throttled = "leader.replication.throttled.replicas"
    assert alter(world, {throttled: "0:1"}, "t", 2, operation=2) == 0
    assert alter(world, {throttled: "0:1,1:1"}, "t", 2, operation=2) == 0
    assert describe(world, "t", 2, [throttled]) == {throttled: ("0:1,1:1", 1)}
    assert alter(world, {throttled: "0:1"}, "t", 2, operation=3) == 0
    assert describe(world, "t", 2, [throttled]) == {throttled: ("1:1", 1)}


def test_nothing_expires_when_the_cleanup_policy_is_empty() -> None:
    world = World()
    world.topic("t")
    assert alter(world, {"cleanup.policy": "", "retention.ms": "5"}, "t", 2) == 0
    assert world.cluster.configs.log_settings("t").retention_ms == -1
    assert alter(world, {"cleanup.policy": "delete"}, "t", 2) == 0
    assert world.cluster.configs.log_settings("t").retention_ms == 5


def test_the_resources_of_all_types_are_listed_and_the_first_version_knows_subscriptions_only() -> None:
    world = World()
    world.topic("t")
    assert alter(world, {"interval.ms": "1000"}, "m", 16) == 0
    assert alter(world, {"share.isolation.level": "read_committed"}) == 0

    def listed(*types: int, version: int = 1) -> list[tuple[int, str]]:
        answer = world.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
        assert answer.error_code == 0
        return [(one.resource_type, one.resource_name) for one in answer.config_resources]

    assert listed() == [(32, "g"), (16, "m"), (8, "1"), (4, "1"), (2, "t")]
    assert listed(2, 16) == [(16, "m"), (2, "t")]
    assert listed(version=0) == [(16, "m")]
    assert world.ask(ListConfigResourcesRequest(resource_types=[2, 99]), 1).error_code == UnsupportedVersionError.code


def test_a_missing_topic_is_made_when_broker_and_request_allow_it() -> None:
    world = World()
    assert metadata(world, "t").topics[0].error_code == UnknownTopicOrPartitionError.code
    made = metadata(world, "t", create_missing=True).topics[0]
    assert (made.error_code, len(made.partitions)) == (0, 1)
    assert metadata(world, "a b", create_missing=True).topics[0].error_code == InvalidTopicError.code
    strict = World(config={"auto.create.topics.enable": "false"})
    assert metadata(strict, "t", create_missing=True).topics[0].error_code == UnknownTopicOrPartitionError.code


def test_topics_are_found_by_id_and_all_together() -> None:
    world = World()
    topic = world.topic("t")
    asked = MetadataRequest.MetadataRequestTopic
    (found, missing) = world.ask(
        MetadataRequest(topics=[asked(name=None, topic_id=topic.id), asked(name=None, topic_id=UUID(int=7))])
    ).topics
    assert found.name == "t"
    assert missing.error_code == UnknownTopicIdError.code
    assert [t.name for t in world.ask(MetadataRequest(topics=None)).topics] == ["t"]
    assert [t.name for t in world.ask(MetadataRequest(topics=[]), 0).topics] == ["t"]
    assert world.ask(MetadataRequest(topics=[])).topics == []


def test_leaders_move_and_come_back_with_a_higher_epoch_when_a_node_stops() -> None:
    world = World(nodes=2)
    world.topic("copied", 2, 2)
    world.topic("single", 2, 1)
    world.cluster.stop_node(1, world.now_ms)
    world.take_answers()
    answer = metadata(world, "copied", "single")
    assert [node.node_id for node in answer.brokers] == [2]
    copied, single = ({p.partition_index: p for p in topic.partitions} for topic in answer.topics)
    assert {(p.leader_id, p.leader_epoch) for p in copied.values()} == {(2, 0), (2, 1)}
    orphans = [p for p in single.values() if p.leader_id == -1]
    assert [p.error_code for p in orphans] == [LeaderNotAvailableError.code]
    world.cluster.start_node(1, world.now_ms)
    world.take_answers()
    again = metadata(world, "single").topics[0].partitions[orphans[0].partition_index]
    assert (again.leader_id, again.leader_epoch) == (1, 2)


# ---- discovery


def test_every_api_that_has_versions_has_a_handler_and_its_own_name() -> None:
    """What is offered, what is handled, and what has a name are the same APIs; the names are those of the messages."""
    assert advertised_versions(with_client_metrics=True).keys() == HANDLERS.keys() == set(ApiKey)
    for key in ApiKey:
        assert MESSAGES[key][0].__name__.lower() == key.name.replace("_", "").lower() + "request"


def test_the_offered_versions_are_those_of_kafka_and_all_can_be_decoded() -> None:
    world = World()
    answer = world.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    offered = advertised_versions()
    assert {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys} == offered
    for key, (_, highest) in offered.items():
        assert MESSAGES[key][0].valid_versions[1] >= highest
    levels = [(one.name, one.min_version_level, one.max_version_level) for one in answer.finalized_features]
    assert levels == [("share.version", 1, 1), ("group.version", 1, 1), ("transaction.version", 2, 2)]
    off = World(share_version=0).ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    assert [feature.name for feature in off.finalized_features] == ["group.version", "transaction.version"]
    supported = {feature.name: feature.max_version for feature in off.supported_features}
    assert supported == {"share.version": 1, "group.version": 1, "transaction.version": 2}


def find(world: World, key: str, kind: int = 2, version: int = 6) -> int:
    answer = world.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), version)
    (found,) = answer.coordinators
    assert (found.error_code == 0) == (found.node_id > 0)
    return int(found.error_code)


def test_share_keys_are_read_from_the_right_when_a_coordinator_is_looked_for() -> None:
    world = World()
    topic = "AAAAAAAAAAcAAAAAAAAACA"
    for good in (f"g:{topic}:0", f"a:b:c:{topic}:3", f"g:{topic}:-1"):
        assert find(world, good) == 0
    for bad in ("", "g", "g:x:0", f"g:{topic}", f"g:{topic}:x", f":{topic}:0"):
        assert find(world, bad) == InvalidRequestError.code
    assert find(world, f"g:{topic}:0", version=5) == InvalidRequestError.code
    assert find(World(share_version=0), f"g:{topic}:0") == CoordinatorNotAvailableError.code


def test_any_name_has_a_coordinator_when_it_is_that_of_a_group() -> None:
    world = World(nodes=3)
    assert find(world, "", 0) == find(world, "g", 0) == find(world, "tx", 1) == 0
    assert find(world, "g", 3) == InvalidRequestError.code
    old = world.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
    assert old.node_id == world.cluster.coordinator_of("g").id


def test_the_cluster_is_described_by_its_living_nodes() -> None:
    world = World(nodes=2)
    answer = world.ask(DescribeClusterRequest())
    assert (answer.cluster_id, answer.controller_id) == ("world", 1)
    assert [broker.broker_id for broker in answer.brokers] == [1, 2]
    assert world.ask(DescribeClusterRequest(endpoint_type=2)).error_code != 0


# ---- configuration


def alter(world: World, values: dict[str, str | None], name: str = "g", kind: int = 32, operation: int = 0) -> int:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    resource.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, value in values.items()
                ],
            )
        ]
    )
    return int(world.ask(request).responses[0].error_code)


def describe(world: World, name: str = "g", kind: int = 32, keys: list[str] | None = None) -> dict[str, Any]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configuration_keys=keys)], include_synonyms=True
    )
    return {c.name: (c.value, c.config_source) for c in world.ask(request).results[0].configs}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.record.lock.duration.ms", "x"),
        ("share.heartbeat.interval.ms", "15001"),
        ("share.session.timeout.ms", "60001"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "4001"),
        ("share.assignment.interval.ms", "-1"),
        ("share.auto.offset.reset", "Earliest"),
        ("share.auto.offset.reset", "by_duration:-PT1H"),
        ("share.isolation.level", "READ_COMMITTED"),
        ("share.renew.acknowledge.enable", "maybe"),
        ("share.nosuch", "1"),
    ],
)
def test_a_group_setting_is_refused_when_it_is_unknown_or_out_of_bounds(key: str, value: str) -> None:
    world = World()
    assert alter(world, {"share.isolation.level": "read_committed", key: value}) == InvalidConfigError.code
    assert not world.cluster.group_settings("g").read_committed


@pytest.mark.parametrize(
    ("code", "kind", "name", "changes"),
    [
        (0, 2, "t", "max.message.bytes= 5  preallocate=TRUE min.cleanable.dirty.ratio=1 compression.gzip.level=-1"),
        (40, 2, "t", "max.message.bytes=1_000"),
        (40, 2, "t", "max.message.bytes=2147483648"),
        (40, 2, "t", "preallocate=yes"),
        (40, 2, "t", "min.cleanable.dirty.ratio=1.1"),
        (40, 2, "t", "min.cleanable.dirty.ratio=x"),
        (40, 2, "t", "compression.gzip.level=0"),
        (40, 2, "t", "compression.zstd.level=23"),
        (40, 2, "t", "flush.messages=0"),
        (40, 2, "t", "leader.replication.throttled.replicas=x"),
        (40, 2, "t", "min.compaction.lag.ms=10 max.compaction.lag.ms=5"),
        (40, 2, "t", "remote.storage.enable=true"),
        (40, 2, "t", "message.format.version=3.0"),
        (40, 2, "missing", "retention.ms=x"),
        (3, 2, "missing", "retention.ms=1"),
        (17, 2, "b:ad", "retention.ms=1"),
        (42, 2, "", "retention.ms=1"),
        (42, 2, "t", "retention.ms"),
        (40, 32, "g", "share.delivery.count.limit=1"),
        (0, 32, "g", "share.session.timeout.ms= 50000  share.renew.acknowledge.enable=FALSE"),
        (42, 4, "1", "num.partitions=5"),
        (42, 4, "", "group.share.record.lock.duration.ms=20000 message.max.bytes=5"),
        (42, 4, "", "message.max.bytes=x"),
        (42, 4, "x", "message.max.bytes=5"),
        (0, 4, "1", "foo.bar=1"),
        (40, 8, "1", "org.apache.kafka=DEBUG"),
        (0, 16, "m", "metrics=* match=client_id=x"),
        (40, 16, "m", "match=foo=x"),
        (40, 16, "m", "match=client_id=["),
        (42, 16, "", "interval.ms=1000"),
    ],
)
def test_changes_are_taken_and_refused_as_by_kafka_4_3(code: int, kind: int, name: str, changes: str) -> None:
    """The codes are those of Kafka 4.3.1 to the same requests."""
    world = World()
    world.topic("t")
    values: dict[str, str | None] = {}
    for change in re.split(r" (?=[a-z.]+=)", changes):
        key, given, value = change.partition("=")
        values[key] = value if given else None
    assert alter(world, values, name, kind) == code
    assert bool(world.cluster.configs.own_values(ResourceType(kind), name)) == (code == 0)


def test_a_request_is_invalid_when_it_names_no_group_or_no_value() -> None:
    world = World()
    assert alter(world, {"share.isolation.level": "read_committed"}, name="") == InvalidRequestError.code
    assert alter(world, {"share.session.timeout.ms": None}) == InvalidRequestError.code
    assert alter(world, {"share.isolation.level": "read_committed"}, operation=2) == InvalidConfigError.code
    assert alter(world, {"share.isolation.level": "read_committed"}, operation=9) == UnknownServerError.code
    assert alter(world, {"a": "b"}, kind=99) == InvalidRequestError.code


def test_a_group_setting_shows_its_layers_until_it_is_deleted() -> None:
    world = World(config={"group.share.delivery.count.limit": "7"})
    assert describe(world)["share.delivery.count.limit"] == ("7", 4)
    assert alter(world, {"share.delivery.count.limit": "3"}) == 0
    assert describe(world, keys=["share.delivery.count.limit", "nosuch"]) == {"share.delivery.count.limit": ("3", 8)}
    assert world.cluster.group_settings("g").delivery_count_limit == 3
    listed = world.ask(ListConfigResourcesRequest(resource_types=[32])).config_resources
    assert [resource.resource_name for resource in listed] == ["g"]
    assert alter(world, {"share.delivery.count.limit": None}, operation=1) == 0
    assert world.cluster.group_settings("g").delivery_count_limit == 7
    assert world.ask(ListConfigResourcesRequest(resource_types=[32])).config_resources == []


def test_the_session_timeout_has_to_be_longer_than_the_heartbeat_interval() -> None:
    world = World(config={"group.share.min.session.timeout.ms": "2000", "group.share.min.heartbeat.interval.ms": "500"})
    both: dict[str, str | None] = {"share.session.timeout.ms": "2000", "share.heartbeat.interval.ms": "2000"}
    assert alter(world, both) == InvalidConfigError.code
    assert alter(world, {**both, "share.heartbeat.interval.ms": "1999"}) == 0


def test_a_value_is_clamped_when_the_bounds_change_after_it_was_set() -> None:
    world = World()
    assert alter(world, {"share.record.lock.duration.ms": "60000"}) == 0
    world.cluster.configs.set_values(ResourceType.BROKER, "", {"group.share.max.record.lock.duration.ms": "40000"})
    assert world.cluster.group_settings("g").record_lock_duration_ms == 40_000


def test_topics_have_settings_of_their_own_until_they_are_deleted() -> None:
    world = World()
    topic = world.topic("t")
    assert alter(world, {"max.message.bytes": "5"}, name="t", kind=2) == 0
    assert describe(world, "t", 2)["max.message.bytes"] == ("5", 1)
    assert alter(world, {"max.message.bytes": "5"}, name="u", kind=2) == UnknownTopicOrPartitionError.code
    world.cluster.delete_topic(topic, world.now_ms)
    assert world.cluster.configs.dynamic_names(ResourceType.TOPIC) == []


@pytest.mark.parametrize("config", [{"nosuch": "1"}, {"group.share.max.size": "0"}, {"num.partitions": "many"}])
def test_a_broker_does_not_start_when_a_setting_is_wrong(config: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(config))):
        Configs(config)


def _example(struct: Struct, version: int) -> Any:
    """A struct with a value in every field that the version has, and one element in every array."""
    values = {}
    for field in (one for one in struct.fields if one.in_version(version)):
        plain = {"string": "x", "uuid": UUID(int=5), "bytes": b"", "records": b"", "bool": False}.get(field.type, 3)
        value = plain if field.struct is None else _example(field.struct, version)
        values[field.name] = [value] if field.is_array else value
    return struct.data_class(**values)


def _codes(message: Any, struct: Struct) -> list[int]:
    """All error codes in a message."""
    found = []
    for field in struct.fields:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(value)
        elif field.struct is not None and value is not None:
            found += [code for one in (value if field.is_array else [value]) for code in _codes(one, field.struct)]
    return found


@pytest.mark.parametrize("key", sorted(HANDLERS))
def test_every_api_has_an_answer_that_is_only_an_error(key: int) -> None:
    """In each version the code can be read from the answer, at the top or in the entry for what was asked."""
    request, answer = (schema_of(message) for message in MESSAGES[key])
    low, high = advertised_versions(with_client_metrics=True)[key]
    for version in range(max(low, request.valid_versions[0]), high + 1):
        failed = error_answer(_example(request.struct, version), version, NotLeaderOrFollowerError.code)
        frame = encode_response(1, failed, version)
        _, read = decode_response(key, version, frame[4:])
        assert NotLeaderOrFollowerError.code in _codes(read, answer.struct), version
