"""Lends the one share session of a consumer to the application's thread, which then fetches without the core.

Owned by `fetching.fetcher`. While all is as it was, a poll sends the acknowledgements and the next fetch by itself and
gets the answer: no thread is woken, and what the core would do for each poll is done once for all of them, when the
session comes back. It comes back whenever something is not as it was, and soon in any case, so that the core never
looks at an old state (docs/adr/0022-polls-fetch-by-themselves.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_share.core.context import CoreContext
from kafka_share.core.events import Lend, Recall, SessionReturned
from kafka_share.core.fetching.node_exchange import NodeExchange
from kafka_share.core.fetching.share_session import Wanted

LENT_MS: Final = 100
"""So long a session is lent at most. Once in this time a poll costs what it costs without lending."""
SHORTEST_LOCK_MS: Final = 1_000
"""With shorter locks the core would look at them while it does not know what was delivered."""


class Lending:
    """At most one session is lent at a time. `is_on`: whether there is a thread to lend to."""

    def __init__(self, context: CoreContext, *, is_on: bool) -> None:
        self.is_on = is_on
        self.exchange: NodeExchange | None = None
        """Whose session is lent."""
        self.ends_at_ms: int = 0
        self._config = config = context.config
        self._member_id = context.member_id
        self._limits = (
            config.fetch_max_wait_ms, config.fetch_min_bytes, config.fetch_max_bytes, config.max_poll_records,
        )  # fmt: skip
        self._outputs = context.outputs
        self._troubles = context.troubles
        self._last_id = 0
        self._wanted: Wanted = ()
        self._is_recalled = False

    def lend(
        self, exchanges: Sequence[NodeExchange], wanted: dict[int, Wanted], topics: frozenset[str], now_ms: int
    ) -> None:
        """After an answer that brought records: lend the session if it is the only one, and nothing else is due."""
        if len(exchanges) != 1 or self.exchange is not None or not self._troubles.is_empty:
            return
        exchange = exchanges[0]
        here = wanted.get(exchange.node.id)
        if here is None or len(wanted) != 1 or exchange.is_busy or exchange.session.differs_from(here):
            return
        if exchange.ready_at_ms() > now_ms:
            return
        session = exchange.session
        self._last_id += 1
        self.exchange, self.ends_at_ms, self._wanted, self._is_recalled = exchange, now_ms + LENT_MS, here, False
        exchange.is_lent = True
        self._outputs.add(
            Lend(
                self._last_id,
                exchange.node,
                session.session_id,
                session.epoch,
                tuple((where, session.locks_of(where)) for where in here),
                topics,
                self.ends_at_ms,
                self._config.group_id,
                self._member_id,
                self._limits,
            )
        )

    def look(self, wanted: dict[int, Wanted], now_ms: int, *, is_needed: bool) -> None:
        """Recall what is lent if it is time, needed, or if something else is to be fetched now."""
        if self.exchange is None or self._is_recalled:
            return
        if is_needed or now_ms >= self.ends_at_ms or wanted.get(self.exchange.node.id) is not self._wanted:
            self._is_recalled = True
            self._outputs.add(Recall(self.exchange.node.id))

    def wake_at_ms(self) -> int | None:
        return None if self.exchange is None or self._is_recalled else self.ends_at_ms

    def returned(self, event: SessionReturned, now_ms: int) -> bool:
        """False if it had been returned before."""
        if self.exchange is None or event.lend_id != self._last_id:
            return False
        exchange, self.exchange = self.exchange, None
        exchange.take_back(event, now_ms)
        return True

    def check(self) -> None:
        assert self.exchange is None or self.exchange.is_lent
