"""DescribeCluster (60): the cluster's id, its controller and its living nodes.

- The controller is the living node with the lowest id. Endpoint type 2 (controllers) is answered with
  MISMATCHED_ENDPOINT_TYPE, as a broker's listener does.

Versions: DescribeCluster (60) 0 to 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.handlers.operations import CLUSTER_OPERATIONS
from kafka_share.protocol.cluster import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_BROKERS: Final = 1
_MISMATCHED_ENDPOINT_TYPE: Final = 114


def handle(
    cluster: Cluster, context: RequestContext, request: DescribeClusterRequest, now_ms: int
) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=_MISMATCHED_ENDPOINT_TYPE,
            error_message="this listener belongs to a broker",
            endpoint_type=_BROKERS,
            cluster_id=cluster.cluster_id,
            brokers=[],
        )
    alive = cluster.living_nodes()
    return DescribeClusterResponse(
        error_code=0,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=cluster.cluster_id,
        controller_id=alive[0].id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=node.id, host=node.host, port=node.port, rack=None, is_fenced=False
            )
            for node in alive
        ],
        authorized_operations=set(CLUSTER_OPERATIONS) if request.include_cluster_authorized_operations else None,
    )
