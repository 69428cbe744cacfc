"""A poll that talks to the broker itself, on the session that the core has lent, as long as everything is plain.

Used by `ConsumerCalls`. Whatever is not plain, and a wait that ends without an answer, gives the session back, and the
poll goes on as if the core had sent the fetch. An interrupt leaves the session held; `recover` then finishes what an
answer had begun, and gives it back.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from kafka_share.application.side import ApplicationSide
from kafka_share.core.events import Event, GatheredAcknowledgements

if TYPE_CHECKING:
    from kafka_share.network.direct import DirectSession


@attrs.frozen
class Wait:
    """Go on when the mailbox has news, at `deadline_at_ms` at the latest. Batches are news only `with_records`."""

    deadline_at_ms: int
    with_records: bool = False
    direct: DirectSession | None = None
    """Go on for an answer on this session, too."""


class Lender(Protocol):
    """What of the mailbox is needed here."""

    direct: DirectSession | None


class Poster(Protocol):
    """What of the background side is needed here."""

    def post(self, event: Event, *, wake: bool = True) -> None: ...


class DirectPolls:
    def __init__(self, application: ApplicationSide, background: Poster, lender: Lender) -> None:
        self._application = application
        self._background = background
        self._lender = lender

    def fetch(self, acknowledgements: Sequence[GatheredAcknowledgements]) -> DirectSession | None:
        """Send a fetch, with these; None: nothing was sent, and the core has to be asked."""
        direct = self._lender.direct
        if direct is None:
            return None
        if not direct.enter(self._application.topics, self._post):
            self._lender.direct = None
            return None
        if not direct.fetch(acknowledgements):
            self._give_back(direct)
            return None
        return direct

    def wait(self, direct: DirectSession, deadline_at_ms: int) -> Generator[Wait, None, bool]:
        """Whether the answer has come and been taken. The session is not held any more."""
        try:
            yield Wait(deadline_at_ms, with_records=True, direct=direct)
            if direct.line.receive_all() and direct.read():
                self._take(direct)
                direct.leave(self._background.post)
                return True
        except BaseException:
            self.recover()
            raise
        self._give_back(direct)
        return False

    def recover(self) -> None:
        """After an interrupt: what is held is given back."""
        direct = self._lender.direct
        if direct is not None and direct.is_held:
            if direct.taken:
                self._take(direct)
            direct.give_back(self._background.post)  # nothing that follows would wake the core
            self._lender.direct = None

    def _take(self, direct: DirectSession) -> None:
        for output in direct.taken:
            self._application.take(output)
        direct.done()

    def _give_back(self, direct: DirectSession) -> None:
        direct.give_back(self._post)
        self._lender.direct = None

    def _post(self, event: Event) -> None:
        """What follows wakes the core."""
        self._background.post(event, wake=False)
