"""The messages that acquire records from a partition leader (API 78).

Types and field names: the generated stub beside this file; wire format: `kafka_share/protocol/schemas`.
"""

from __future__ import annotations

from kafka_share.protocol import schemas
from kafka_share.protocol.api_message import ApiMessage

__all__ = ["ShareFetchRequest", "ShareFetchResponse"]


class ShareFetchRequest(ApiMessage, load_json=schemas): ...


class ShareFetchResponse(ApiMessage, load_json=schemas): ...
