"""Polls and commits that talk to the brokers themselves, on the sessions that the core has lent, while all is plain.

Used by `ConsumerCalls`. Each poll takes the first answer of any broker; fetches that other brokers have not answered
stay in flight for the next one. A commit that waits takes all answers to its own requests. Whatever is not plain, and a
wait that ends without an answer, gives all sessions back, and the call goes on as if the core had sent the requests. An
interrupt leaves the sessions held; `recover` then finishes what an answer had begun, and gives them back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
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
    direct: Sequence[DirectSession] = ()
    """Go on for an answer on one of these, too."""


class Lender(Protocol):
    """What of the mailbox is needed here."""

    direct: dict[int, DirectSession]


class Poster(Protocol):
    """What of the background side is needed here."""

    def post(self, event: Event, *, wake: bool = True) -> None: ...


class DirectPolls:
    """`take_mail` gives the application what has arrived by the core, and returns whether there are records.

    `hand_over`, if given, makes polls send ahead: the next fetch leaves when an answer has been taken, and the next
    poll waits for its answer. It posts acknowledgements that cannot go with that fetch.
    """

    def __init__(
        self,
        application: ApplicationSide,
        background: Poster,
        lender: Lender,
        take_mail: Callable[[], bool],
        hand_over: Callable[[Sequence[GatheredAcknowledgements]], None] | None = None,
    ) -> None:
        self._application = application
        self._background = background
        self._lender = lender
        self._take_mail = take_mail
        self._hand_over = hand_over
        self._turn = 0

    @property
    def is_ahead(self) -> bool:
        """Whether what the next poll is to get has been asked for."""
        if self._hand_over is None:
            return False
        return any(direct.line.awaits for direct in self._lender.direct.copy().values())  # another thread puts some in

    @property
    def is_lent(self) -> bool:
        """Whether a session is lent whose end the core will see to by itself, soon. Any thread."""
        return any(direct.is_out for direct in self._lender.direct.copy().values())

    def fetch(
        self, acknowledgements: Sequence[GatheredAcknowledgements], wait_ms: int | None = None
    ) -> Sequence[DirectSession]:
        """Send a fetch wherever none is in flight, with these; nothing: the core has to be asked, with the same.

        A broker may hold it back for `wait_ms` at most; None: for as long as it was lent with.
        """
        if not self._lender.direct:
            return ()
        held = self._enter()
        if wait_ms is not None:
            for direct in held:
                direct.wait_at_most(wait_ms)
        if held and not self._send(held, acknowledgements):
            self._give_back(held)
            return ()
        return held

    def wait(self, held: Sequence[DirectSession], deadline_at_ms: int) -> Generator[Wait, None, bool]:
        """Whether records have come, from one of these or by the core. Nothing is held any more."""
        try:
            yield Wait(deadline_at_ms, with_records=True, direct=held)
            direct = self._read_answer(held)
            if direct is not None or self._take_mail():
                if self._go_on(held, direct):
                    self._leave(held)
                return True
        except BaseException:
            self.recover()
            raise
        self._give_back(held)
        return False

    def acknowledge(
        self, acknowledgements: Sequence[GatheredAcknowledgements], retry_until_ms: int
    ) -> Sequence[DirectSession]:
        """Send these at once, in requests of their own; nothing: the core has to be asked, with the same.

        Nothing else may await its outcome: whoever commits waits for all.
        """
        if not self._lender.direct:
            return ()
        held = self._enter()
        by_node = _by_node(held, acknowledgements)
        for direct in held:
            here = by_node and by_node[direct.node_id]
            if by_node is None or (here and not direct.acknowledge(here, retry_until_ms)):
                self._give_back(held)
                return ()
        return held

    def outcomes(
        self, held: Sequence[DirectSession], deadline_at_ms: int, look: Callable[[], None]
    ) -> Generator[Wait, None, bool]:
        """Whether all that these have sent has ended; the core knows what has not. Nothing is held any more.

        `look` is called around each wait, and may raise.
        """
        try:
            look()
            is_plain = True
            while is_plain and (committing := [direct for direct in held if direct.is_committing]):
                yield Wait(deadline_at_ms, direct=committing)
                is_plain = self._take_outcomes(committing)
                look()
        except BaseException:
            self.recover()
            raise
        if is_plain:
            self._leave(held)
        else:
            self._give_back(held)
        return is_plain

    def _take_outcomes(self, committing: Sequence[DirectSession]) -> bool:
        """Whether there was an answer, and each was plain."""
        has_answer = False
        for direct in committing:
            if direct.line.receive_all():
                if not direct.read():
                    return False
                self._take(direct)
                has_answer = True
        return has_answer

    def fetch_ahead(self) -> bool:
        """Send the fetch for the next poll, if it has not left yet; False: the core has to be told that work begins."""
        if self.is_ahead:
            return True
        held = self._enter() if self._lender.direct else []
        if not held or self._hand_over is None or not self._go_on(held, None):
            return False
        self._leave(held)
        return True

    def _go_on(self, held: Sequence[DirectSession], direct: DirectSession | None) -> bool:
        """Take the answer that was read, if there is one, and send the fetch for the next poll if polls send ahead.

        False, and all was given back, if that is not plain or the loan is old: the core sends it then.
        """
        application = self._application
        if self._hand_over is None:
            if direct is not None:
                self._take_whole(direct)
            return True
        with application.guard:
            is_known_here_only = not application.has_unposted
            acknowledgements = application.gather()  # first: the answer is held as a whole if nothing else is held
            if direct is not None:
                self._take_whole(direct)
            may_send = is_known_here_only and not any(one.is_late or one.line.awaits for one in held)
            is_sent = may_send and self._send(held, acknowledgements)
            if not is_sent:
                self._give_back(held)
                if acknowledgements:
                    self._hand_over(acknowledgements)
            application.posted()
        return is_sent

    def end(self) -> None:
        """Give everything back: the core gets to know which acknowledgements are in flight. Called outside of polls."""
        if self._lender.direct:
            self._give_back(self._enter())

    def recover(self) -> None:
        """After an interrupt: what is held is given back."""
        for direct in self._lender.direct.copy().values():
            if direct.is_held:
                if direct.has_read:
                    self._take(direct)
                direct.give_back(self._background.post)  # nothing that follows would wake the core
                self._forget(direct)

    def _enter(self) -> list[DirectSession]:
        """All that are lent, or none of them."""
        lent = self._lender.direct.copy()
        held: list[DirectSession] = []
        for direct in lent.values():
            if direct.enter(self._application.topics, self._post):
                held.append(direct)
            else:
                self._forget(direct)
        if len(held) < len(lent):
            self._give_back(held)
            return []
        return held

    def _send(self, held: Sequence[DirectSession], acknowledgements: Sequence[GatheredAcknowledgements]) -> bool:
        """False if that is not plain; what was sent all the same is known to the core as in flight."""
        by_node = _by_node(held, acknowledgements)
        if by_node is None:
            return False
        for direct in held:
            here = by_node[direct.node_id]
            if direct.line.awaits:
                if here:
                    return False
            elif not direct.fetch(here):
                return False
        return True

    def _read_answer(self, held: Sequence[DirectSession]) -> DirectSession | None:
        """Read the first answer, of each broker in turn; None if there is none, or if it is not plain."""
        self._turn += 1
        for number in range(len(held)):
            direct = held[(self._turn + number) % len(held)]
            if direct.line.receive_all():
                return direct if direct.read() else None
        return None

    def _take_whole(self, direct: DirectSession) -> None:
        """The same as `_take`, and hold its records as one thing if nothing speaks against it."""
        brought = direct.brought
        brought.whole = self._application.whole(brought, direct.node_id, direct.session_id)
        self._take(direct)

    def _take(self, direct: DirectSession) -> None:
        whole = direct.brought.whole
        for output in direct.taken:
            self._application.take(output)
        if whole is not None:
            self._application.take_whole(whole)
        direct.done()

    def _leave(self, held: Sequence[DirectSession]) -> None:
        for direct in held:
            direct.leave(self._background.post)

    def _give_back(self, held: Sequence[DirectSession]) -> None:
        for direct in held:
            direct.give_back(self._post)
            self._forget(direct)

    def _forget(self, direct: DirectSession) -> None:
        self._lender.direct.pop(direct.lend_id, None)

    def _post(self, event: Event) -> None:
        """What follows wakes the core."""
        self._background.post(event, wake=False)


def _by_node(
    held: Sequence[DirectSession], acknowledgements: Sequence[GatheredAcknowledgements]
) -> dict[int, list[GatheredAcknowledgements]] | None:
    """What each of them is to send; None if some belong to none of them."""
    by_node: dict[int, list[GatheredAcknowledgements]] = {direct.node_id: [] for direct in held}
    for gathered in acknowledgements:
        if gathered.node_id not in by_node:
            return None
        by_node[gathered.node_id].append(gathered)
    return by_node
