"""The messages between members, admins and the group coordinator: heartbeat (API 76) and describe (77).

Types and field names: the generated stub beside this file; wire format: `kafka_share/protocol/schemas`.
"""

from __future__ import annotations

from kafka_share.protocol import schemas
from kafka_share.protocol.api_message import ApiMessage

__all__ = [
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
]


class ShareGroupHeartbeatRequest(ApiMessage, load_json=schemas): ...


class ShareGroupHeartbeatResponse(ApiMessage, load_json=schemas): ...


class ShareGroupDescribeRequest(ApiMessage, load_json=schemas): ...


class ShareGroupDescribeResponse(ApiMessage, load_json=schemas): ...
