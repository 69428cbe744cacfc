"""DescribeLogDirs (35), ElectLeaders (43), AlterPartitionReassignments (45) and ListPartitionReassignments (46).

- Each node has one log directory, called "memory", with the partitions that it has a replica of.
- Electing the preferred leader makes the first replica the leader: ELECTION_NOT_NEEDED if it is,
  PREFERRED_LEADER_NOT_AVAILABLE while its node does not run. An unclean election has something to do only where no
  replica runs, and finds none then. Asked for all partitions, the answer names those whose election failed or worked.
- Replicas share one log, so a reassignment is done when it is answered: none is ever under way.

Versions: DescribeLogDirs (35) 1 to 5, ElectLeaders (43) 0 to 2, AlterPartitionReassignments (45) 0 to 1,
ListPartitionReassignments (46) 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.broker.storage.topics import NO_LEADER
from kafka_share.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition

LOG_DIR: Final = "memory"
PREFERRED: Final = 0
UNCLEAN: Final = 1

_LogDir = DescribeLogDirsResponse.DescribeLogDirsResult
_LogDirTopic = _LogDir.DescribeLogDirsTopic
_LogDirPartition = _LogDirTopic.DescribeLogDirsPartition
_Elections = ElectLeadersResponse.ReplicaElectionResult
_Election = _Elections.PartitionResult
_Reassigned = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
_ReassignedPartition = _Reassigned.ReassignablePartitionResponse


def _partition(cluster: Cluster, name: str, index: int) -> Partition:
    """Raises `Refusal`."""
    topic = cluster.topics.by_name(name)
    partition = None if topic is None else topic.partition(index)
    if partition is None:
        raise Refusal(UnknownTopicOrPartitionError, f"there is no partition {index} of topic {name!r}")
    return partition


# ---- DescribeLogDirs


def handle_log_dirs(
    cluster: Cluster, context: RequestContext, request: DescribeLogDirsRequest, now_ms: int
) -> DescribeLogDirsResponse:
    asked = None if request.topics is None else {one.topic: set(one.partitions) for one in request.topics}
    topics = []
    for topic in cluster.topics:
        partitions = [
            _LogDirPartition(partition_index=one.partition, partition_size=_size_bytes(one))
            for one in topic.partitions
            if context.node_id in one.replicas and (asked is None or one.partition in asked.get(topic.name, ()))
        ]
        if partitions:
            topics.append(_LogDirTopic(name=topic.name, partitions=partitions))
    return DescribeLogDirsResponse(results=[_LogDir(error_code=0, log_dir=LOG_DIR, topics=topics)])


def _size_bytes(partition: Partition) -> int:
    log = partition.log
    return log.bytes_between(log.start_offset, log.high_watermark)


# ---- ElectLeaders


def handle_elect(
    cluster: Cluster, context: RequestContext, request: ElectLeadersRequest, now_ms: int
) -> ElectLeadersResponse:
    everything = request.topic_partitions is None
    if request.topic_partitions is None:
        asked = [(topic.name, list(range(len(topic.partitions)))) for topic in cluster.topics]
    else:
        asked = [(one.topic, one.partitions) for one in request.topic_partitions]
    results = []
    for name, indexes in asked:
        elections = [_elect(cluster, request.election_type, name, index, now_ms) for index in indexes]
        if everything:
            elections = [one for one in elections if one.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(_Elections(topic=name, partition_result=elections))
    refused = context.api_version > 0 and request.election_type not in (PREFERRED, UNCLEAN)
    return ElectLeadersResponse(error_code=InvalidRequestError.code if refused else 0, replica_election_results=results)


def _elect(cluster: Cluster, kind: int, name: str, index: int, now_ms: int) -> _Election:
    try:
        if kind not in (PREFERRED, UNCLEAN):
            raise Refusal(InvalidRequestError, f"there is no election type {kind}")
        partition = _partition(cluster, name, index)
        preferred = partition.replicas[0]
        if partition.leader_id == preferred or (kind == UNCLEAN and partition.leader_id != NO_LEADER):
            raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, "the partition has this leader already")
        if kind == UNCLEAN:
            raise Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica of the partition runs")
        if preferred not in cluster.topics.in_sync(partition):
            raise Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"node {preferred} does not run")
        cluster.move_leader(partition, preferred, now_ms)
    except Refusal as refusal:
        return _Election(partition_id=index, error_code=refusal.code, error_message=refusal.message)
    return _Election(partition_id=index, error_code=0, error_message=None)


# ---- AlterPartitionReassignments, ListPartitionReassignments


def handle_reassign(
    cluster: Cluster, context: RequestContext, request: AlterPartitionReassignmentsRequest, now_ms: int
) -> AlterPartitionReassignmentsResponse:
    responses = []
    for topic in request.topics:
        partitions = []
        for one in topic.partitions:
            code, message = 0, None
            try:
                partition = _partition(cluster, topic.name, one.partition_index)
                if one.replicas is None:
                    raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is under way")
                _require_replicas(cluster, partition, one.replicas, any_factor=request.allow_replication_factor_change)
                cluster.reassign(partition, one.replicas, now_ms)
            except Refusal as refusal:
                code, message = refusal.code, refusal.message
            partitions.append(
                _ReassignedPartition(partition_index=one.partition_index, error_code=code, error_message=message)
            )
        responses.append(_Reassigned(name=topic.name, partitions=partitions))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=0,
        error_message=None,
        responses=responses,
    )


def _require_replicas(cluster: Cluster, partition: Partition, replicas: Sequence[int], *, any_factor: bool) -> None:
    if not replicas or len(set(replicas)) != len(replicas):
        raise Refusal(InvalidReplicaAssignmentError, "a partition needs one replica or more, each on another node")
    if any(node not in cluster.nodes for node in replicas):
        raise Refusal(InvalidReplicaAssignmentError, "the assignment names a node that this cluster does not have")
    if not any_factor and len(replicas) != len(partition.replicas):
        raise Refusal(InvalidReplicationFactorError, "the request does not allow another replication factor")


def handle_list_reassignments(
    cluster: Cluster, context: RequestContext, request: ListPartitionReassignmentsRequest, now_ms: int
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=[])
