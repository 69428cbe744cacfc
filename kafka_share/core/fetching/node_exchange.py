"""The conversation with one broker about records: its share session, the one open request, and what its answers do.

Owned by `fetching.fetcher`, which decides when something is sent. ShareFetch and ShareAcknowledge of one session carry
consecutive epochs, so there is never more than one open request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from kafka_share.core.context import CoreContext
from kafka_share.core.events import Channel, FetchedBatch, FetchedPartition, Flight, Resume, SessionReturned, Tally
from kafka_share.core.fetching.acknowledgements import Acknowledgements, Unit, Units
from kafka_share.core.fetching.answers import Find, PartitionAnswer, node_endpoints, read_acknowledge, read_fetch
from kafka_share.core.fetching.offsets import AcknowledgementRun, count_of
from kafka_share.core.fetching.pacing import Pacing
from kafka_share.core.fetching.reactions import (
    SESSION_ENDS,
    Reaction,
    ReportedErrors,
    partition_reaction,
    top_level_reaction,
)
from kafka_share.core.fetching.share_session import ShareSession, Wanted, has_renewal, key_of
from kafka_share.core.metadata import Metadata
from kafka_share.errors import (
    BrokerError,
    InvalidRecordStateError,
    KafkaShareError,
    NotLeaderOrFollowerError,
    OutcomeUnknownError,
    RemoteProtocolError,
    UnsupportedVersionError,
    error_for_code,
)
from kafka_share.protocol.share_values import INITIAL_EPOCH
from kafka_share.records import Node, TopicIdPartition

if TYPE_CHECKING:
    from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
    from kafka_share.protocol.share_fetch import ShareFetchResponse

RENEW_VERSION: Final = 2
"""Of ShareFetch and ShareAcknowledge: renewals and record_limit (Kafka 4.2)."""

_END_OF_TIME_MS: Final = 1 << 62


@attrs.frozen
class OpenRequest:
    units: Units
    sent_at_ms: int
    is_real_fetch: bool
    is_bare: bool = False
    """A fetch of records that carries no acknowledgement and no change of the session."""
    max_wait_ms: int = 0


class NodeExchange:
    """`on_fetched(batch, now_ms)` is called with every answer that acquired something."""

    def __init__(
        self,
        context: CoreContext,
        node: Node,
        session: ShareSession,
        metadata: Metadata,
        acknowledgements: Acknowledgements,
        batch_ids: Iterator[int],
        on_fetched: Callable[[FetchedBatch, int], None],
    ) -> None:
        self.node = node
        self.session = session
        self._config = context.config
        self._min_version = RENEW_VERSION if context.config.has_record_limit else 0
        self._requests = context.requests
        self._outputs = context.outputs
        self._troubles = context.troubles
        self._measurements = context.measurements
        self._metadata = metadata
        self._acknowledgements = acknowledgements
        self._batch_ids = batch_ids
        self._on_fetched = on_fetched
        self._pacing = Pacing(context)
        self._reported = ReportedErrors()
        self._open: OpenRequest | None = None
        self.is_lent: bool = False
        """The session is the application's thread's now (`fetching.lending`)."""
        self._is_lost = False
        """The connection broke while the session was lent."""

    @property
    def is_busy(self) -> bool:
        return self._open is not None or self.is_lent

    @property
    def is_fetching(self) -> bool:
        """Whether a fetch that may bring records awaits its answer."""
        return self._open is not None and self._open.is_real_fetch

    @property
    def is_asked(self) -> bool:
        """Whether the broker has been asked for records, or is asked by the application's thread."""
        return self.is_lent or self.is_fetching

    def ready_at_ms(self) -> int:
        """From when on a request may be sent, if none is open."""
        return max(self._requests.ready_at_ms(self.node.id, Channel.DATA), self._pacing.ready_at_ms)

    def bare_fetch_ready_at_ms(self) -> int:
        """The same for a fetch without acknowledgements and changes."""
        return max(self._requests.ready_at_ms(self.node.id, Channel.DATA), self._pacing.bare_fetch_ready_at_ms)

    # ---- sending

    def fetch(self, wanted: Wanted, *, max_records: int, max_wait_ms: int, now_ms: int) -> None:
        """Send a ShareFetch with the differences and, in an open session, all acknowledgements that may go."""
        assert self._open is None, "one request at a time"
        session = self.session
        units = self._acknowledgements.take(self.node.id, now_ms) if session.epoch > INITIAL_EPOCH else {}
        is_bare = max_records > 0 and not units and not session.differs_from(wanted)
        request = session.fetch(wanted, self._runs(units, now_ms), max_records=max_records, max_wait_ms=max_wait_ms)
        self._open = OpenRequest(units, now_ms, max_records > 0, is_bare, max_wait_ms)
        timeout_ms = self._fetch_timeout_ms(max_wait_ms)
        self._requests.send(
            self.node, Channel.DATA, request, timeout_ms, self._fetched, self._fetch_failed, self._min_version
        )

    def _fetch_timeout_ms(self, max_wait_ms: int) -> int:
        timeout_ms = self._config.request_timeout_ms
        # The broker may hold the answer back for max_wait_ms.
        return timeout_ms + max_wait_ms if timeout_ms <= max_wait_ms else timeout_ms

    def acknowledge(self, *, is_final: bool, timeout_ms: int, now_ms: int) -> None:
        """Send all acknowledgements that may go as ShareAcknowledge; a final one closes the session."""
        assert self._open is None, "one request at a time"
        # There is no later request for what waits to be tried again: a final one takes it along.
        units = self._acknowledgements.take(self.node.id, _END_OF_TIME_MS if is_final else now_ms)
        runs = self._runs(units, now_ms)
        epoch = self.session.epoch
        request = self.session.acknowledge(runs, is_final=is_final)
        self._open = OpenRequest(units, now_ms, is_real_fetch=False)

        def failed(error: KafkaShareError, now_ms: int) -> None:
            if isinstance(error, UnsupportedVersionError) and has_renewal(runs):
                self.session.epoch = epoch  # nothing was sent
                self._renewals_unsupported(error, now_ms)
            else:
                self._failed(error, now_ms)

        min_version = RENEW_VERSION if request.is_renew_ack else 0
        self._requests.send(self.node, Channel.DATA, request, timeout_ms, self._acknowledged, failed, min_version)

    def _runs(self, units: Units, now_ms: int) -> dict[TopicIdPartition, list[AcknowledgementRun]]:
        """What a request acknowledges, by partition; counts it."""
        runs: dict[TopicIdPartition, list[AcknowledgementRun]] = {}
        count = 0
        for where, unit_list in units.items():
            runs[where] = of_one = [*unit_list[0].gathered.runs]
            for unit in unit_list[1:]:
                of_one += unit.gathered.runs
            count += count_of(of_one)
        self._measurements.acknowledged(count, now_ms)
        return runs

    # ---- the session that was lent

    def used(self, tally: Tally, now_ms: int) -> None:
        """What the application's thread has done with the session."""
        self._measurements.fetched_directly(self.node.id, tally, now_ms)

    def take_back(self, event: SessionReturned, now_ms: int) -> None:
        """Go on where the application's thread has come to; what it has sent is an open request from now on."""
        self.is_lent = False
        self.session.epoch = event.epoch
        self.used(event.tally, now_ms)
        if event.flight is None:
            self._outputs.add(Resume(self.node, None))  # where nothing was lent it changes nothing
            if self._is_lost:
                self.reset()
        else:
            self._adopt(event.flight)
        self._is_lost = False

    def _adopt(self, flight: Flight) -> None:
        units = self._acknowledgements.adopt(flight.acknowledgements, flight.retry_until_ms)
        is_fetch, sent_at_ms = flight.is_fetch, flight.sent_at_ms
        self._open = OpenRequest(units, sent_at_ms, is_fetch, is_fetch and not units, flight.max_wait_ms)
        if is_fetch:
            send_id = self._requests.adopt(self.node, Channel.DATA, self._fetched, self._fetch_failed)
            timeout_ms = self._fetch_timeout_ms(flight.max_wait_ms)
        else:
            send_id = self._requests.adopt(self.node, Channel.DATA, self._acknowledged, self._failed)
            timeout_ms = self._config.request_timeout_ms
        self._outputs.add(Resume(self.node, send_id, sent_at_ms, timeout_ms, is_fetch))

    # ---- failures

    def _renewals_unsupported(self, error: KafkaShareError, now_ms: int) -> None:
        """The broker is too old for renewals: those fail, and the rest goes without them."""
        for units in self._take_back().values():
            renewals, finals = self._acknowledgements.split_renewals(units)
            if renewals:
                self._acknowledgements.resolve(renewals, error)
            self._acknowledgements.give_back(finals)
        self._acknowledgements.flush(now_ms)

    def _fetch_failed(self, error: KafkaShareError, now_ms: int) -> None:
        if isinstance(error, UnsupportedVersionError) and self._reported.new_whole(error):
            self._raise(error, now_ms)
        self._failed(error, now_ms)

    def _failed(self, error: KafkaShareError, now_ms: int) -> None:
        """No answer: whether the broker did its part is not known, and the session has ended."""
        if isinstance(error, UnsupportedVersionError):
            reason: KafkaShareError = error
        else:
            reason = OutcomeUnknownError(
                f"No answer to an acknowledgement from {self.node}: it may or may not have been applied, "
                f"and the records may be delivered again ({error})"
            )
        self._end_all(self._take_back(), reason)
        self._acknowledgements.flush(now_ms)
        self.reset()
        if isinstance(error, UnsupportedVersionError):
            self._pacing.failed(now_ms)  # the connection is good, so `Requests` would not hold back
        self._metadata.request_update()

    def connection_lost(self) -> None:
        """An idle connection broke, and the share session with it."""
        if self.is_lent:
            self._is_lost = True
        elif self._open is None:
            self.reset()

    def leave(self) -> None:
        """The node has left the cluster."""
        self._troubles.end(self)
        self.reset()

    def reset(self) -> None:
        if self.session.is_open:
            self._outputs.note("session-reset", node_id=self.node.id)
        self.session.reset()

    def abandon(self, error: KafkaShareError) -> None:
        """Time is up: end what is open without its answer."""
        if self._open is not None:
            self._end_all(self._take_back(), error)

    def _take_back(self) -> Units:
        return self._close_request().units

    def _close_request(self) -> OpenRequest:
        request, self._open = self._open, None
        assert request is not None, "an answer without a question"
        return request

    def _end_all(self, units: Units, error: KafkaShareError) -> None:
        for unit_list in units.values():
            self._acknowledgements.resolve(unit_list, error)

    # ---- answers

    def _acknowledged(self, response: ShareAcknowledgeResponse, now_ms: int) -> None:
        request = self._close_request()
        error = error_for_code(response.error_code, response.error_message)
        if error is not None:
            self._refused(error, request.units, now_ms)
            return
        self.session.advance()
        self._pacing.succeeded()
        lock_ms = response.acquisition_lock_timeout_ms
        new_lock = (request.sent_at_ms, lock_ms) if lock_ms > 0 else None
        endpoints = node_endpoints(response)
        units = request.units
        for answer in read_acknowledge(response, _finder(units)):
            ended = units.pop(answer.where)
            self._learn_leader(answer, endpoints)
            if self.session.epoch < 0:  # closing: no second try
                self._acknowledgements.resolve(ended, answer.acknowledge_error)
            else:
                self._acknowledgements.resolve_or_retry(ended, answer.acknowledge_error, new_lock, now_ms)
        self._resolve_missing(units)
        self._acknowledgements.flush(now_ms)

    def _fetched(self, response: ShareFetchResponse, now_ms: int) -> None:
        request = self._close_request()
        took_ms = now_ms - request.sent_at_ms
        self._measurements.fetch_answered(took_ms, response.throttle_time_ms, now_ms)
        error = error_for_code(response.error_code, response.error_message) if response.error_code else None
        if error is not None:
            self._refused(error, request.units, now_ms)
            return
        self.session.advance()
        answers = read_fetch(response, _finder(request.units, self.session))
        self._resolve_riding(answers, request.units, now_ms)
        self._take_fetch_errors(answers, node_endpoints(response), now_ms)
        acquired: list[FetchedPartition] = []
        has_errors = False
        size = records = 0
        for answer in answers:
            has_errors |= answer.fetch_error is not None
            if answer.acquired:
                acquired.append(self._acquired(answer))
                size += len(answer.records)
                records += count_of(answer.acquired)
        self._pacing.fetched(
            has_acquired=bool(acquired),
            has_errors=has_errors,
            is_bare=request.is_bare,
            took_ms=took_ms,
            max_wait_ms=request.max_wait_ms,
            now_ms=now_ms,
        )
        if acquired:
            self._measurements.acquired(size, records, now_ms)
            lock_ms = max(0, response.acquisition_lock_timeout_ms)
            batch = FetchedBatch(next(self._batch_ids), tuple(acquired), request.sent_at_ms, lock_ms)
            self._on_fetched(batch, now_ms)

    def _refused(self, error: BrokerError, units: Units, now_ms: int) -> None:
        """The whole request met an error."""
        self._end_all(units, error)
        self._acknowledgements.flush(now_ms)
        if isinstance(error, SESSION_ENDS):
            self.reset()
        else:
            # The broker may not have advanced; if so, its next answer shows it, and the session begins anew.
            self.session.advance()
        self._pacing.failed(now_ms)
        reaction = top_level_reaction(error)
        if reaction is Reaction.REFRESH:
            self._metadata.request_update()
        elif reaction is Reaction.RAISE and self._reported.new_whole(error):
            self._raise(error, now_ms)

    def _raise(self, error: BrokerError, now_ms: int) -> None:
        """It is raised until the node has answered without an error."""
        self._troubles.begin(self, error, now_ms)
        self._outputs.raise_error(error)

    def _resolve_riding(self, answers: list[PartitionAnswer], units: Units, now_ms: int) -> None:
        """End the acknowledgements that rode on the fetch; they are never tried again."""
        if not units:
            return
        for answer in answers:
            ended = units.pop(answer.where, None)
            if ended is not None:
                self._acknowledgements.resolve(ended, answer.acknowledge_error)
        if units:
            self._resolve_missing(units)
        self._acknowledgements.flush(now_ms)

    def _take_fetch_errors(self, answers: list[PartitionAnswer], endpoints: list[Node], now_ms: int) -> None:
        to_raise: dict[TopicIdPartition, tuple[int, str | None]] = {}
        for answer in answers:
            if answer.new_leader is not None:
                self._learn_leader(answer, endpoints)
            if answer.fetch_error is not None:
                reaction = partition_reaction(answer.fetch_error)
                if reaction is Reaction.REFRESH and answer.new_leader is None:
                    self._metadata.request_update()
                elif reaction is Reaction.RAISE:
                    to_raise[answer.where] = (answer.fetch_error.code, answer.fetch_message)
            if answer.has_impossible_ranges:
                self._outputs.raise_error(
                    RemoteProtocolError(
                        f"{self.node} named acquired offsets of {answer.where} that cannot be; they are left out"
                    )
                )
        if to_raise or self._reported.has_any:
            for error in self._reported.take(to_raise):
                self._raise(error, now_ms)
        if not to_raise and not self._troubles.is_empty:
            self._troubles.end(self)

    def _learn_leader(self, answer: PartitionAnswer, endpoints: list[Node]) -> None:
        leader, where = answer.new_leader, answer.where
        if leader is None:
            return
        if not self._metadata.leader_moved(where.topic_id, where.partition, leader.node_id, leader.epoch, endpoints):
            self._metadata.request_update()

    def _acquired(self, answer: PartitionAnswer) -> FetchedPartition:
        locks = self.session.locks_of(answer.where)
        return FetchedPartition(
            answer.where, self.node.id, self.session.session_id, answer.records, answer.acquired, locks
        )

    def _resolve_missing(self, units: Units) -> None:
        for where, unit_list in units.items():
            error = InvalidRecordStateError(f"the answer of {self.node} has no result for {where}")
            self._acknowledgements.resolve(unit_list, error)

    # ---- queued acknowledgements that can never be sent

    def lose_moved(self) -> None:
        """Partitions that another node leads now: their new leader does not know our locks."""
        for where in self.session.locked_partitions:
            if self._leader_elsewhere(where):
                self.session.lose_locks(where)

    def _leader_elsewhere(self, where: TopicIdPartition) -> bool:
        leader = self._metadata.leader(where.topic_id, where.partition)
        return leader is not None and leader != self.node.id

    def has_unsendable(self, queue: list[Unit]) -> bool:
        """Whether one of these is for `fail_unsendable`; mostly none is, and this is asked for each poll."""
        session = self.session
        for unit in queue:
            gathered = unit.gathered
            if gathered.session_id != session.session_id or session.epoch <= INITIAL_EPOCH:
                return True
            leader = self._metadata.leader(gathered.partition.topic_id, gathered.partition.partition)
            if leader is not None and leader != self.node.id:
                return True
        return False

    def fail_unsendable(self) -> None:
        """End queued acknowledgements whose session has ended, or whose partition is led by another node now."""
        self._acknowledgements.fail_queued(self.node.id, self._verdict)

    def _verdict(self, unit: Unit) -> KafkaShareError | None:
        gathered, session = unit.gathered, self.session
        if gathered.session_id != session.session_id or not session.is_open:
            return NotLeaderOrFollowerError(
                f"the share session in which {gathered.partition} was fetched from {self.node} has ended, "
                f"and the broker has released the records or will"
            )
        if self._leader_elsewhere(gathered.partition):
            return NotLeaderOrFollowerError(f"{gathered.partition} is led by another broker than {self.node} now")
        return None

    def check(self) -> None:
        self.session.check()
        assert not (self.is_lent and self._open is not None), "a request on a session that is lent"
        if self._open is not None:
            assert self._requests.is_busy(self.node.id, Channel.DATA), "an open request that nobody sent"


def _finder(units: Units, session: ShareSession | None = None) -> Find:
    """Finds the partitions whose acknowledgements a request carried, and those of the session."""
    carried: dict[tuple[int, int], TopicIdPartition] = {}

    def find(topic_id: UUID, partition: int) -> TopicIdPartition | None:
        found = None if session is None else session.find(topic_id, partition)
        if found is None and units:
            if not carried:
                carried.update({key_of(where): where for where in units})
            found = carried.get((topic_id.int, partition))
        return found

    return find
