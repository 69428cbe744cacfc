"""The messages between brokers and the share coordinator (APIs 83 to 87).

Types and field names: the generated stub beside this file; wire format: `kafka_share/protocol/schemas`.
"""

from __future__ import annotations

from kafka_share.protocol import schemas
from kafka_share.protocol.api_message import ApiMessage

__all__ = [
    "InitializeShareGroupStateRequest",
    "InitializeShareGroupStateResponse",
    "ReadShareGroupStateRequest",
    "ReadShareGroupStateResponse",
    "WriteShareGroupStateRequest",
    "WriteShareGroupStateResponse",
    "DeleteShareGroupStateRequest",
    "DeleteShareGroupStateResponse",
    "ReadShareGroupStateSummaryRequest",
    "ReadShareGroupStateSummaryResponse",
]


class InitializeShareGroupStateRequest(ApiMessage, load_json=schemas): ...


class InitializeShareGroupStateResponse(ApiMessage, load_json=schemas): ...


class ReadShareGroupStateRequest(ApiMessage, load_json=schemas): ...


class ReadShareGroupStateResponse(ApiMessage, load_json=schemas): ...


class WriteShareGroupStateRequest(ApiMessage, load_json=schemas): ...


class WriteShareGroupStateResponse(ApiMessage, load_json=schemas): ...


class DeleteShareGroupStateRequest(ApiMessage, load_json=schemas): ...


class DeleteShareGroupStateResponse(ApiMessage, load_json=schemas): ...


class ReadShareGroupStateSummaryRequest(ApiMessage, load_json=schemas): ...


class ReadShareGroupStateSummaryResponse(ApiMessage, load_json=schemas): ...
