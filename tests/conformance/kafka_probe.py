"""Asks a port who is there: one ApiVersions and one Metadata request on a connection of their own.

Called by `kafka_server` to learn when a node serves, and that the process behind the port is the one it started.
"""

from __future__ import annotations

from typing import Final

import attrs
from support.wire_connection import WireConnection

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.handshake import ApiVersionsRequest

_TIMEOUT_S: Final = 5
_API_VERSIONS_VERSION: Final = 3
_METADATA_VERSION: Final = 12


@attrs.frozen
class Answer:
    """What a node says of itself and of its cluster."""

    cluster_id: str | None
    node_ids: frozenset[int]
    """The brokers that this node knows to be alive."""
    share_apis: bool
    """Whether ShareFetch is advertised."""


def probe(host: str, port: int) -> Answer | None:
    """None: nobody answers there like a Kafka broker (yet)."""
    try:
        with WireConnection(f"{host}:{port}", answer_within_s=_TIMEOUT_S) as connection:
            # Brokers refuse a client without a name.
            hello = ApiVersionsRequest(client_software_name="kafka-probe", client_software_version="1")
            versions = connection.call(hello, _API_VERSIONS_VERSION)
            metadata = connection.call(MetadataRequest(topics=[]), _METADATA_VERSION)
    except (OSError, RemoteProtocolError):
        return None
    return Answer(
        metadata.cluster_id,
        frozenset(broker.node_id for broker in metadata.brokers),
        any(api.api_key == 78 for api in versions.api_keys),
    )
