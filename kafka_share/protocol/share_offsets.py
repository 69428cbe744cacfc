"""The messages by which admins see and change the start offsets of share groups (APIs 90 to 92).

Types and field names: the generated stub beside this file; wire format: `kafka_share/protocol/schemas`.
"""

from __future__ import annotations

from kafka_share.protocol import schemas
from kafka_share.protocol.api_message import ApiMessage

__all__ = [
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
]


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=schemas): ...


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=schemas): ...


class AlterShareGroupOffsetsRequest(ApiMessage, load_json=schemas): ...


class AlterShareGroupOffsetsResponse(ApiMessage, load_json=schemas): ...


class DeleteShareGroupOffsetsRequest(ApiMessage, load_json=schemas): ...


class DeleteShareGroupOffsetsResponse(ApiMessage, load_json=schemas): ...
