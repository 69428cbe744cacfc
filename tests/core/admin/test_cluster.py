"""The admin core on the cluster, on topics, and on offsets that it looks up at partition leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from core.admin.scripted_admin import NODES, PASS, Cluster, in_turn, run, script

from kafka_share.admin_values import AclOperation, ListedOffset, OffsetSpec, PartitionDescription
from kafka_share.core.admin import cluster as cluster_operations
from kafka_share.core.admin import log_offsets as log_operations
from kafka_share.core.admin import topics as topic_operations
from kafka_share.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    InvalidArgumentError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaShareError,
    LeaderNotAvailableError,
    OperationTimeoutError,
    RemoteProtocolError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import MetadataRequest, MetadataResponse
from kafka_share.protocol.handshake import ApiVersionsRequest, ApiVersionsResponse
from kafka_share.protocol.logs import ListOffsetsRequest, ListOffsetsResponse
from kafka_share.records import TopicPartition

_Offset = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
_Topic = MetadataResponse.MetadataResponseTopic
T0, T1, T2, U0 = (TopicPartition(*where) for where in (("t", 0), ("t", 1), ("t", 2), ("u", 0)))
LOST = BrokerUnreachableError("it broke")


def offered(level: int | None, error: int = 0) -> ApiVersionsResponse:
    features = [("kraft.version", 1)] + ([] if level is None else [("share.version", level)])
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=k, min_version=a, max_version=b) for k, a, b in [(91, 0, 0)]],
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=top, min_version_level=top)
            for name, top in features
        ],
    )


def listed(request: Any, _: int, *, errors: dict[tuple[str, int], int] | None = None, offset: int = 0) -> Any:
    topics = [
        ListOffsetsResponse.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _Offset(
                    partition_index=p.partition_index,
                    error_code=(errors or {}).get((topic.name, p.partition_index), 0),
                    timestamp=p.timestamp if p.timestamp > 0 else -1,
                    offset=offset + p.partition_index,
                    leader_epoch=4,
                )
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def list_offsets(wanted: Any, answer: Any = listed, cluster: Cluster | None = None, **options: Any) -> Any:
    return run(log_operations.list_offsets(wanted), script((ListOffsetsRequest, answer)), cluster, **options)


# ---- the cluster


@pytest.mark.parametrize("level", [None, 1, 2])
def test_a_cluster_has_nodes_controller_features_and_versions(level: int | None) -> None:
    """Nodes by id, the level of share.version (0 when it is off) and the API versions that a broker offers."""
    found = run(cluster_operations.describe_cluster(), script((ApiVersionsRequest, lambda *_: offered(level))))
    assert (found.cluster_id, found.nodes, found.controller) == ("c", tuple(NODES.values()), NODES[2])
    assert found.share_version == (level or 0)
    assert found.finalized_features["kraft.version"] == 1
    assert found.api_versions == {91: (0, 0)}


def test_a_broker_that_refuses_to_tell_its_versions_is_raised() -> None:
    """An error in the answer to ApiVersions concerns the whole call."""
    with pytest.raises(InvalidRequestError):
        run(cluster_operations.describe_cluster(), script((ApiVersionsRequest, lambda *_: offered(1, error=42))))


# ---- topics


def test_a_topic_has_id_partitions_and_leaders() -> None:
    """Partitions come in order with leader, epoch and replicas; a partition without leader has None."""
    cluster = Cluster()
    cluster.leaders["t", 1] = -1
    found = run(topic_operations.describe_topics(["t"], False), script(), cluster)["t"]
    assert (found.name, found.topic_id, found.is_internal) == ("t", UUID(int=7), False)
    assert found.partitions[0] == PartitionDescription(0, NODES[1], 4, (1, 2), ())
    assert [p.leader for p in found.partitions] == [NODES[1], None, NODES[3]]


def test_all_topics_are_described_when_none_is_named() -> None:
    """None means every topic that the caller may see; an empty collection means none."""
    cluster = Cluster()
    assert list(run(topic_operations.describe_topics(None, True), script(), cluster)) == ["t", "u"]
    ((request, _),) = cluster.requests(MetadataRequest)
    assert (request.topics, request.include_topic_authorized_operations) == (None, True)
    assert run(topic_operations.describe_topics([], False), script()) == {}


def test_authorized_operations_of_a_topic_are_told_when_asked_for() -> None:
    """Operations that the broker names become values; without them the field is None."""
    cluster = Cluster()

    def with_operations(request: Any, node: int) -> Any:
        answer = cluster.answer(request, node)
        answer.topics[0].authorized_operations = {3, 8, 77}
        return answer

    found = run(topic_operations.describe_topics(["t"], True), script((MetadataRequest, with_operations)), cluster)
    assert found["t"].authorized_operations == {AclOperation.READ, AclOperation.DESCRIBE}


def test_no_topic_is_created_by_asking() -> None:
    """Metadata requests forbid the broker to create what is asked for."""
    cluster = Cluster()
    run(topic_operations.describe_topics(["nix"], False), script(), cluster)
    list_offsets({T0: 0}, cluster=cluster)
    assert [r.allow_auto_topic_creation for r, _ in cluster.requests(MetadataRequest)] == [False] * 4


def test_an_unknown_topic_is_asked_for_a_few_times() -> None:
    """A new topic may not have reached every broker; one that does not exist must not take the whole timeout."""
    cluster = Cluster()
    found = run(topic_operations.describe_topics(["nix", "t"], False), script(), cluster)
    assert list(found) == ["nix", "t"]
    assert isinstance(found["nix"], UnknownTopicOrPartitionError)
    assert found["t"].name == "t"
    assert [[t.name for t in r.topics] for r, _ in cluster.requests(MetadataRequest)] == [
        ["nix", "t"],
        ["nix"],
        ["nix"],
    ]


@pytest.mark.parametrize(("code", "kind"), [(17, InvalidTopicError), (29, TopicAuthorizationFailedError)])
def test_an_error_of_one_topic_is_its_result(code: int, kind: type[KafkaShareError]) -> None:
    """A topic that may not be seen, or whose name is not allowed, has its error at once."""
    cluster = Cluster()
    answer = MetadataResponse(brokers=[], topics=[_Topic(error_code=code, name="t", partitions=[])])
    found = run(
        topic_operations.describe_topics(["t", "w"], False), script((MetadataRequest, lambda *_: answer)), cluster
    )
    assert type(found["t"]) is kind
    assert isinstance(found["w"], RemoteProtocolError)
    assert len(cluster.requests(MetadataRequest)) == 1


def test_a_topic_that_is_being_created_is_waited_for() -> None:
    """LEADER_NOT_AVAILABLE passes, at the latest with the timeout."""
    cluster = Cluster()
    being_made = MetadataResponse(brokers=[], topics=[_Topic(error_code=5, name="t", partitions=[])])
    found = run(
        topic_operations.describe_topics(["t"], False), script((MetadataRequest, in_turn(being_made, PASS))), cluster
    )
    assert found["t"].name == "t"
    answers = script((MetadataRequest, lambda *_: being_made))
    found = run(topic_operations.describe_topics(["t"], False), answers, timeout_ms=800)
    assert isinstance(found["t"], OperationTimeoutError)
    assert isinstance(found["t"].__cause__, LeaderNotAvailableError)


# ---- offsets


def test_offsets_are_looked_up_at_the_leaders() -> None:
    """Each leader gets its partitions in one request; earliest, latest and times travel as numbers."""
    cluster = Cluster()
    cluster.leaders["u", 0] = 1
    found = list_offsets({T2: OffsetSpec.LATEST, T0: OffsetSpec.EARLIEST, U0: 1_700, T1: 5}, cluster=cluster)
    assert list(found) == [T2, T0, U0, T1]
    assert found[T2] == ListedOffset(2, None, 4)
    assert found[U0] == ListedOffset(0, 1_700, 4)
    sent = {
        node: {(t.name, p.partition_index): p.timestamp for t in request.topics for p in t.partitions}
        for request, node in cluster.requests(ListOffsetsRequest)
    }
    assert sent == {3: {("t", 2): -1}, 1: {("t", 0): -2, ("u", 0): 1_700}, 2: {("t", 1): 5}}
    assert {r.replica_id for r, _ in cluster.requests(ListOffsetsRequest)} == {-1}


@pytest.mark.parametrize(("level", "on_the_wire"), [("read_uncommitted", 0), ("read_committed", 1)])
def test_the_isolation_level_goes_to_the_leaders(level: str, on_the_wire: int) -> None:
    """With read_committed the end of a log is the last stable offset; which one is meant is for the leader to know."""
    cluster = Cluster()
    answers = script((ListOffsetsRequest, listed))
    run(log_operations.list_offsets({T0: OffsetSpec.LATEST}, level), answers, cluster)
    assert [request.isolation_level for request, _ in cluster.requests(ListOffsetsRequest)] == [on_the_wire]


def test_a_time_after_the_last_record_has_no_offset() -> None:
    """No record at or after the time: None."""
    assert list_offsets({T0: 99}, lambda r, n: listed(r, n, offset=-1)) == {T0: None}


@pytest.mark.parametrize("code", [5, 6, 74, 78])
def test_offsets_are_looked_up_again_when_the_leader_moved(code: int) -> None:
    """A broker that does not lead any more makes the client refresh the leaders and ask the new one."""
    cluster = Cluster()

    def moved(request: Any, node: int) -> Any:
        cluster.leaders["t", 0] = 3
        return listed(request, node, errors={} if node == 3 else {("t", 0): code})

    assert list_offsets({T0: 0, T1: 0}, moved, cluster)[T0] == ListedOffset(0, None, 4)
    asked = [node for _, node in cluster.requests(ListOffsetsRequest)]
    assert asked == [1, 2, 3]


def test_offsets_are_looked_up_again_when_the_connection_breaks() -> None:
    """The leader may have been replaced: metadata is asked for again."""
    cluster = Cluster()
    found = list_offsets({T0: 0}, in_turn(LOST, listed), cluster)
    assert found[T0] == ListedOffset(0, None, 4)
    assert len(cluster.requests(MetadataRequest)) == 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda r, n: listed(r, n, errors={("t", 0): 29}), TopicAuthorizationFailedError),
        (lambda r, n: listed(r, n, errors={("t", 0): 35}), UnsupportedVersionError),
        (lambda *_: ListOffsetsResponse(topics=[]), RemoteProtocolError),
        (lambda *_: UnsupportedVersionError("old"), UnsupportedVersionError),
    ],
)
def test_an_error_of_one_partition_is_its_result(answer: Any, kind: type[KafkaShareError]) -> None:
    """What will not pass is the partition's value after one request; the others have their offsets."""
    cluster = Cluster()
    found = list_offsets({T0: 0, T1: 0}, lambda r, n: answer(r, n) if n == 1 else listed(r, n), cluster)
    assert type(found[T0]) is kind
    assert found[T1] == ListedOffset(1, None, 4)
    assert len(cluster.requests(ListOffsetsRequest)) == 2


def test_unknown_topics_and_partitions_end_after_a_few_tries() -> None:
    """A partition that does not exist has UnknownTopicOrPartitionError, without taking the whole timeout."""
    cluster = Cluster()
    nix, ninth = TopicPartition("nix", 0), TopicPartition("t", 9)
    found = list_offsets({nix: 0, ninth: 0, T0: 0}, cluster=cluster)
    assert [type(found[where]) for where in (nix, ninth, T0)] == [
        UnknownTopicOrPartitionError,
        UnknownTopicOrPartitionError,
        ListedOffset,
    ]
    assert len(cluster.requests(MetadataRequest)) == 3


def test_a_partition_without_leader_times_out_beside_the_others() -> None:
    """The others have their offsets; the one without leader says what was missing."""
    cluster = Cluster()
    cluster.leaders["t", 0] = -1
    found = list_offsets({T0: 0, T1: 0}, cluster=cluster, timeout_ms=900)
    assert isinstance(found[T0], OperationTimeoutError)
    assert isinstance(found[T0].__cause__, LeaderNotAvailableError)
    assert found[T1] == ListedOffset(1, None, 4)


def test_refused_credentials_are_raised_by_a_look_up() -> None:
    """Wrong credentials concern the whole call."""
    with pytest.raises(AuthenticationError):
        list_offsets({T0: 0}, lambda *_: AuthenticationError("no"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: log_operations.list_offsets({T0: -1}),
        lambda: log_operations.list_offsets({T0: "latest"}),  # type: ignore[dict-item]
        lambda: log_operations.list_offsets({T0: True}),
        lambda: log_operations.list_offsets({T0: 0}, "committed"),
        lambda: log_operations.list_offsets({("t",): 0}),  # type: ignore[dict-item]
        lambda: log_operations.list_offsets({TopicPartition("t", 2**31): 0}),
        lambda: log_operations.list_offsets([T0]),  # type: ignore[arg-type]
        lambda: topic_operations.describe_topics("t", False),
        lambda: topic_operations.describe_topics([""], False),
    ],
)
def test_arguments_about_topics_that_cannot_work_are_refused_at_once(make: Callable[[], Any]) -> None:
    """Offsets that mean nothing, and names that no topic has, are refused before anything is sent."""
    with pytest.raises(InvalidArgumentError):
        make()
