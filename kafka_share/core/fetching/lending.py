"""Lends the share sessions of a consumer to the application's thread, which then fetches without the core.

Owned by `fetching.fetcher`. While all is as it was, a poll sends the acknowledgements and the next fetch by itself and
gets the answer, and so does a commit that waits: no thread is woken, and what the core would do for each of them is
done once for all, when the session comes back. They all come back whenever something is not as it was, and soon in any
case, so that the core never looks at an old state (docs/adr/0022-polls-fetch-by-themselves.md).

Of several nodes each is lent when it has answered, while the others are lent or have a fetch in flight: there is never
an idle node that the application's thread does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kafka_share.core.context import CoreContext
from kafka_share.core.events import Lend, Recall, SessionReturned, SessionUsed
from kafka_share.core.fetching.acknowledgements import Acknowledgements
from kafka_share.core.fetching.node_exchange import NodeExchange
from kafka_share.core.fetching.share_session import Wanted

LENT_MS: Final = 100
"""So long sessions are lent, unless the application's thread tells of its progress; then for as long again…"""
LONGEST_LOAN_MS: Final = 10_000
"""…up to this, or until the connection has to authenticate again. The poll in which a loan ends takes longer than the
others: once in so long is not one in a hundred, even where records come one by one."""
SKIPPED: Final = 50
"""After a loan that nothing was sent in (the application commits after each poll without waiting, say) so many answers
lend nothing: a loan costs as much as it saves a poll."""
MOST_LENT: Final = 32
"""With more nodes than these, none is lent: a poll would look at each."""
SHORTEST_LOCK_MS: Final = 1_000
"""With shorter locks the core would look at them while it does not know what was delivered."""


@attrs.frozen
class _Loan:
    exchange: NodeExchange
    wanted: Wanted


class Lending:
    """`is_on`: whether there is a thread to lend to."""

    def __init__(self, context: CoreContext, acknowledgements: Acknowledgements, *, is_on: bool) -> None:
        self.is_on = is_on
        self.loans: dict[int, _Loan] = {}
        """What is lent, by the number of the loan."""
        self._began_at_ms = self._ends_at_ms = 0
        self._config = config = context.config
        self._member_id = context.member_id
        self._limits = (
            config.fetch_max_wait_ms, config.fetch_min_bytes, config.fetch_max_bytes, config.max_poll_records,
        )  # fmt: skip
        self._acknowledgements = acknowledgements
        self._outputs = context.outputs
        self._troubles = context.troubles
        self._last_id = 0
        self._to_skip = 0
        self._is_recalled = False

    def lend(
        self,
        exchange: NodeExchange,
        exchanges: Mapping[int, NodeExchange],
        wanted: dict[int, Wanted],
        topics: frozenset[str],
        now_ms: int,
    ) -> None:
        """After an answer that brought records: lend the session of this node, if no other node is idle."""
        most = 1 if self._config.send_ahead else MOST_LENT  # what was fetched ahead would hold acknowledgements up
        if self._is_recalled or not self._troubles.is_empty or len(wanted) > most:
            return
        if self._config.has_window and self._acknowledgements.queues:
            return  # they may be of records among others that are open still, which only the core deals with
        here = wanted.get(exchange.node.id)
        if here is None or exchange.is_busy or exchange.session.differs_from(here) or exchange.ready_at_ms() > now_ms:
            return
        if is_idle_beside(exchange.node.id, exchanges, wanted):
            return
        if self._to_skip:
            self._to_skip -= 1
            return
        acknowledgements = self._acknowledgements.entrust(exchange.node.id)
        if acknowledgements is None:
            return
        session = exchange.session
        self._last_id += 1
        if not self.loans:
            self._began_at_ms, self._ends_at_ms = now_ms, now_ms + LENT_MS
        self.loans[self._last_id] = _Loan(exchange, here)
        exchange.is_lent = True
        self._outputs.add(
            Lend(
                self._last_id,
                exchange.node,
                session.session_id,
                session.epoch,
                tuple((where, session.locks_of(where)) for where in here),
                topics,
                self._ends_at_ms,
                self._config.group_id,
                self._member_id,
                self._limits,
                acknowledgements,
            )
        )

    def look(
        self, exchanges: Mapping[int, NodeExchange], wanted: dict[int, Wanted], now_ms: int, *, is_needed: bool
    ) -> None:
        """Recall what is lent if it is time, needed, or if something else is to be fetched now."""
        if self._is_recalled or not self.loans:
            return
        is_due = is_needed or now_ms >= self._ends_at_ms or is_idle_beside(None, exchanges, wanted)
        if is_due or any(wanted.get(loan.exchange.node.id) is not loan.wanted for loan in self.loans.values()):
            self._is_recalled = True
            self._outputs.add(*(Recall(loan.exchange.node.id) for loan in self.loans.values()))

    def used(self, event: SessionUsed, now_ms: int) -> bool:
        """False if it had been returned before."""
        loan = self.loans.get(event.lend_id)
        if loan is None:
            return False
        loan.exchange.used(event.tally, now_ms)
        self._ends_at_ms = min(now_ms, self._began_at_ms + LONGEST_LOAN_MS) + LENT_MS
        return True

    def wake_at_ms(self) -> int | None:
        return None if self._is_recalled or not self.loans else self._ends_at_ms

    def returned(self, event: SessionReturned, now_ms: int) -> bool:
        """False if it had been returned before."""
        loan = self.loans.pop(event.lend_id, None)
        if loan is None:
            return False
        if not self.loans:
            self._is_recalled = False
        if event.flight is None and event.epoch == loan.exchange.session.epoch:
            self._to_skip = SKIPPED
        loan.exchange.take_back(event, now_ms)
        self._acknowledgements.take_back(event.unsent, now_ms)
        return True

    def check(self) -> None:
        assert all(loan.exchange.is_lent for loan in self.loans.values())


def is_idle_beside(node_id: int | None, exchanges: Mapping[int, NodeExchange], wanted: Mapping[int, Wanted]) -> bool:
    """Whether there is a node, other than this one, to be asked for records and not asked yet."""
    for other_id in wanted:
        exchange = exchanges.get(other_id)
        if other_id != node_id and not (exchange is not None and exchange.is_asked):
            return True
    return False
