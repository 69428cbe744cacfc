"""ShareFetch (78) and ShareAcknowledge (79): acquire records, say what became of them.

- Answered by the share machines of the node that the connection belongs to, never by another one: a partition that
  another node leads is NOT_LEADER_OR_FOLLOWER with its leader in a ShareFetch, UNKNOWN_TOPIC_OR_PARTITION in a
  ShareAcknowledge.
- A topic id that no topic has fails a ShareFetch as a whole (Kafka 4.1 to 4.3), a ShareAcknowledge for its partitions.
- Not there: authorization, quotas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
    from kafka_share.protocol.share_fetch import ShareFetchRequest


def handle_share_fetch(cluster: Cluster, context: RequestContext, request: ShareFetchRequest, now_ms: int) -> None:
    cluster.share_nodes[context.node_id].share_fetch(context, request, now_ms)


def handle_share_acknowledge(
    cluster: Cluster, context: RequestContext, request: ShareAcknowledgeRequest, now_ms: int
) -> None:
    cluster.share_nodes[context.node_id].share_acknowledge(context, request, now_ms)
