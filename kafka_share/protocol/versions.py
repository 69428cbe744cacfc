"""Choose the version in which to speak an API with a broker.

Called by the network side with the broker's answer to ApiVersions. Knows nothing of connections.
"""

from __future__ import annotations

from kafka_share.errors import UnsupportedVersionError
from kafka_share.protocol.api_message import ApiMessage
from kafka_share.protocol.handshake import ApiVersionsResponse
from kafka_share.protocol.schema import schema_of

VersionRanges = dict[int, tuple[int, int]]
"""API key -> lowest and highest version, both included."""


def ranges_of(answer: ApiVersionsResponse) -> VersionRanges:
    """What a broker's ApiVersions answer offers."""
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def choose_version(request: type[ApiMessage] | ApiMessage, offered: VersionRanges, min_version: int = 0) -> int:
    """The highest version of a request, at least `min_version`, that both the broker and this package know.

    Raises `UnsupportedVersionError` with the API's name and the versions of both sides if there is none.
    """
    schema = schema_of(request if isinstance(request, type) else type(request))
    name = schema.name.removesuffix("Request")
    lowest = max(schema.valid_versions[0], min_version)
    highest = schema.valid_versions[1]
    if schema.api_key not in offered:
        raise UnsupportedVersionError(f"the broker does not offer {name} (API {schema.api_key})")
    broker_lowest, broker_highest = offered[schema.api_key]
    chosen = min(highest, broker_highest)
    if chosen < max(lowest, broker_lowest):
        raise UnsupportedVersionError(
            f"the broker offers {name} (API {schema.api_key}) in the versions {broker_lowest} to {broker_highest}; "
            f"needed is {lowest} to {highest}"
        )
    return chosen
