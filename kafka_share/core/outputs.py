"""What the machines of a core want done: its outputs in their order, and the requests among them, which have answers.

`ShareConsumerCore` owns one `Outputs`, and hands it to the driver after every step; every machine adds to it, none
reads it. Every machine of a core, the consumer's or the admin client's, sends through one `Requests`. It gives out the
ids, knows whom an answer is for, and when a node may be asked again: it keeps the reconnect back-off of each
connection, because the driver has none, and the silence that a broker asks for by its throttle time. It decides nothing
else.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs

from kafka_share.config import ClientConfig
from kafka_share.core.backoff import Backoff
from kafka_share.core.events import Channel, Log, Message, Output, RaiseError, Send
from kafka_share.core.log_events import LOG_EVENTS
from kafka_share.errors import KafkaShareError, UnsupportedVersionError
from kafka_share.records import Node

OnResponse = Callable[[Message, int], None]
OnFailure = Callable[[KafkaShareError, int], None]

MAX_THROTTLE_MS = 300_000
"""A broker that asks for a longer silence is not believed."""


class Outputs:
    def __init__(self) -> None:
        self._waiting: list[Output] = []
        self._is_silenced = False
        """After a fatal error nothing more is raised."""

    def add(self, *outputs: Output) -> None:
        self._waiting.extend(outputs)

    def raise_error(self, error: KafkaShareError, *, fatal: bool = False) -> None:
        """Have poll raise this; nothing follows a fatal one."""
        if not self._is_silenced:
            self.add(RaiseError(error, fatal))
        self._is_silenced = self._is_silenced or fatal

    def note(self, event: str, **fields: str | int) -> None:
        """Have the driver log that something changed; `event` is one of `LOG_EVENTS`."""
        assert tuple(fields) == LOG_EVENTS[event].fields, f"{event} is logged with other fields: {fields}"
        self.add(Log(event, fields))

    def take(self) -> list[Output]:
        """Everything since the last time."""
        outputs, self._waiting = self._waiting, []
        return outputs

    @property
    def is_empty(self) -> bool:
        return not self._waiting


@attrs.frozen
class SentRequest:
    node_id: int
    channel: Channel
    on_response: OnResponse
    on_failure: OnFailure


class Requests:
    """`put` takes what is to be sent."""

    def __init__(self, config: ClientConfig, put: Callable[[Send], None], source: random.Random) -> None:
        self._config = config
        self._put = put
        self._source = source
        self._last_send_id = 0
        self._sent: dict[int, SentRequest] = {}
        self._backoffs: dict[tuple[int, Channel], Backoff] = {}
        self._muted_until_ms: dict[tuple[int, Channel], int] = {}

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
        self._sent[self._last_send_id] = SentRequest(node.id, channel, on_response, on_failure)
        self._put(Send(self._last_send_id, node, channel, request, max(1, timeout_ms), min_version))

    def adopt(self, node: Node, channel: Channel, on_response: OnResponse, on_failure: OnFailure) -> int:
        """Expect the answer to a request that has been sent already; returns its id."""
        self._last_send_id += 1
        self._sent[self._last_send_id] = SentRequest(node.id, channel, on_response, on_failure)
        return self._last_send_id

    def ready_at_ms(self, node_id: int, channel: Channel) -> int:
        """From when on the node may be asked on this channel; a time that has passed means now."""
        key = (node_id, channel)
        backoff = self._backoffs.get(key)
        return max(backoff.ready_at_ms if backoff else 0, self._muted_until_ms.get(key, 0))

    def oldest_awaited_from(self, node_id: int) -> int | None:
        """The id of the longest awaited answer of this node, on any channel; ids ascend with time. None: none is."""
        return next((send_id for send_id, sent in self._sent.items() if sent.node_id == node_id), None)

    def is_busy(self, node_id: int, channel: Channel) -> bool:
        return any(sent.node_id == node_id and sent.channel is channel for sent in self._sent.values())

    def answered(self, send_id: int, response: Message, now_ms: int) -> Channel:
        """Hand an answer to whom it is for; returns the channel that it came on."""
        sent = self._take(send_id)
        key = (sent.node_id, sent.channel)
        self._backoffs.pop(key, None)
        throttle_ms = response.throttle_time_ms
        if throttle_ms > 0:
            self._muted_until_ms[key] = now_ms + min(throttle_ms, MAX_THROTTLE_MS)
        else:
            self._muted_until_ms.pop(key, None)
        sent.on_response(response, now_ms)
        return sent.channel

    def failed(self, send_id: int, error: KafkaShareError, now_ms: int) -> None:
        sent = self._take(send_id)
        if not isinstance(error, UnsupportedVersionError):  # that one says nothing against the connection
            key = (sent.node_id, sent.channel)
            backoff = self._backoffs.get(key)
            if backoff is None:
                initial_ms, maximum_ms = self._config.reconnect_backoff_ms, self._config.reconnect_backoff_max_ms
                backoff = self._backoffs[key] = Backoff(initial_ms, maximum_ms, self._source)
            backoff.failed(now_ms)
        sent.on_failure(error, now_ms)

    def _take(self, send_id: int) -> SentRequest:
        sent = self._sent.pop(send_id, None)
        assert sent is not None, f"send_id {send_id} has ended already, or was never sent"
        return sent

    def forget_node(self, node_id: int) -> None:
        """Drop what is remembered of a node that has left the cluster."""
        for channel in Channel:
            self._backoffs.pop((node_id, channel), None)
            self._muted_until_ms.pop((node_id, channel), None)

    def check(self) -> None:
        on_data = [sent.node_id for sent in self._sent.values() if sent.channel is Channel.DATA]
        assert len(on_data) == len(dict.fromkeys(on_data)), "two requests are sent on one share session"
