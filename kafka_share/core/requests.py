"""The requests under way: send ids, whom an answer is for, and when a node may be asked again.

Every machine of the core sends through one `Requests`. It keeps the reconnect back-off of each connection, because
the driver has none, and the silence that a broker asks for by its throttle time. It decides nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.backoff import Backoff
from kafka_share.core.events import Channel, Log, Message, Output, RaiseError, Send
from kafka_share.core.log_events import LOG_EVENTS
from kafka_share.core.outage import Outage
from kafka_share.errors import AuthenticationError, KafkaShareError, RemoteProtocolError, UnsupportedVersionError
from kafka_share.records import Node

OnResponse = Callable[[Message, int], None]
OnFailure = Callable[[KafkaShareError, int], None]

MAX_THROTTLE_MS = 300_000
"""A broker that asks for a longer silence is not believed."""

_MAX_REMEMBERED_FAILURES = 64


@attrs.frozen
class _UnderWay:
    node_id: int
    channel: Channel
    on_response: OnResponse
    on_failure: OnFailure


class Requests:
    """Owned by `ShareConsumerCore`; `outputs` is where all machines of the core put what they want done."""

    def __init__(self, config: ShareConsumerConfig, source: random.Random) -> None:
        self.outputs: list[Output] = []
        self.is_silenced = False
        """After a fatal error nothing more is raised."""
        self._config = config
        self._source = source
        self._last_send_id = 0
        self._under_way: dict[int, _UnderWay] = {}
        self._backoffs: dict[tuple[int, Channel], Backoff] = {}
        self._muted_until_ms: dict[tuple[int, Channel], int] = {}
        self._raised: dict[str, None] = {}
        self._outage = Outage(config)

    def raise_error(self, error: KafkaShareError, *, fatal: bool = False) -> None:
        """Have poll raise this; nothing follows a fatal one."""
        if not self.is_silenced:
            self.outputs.append(RaiseError(error, fatal))
        self.is_silenced = self.is_silenced or fatal

    def note(self, event: str, **fields: str | int) -> None:
        """Have the driver log that something changed; `event` is one of `LOG_EVENTS`."""
        assert tuple(fields) == LOG_EVENTS[event].fields, f"{event} is logged with other fields: {fields}"
        self.outputs.append(Log(event, fields))

    def send(
        self,
        node: Node,
        channel: Channel,
        request: Message,
        timeout_ms: int,
        on_response: OnResponse,
        on_failure: OnFailure,
        min_version: int = 0,
    ) -> None:
        self._last_send_id += 1
        self._under_way[self._last_send_id] = _UnderWay(node.id, channel, on_response, on_failure)
        self.outputs.append(Send(self._last_send_id, node, channel, request, max(1, timeout_ms), min_version))

    def ready_at_ms(self, node_id: int, channel: Channel) -> int:
        """From when on the node may be asked on this channel; a time that has passed means now."""
        key = (node_id, channel)
        backoff = self._backoffs.get(key)
        return max(backoff.ready_at_ms if backoff else 0, self._muted_until_ms.get(key, 0))

    def is_asking(self, node_id: int) -> bool:
        """Whether an answer of this node is awaited on any channel."""
        return any(sent.node_id == node_id for sent in self._under_way.values())

    def is_busy(self, node_id: int, channel: Channel) -> bool:
        return any(sent.node_id == node_id and sent.channel is channel for sent in self._under_way.values())

    def answered(self, send_id: int, response: Message, now_ms: int) -> None:
        sent = self._under_way.pop(send_id, None)
        assert sent is not None, f"an answer to send_id {send_id}, which is not under way"
        key = (sent.node_id, sent.channel)
        self._backoffs.pop(key, None)
        self._raised.clear()
        self._outage.answered()
        throttle_ms = response.throttle_time_ms
        if throttle_ms > 0:
            self._muted_until_ms[key] = now_ms + min(throttle_ms, MAX_THROTTLE_MS)
        else:
            self._muted_until_ms.pop(key, None)
        sent.on_response(response, now_ms)

    def failed(self, send_id: int, error: KafkaShareError, now_ms: int) -> None:
        sent = self._under_way.pop(send_id, None)
        assert sent is not None, f"a failure of send_id {send_id}, which is not under way"
        if not isinstance(error, UnsupportedVersionError):  # that one says nothing against the connection
            key = (sent.node_id, sent.channel)
            backoff = self._backoffs.get(key)
            if backoff is None:
                backoff = self._backoffs[key] = Backoff(
                    self._config.reconnect_backoff_ms, self._config.reconnect_backoff_max_ms, self._source
                )
            backoff.failed(now_ms)
            self._no_answer(error, now_ms)
        sent.on_failure(error, now_ms)

    def _no_answer(self, error: KafkaShareError, now_ms: int) -> None:
        """Raise what no retry is likely to mend, once until a broker answers; lost connections only in an outage."""
        if not isinstance(error, AuthenticationError | RemoteProtocolError):
            outage = self._outage.failed(error, now_ms)
            if outage is not None:
                self.raise_error(outage)
        elif str(error) not in self._raised and len(self._raised) < _MAX_REMEMBERED_FAILURES:
            self._raised[str(error)] = None
            self.raise_error(error)

    def forget_node(self, node_id: int) -> None:
        """Drop what is remembered of a node that has left the cluster."""
        for channel in Channel:
            self._backoffs.pop((node_id, channel), None)
            self._muted_until_ms.pop((node_id, channel), None)

    def check(self) -> None:
        on_data = [sent.node_id for sent in self._under_way.values() if sent.channel is Channel.DATA]
        assert len(on_data) == len(dict.fromkeys(on_data)), "two requests under way on one share session"
