"""Requests that a Kafka can read and has no answer to: it closes the connection.

Asked by `Conversation` for each request, before anything else sees it. Seen with Kafka 4.3.1: an AlterConfigs that
names a resource twice fails where it is worked on, and then again where the answer that says so is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.configs import AlterConfigsRequest

if TYPE_CHECKING:
    from kafka_share.broker.events import Message


def require_answerable(request: Message) -> None:
    """Raises `RemoteProtocolError` for a request that ends its connection."""
    if isinstance(request, AlterConfigsRequest):
        named = [(one.resource_type, one.resource_name) for one in request.resources]
        if len(set(named)) < len(named):
            raise RemoteProtocolError("an AlterConfigs names a resource twice")
