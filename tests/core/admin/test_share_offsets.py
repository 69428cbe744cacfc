"""The admin core on start offsets of share groups: list with lag, alter, delete, and every answer they can get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core.admin.scripted_admin import Cluster, in_turn, run, script

from kafka_share.admin_values import SharePartitionOffset
from kafka_share.core.admin import share_offsets
from kafka_share.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    InvalidArgumentError,
    InvalidGroupIdError,
    KafkaShareError,
    NonEmptyGroupError,
    NotLeaderOrFollowerError,
    OperationTimeoutError,
    RemoteProtocolError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest
from kafka_share.protocol.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kafka_share.records import TopicPartition

_Group = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
_Topic = _Group.DescribeShareGroupOffsetsResponseTopic
_Partition = _Topic.DescribeShareGroupOffsetsResponsePartition
_Altered = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
_AlteredPartition = _Altered.AlterShareGroupOffsetsResponsePartition
_Deleted = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
GROUP_ERRORS = [
    (24, InvalidGroupIdError),
    (30, GroupAuthorizationFailedError),
    (35, UnsupportedVersionError),
    (68, NonEmptyGroupError),
    (69, GroupIdNotFoundError),
]


def partition(index: int, start: int, lag: int = -1, *, epoch: int = 3, error: int = 0) -> _Partition:
    message = "as scripted" if error else None
    return _Partition(
        partition_index=index, start_offset=start, leader_epoch=epoch, lag=lag, error_code=error, error_message=message
    )


def described(group: str, *partitions: _Partition, error: int = 0) -> _Group:
    topics = [_Topic(topic_name="t", partitions=list(partitions))] if partitions else []
    return _Group(group_id=group, topics=topics, error_code=error, error_message="as scripted" if error else None)


def answer(*groups: _Group) -> Any:
    return script((DescribeShareGroupOffsetsRequest, lambda *_: DescribeShareGroupOffsetsResponse(groups=list(groups))))


# ---- list


@pytest.mark.behaviour("administration")
@pytest.mark.better_than_java("start-beyond-the-end-shown")
def test_a_partition_has_its_start_and_lag_and_none_while_nothing_is_stored() -> None:
    """A partition is shown with start, epoch and lag, even a lag below zero; with nothing stored it is None."""
    found = run(
        share_offsets.list_share_group_offsets({"g": None}),
        answer(described("g", partition(2, 7, 5), partition(0, -1), partition(1, 100, -90, epoch=-1))),
    )
    assert list(found["g"].items()) == [
        (T0, None),
        (T1, SharePartitionOffset(100, None, -90)),
        (TopicPartition("t", 2), SharePartitionOffset(7, 3, 5)),
    ]


@pytest.mark.behaviour("administration")
def test_the_lag_is_none_when_the_broker_does_not_know_it() -> None:
    """A lag that the broker does not know is None, never a wrong number; Kafka 4.1 knows none."""
    found = run(share_offsets.list_share_group_offsets({"g": [T0]}), answer(described("g", partition(0, 7))))
    assert found["g"][T0] == SharePartitionOffset(7, 3, None)


@pytest.mark.behaviour("administration")
def test_partitions_asked_for_by_name_are_always_there() -> None:
    """A group without state has no offsets; a partition asked for by name is then there with None."""
    groups = {"all": None, "some": [T0, U0], "none": []}
    found = run(
        share_offsets.list_share_group_offsets(groups), answer(described("all"), described("some"), described("none"))
    )
    assert found == {"all": {}, "some": {T0: None, U0: None}, "none": {}}


def test_all_partitions_named_ones_and_none_travel_differently() -> None:
    """None asks for every partition with state (null), a collection for just these, an empty one for nothing."""
    cluster = Cluster({"a": 1, "b": 2, "c": 1})
    groups = {"a": None, "b": [T1, U0, T0, T1], "c": ()}
    replies = answer(described("a"), described("b"), described("c"))
    run(share_offsets.list_share_group_offsets(groups), replies, cluster)
    sent = {
        (node, group.group_id): None if group.topics is None else [(t.topic_name, t.partitions) for t in group.topics]
        for request, node in cluster.requests(DescribeShareGroupOffsetsRequest)
        for group in request.groups
    }
    assert sent == {(1, "a"): None, (1, "c"): [], (2, "b"): [("t", [1, 0]), ("u", [0])]}
    assert len(cluster.requests(DescribeShareGroupOffsetsRequest)) == 2


@pytest.mark.parametrize(("code", "kind"), [(29, TopicAuthorizationFailedError), (6, NotLeaderOrFollowerError)])
def test_a_partition_in_error_has_it_beside_the_others(code: int, kind: type[KafkaShareError]) -> None:
    """An error of one partition (no right, or the lag could not be read) is its value."""
    found = run(
        share_offsets.list_share_group_offsets({"g": None}),
        answer(described("g", partition(0, 0, error=code), partition(1, 4, 0))),
    )
    assert type(found["g"][T0]) is kind
    assert found["g"][T1] == SharePartitionOffset(4, 3, 0)


@pytest.mark.parametrize(("code", "kind"), GROUP_ERRORS)
def test_a_group_in_error_has_it_beside_the_others(code: int, kind: type[KafkaShareError]) -> None:
    """An error of one group is its value; the others have their offsets."""
    found = run(
        share_offsets.list_share_group_offsets({"g": None, "h": None}),
        answer(described("g", error=code), described("h", partition(0, 1, 1))),
    )
    assert type(found["g"]) is kind
    assert found["h"] == {T0: SharePartitionOffset(1, 3, 1)}


@pytest.mark.behaviour("administration")
@pytest.mark.parametrize("code", [15, 16])
def test_the_group_coordinator_is_asked_and_looked_up_again_when_it_moved(code: int) -> None:
    """Offsets are asked of the coordinator of the group, which is looked up again when it has moved."""
    cluster = Cluster({"g": 1})

    def moved(_: Any, node: int) -> Any:
        cluster.coordinators["g"] = 3
        group = described("g", error=code) if node == 1 else described("g", partition(0, 1, 1))
        return DescribeShareGroupOffsetsResponse(groups=[group])

    found = run(
        share_offsets.list_share_group_offsets({"g": None}), script((DescribeShareGroupOffsetsRequest, moved)), cluster
    )
    assert found["g"] == {T0: SharePartitionOffset(1, 3, 1)}
    assert [r.key_type for r, _ in cluster.requests(FindCoordinatorRequest)] == [0, 0]


# ---- alter


def altered(request: Any, _: int, *, errors: dict[tuple[str, int], int] | None = None) -> Any:
    topics = [
        _Altered(
            topic_name=topic.topic_name,
            partitions=[
                _AlteredPartition(
                    partition_index=p.partition_index,
                    error_code=(errors or {}).get((topic.topic_name, p.partition_index), 0),
                )
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterShareGroupOffsetsResponse(error_code=0, responses=topics)


def alter_refused(code: int) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code, error_message="as scripted", responses=[])


def alter(wanted: Any, reply: Any, cluster: Cluster | None = None, **options: Any) -> Any:
    replies = script((AlterShareGroupOffsetsRequest, reply if callable(reply) else lambda *_: reply))
    return run(share_offsets.alter_share_group_offsets("g", wanted), replies, cluster, **options)


@pytest.mark.behaviour("administration")
def test_each_altered_partition_has_its_own_result() -> None:
    """When offsets are altered each partition has its own result; negative and very large offsets are sent as given."""
    cluster = Cluster()
    errors = {("t", 1): 3, ("u", 0): 29}
    found = alter({T0: -1, T1: 5, U0: 2**40}, lambda r, n: altered(r, n, errors=errors), cluster)
    assert found[T0] is None
    assert (type(found[T1]), type(found[U0])) == (UnknownTopicOrPartitionError, TopicAuthorizationFailedError)
    ((request, _),) = cluster.requests(AlterShareGroupOffsetsRequest)
    sent = {(t.topic_name, p.partition_index): p.start_offset for t in request.topics for p in t.partitions}
    assert (request.group_id, sent) == ("g", {("t", 0): -1, ("t", 1): 5, ("u", 0): 2**40})


@pytest.mark.behaviour("administration")
def test_altering_is_unsupported_when_the_broker_says_nothing_of_the_partitions() -> None:
    """Kafka 4.1 answers success to altered offsets and does nothing: that is reported as unsupported."""
    with pytest.raises(UnsupportedVersionError, match=r"Kafka 4\.1"):
        alter({T0: 1}, AlterShareGroupOffsetsResponse(error_code=0, responses=[]))


@pytest.mark.behaviour("administration")
def test_altering_is_unsupported_when_the_broker_speaks_of_unknown_topics_only() -> None:
    """Kafka 4.1 answers for unknown topics only and alters nothing: that is reported as unsupported, too."""
    reply = AlterShareGroupOffsetsResponse(
        error_code=0,
        responses=[_Altered(topic_name="u", partitions=[_AlteredPartition(partition_index=0, error_code=3)])],
    )
    with pytest.raises(UnsupportedVersionError):
        alter({T0: 1, U0: 1}, reply)


def test_a_partition_that_the_answer_leaves_out_has_an_error_when_others_were_altered() -> None:
    """An answer with a hole is a defect of the broker; what it did alter stays told."""
    reply = AlterShareGroupOffsetsResponse(
        error_code=0,
        responses=[_Altered(topic_name="u", partitions=[_AlteredPartition(partition_index=0, error_code=0)])],
    )
    found = alter({T0: 1, U0: 1}, reply)
    assert found[U0] is None
    assert isinstance(found[T0], RemoteProtocolError)


@pytest.mark.behaviour("administration")
def test_altering_nothing_is_still_asked() -> None:
    """Altering no offsets at all is still asked of the broker, so that an error of the group is reported."""
    cluster = Cluster()
    assert alter({}, altered, cluster) == {}
    assert len(cluster.requests(AlterShareGroupOffsetsRequest)) == 1


@pytest.mark.behaviour("administration")
@pytest.mark.parametrize(("code", "kind"), GROUP_ERRORS)
def test_what_concerns_the_group_is_raised_when_altering(code: int, kind: type[KafkaShareError]) -> None:
    """Altering offsets of a group that has members, is of another type or is forbidden raises the broker's error."""
    cluster = Cluster()
    with pytest.raises(kind, match="as scripted"):
        alter({T0: 1}, alter_refused(code), cluster)
    assert len(cluster.requests(AlterShareGroupOffsetsRequest)) == 1


@pytest.mark.behaviour("administration")
def test_altering_follows_a_coordinator_that_loads_and_moves() -> None:
    """Altering offsets follows a coordinator that is loading or has moved; the caller sees the result alone."""
    cluster = Cluster({"g": 2})
    found = alter({T0: 1}, in_turn(alter_refused(14), alter_refused(16), altered), cluster)
    assert found == {T0: None}
    assert len(cluster.requests(FindCoordinatorRequest)) == 2


def test_altering_times_out_with_what_stood_in_the_way() -> None:
    """The timeout is raised, with the last refusal as its cause."""
    cluster = Cluster()
    with pytest.raises(OperationTimeoutError, match="not done within 900 ms") as caught:
        alter({T0: 1}, alter_refused(15), cluster, timeout_ms=900)
    assert isinstance(caught.value.__cause__, CoordinatorNotAvailableError)
    assert cluster.took_ms == 900


# ---- delete


def delete(reply: Any, *topics: str, cluster: Cluster | None = None) -> Any:
    replies = script((DeleteShareGroupOffsetsRequest, reply if callable(reply) else lambda *_: reply))
    return run(share_offsets.delete_share_group_offsets("g", topics), replies, cluster)


@pytest.mark.behaviour("administration")
def test_each_topic_has_its_own_result_when_offsets_are_deleted() -> None:
    """When offsets are deleted each topic has its own result, even one that the answer leaves out."""
    reply = DeleteShareGroupOffsetsResponse(
        error_code=0,
        responses=[
            _Deleted(topic_name="u", error_code=3, error_message="nothing there"),
            _Deleted(topic_name="t", error_code=0),
        ],
    )
    cluster = Cluster()
    found = delete(reply, "t", "u", "v", "t", cluster=cluster)
    assert found["t"] is None
    assert isinstance(found["u"], UnknownTopicOrPartitionError)
    assert isinstance(found["v"], RemoteProtocolError)
    ((request, _),) = cluster.requests(DeleteShareGroupOffsetsRequest)
    assert (request.group_id, [t.topic_name for t in request.topics]) == ("g", ["t", "u", "v"])


@pytest.mark.behaviour("administration")
@pytest.mark.parametrize(("code", "kind"), GROUP_ERRORS)
def test_what_concerns_the_group_is_raised_when_deleting_offsets(code: int, kind: type[KafkaShareError]) -> None:
    """Deleting the offsets of a group that has members, is unknown or of another type raises the broker's error."""
    refusal = DeleteShareGroupOffsetsResponse(error_code=code, error_message="as scripted", responses=[])
    with pytest.raises(kind, match="as scripted"):
        delete(refusal, "t")


# ---- arguments


@pytest.mark.parametrize(
    "make",
    [
        lambda: share_offsets.list_share_group_offsets(["g"]),  # type: ignore[arg-type]
        lambda: share_offsets.list_share_group_offsets({"g": T0}),  # type: ignore[dict-item]
        lambda: share_offsets.list_share_group_offsets({"g": ["t"]}),  # type: ignore[list-item]
        lambda: share_offsets.list_share_group_offsets({"": None}),
        lambda: share_offsets.alter_share_group_offsets("", {T0: 1}),
        lambda: share_offsets.alter_share_group_offsets("g", {T0: "1"}),  # type: ignore[dict-item]
        lambda: share_offsets.alter_share_group_offsets("g", {T0: 2**63}),
        lambda: share_offsets.alter_share_group_offsets("g", {T0: True}),
        lambda: share_offsets.alter_share_group_offsets("g", {TopicPartition("t", -1): 1}),
        lambda: share_offsets.alter_share_group_offsets("g", {TopicPartition("", 0): 1}),
        lambda: share_offsets.delete_share_group_offsets("g", "t"),
        lambda: share_offsets.delete_share_group_offsets("", ["t"]),
    ],
)
def test_arguments_about_offsets_that_cannot_work_are_refused_at_once(make: Callable[[], Any]) -> None:
    """What no broker could take, or one partition instead of a collection, is refused before anything is sent."""
    with pytest.raises(InvalidArgumentError):
        make()
