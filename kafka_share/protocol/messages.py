"""Requests and responses as frames: what stands on the wire between the length prefix and the next one.

Called by the network side of the client, by the broker's server and by the simulation. Encoding gives whole frames
with their four bytes of length; decoding takes a frame without them. Bytes that are not what they should be raise
`RemoteProtocolError`, values that cannot be sent `LocalProtocolError`, and nothing else is raised.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from kafka_share.errors import LocalProtocolError, RemoteProtocolError
from kafka_share.protocol import (
    acls,
    classic_group,
    cluster,
    committed_offsets,
    configs,
    consumer_group,
    controllers,
    groups,
    handshake,
    logs,
    producers,
    quotas,
    replicas,
    scram_users,
    share_acknowledge,
    share_fetch,
    share_group,
    share_offsets,
    share_state,
    telemetry,
    topics,
    transactions,
)
from kafka_share.protocol.api_message import ApiMessage
from kafka_share.protocol.decoder import decoder_of, new_budget, skip_tags
from kafka_share.protocol.encoder import encoder_of
from kafka_share.protocol.hot_messages import SHORT_DECODERS, SHORT_ENCODERS
from kafka_share.protocol.schema import schema_of

__all__ = [
    "API_VERSIONS",
    "MESSAGES",
    "MODULES",
    "RequestHeader",
    "decode_request",
    "decode_request_body",
    "decode_request_header",
    "decode_response",
    "encode_request",
    "encode_response",
]

API_VERSIONS: Final = 18
"""The one API whose response has an old header in every version, so that any client can read it."""

_UNSUPPORTED_VERSION: Final = 35
_LARGEST_FRAME: Final = 0x7FFF_FFFF
_HEADER: Final = struct.Struct(">hhih")
_NO_CLIENT_ID: Final = -1


MODULES: Final = (
    handshake,
    cluster,
    topics,
    configs,
    controllers,
    replicas,
    groups,
    scram_users,
    acls,
    classic_group,
    committed_offsets,
    consumer_group,
    logs,
    transactions,
    producers,
    quotas,
    share_group,
    share_fetch,
    share_acknowledge,
    share_state,
    share_offsets,
    telemetry,
)
"""The modules that declare messages; each lists its own in `__all__`."""


def _table() -> dict[int, tuple[type[ApiMessage], type[ApiMessage]]]:
    table: dict[int, tuple[type[ApiMessage], type[ApiMessage]]] = {}
    for module in MODULES:
        for name in module.__all__:
            if name.endswith("Request"):
                request: Any = getattr(module, name)
                table[request.API_KEY] = (request, getattr(module, name.removesuffix("Request") + "Response"))
    return dict(sorted(table.items()))


MESSAGES: Final[Mapping[int, tuple[type[ApiMessage], type[ApiMessage]]]] = MappingProxyType(_table())
"""The request class and the response class of every API that the package can speak, by API key."""


@attrs.frozen
class RequestHeader:
    """What stands before a request's body, readable whatever the API and its version are.

    `body_at` is where the rest of the frame begins: the header's tagged fields, if the version has them, and the body.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int

    @property
    def is_supported(self) -> bool:
        """Whether the body can be decoded. If not, the answer to an ApiVersions request is of version 0."""
        return self.api_key in MESSAGES and schema_of(MESSAGES[self.api_key][0]).is_valid(self.api_version)


def encode_request(request: ApiMessage, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request as a frame, length included. Raises `LocalProtocolError`."""
    encode_short = SHORT_ENCODERS.get((type(request), version))
    frame = None if encode_short is None else encode_short(request, correlation_id, client_id)
    return _encode_request(request, version, correlation_id, client_id) if frame is None else frame


def _encode_request(request: ApiMessage, version: int, correlation_id: int, client_id: str | None) -> bytes:
    schema = schema_of(type(request))
    try:
        name = b"" if client_id is None else client_id.encode()
        length = _NO_CLIENT_ID if client_id is None else len(name)
        head = _HEADER.pack(schema.api_key, version, correlation_id, length) + name
    except (struct.error, AttributeError, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"the header of a {schema.name} cannot be encoded: {error}") from error
    parts = [b"", head, b"\0" if schema.is_flexible(version) else b""]
    _encode(request, version, parts)
    return _frame(parts)


def encode_response(correlation_id: int, response: ApiMessage, version: int) -> bytes:
    """A response as a frame, length included. Raises `LocalProtocolError`."""
    schema = schema_of(type(response))
    try:
        head = struct.pack(">i", correlation_id)
    except struct.error as error:
        raise LocalProtocolError(f"the correlation id {correlation_id!r} cannot be encoded: {error}") from error
    has_tags = schema.is_flexible(version) and schema.api_key != API_VERSIONS
    parts = [b"", head, b"\0" if has_tags else b""]
    _encode(response, version, parts)
    return _frame(parts)


def decode_request_header(frame: bytes | memoryview) -> RequestHeader:
    """The header of a request, also of an unknown API or version. Raises `RemoteProtocolError`.

    Its first fields are alike in all versions; the tagged fields that newer ones add are left to the body.
    """
    try:
        api_key, api_version, correlation_id, length = _HEADER.unpack_from(frame)
        stop = _HEADER.size + max(length, 0)
        if length < _NO_CLIENT_ID or stop > len(frame):
            raise RemoteProtocolError(f"a request header has a client id of {length} bytes")
        client_id = None if length == _NO_CLIENT_ID else str(frame[_HEADER.size : stop], "utf-8")
    except struct.error:
        raise RemoteProtocolError(f"a request of {len(frame)} bytes ends inside its header") from None
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"a client id is not UTF-8: {error}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, stop)


def decode_request_body(header: RequestHeader, frame: bytes | memoryview) -> ApiMessage:
    """The body of the request whose header was decoded from the same frame.

    Bytes behind the body are ignored, as Kafka's brokers do: librdkafka 2.16 sends three of them with a Metadata
    request of version 13 for all topics. Raises `RemoteProtocolError`, also when `header.is_supported` is false.
    """
    if not header.is_supported:
        raise RemoteProtocolError(f"API {header.api_key} version {header.api_version} is not supported")
    request_class = MESSAGES[header.api_key][0]
    position = header.body_at
    if schema_of(request_class).is_flexible(header.api_version):
        position = _skip_header_tags(frame, position)
    return _decode(request_class, header.api_version, frame, position, may_be_followed=True)


def decode_request(frame: bytes | memoryview) -> tuple[RequestHeader, ApiMessage]:
    """Header and body of a request. Raises `RemoteProtocolError`, also for unknown APIs and versions."""
    header = decode_request_header(frame)
    return header, decode_request_body(header, frame)


def decode_response(api_key: int, version: int, frame: bytes | memoryview) -> tuple[int, ApiMessage]:
    """The correlation id and the body of the answer to a request of this API and version.

    A broker that does not know the version of an ApiVersions request answers UNSUPPORTED_VERSION in version 0
    (KIP-511).
    Raises `RemoteProtocolError`; `LocalProtocolError` for an API or version that could not have been asked for.
    """
    decode_short = SHORT_DECODERS.get((api_key, version))
    decoded = None if decode_short is None else decode_short(frame)
    return _decode_response(api_key, version, frame) if decoded is None else decoded


def _decode_response(api_key: int, version: int, frame: bytes | memoryview) -> tuple[int, ApiMessage]:
    if api_key not in MESSAGES:
        raise LocalProtocolError(f"API {api_key} is not known")
    response_class = MESSAGES[api_key][1]
    schema = schema_of(response_class)
    if not schema.is_valid(version):
        raise LocalProtocolError(f"{schema.name} has no version {version}")
    if len(frame) < 4:
        raise RemoteProtocolError(f"a response of {len(frame)} bytes ends inside its header")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    position = 4
    if api_key == API_VERSIONS:
        if int.from_bytes(frame[4:6], "big") == _UNSUPPORTED_VERSION:
            version = 0
    elif schema.is_flexible(version):
        position = _skip_header_tags(frame, position)
    return correlation_id, _decode(response_class, version, frame, position)


def _encode(message: ApiMessage, version: int, parts: list[bytes]) -> None:
    """Append the encoded body to `parts`. Raises `LocalProtocolError`."""
    message_class = type(message)
    try:
        encoder_of(message_class, version)(message, parts.append)
    except LocalProtocolError as error:
        raise LocalProtocolError(f"{message_class.__name__} v{version}: {error}") from None
    except (struct.error, TypeError, AttributeError, ValueError, NotImplementedError) as error:
        raise LocalProtocolError(f"{message_class.__name__} v{version} cannot be encoded: {error}") from error


def _decode(
    message_class: type[ApiMessage],
    version: int,
    frame: bytes | memoryview,
    position: int,
    *,
    may_be_followed: bool = False,
) -> ApiMessage:
    """The body that fills the frame from `position` to its end, or, if it `may_be_followed`, begins there.

    Raises `RemoteProtocolError` for anything else. The version has to be one that the schema describes.
    """
    name = message_class.__name__
    try:
        message, position = decoder_of(message_class, version)(frame, position, new_budget())
    except (IndexError, struct.error):
        raise RemoteProtocolError(f"{name} v{version} ends too early: {len(frame)} bytes") from None
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"{name} v{version} has a string that is not UTF-8: {error}") from None
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{name} v{version} is malformed: {error}") from None
    if position != len(frame) and not may_be_followed:
        raise RemoteProtocolError(f"{len(frame) - position} bytes follow {name} v{version}")
    assert isinstance(message, ApiMessage)
    return message


def _skip_header_tags(frame: bytes | memoryview, position: int) -> int:
    try:
        return skip_tags(frame, position)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"the tagged fields of a header are malformed: {error}") from None


def _frame(parts: list[bytes]) -> bytes:
    size = sum(map(len, parts))
    if size > _LARGEST_FRAME:
        raise LocalProtocolError(f"a message of {size} bytes does not fit into a frame")
    parts[0] = struct.pack(">i", size)
    return b"".join(parts)
