"""The messages that acknowledge records to a partition leader (API 79).

Types and field names: the generated stub beside this file; wire format: `kafka_share/protocol/schemas`.
"""

from __future__ import annotations

from kafka_share.protocol import schemas
from kafka_share.protocol.api_message import ApiMessage

__all__ = ["ShareAcknowledgeRequest", "ShareAcknowledgeResponse"]


class ShareAcknowledgeRequest(ApiMessage, load_json=schemas): ...


class ShareAcknowledgeResponse(ApiMessage, load_json=schemas): ...
