"""Which brokers the admin client knows, and which of them gets a question that any broker can answer.

Owned by `machine.AdminCore`. When a broker may be asked is known by `core.outputs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_share.core.events import Channel
from kafka_share.core.outputs import Requests
from kafka_share.records import Node


class Nodes:
    """Brokers learned from Metadata answers, and the bootstrap addresses behind them."""

    def __init__(self, bootstrap: tuple[Node, ...], requests: Requests) -> None:
        self._bootstrap = bootstrap
        self._requests = requests
        self._brokers: tuple[Node, ...] = ()
        self._last_answered: int | None = None

    def learned(self, brokers: Sequence[Node]) -> None:
        """The cluster's brokers as one of them listed them; none: begin with the bootstrap addresses again."""
        kept = [node.id for node in brokers]
        for node in self._brokers:
            if node.id not in kept:
                self._requests.forget_node(node.id)
        self._brokers = tuple(brokers)

    def some(self, now_ms: int) -> tuple[Node | None, int]:
        """A broker for a question that any of them can answer; or None and the time when there may be one.

        A connection is answered in order, so an answer that hangs holds up those behind it: first come connections with
        no awaited answer, then those whose oldest awaited answer is youngest. Among free ones the one that has answered
        goes first, since it is open.
        """
        candidates = (*self._brokers, *self._bootstrap)
        by_preference = sorted(candidates, key=self._preference)
        for node in by_preference:
            if self.ready_at_ms(node.id) <= now_ms:
                return node, now_ms
        return None, min(self.ready_at_ms(node.id) for node in candidates)

    def _preference(self, node: Node) -> tuple[bool, int, bool, bool]:
        oldest = self._requests.oldest_awaited_from(node.id)
        return oldest is not None, -(oldest or 0), node.id < 0, node.id != self._last_answered

    def ready_at_ms(self, node_id: int) -> int:
        """From when on the node may be asked; a time that has passed means now."""
        return self._requests.ready_at_ms(node_id, Channel.CONTROL)

    def answered(self, node_id: int) -> None:
        self._last_answered = node_id
