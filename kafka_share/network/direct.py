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
from kafka_share.native import Slab, read_plain_acknowledge, read_plain_fetch
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
    def answer(self) -> bytes | Slab | None: ...
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
    outcomes: tuple[AcknowledgementOutcome, ...]
    """What has ended by it."""
    parts: Sequence[AcquiredRecords] = ()
    """What was acquired; nothing if it answers a ShareAcknowledge."""
    lock_ms: int = 0
    records: int = 0
    """How many were acquired."""
    record_bytes: int = 0
    """Of their partitions."""
    whole: Any = None
    """What the application holds it as, if that is one thing."""


def ended_well(gathered: GatheredAcknowledgements) -> AcknowledgementOutcome:
    """The broker has taken these."""
    return AcknowledgementOutcome(gathered.partition, (EndedAcknowledgements(gathered.number, gathered.runs),), None)


class DirectSession:
    """See the module's docstring. `native.PlainCalls` uses it, too."""

    def __init__(self, lend: Lend, line: Line, lent: Lent, client_id: str, now_ms: Callable[[], int]) -> None:
        self.line: Line = line
        self.correlation_id: int = lent.correlation_id
        """Of the latest request on this connection."""
        self.node_id: int = lend.node.id
        self.session_id: int = lend.session_id
        self.first_epoch: int = lend.epoch
        self.own: tuple[GatheredAcknowledgements, ...] = lend.acknowledgements
        """What the first request has to carry."""
        self.topics: frozenset[str] = lend.topics
        """The subscription that it was lent under."""
        self.acknowledge_version: int = lent.acknowledge_version
        whose = client_id, lend.group_id, lend.member_id
        self.fetches: Template = fetch_template(lent.fetch_version, *whose, lend.limits)
        self.commits: Template = acknowledge_template(lent.acknowledge_version, *whose)
        self.longest_wait_ms: int = lend.limits[0]
        """Of a fetch at the broker."""
        self.lent_wait_ms: int = lend.limits[0]
        """The same as it was lent with, which is the most."""
        self.places: dict[tuple[bytes, int], tuple[TopicIdPartition, LockGeneration]] = {
            (where.topic_id.bytes, where.partition): (where, locks) for where, locks in lend.partitions
        }
        """What is fetched from, by topic id and number."""
        self.owner: dict[None, object] = {}
        """Whose it is, if it is somebody's."""
        self.is_recalled: bool = False
        self.ends_at_ms: int = lend.ends_at_ms
        self.tells_at_ms: int = lend.ends_at_ms - LENT_MS // 2
        """From then on it tells the core of its progress."""
        self.fetched_at_ms: int | None = None
        self._lend = lend
        self._now_ms = now_ms
        self.tally: Tally = Tally()
        """What was done since the core was told last."""
        late_at_ms = lend.ends_at_ms - LENT_MS + LONGEST_LOAN_MS
        self._late_at_ms = late_at_ms if lent.due_at_ms is None else min(late_at_ms, lent.due_at_ms)
        self._read: Brought | None = None
        """The answer, once it is known to be plain."""
        self._taken: Sequence[ReportOutcomes | Deliver] | None = None

    @property
    def lend_id(self) -> int:
        return self._lend.lend_id

    # ---- whose it is

    @property
    def is_held(self) -> bool:
        """Whether it is the application's at this moment."""
        return self.owner.get(None) is _APPLICATION

    def hold(self) -> bool:
        """A poll begins, on the application's thread; False if it is the core's."""
        return self.owner.setdefault(None, _APPLICATION) is _APPLICATION

    def enter(self, topics: frozenset[str], post: Post) -> bool:
        """The same; False if it is not to be used any more."""
        if not self.hold():
            return False
        is_late = not self.line.awaits and self._now_ms() >= self.ends_at_ms
        if is_late or self.is_recalled or topics != self.topics:
            self.give_back(post)
            return False
        return True

    @property
    def is_out(self) -> bool:
        """Whether it is lent, and has not been asked for by the core; any thread may ask."""
        return not self.is_recalled and self.owner.get(None) is not _CORE

    @property
    def is_late(self) -> bool:
        """Whether it has been lent for so long that no fetch is to be sent ahead."""
        return self.fetched_at_ms is not None and self.fetched_at_ms >= self._late_at_ms

    def leave(self, post: Callable[[SessionReturned | SessionUsed], None]) -> None:
        """The poll has ended; a fetch may be in flight, of which the next poll or the core gets the answer."""
        fetched_at_ms = self.fetched_at_ms
        if fetched_at_ms is not None and self.tells_at_ms <= fetched_at_ms < self._late_at_ms:
            self.ends_at_ms = fetched_at_ms + LENT_MS
            self.tells_at_ms = self.ends_at_ms - LENT_MS // 2
            tally, self.tally = self.tally, Tally()
            post(SessionUsed(self._lend.lend_id, tally, fetched_at_ms))
        del self.owner[None]
        if self.is_recalled and self.hold():
            self.give_back(post)

    def give_back(self, post: Post) -> None:
        """The application is done with it for good; an interrupt inside makes it come twice, which the core knows."""
        post(self._returned())
        self.owner[None] = _CORE

    def recall(self, post: Post) -> bool:
        """The core wants it back, on the network thread; False if a poll has to be woken for it."""
        self.is_recalled = True
        if self.owner.setdefault(None, _CORE) is not _CORE:
            return False
        post(self._returned())
        return True

    def _returned(self) -> SessionReturned:
        flight = self.line.request if self.line.awaits else None
        if isinstance(flight, CarryingFlight):
            flight = flight.listed()
        unsent = self.own if self.has_own else ()
        return SessionReturned(self._lend.lend_id, self.epoch, flight, self.tally, self.fetched_at_ms, unsent)

    @property
    def has_own(self) -> bool:
        """Whether it came with acknowledgements, which the first request has to carry."""
        return bool(self.own) and not (self.line.awaits or self.line.answered > 0)

    @property
    def epoch(self) -> int:
        """Of the share session. Each answer that was dealt with took it on by one; the line counts them."""
        return (self.first_epoch - 1 + self.line.answered) % MAX_EPOCH + 1

    def wait_at_most(self, wait_ms: int) -> None:
        """How long a broker may hold back the fetches that follow, if that is less than what was lent."""
        wait_ms = min(wait_ms, self.lent_wait_ms)
        if wait_ms != self.longest_wait_ms:
            self.fetches = self.fetches.waiting(wait_ms)  # first: after an interrupt it is done again
            self.longest_wait_ms = wait_ms

    # ---- one request

    def fetch(self, acknowledgements: Sequence[GatheredAcknowledgements]) -> bool:
        """Send a fetch that carries these; False if that is not plain, and nothing was sent."""
        if self.has_own:
            acknowledgements = (*self.own, *acknowledgements)
        flight = Flight(tuple(acknowledgements), self._now_ms(), self.longest_wait_ms)
        return self._send_gathered(self.fetches, flight)

    def acknowledge(self, acknowledgements: Sequence[GatheredAcknowledgements], retry_until_ms: int) -> bool:
        """Send these by themselves. The core may try them again until then if the answer is not plain."""
        if self.line.awaits or self.has_own:
            return False
        flight = Flight(tuple(acknowledgements), self._now_ms(), 0, is_fetch=False, retry_until_ms=retry_until_ms)
        return self._send_gathered(self.commits, flight)

    def _send_gathered(self, template: Template, flight: Flight) -> bool:
        pieces = self._pieces(flight.acknowledgements)
        frame = None if pieces is None else template.frame(self.next_id, self.epoch, pieces)
        if frame is None:
            return False
        self._transmit(frame, flight, sum([count_of(g.runs) for g in flight.acknowledgements]))
        return True

    def _pieces(self, acknowledgements: Sequence[GatheredAcknowledgements]) -> Acknowledged | None:
        """What is to be encoded; None if there is more to do with one of these than to send it."""
        session_id, node_id = self.session_id, self.node_id
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

    @property
    def next_id(self) -> int:
        """The correlation id of the next request."""
        return (self.correlation_id + 1) & 0x7FFFFFFF

    def _transmit(self, frame: bytes, flight: Flight, acknowledged: int) -> None:
        self._read = self._taken = None
        self.correlation_id = self.next_id
        if log.isEnabledFor(logging.DEBUG):
            name = "ShareFetch" if flight.is_fetch else "ShareAcknowledge"
            log.debug("sent api=%s by the application's thread node=%d bytes=%d", name, self.node_id, len(frame))
        self.line.send(frame, flight)
        tally = self.tally
        tally.requests += 1
        tally.request_bytes += len(frame)
        if acknowledged:
            tally.acknowledging += 1
            tally.acknowledged += acknowledged

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

    def _read_acknowledge(self, flight: Flight | CarryingFlight, answer: bytes | Slab) -> Brought | None:
        """What it means, in the order of the answer; None if it is not plain."""
        read = read_plain_acknowledge(answer, self.correlation_id, self.acknowledge_version)
        acknowledgements = flight.acknowledgements
        if read is None or len(read[1]) != len(acknowledgements):
            return None
        lock_ms, named = read
        lock = (lock_ms, flight.sent_at_ms) if lock_ms > 0 else (None, None)
        left = {g.partition[1:]: g for g in acknowledgements}
        outcomes: list[AcknowledgementOutcome] = []
        for topic_id_and_number in named:
            place = self.places.get(topic_id_and_number)
            g = None if place is None else left.pop(place[0][1:], None)
            if place is None or g is None or g.partition != place[0]:
                return None
            ended = (EndedAcknowledgements(g.number, g.runs),)
            outcomes.append(AcknowledgementOutcome(g.partition, ended, None, *lock))
        return Brought(flight.sent_at_ms, tuple(outcomes))

    def _read_fetch(self, flight: Flight | CarryingFlight, answer: bytes | Slab) -> Brought | None:
        """Outcomes, and what was acquired, which is something; None if it is not plain."""
        read = read_plain_fetch(
            answer, self.correlation_id, self.places, MAX_ACQUIRED_OFFSETS, AcquiredRange, AcquiredRecords
        )
        if read is None or not read[1]:
            return None
        lock_ms, parts, named, records, record_bytes = read
        acknowledgements = flight.acknowledgements
        if not named.issuperset([g.partition[1:] for g in acknowledgements]):
            return None
        outcomes = tuple(map(ended_well, acknowledgements))
        return Brought(flight.sent_at_ms, outcomes, parts, lock_ms, records, record_bytes)

    @property
    def has_read(self) -> bool:
        """Whether there is an answer that was read, and is not `done` with."""
        return self._read is not None and self.line.awaits

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
            taken: list[ReportOutcomes | Deliver] = [ReportOutcomes(read.outcomes)] if read.outcomes else []
            if read.parts and read.whole is None:
                fetched = tuple(
                    FetchedPartition(where, self.node_id, self.session_id, records, acquired, locks)
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
        self._read = self._taken = None
        if log.isEnabledFor(logging.DEBUG):
            log.debug("received by the application's thread node=%d bytes=%d", self.node_id, len(answer))
        tally, now_ms = self.tally, self._now_ms()
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
        self.fetched_at_ms = now_ms
