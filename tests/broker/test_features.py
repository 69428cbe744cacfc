"""Features and the quorum: codes as Kafka 4.3.1 answered them, and what a feature switches off."""

from __future__ import annotations

from typing import Any

import pytest
from broker.cluster_world import World

from kafka_share.errors import UnknownTopicOrPartitionError, UnsupportedVersionError
from kafka_share.protocol.consumer_group import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kafka_share.protocol.controllers import DescribeQuorumRequest, UpdateFeaturesRequest
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.share_group import ShareGroupDescribeRequest

FINALIZED = {"share.version": 1, "group.version": 1, "transaction.version": 2}
REFUSED = 95
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def update(world: World, *updates: tuple[str, int, int], version: int = 2, only: bool = False) -> Any:
    key = UpdateFeaturesRequest.FeatureUpdateKey
    return world.ask(
        UpdateFeaturesRequest(
            feature_updates=[
                key(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
            ],
            validate_only=only,
        ),
        version,
    )


def finalized(world: World) -> dict[str, int]:
    answer = world.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    assert {one.name: one.max_version for one in answer.supported_features} == FINALIZED
    return {one.name: one.max_version_level for one in answer.finalized_features}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("updates", "code"),
    [
        ([("share.version", 1, UPGRADE)], 0),
        ([], 0),
        ([("share.version", 9, UPGRADE)], REFUSED),
        ([("share.version", 0, UPGRADE)], REFUSED),
        ([("share.version", -1, SAFE)], REFUSED),
        ([("share.version", 0, 9)], REFUSED),
        ([("foo", 1, UPGRADE)], REFUSED),
        ([("", 1, UPGRADE)], REFUSED),
        ([("share.version", 0, SAFE), ("foo", 1, UPGRADE)], REFUSED),
    ],
)
def test_features_change_all_or_none(version: int, updates: list[tuple[str, int, int]], code: int) -> None:
    world = World()
    answer = update(world, *updates, version=version)
    assert answer.error_code == code
    assert bool(answer.error_message) == (code != 0)
    assert len(answer.results) == (len(updates) if version == 1 and code == 0 else 0)
    assert finalized(world) == FINALIZED


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_a_feature_is_switched_off_and_on_again(kind: int) -> None:
    world = World()
    assert update(world, ("share.version", 0, kind), ("group.version", 0, kind), only=True).error_code == 0
    assert finalized(world) == FINALIZED
    assert update(world, ("share.version", 0, kind), ("group.version", 0, kind)).error_code == 0
    assert finalized(world) == {"transaction.version": 2}
    off = UnsupportedVersionError.code
    assert world.ask(ShareGroupDescribeRequest(group_ids=["g"])).groups[0].error_code == off
    assert world.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0].error_code == off
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    assert world.ask(beat).error_code == off
    assert update(world, ("share.version", 1, kind)).error_code == REFUSED
    assert update(world, ("share.version", 1, UPGRADE)).error_code == 0
    assert finalized(world) == {"share.version": 1, "transaction.version": 2}
    assert world.ask(ShareGroupDescribeRequest(group_ids=["g"])).groups[0].error_code != off


def test_both_protocols_of_transactions_are_offered_at_any_level_of_their_feature() -> None:
    """As by Kafka 4.3.1: the level tells clients which one to use, and the version of a request says which it is."""
    world = World()
    offered = world.cluster.api_versions
    assert update(world, ("transaction.version", 0, SAFE)).error_code == 0
    assert "transaction.version" not in finalized(world)
    assert world.cluster.api_versions == offered
    assert update(world, ("transaction.version", 3, UPGRADE)).error_code == REFUSED
    assert update(world, ("transaction.version", 2, UPGRADE)).error_code == 0
    assert finalized(world) == FINALIZED


def test_version_0_can_say_only_whether_a_downgrade_is_allowed() -> None:
    world = World()
    key = UpdateFeaturesRequest.FeatureUpdateKey

    def off(allowed: bool) -> int:
        asked = key(feature="share.version", max_version_level=0, allow_downgrade=allowed)
        return int(world.ask(UpdateFeaturesRequest(feature_updates=[asked]), 0).error_code)

    assert (off(False), off(True)) == (REFUSED, 0)
    assert "share.version" not in finalized(world)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_first_node_that_runs_stands_for_the_quorum(version: int) -> None:
    world = World(nodes=2)
    topic = DescribeQuorumRequest.TopicData

    def quorum(name: str, index: int, node: int = 1) -> Any:
        asked = topic(topic_name=name, partitions=[topic.PartitionData(partition_index=index)])
        answer = world.ask(DescribeQuorumRequest(topics=[asked]), version, node=node)
        assert answer.error_code == 0
        (found,) = answer.topics[0].partitions
        assert [one.node_id for one in answer.nodes] == ([found.leader_id] if found.leader_id and version > 1 else [])
        return found

    before = quorum("__cluster_metadata", 0)
    assert (before.error_code, before.leader_id) == (0, 1)
    assert [one.replica_id for one in before.current_voters] == [1]
    assert [one.replica_id for one in before.observers] == [2]
    world.topic("t")
    assert quorum("__cluster_metadata", 0).high_watermark > before.high_watermark
    for name, index in (("t", 0), ("__cluster_metadata", 1)):
        assert quorum(name, index).error_code == UnknownTopicOrPartitionError.code
    world.cluster.stop_node(1, world.now_ms)
    assert quorum("__cluster_metadata", 0, node=2).leader_id == 2
