"""The last requests that arrived, for tests of clients and for a look at what a client sends.

`ReferenceBroker.requests` reads it; the server adds every request that could be decoded, before a fault or the machine
sees it. What is kept is bounded in number and in bytes. For the server's thread only.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from kafka_share.broker.api_keys import ApiKey
from kafka_share.harmless import excerpt

if TYPE_CHECKING:
    from kafka_share.broker.events import Message, RequestContext

logger: logging.Logger = logging.getLogger(__name__)

MAX_KEPT_REQUESTS: Final = 10_000
MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Of requests as they came over the wire. The last one is kept in any case."""
_SHOWN_CHARS: Final = 1_000


class RequestLog:
    """Oldest first. With `keep` off nothing is kept; each request is a line of the log at DEBUG all the same."""

    def __init__(self, *, keep: bool = True) -> None:
        self._keep = keep
        self._requests: deque[tuple[RequestContext, Message, int]] = deque()
        self._bytes = 0

    def add(self, context: RequestContext, request: Message, size: int) -> None:
        """A request of `size` bytes arrived."""
        if logger.isEnabledFor(logging.DEBUG):
            client = excerpt(context.client_id)
            where = (client, context.node_id, ApiKey(context.api_key).name, context.api_version)
            logger.debug("%s -> node %d: %s v%d %s", *where, repr(request)[:_SHOWN_CHARS])
        if not self._keep:
            return
        self._requests.append((context, request, size))
        self._bytes += size
        while len(self._requests) > 1 and (len(self._requests) > MAX_KEPT_REQUESTS or self._bytes > MAX_KEPT_BYTES):
            self._bytes -= self._requests.popleft()[2]

    def of(self, api: int | None = None) -> list[tuple[RequestContext, Message]]:
        """The requests of an API key, or all."""
        return [(context, request) for context, request, _ in self._requests if api in (None, context.api_key)]

    def clear(self) -> None:
        """Forget what was kept."""
        self._requests.clear()
        self._bytes = 0
