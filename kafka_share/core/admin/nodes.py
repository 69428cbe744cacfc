"""Which brokers the admin client knows, and from when on each of them may be asked.

Owned by `machine.AdminCore`. Keeps the reconnect back-off, since the driver has none, and the silence that a broker
asks for by its throttle time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from kafka_share.config import ShareAdminConfig
from kafka_share.core.backoff import Backoff
from kafka_share.core.requests import MAX_THROTTLE_MS
from kafka_share.records import Node


class Nodes:
    """Brokers learned from Metadata answers, and the bootstrap addresses behind them."""

    def __init__(self, config: ShareAdminConfig, source: random.Random) -> None:
        self._config = config
        self._source = source
        self._brokers: tuple[Node, ...] = ()
        self._backoffs: dict[int, Backoff] = {}
        self._muted_until_ms: dict[int, int] = {}
        self._last_answered: int | None = None

    def learned(self, brokers: Sequence[Node]) -> None:
        """The cluster's brokers as one of them listed them; none: begin with the bootstrap addresses again."""
        self._brokers = tuple(brokers)
        kept = {node.id for node in (*brokers, *self._config.bootstrap_servers)}
        self._backoffs = {node_id: backoff for node_id, backoff in self._backoffs.items() if node_id in kept}
        self._muted_until_ms = {node_id: at for node_id, at in self._muted_until_ms.items() if node_id in kept}

    def some(self, load: Mapping[int, int], now_ms: int) -> tuple[Node | None, int]:
        """A broker for a question that any of them can answer; or None and the time when there may be one.

        `load` has the number of answers that are awaited from a node: a broker answers in order, so that a slow answer
        holds up those behind it. Among equals the one that has answered goes first, since its connection is open.
        """
        candidates = (*self._brokers, *self._config.bootstrap_servers)
        by_preference = sorted(
            candidates, key=lambda node: (load.get(node.id, 0), node.id < 0, node.id != self._last_answered)
        )
        for node in by_preference:
            if self.ready_at_ms(node.id) <= now_ms:
                return node, now_ms
        return None, min(self.ready_at_ms(node.id) for node in candidates)

    def ready_at_ms(self, node_id: int) -> int:
        """From when on the node may be asked; a time that has passed means now."""
        backoff = self._backoffs.get(node_id)
        return max(backoff.ready_at_ms if backoff else 0, self._muted_until_ms.get(node_id, 0))

    def answered(self, node_id: int, throttle_ms: int, now_ms: int) -> None:
        self._last_answered = node_id
        self._backoffs.pop(node_id, None)
        self._muted_until_ms.pop(node_id, None)
        if throttle_ms > 0:
            self._muted_until_ms[node_id] = now_ms + min(throttle_ms, MAX_THROTTLE_MS)

    def failed(self, node_id: int, now_ms: int) -> None:
        """No answer: the next question to this node waits a little, longer each time."""
        config = self._config
        backoff = self._backoffs.get(node_id)
        if backoff is None:
            backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self._source)
            self._backoffs[node_id] = backoff
        backoff.failed(now_ms)
