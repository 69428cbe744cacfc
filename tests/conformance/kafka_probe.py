"""Asks a port who is there: one ApiVersions and one Metadata request on a connection of their own.

Called by `kafka_server` to learn when a node serves, and that the process behind the port is the one it started; `call`
serves whoever needs one answer of one certain node.
"""

from __future__ import annotations

import socket
from typing import Any, Final

import attrs

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.messages import decode_response, encode_request

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
        with socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection:
            # Brokers refuse a client without a name.
            hello = ApiVersionsRequest(client_software_name="kafka-probe", client_software_version="1")
            versions = call(connection, hello, _API_VERSIONS_VERSION)
            metadata = call(connection, MetadataRequest(topics=[]), _METADATA_VERSION)
    except (OSError, RemoteProtocolError):
        return None
    return Answer(
        metadata.cluster_id,
        frozenset(broker.node_id for broker in metadata.brokers),
        any(api.api_key == 78 for api in versions.api_keys),
    )


def call(connection: socket.socket, request: Any, version: int) -> Any:
    """Send one request and return its answer. Raises OSError and `RemoteProtocolError`."""
    connection.sendall(encode_request(request, version, 1, "probe"))
    size = int.from_bytes(_read(connection, 4), "big")
    return decode_response(request.API_KEY, version, _read(connection, size))[1]


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        received = connection.recv(size - len(data))
        if not received:
            raise ConnectionError("the connection was closed")
        data += received
    return data
