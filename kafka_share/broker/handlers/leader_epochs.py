"""OffsetForLeaderEpoch (23): where the records of a leader epoch end, so that a consumer can see a log cut short.

- The answer has the largest epoch not above the one asked for that the log knows, and the offset at which the next
  epoch began; for the present epoch that is the end. An epoch from the future has neither: -1 and -1.
- Only the leader answers, and the epoch that the client names for it is checked.
- Logs are never cut here, so no consumer ever finds its position beyond such an end.

Versions: OffsetForLeaderEpoch (23) 2 to 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.refusals import Refusal
from kafka_share.protocol.logs import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult


def handle(
    cluster: Cluster, context: RequestContext, request: OffsetForLeaderEpochRequest, now_ms: int
) -> OffsetForLeaderEpochResponse:
    topics = [
        _TopicResult(
            topic=topic.topic,
            partitions=[_end_offset(cluster, context, topic.topic, asked) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_offset(
    cluster: Cluster,
    context: RequestContext,
    name: str,
    asked: OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition,
) -> _TopicResult.EpochEndOffset:
    code, epoch, end_offset = 0, -1, -1
    try:
        partition = cluster.led_partition(
            context, cluster.topics.by_name(name), asked.partition, asked.current_leader_epoch
        )
        if asked.leader_epoch == partition.leader_epoch:
            epoch, end_offset = partition.leader_epoch, partition.log.high_watermark
        elif asked.leader_epoch < partition.leader_epoch:
            epoch, end_offset = partition.log.epoch_end(asked.leader_epoch)
    except Refusal as refusal:
        code = refusal.code
    return _TopicResult.EpochEndOffset(
        error_code=code, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset
    )
