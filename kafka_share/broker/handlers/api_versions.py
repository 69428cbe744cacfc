"""ApiVersions (18): what this broker can do.

- The list is the handler table, cut to what the chosen version of Kafka offers.
- Feature `share.version`: supported 0 to 1 (4.4: 2), finalized at the cluster's level (left out at level 0).
- An unsupported version of ApiVersions itself is answered with a version 0 body and UNSUPPORTED_VERSION; the server
  does that, since such a request cannot be decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.errors import UnsupportedVersionError
from kafka_share.protocol.handshake import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

SHARE_VERSION = "share.version"


def handle(cluster: Cluster, context: RequestContext, request: ApiVersionsRequest, now_ms: int) -> ApiVersionsResponse:
    finalized = []
    if cluster.share_version > 0:
        level = cluster.share_version
        finalized.append(
            ApiVersionsResponse.FinalizedFeatureKey(name=SHARE_VERSION, max_version_level=level, min_version_level=1)
        )
    return ApiVersionsResponse(
        api_keys=_api_keys(cluster.api_versions),
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(
                name=SHARE_VERSION, min_version=0, max_version=cluster.behaviour.max_share_version
            )
        ],
        finalized_features_epoch=0,
        finalized_features=finalized,
    )


def unsupported(api_versions: Mapping[int, tuple[int, int]]) -> ApiVersionsResponse:
    """The answer, to be encoded in version 0, to a version of ApiVersions that does not exist here."""
    return ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=_api_keys(api_versions))


def _api_keys(api_versions: Mapping[int, tuple[int, int]]) -> list[ApiVersionsResponse.ApiVersion]:
    return [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in sorted(api_versions.items())
    ]
