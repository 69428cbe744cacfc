"""ApiVersions (18): what this broker can do.

- The list is the handler table, cut to what the chosen version of Kafka offers.
- Features: `share.version`, supported 0 to 1 (4.4: 2), `group.version`, 0 to 1, and `transaction.version`, 0 to 2; what
  is off is not among the finalized ones. Kafka's other features, which this broker does not have, are left out.
- From version 5 on (4.4) a client may say which node of which cluster it means, both or none (else INVALID_REQUEST);
  another one's is REBOOTSTRAP_REQUIRED.
- An unsupported version of ApiVersions itself is answered with a version 0 body and UNSUPPORTED_VERSION; the server
  does that, since such a request cannot be decoded.

Versions: ApiVersions (18) 0 to 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.errors import InvalidRequestError, RebootstrapRequiredError, UnsupportedVersionError
from kafka_share.protocol.handshake import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_NO_NODE: Final = -1


def handle(cluster: Cluster, context: RequestContext, request: ApiVersionsRequest, now_ms: int) -> ApiVersionsResponse:
    problem = _mistaken(cluster, context, request)
    if problem:
        return ApiVersionsResponse(error_code=problem, api_keys=[])
    return ApiVersionsResponse(
        api_keys=_api_keys(cluster.api_versions),
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=0, max_version=highest)
            for name, highest in cluster.features.highest.items()
        ],
        finalized_features_epoch=cluster.features.epoch,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in cluster.features
        ],
    )


def _mistaken(cluster: Cluster, context: RequestContext, request: ApiVersionsRequest) -> int:
    """The error for a client that takes us for another broker, 0 for others."""
    if request.cluster_id is None and request.node_id == _NO_NODE:
        return 0
    if request.cluster_id is None or request.node_id == _NO_NODE:
        return InvalidRequestError.code
    is_meant = (request.cluster_id, request.node_id) == (cluster.cluster_id, context.node_id)
    return 0 if is_meant else RebootstrapRequiredError.code


def unsupported(api_versions: Mapping[int, tuple[int, int]]) -> ApiVersionsResponse:
    """The answer, to be encoded in version 0, to a version of ApiVersions that does not exist here."""
    return ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=_api_keys(api_versions))


def _api_keys(api_versions: Mapping[int, tuple[int, int]]) -> list[ApiVersionsResponse.ApiVersion]:
    return [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in sorted(api_versions.items())
    ]
