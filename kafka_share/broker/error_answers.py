"""An answer of any API that says nothing but an error code.

Called by the server for the fault plan (a test wants the next answers of an API to fail). The code goes to the answer's
top level; where an API has no place for it there, into every entry that the request asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafka_share.protocol import (
    classic,
    share_acknowledge,
    share_fetch,
    share_group,
    share_offsets,
    share_state,
    telemetry,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_share.broker.events import Message

_TOP_LEVEL: Final[dict[int, type[Any]]] = {
    response.API_KEY: response
    for response in (
        classic.ApiVersionsResponse,
        classic.FetchResponse,
        classic.InitProducerIdResponse,
        classic.ListGroupsResponse,
        classic.ListConfigResourcesResponse,
        classic.MetadataResponse,
        classic.DescribeClusterResponse,
        classic.JoinGroupResponse,
        classic.SyncGroupResponse,
        classic.HeartbeatResponse,
        classic.LeaveGroupResponse,
        classic.OffsetDeleteResponse,
        classic.AddOffsetsToTxnResponse,
        classic.EndTxnResponse,
        share_group.ShareGroupHeartbeatResponse,
        share_fetch.ShareFetchResponse,
        share_acknowledge.ShareAcknowledgeResponse,
        share_offsets.AlterShareGroupOffsetsResponse,
        share_offsets.DeleteShareGroupOffsetsResponse,
        telemetry.GetTelemetrySubscriptionsResponse,
        telemetry.PushTelemetryResponse,
    )
}


def error_answer(request: Message, api_version: int, code: int) -> Message:
    """The answer to `request` that carries `code` wherever the API has a place for it.

    Metadata has none below version 13 but in its topics: both are filled.
    """
    special = _SPECIAL.get(request.API_KEY)
    if special is not None:
        return special(request, api_version, code)
    return _TOP_LEVEL[request.API_KEY](error_code=code)


def has_error_answer(api_key: int) -> bool:
    """Whether `error_answer` knows this API."""
    return api_key in _SPECIAL or api_key in _TOP_LEVEL


def _metadata(request: classic.MetadataRequest, version: int, code: int) -> Message:
    topic = classic.MetadataResponse.MetadataResponseTopic
    topics = [topic(error_code=code, name=t.name, topic_id=t.topic_id, partitions=[]) for t in request.topics or ()]
    return classic.MetadataResponse(error_code=code, brokers=[], topics=topics)


def _produce(request: classic.ProduceRequest, version: int, code: int) -> Message:
    topic = classic.ProduceResponse.TopicProduceResponse
    return classic.ProduceResponse(
        responses=[
            topic(
                name=t.name,
                topic_id=t.topic_id,
                partition_responses=[
                    topic.PartitionProduceResponse(index=p.index, error_code=code, base_offset=-1, record_errors=[])
                    for p in t.partition_data
                ],
            )
            for t in request.topic_data
        ]
    )


def _list_offsets(request: classic.ListOffsetsRequest, version: int, code: int) -> Message:
    topic = classic.ListOffsetsResponse.ListOffsetsTopicResponse
    return classic.ListOffsetsResponse(
        topics=[
            topic(
                name=t.name,
                partitions=[
                    topic.ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=code)
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
    )


def _find_coordinator(request: classic.FindCoordinatorRequest, version: int, code: int) -> Message:
    if version < 4:
        return classic.FindCoordinatorResponse(error_code=code, node_id=-1, host="", port=-1)
    return classic.FindCoordinatorResponse(
        coordinators=[
            classic.FindCoordinatorResponse.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
            for key in request.coordinator_keys
        ]
    )


def _create_topics(request: classic.CreateTopicsRequest, version: int, code: int) -> Message:
    result = classic.CreateTopicsResponse.CreatableTopicResult
    return classic.CreateTopicsResponse(
        topics=[result(name=topic.name, error_code=code, configs=[]) for topic in request.topics]
    )


def _delete_topics(request: classic.DeleteTopicsRequest, version: int, code: int) -> Message:
    result = classic.DeleteTopicsResponse.DeletableTopicResult
    named = [(t.name, t.topic_id) for t in request.topics] if version >= 6 else [(n, None) for n in request.topic_names]
    return classic.DeleteTopicsResponse(
        responses=[result(name=name, topic_id=topic_id, error_code=code) for name, topic_id in named]
    )


def _create_partitions(request: classic.CreatePartitionsRequest, version: int, code: int) -> Message:
    result = classic.CreatePartitionsResponse.CreatePartitionsTopicResult
    return classic.CreatePartitionsResponse(results=[result(name=t.name, error_code=code) for t in request.topics])


def _delete_records(request: classic.DeleteRecordsRequest, version: int, code: int) -> Message:
    topic = classic.DeleteRecordsResponse.DeleteRecordsTopicResult
    return classic.DeleteRecordsResponse(
        topics=[
            topic(
                name=t.name,
                partitions=[
                    topic.DeleteRecordsPartitionResult(
                        partition_index=p.partition_index, low_watermark=-1, error_code=code
                    )
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
    )


def _describe_configs(request: classic.DescribeConfigsRequest, version: int, code: int) -> Message:
    result = classic.DescribeConfigsResponse.DescribeConfigsResult
    return classic.DescribeConfigsResponse(
        results=[
            result(error_code=code, resource_type=r.resource_type, resource_name=r.resource_name, configs=[])
            for r in request.resources
        ]
    )


def _alter_configs(request: classic.IncrementalAlterConfigsRequest, version: int, code: int) -> Message:
    result = classic.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return classic.IncrementalAlterConfigsResponse(
        responses=[
            result(error_code=code, resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources
        ]
    )


def _delete_groups(request: classic.DeleteGroupsRequest, version: int, code: int) -> Message:
    result = classic.DeleteGroupsResponse.DeletableGroupResult
    return classic.DeleteGroupsResponse(results=[result(group_id=g, error_code=code) for g in request.groups_names])


def _describe_groups(request: share_group.ShareGroupDescribeRequest, version: int, code: int) -> Message:
    group = share_group.ShareGroupDescribeResponse.DescribedGroup
    return share_group.ShareGroupDescribeResponse(
        groups=[group(error_code=code, group_id=group_id, members=[]) for group_id in request.group_ids]
    )


def _describe_offsets(request: share_offsets.DescribeShareGroupOffsetsRequest, version: int, code: int) -> Message:
    group = share_offsets.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
    return share_offsets.DescribeShareGroupOffsetsResponse(
        groups=[group(error_code=code, group_id=asked.group_id, topics=[]) for asked in request.groups]
    )


def _describe_classic(request: classic.DescribeGroupsRequest, version: int, code: int) -> Message:
    group = classic.DescribeGroupsResponse.DescribedGroup
    return classic.DescribeGroupsResponse(
        groups=[group(error_code=code, group_id=group_id, members=[]) for group_id in request.groups]
    )


def _commit(request: classic.OffsetCommitRequest, version: int, code: int) -> Message:
    topic = classic.OffsetCommitResponse.OffsetCommitResponseTopic
    return classic.OffsetCommitResponse(
        topics=[
            topic(
                name=t.name,
                topic_id=t.topic_id,
                partitions=[
                    topic.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
    )


def _fetch_offsets(request: classic.OffsetFetchRequest, version: int, code: int) -> Message:
    group = classic.OffsetFetchResponse.OffsetFetchResponseGroup
    topic = classic.OffsetFetchResponse.OffsetFetchResponseTopic
    if version >= 8:
        groups = [group(group_id=g.group_id, topics=[], error_code=code) for g in request.groups]
        return classic.OffsetFetchResponse(groups=groups)
    topics = [
        topic(
            name=t.name,
            partitions=[
                topic.OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=code)
                for index in t.partition_indexes
            ],
        )
        for t in request.topics or ()
    ]
    return classic.OffsetFetchResponse(topics=topics, error_code=code)


def _add_partitions(request: classic.AddPartitionsToTxnRequest, version: int, code: int) -> Message:
    if version >= 4:
        return classic.AddPartitionsToTxnResponse(error_code=code, results_by_transaction=[])
    topic = classic.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    return classic.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            topic(
                name=t.name,
                results_by_partition=[
                    topic.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                    for index in t.partitions
                ],
            )
            for t in request.v3_and_below_topics
        ]
    )


def _commit_in_transaction(request: classic.TxnOffsetCommitRequest, version: int, code: int) -> Message:
    topic = classic.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    return classic.TxnOffsetCommitResponse(
        topics=[
            topic(
                name=t.name,
                partitions=[
                    topic.TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
    )


def _epochs(request: classic.OffsetForLeaderEpochRequest, version: int, code: int) -> Message:
    topic = classic.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    return classic.OffsetForLeaderEpochResponse(
        topics=[
            topic(
                topic=t.topic,
                partitions=[topic.EpochEndOffset(error_code=code, partition=p.partition) for p in t.partitions],
            )
            for t in request.topics
        ]
    )


def _state(response: type[Any], result: type[Any]) -> Callable[[Any, int, int], Message]:
    """The share coordinator's five APIs have one shape: topics and partitions, each partition with a code."""

    def answer(request: Any, version: int, code: int) -> Message:
        return response(
            results=[
                result(
                    topic_id=topic.topic_id,
                    partitions=[
                        result.PartitionResult(partition=p.partition, error_code=code) for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


_STATE: Final[tuple[tuple[type[Any], type[Any]], ...]] = (
    (
        share_state.InitializeShareGroupStateResponse,
        share_state.InitializeShareGroupStateResponse.InitializeStateResult,
    ),
    (share_state.ReadShareGroupStateResponse, share_state.ReadShareGroupStateResponse.ReadStateResult),
    (share_state.WriteShareGroupStateResponse, share_state.WriteShareGroupStateResponse.WriteStateResult),
    (share_state.DeleteShareGroupStateResponse, share_state.DeleteShareGroupStateResponse.DeleteStateResult),
    (
        share_state.ReadShareGroupStateSummaryResponse,
        share_state.ReadShareGroupStateSummaryResponse.ReadStateSummaryResult,
    ),
)

_SPECIAL: Final[dict[int, Callable[[Any, int, int], Message]]] = {
    classic.MetadataRequest.API_KEY: _metadata,
    classic.ProduceRequest.API_KEY: _produce,
    classic.ListOffsetsRequest.API_KEY: _list_offsets,
    classic.FindCoordinatorRequest.API_KEY: _find_coordinator,
    classic.CreateTopicsRequest.API_KEY: _create_topics,
    classic.DeleteTopicsRequest.API_KEY: _delete_topics,
    classic.CreatePartitionsRequest.API_KEY: _create_partitions,
    classic.DeleteRecordsRequest.API_KEY: _delete_records,
    classic.DescribeConfigsRequest.API_KEY: _describe_configs,
    classic.IncrementalAlterConfigsRequest.API_KEY: _alter_configs,
    classic.DeleteGroupsRequest.API_KEY: _delete_groups,
    classic.DescribeGroupsRequest.API_KEY: _describe_classic,
    classic.OffsetCommitRequest.API_KEY: _commit,
    classic.OffsetFetchRequest.API_KEY: _fetch_offsets,
    classic.OffsetForLeaderEpochRequest.API_KEY: _epochs,
    classic.AddPartitionsToTxnRequest.API_KEY: _add_partitions,
    classic.TxnOffsetCommitRequest.API_KEY: _commit_in_transaction,
    share_group.ShareGroupDescribeRequest.API_KEY: _describe_groups,
    share_offsets.DescribeShareGroupOffsetsRequest.API_KEY: _describe_offsets,
    **{response.API_KEY: _state(response, result) for response, result in _STATE},
}
