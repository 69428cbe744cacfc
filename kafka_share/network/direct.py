"""A share session that was lent to the application's thread: it sends and receives on the connection by itself.

Made by `connection.Connection` for a `Lend` of the core, put into the mailbox, and used by `application.direct`. Two
threads share it, and at each moment it is one's: `enter` makes it the application's for one poll, `recall` the network
thread's for good, each by one store that an interrupt cannot divide. What is not plain goes back with the session, the
unread answer included, and the core reads it: here nobody judges.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import attrs

from kafka_share.core.events import (
    AcknowledgementOutcome,
    Deliver,
    EndedAcknowledgements,
    FetchedBatch,
    FetchedPartition,
    Flight,
    GatheredAcknowledgements,
    Lend,
    ReportOutcomes,
    SessionReturned,
    SessionUsed,
    Tally,
)
from kafka_share.core.fetching.acknowledgements import PLAIN_TYPES
from kafka_share.core.fetching.answers import MAX_ACQUIRED_OFFSETS
from kafka_share.core.fetching.lending import LENT_MS, LONGEST_LOAN_MS
from kafka_share.core.fetching.offsets import count_of
from kafka_share.core.fetching.share_session import encode_runs
from kafka_share.locks import LockGeneration
from kafka_share.native import read_plain_acknowledge, read_plain_fetch
from kafka_share.network.framing import LENGTH_BYTES
from kafka_share.network.wire import Lent
from kafka_share.protocol.direct_fetch import Acknowledged, Template, acknowledge_template, fetch_template
from kafka_share.protocol.share_values import MAX_EPOCH, AcquiredRange
from kafka_share.records import TopicIdPartition

log: logging.Logger = logging.getLogger(__name__)

Post = Callable[[SessionReturned], None]

_APPLICATION: Final = object()
_CORE: Final = object()


class Line(Protocol):
    """What is needed of a socket: `native.DirectLine`, and what simulates one."""

    @property
    def awaits(self) -> bool: ...
    @property
    def answered(self) -> int: ...
    @property
    def request(self) -> Any: ...
    @property
    def answer(self) -> bytes | None: ...
    @property
    def unsent(self) -> bytes: ...
    @property
    def leftover(self) -> bytes: ...
    def send(self, frame: bytes, request: object) -> None: ...
    def receive_all(self) -> bool: ...
    def done(self) -> None: ...
    def shut(self) -> None: ...
    def close(self) -> None: ...


class AcquiredRecords(NamedTuple):
    """What one answer brought for one partition."""

    partition: TopicIdPartition
    locks: LockGeneration
    records: memoryview
    acquired: tuple[AcquiredRange, ...]


class Carried(Protocol):
    """The acknowledgements of an answer that the application holds as a whole (`application.whole_answers`)."""

    @property
    def count(self) -> int: ...
    @property
    def is_filed(self) -> bool: ...
    @property
    def places(self) -> Sequence[tuple[Any, ...]]: ...
    def gathered(self) -> tuple[GatheredAcknowledgements, ...]: ...


@attrs.define(eq=False)
class CarryingFlight:
    """A `Flight` that carries such: they are listed for whoever asks."""

    carried: Carried
    sent_at_ms: int
    max_wait_ms: int
    is_fetch: bool = True
    retry_until_ms: int = 0

    @property
    def acknowledgements(self) -> tuple[GatheredAcknowledgements, ...]:
        return self.carried.gathered()

    def listed(self) -> Flight:
        times = self.sent_at_ms, self.max_wait_ms
        return Flight(self.acknowledgements, *times, is_fetch=self.is_fetch, retry_until_ms=self.retry_until_ms)


@attrs.define(eq=False)
class Brought:
    """A plain answer, and what it means."""

    sent_at_ms: int
    """When its request left."""
    parts: Sequence[AcquiredRecords] = ()
    """What was acquired; nothing if it answers a ShareAcknowledge."""
    lock_ms: int = 0
    records: int = 0
    """How many were acquired."""
    record_bytes: int = 0
    """Of their partitions."""
    carried: Carried | None = None
    """What has ended by it, if that was an answer held as a whole; else `outcomes` are all."""
    known_outcomes: tuple[AcknowledgementOutcome, ...] | None = ()
    whole: Any = None
    """What the application holds it as, if that is one thing."""

    def outcomes(self) -> tuple[AcknowledgementOutcome, ...]:
        """What has ended by it; the same objects each time."""
        if self.known_outcomes is None:
            assert self.carried is not None
            self.known_outcomes = tuple(map(_ended_well, self.carried.gathered()))
        return self.known_outcomes


def _ended_well(gathered: GatheredAcknowledgements) -> AcknowledgementOutcome:
    return AcknowledgementOutcome(gathered.partition, (EndedAcknowledgements(gathered.number, gathered.runs),), None)


class DirectSession:
    """See the module's docstring."""

    def __init__(self, lend: Lend, line: Line, lent: Lent, client_id: str, now_ms: Callable[[], int]) -> None:
        self.line: Line = line
        self.correlation_id: int = lent.correlation_id
        """Of the latest request on this connection."""
        self._lend = lend
        self._lent = lent
        whose = client_id, lend.group_id, lend.member_id
        self._fetches = fetch_template(lent.fetch_version, *whose, lend.limits)
        self._commits = acknowledge_template(lent.acknowledge_version, *whose)
        self._now_ms = now_ms
        self._owner: dict[None, object] = {}
        self._is_recalled = False
        self._tally = Tally()
        self._fetched_at_ms: int | None = None
        self._ends_at_ms = lend.ends_at_ms
        self._late_at_ms = lend.ends_at_ms - LENT_MS + LONGEST_LOAN_MS
        self._read: Brought | None = None
        """The answer, once it is known to be plain."""
        self._taken: Sequence[ReportOutcomes | Deliver] | None = None
        self._places = {(w.topic_id.bytes, w.partition): (w, locks) for w, locks in lend.partitions}

    @property
    def lend_id(self) -> int:
        return self._lend.lend_id

    @property
    def node_id(self) -> int:
        return self._lend.node.id

    # ---- whose it is

    @property
    def is_held(self) -> bool:
        """Whether it is the application's at this moment."""
        return self._owner.get(None) is _APPLICATION

    @property
    def is_recalled(self) -> bool:
        return self._is_recalled

    def enter(self, topics: frozenset[str], post: Post) -> bool:
        """A poll begins, on the application's thread; False if it is not to be used any more."""
        if self._owner.setdefault(None, _APPLICATION) is not _APPLICATION:
            return False
        is_late = not self.line.awaits and self._now_ms() >= self._ends_at_ms
        if is_late or self._is_recalled or topics != self._lend.topics:
            self.give_back(post)
            return False
        return True

    @property
    def is_late(self) -> bool:
        """Whether it has been lent for so long that no fetch is to be sent ahead."""
        return self._fetched_at_ms is not None and self._fetched_at_ms >= self._late_at_ms

    def leave(self, post: Callable[[SessionReturned | SessionUsed], None]) -> None:
        """The poll has ended; a fetch may be in flight, of which the next poll or the core gets the answer."""
        fetched_at_ms = self._fetched_at_ms
        if fetched_at_ms is not None and self._ends_at_ms - LENT_MS // 2 <= fetched_at_ms < self._late_at_ms:
            self._ends_at_ms = fetched_at_ms + LENT_MS
            tally, self._tally = self._tally, Tally()
            post(SessionUsed(self._lend.lend_id, tally, fetched_at_ms))
        del self._owner[None]
        if self._is_recalled and self._owner.setdefault(None, _APPLICATION) is _APPLICATION:
            self.give_back(post)

    def give_back(self, post: Post) -> None:
        """The application is done with it for good; an interrupt inside makes it come twice, which the core knows."""
        post(self._returned())
        self._owner[None] = _CORE

    def recall(self, post: Post) -> bool:
        """The core wants it back, on the network thread; False if a poll has to be woken for it."""
        self._is_recalled = True
        if self._owner.setdefault(None, _CORE) is not _CORE:
            return False
        post(self._returned())
        return True

    def _returned(self) -> SessionReturned:
        flight = self.line.request if self.line.awaits else None
        if isinstance(flight, CarryingFlight):
            flight = flight.listed()
        unsent = () if self._has_sent else self._lend.acknowledgements
        return SessionReturned(self._lend.lend_id, self._epoch(), flight, self._tally, self._fetched_at_ms, unsent)

    @property
    def _has_sent(self) -> bool:
        return self.line.awaits or self.line.answered > 0

    def _epoch(self) -> int:
        """Each answer that was dealt with took it on by one; the line counts them."""
        return (self._lend.epoch - 1 + self.line.answered) % MAX_EPOCH + 1

    # ---- one request

    def fetch(self, acknowledgements: Sequence[GatheredAcknowledgements]) -> bool:
        """Send a fetch that carries these; False if that is not plain, and nothing was sent."""
        if self._lend.acknowledgements and not self._has_sent:
            acknowledgements = (*self._lend.acknowledgements, *acknowledgements)
        flight = Flight(tuple(acknowledgements), self._now_ms(), self._lend.limits[0])
        return self._send_gathered(self._fetches, flight)

    def fetch_with(self, carried: Carried, session_id: int, pieces: Acknowledged) -> bool:
        """The same with those of an answer that is held as a whole, which `pieces` are."""
        if session_id != self._lend.session_id or (self._lend.acknowledgements and not self._has_sent):
            return False
        flight = CarryingFlight(carried, self._now_ms(), self._lend.limits[0])
        return self._send(self._fetches, flight, pieces, carried.count)

    def acknowledge_with(self, carried: Carried, session_id: int, pieces: Acknowledged, retry_until_ms: int) -> bool:
        """`acknowledge` with those of an answer that is held as a whole, which `pieces` are."""
        has_own = self._lend.acknowledgements and not self._has_sent
        if self.line.awaits or session_id != self._lend.session_id or has_own:
            return False
        flight = CarryingFlight(carried, self._now_ms(), 0, is_fetch=False, retry_until_ms=retry_until_ms)
        return self._send(self._commits, flight, pieces, carried.count)

    def acknowledge(self, acknowledgements: Sequence[GatheredAcknowledgements], retry_until_ms: int) -> bool:
        """Send these by themselves. The core may try them again until then if the answer is not plain."""
        if self.line.awaits or (self._lend.acknowledgements and not self._has_sent):
            return False
        flight = Flight(tuple(acknowledgements), self._now_ms(), 0, is_fetch=False, retry_until_ms=retry_until_ms)
        return self._send_gathered(self._commits, flight)

    def _send_gathered(self, template: Template, flight: Flight) -> bool:
        pieces = self._pieces(flight.acknowledgements)
        return pieces is not None and self._send(
            template, flight, pieces, sum([count_of(g.runs) for g in flight.acknowledgements])
        )

    def _pieces(self, acknowledgements: Sequence[GatheredAcknowledgements]) -> Acknowledged | None:
        """What is to be encoded; None if there is more to do with one of these than to send it."""
        session_id, node_id = self._lend.session_id, self._lend.node.id
        pieces: list[Any] = []
        for gathered in acknowledgements:
            runs = gathered.runs
            if gathered.session_id != session_id or gathered.node_id != node_id or gathered.is_late or gathered.is_own:
                return None
            for _, _, kind in runs:
                if kind not in PLAIN_TYPES:
                    return None
            topic_id, _, partition = gathered.partition
            pieces.append((topic_id, partition, encode_runs(runs)))
        if len(pieces) > 1 and len({piece[:2] for piece in pieces}) < len(pieces):
            return None
        return pieces

    def _send(
        self,
        template: Template,
        flight: Flight | CarryingFlight,
        pieces: Acknowledged,
        acknowledged: int,
    ) -> bool:
        correlation_id = (self.correlation_id + 1) & 0x7FFFFFFF
        frame = template.frame(correlation_id, self._epoch(), pieces)
        if frame is None:
            return False
        self._read = self._taken = None
        self.correlation_id = correlation_id
        if log.isEnabledFor(logging.DEBUG):
            name = "ShareFetch" if flight.is_fetch else "ShareAcknowledge"
            node_id = self._lend.node.id
            log.debug("sent api=%s by the application's thread node=%d bytes=%d", name, node_id, len(frame))
        self.line.send(frame, flight)
        tally = self._tally
        tally.requests += 1
        tally.request_bytes += len(frame)
        if pieces:
            tally.acknowledging += 1
            tally.acknowledged += acknowledged
        return True

    @property
    def is_committing(self) -> bool:
        """Whether what `acknowledge` has sent awaits its answer, or has one that is not dealt with."""
        flight: Flight | CarryingFlight | None = self.line.request
        return flight is not None and not flight.is_fetch

    # ---- its answer

    def read(self) -> bool:
        """Read the answer, which is there; False if it is not plain."""
        flight, answer = self.line.request, self.line.answer
        if answer is None:
            return False
        self._read = self._read_fetch(flight, answer) if flight.is_fetch else self._read_acknowledge(flight, answer)
        return self._read is not None

    def _read_acknowledge(self, flight: Flight | CarryingFlight, answer: bytes) -> Brought | None:
        """What it means, in the order of the answer; None if it is not plain."""
        read = read_plain_acknowledge(answer, self.correlation_id, self._lent.acknowledge_version)
        acknowledgements = flight.acknowledgements
        if read is None or len(read[1]) != len(acknowledgements):
            return None
        lock_ms, named = read
        lock = (lock_ms, flight.sent_at_ms) if lock_ms > 0 else (None, None)
        left = {g.partition[1:]: g for g in acknowledgements}
        outcomes: list[AcknowledgementOutcome] = []
        for topic_id_and_number in named:
            place = self._places.get(topic_id_and_number)
            g = None if place is None else left.pop(place[0][1:], None)
            if place is None or g is None or g.partition != place[0]:
                return None
            ended = (EndedAcknowledgements(g.number, g.runs),)
            outcomes.append(AcknowledgementOutcome(g.partition, ended, None, *lock))
        carried = flight.carried if isinstance(flight, CarryingFlight) else None
        return Brought(flight.sent_at_ms, carried=carried, known_outcomes=tuple(outcomes))

    def _read_fetch(self, flight: Flight | CarryingFlight, answer: bytes) -> Brought | None:
        """Outcomes, and what was acquired, which is something; None if it is not plain."""
        read = read_plain_fetch(
            answer, self.correlation_id, self._places, MAX_ACQUIRED_OFFSETS, AcquiredRange, AcquiredRecords
        )
        if read is None or not read[1]:
            return None
        lock_ms, parts, named, records, record_bytes = read
        brought = Brought(flight.sent_at_ms, parts, lock_ms, records, record_bytes)
        if isinstance(flight, CarryingFlight):
            brought.carried, brought.known_outcomes = flight.carried, None
            ended = flight.carried.places
        else:
            ended = [g.partition[1:] for g in flight.acknowledgements]
            brought.known_outcomes = tuple(map(_ended_well, flight.acknowledgements))
        return brought if named.issuperset(ended) else None

    @property
    def has_read(self) -> bool:
        """Whether there is an answer that was read, and is not `done` with."""
        return self._read is not None and self.line.awaits

    @property
    def node_and_session_id(self) -> tuple[int, int]:
        """Where records were acquired that an answer brings."""
        return self._lend.node.id, self._lend.session_id

    @property
    def brought(self) -> Brought:
        """What the answer that was read has brought."""
        assert self._read is not None
        return self._read

    @property
    def taken(self) -> Sequence[ReportOutcomes | Deliver]:
        """What the answer that was read brings the application; the same objects until `done`."""
        if not self.has_read:
            return ()
        read = self.brought
        if self._taken is None:
            outcomes = read.outcomes()
            taken: list[ReportOutcomes | Deliver] = [ReportOutcomes(outcomes)] if outcomes else []
            if read.parts and read.whole is None:
                node_id, session_id = self.node_and_session_id
                fetched = tuple(
                    FetchedPartition(where, node_id, session_id, records, acquired, locks)
                    for where, locks, records, acquired in read.parts
                )
                taken.append(Deliver(FetchedBatch(0, fetched, read.sent_at_ms, read.lock_ms)))
            self._taken = taken
        return self._taken

    def done(self) -> None:
        """The application has taken all of it. One step of the line says so, and nothing is in between."""
        read, answer = self.brought, self.line.answer
        assert answer is not None
        self.line.done()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("received by the application's thread node=%d bytes=%d", self._lend.node.id, len(answer))
        tally, now_ms = self._tally, self._now_ms()
        took_ms = now_ms - read.sent_at_ms
        tally.response_bytes += len(answer) + LENGTH_BYTES
        if not read.parts:
            tally.commits += 1
            tally.commit_latency_ms += took_ms
            if took_ms > tally.highest_commit_latency_ms:
                tally.highest_commit_latency_ms = took_ms
            return
        tally.fetches += 1
        tally.latency_ms += took_ms
        if took_ms > tally.highest_latency_ms:
            tally.highest_latency_ms = took_ms
        tally.records += read.records
        tally.record_bytes += read.record_bytes
        self._fetched_at_ms = now_ms
