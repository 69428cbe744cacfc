"""The conversation with one broker about records: its share session, the one request under way, and its answers.

Owned by `core.fetching`, which decides when something is sent. ShareFetch and ShareAcknowledge of one session carry
consecutive epochs, so there is never more than one request under way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import attrs

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.backoff import Backoff
from kafka_share.core.events import Channel, FetchedBatch, FetchedPartition
from kafka_share.core.fetching.acknowledgements import Acknowledgements, Unit, Units
from kafka_share.core.fetching.fetch_answers import (
    LEADER_CHANGES,
    SESSION_ERRORS,
    SESSION_LIMIT_REACHED,
    Reaction,
    ReportedErrors,
    node_endpoints,
    partition_reaction,
    top_level_reaction,
)
from kafka_share.core.fetching.offsets import AcknowledgementRun, AcquiredRange, clean_acquired
from kafka_share.core.fetching.share_session import ShareSession, Wanted, has_renewal
from kafka_share.core.metadata import Metadata
from kafka_share.core.requests import Requests
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
from kafka_share.records import Node, TopicIdPartition

if TYPE_CHECKING:
    from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
    from kafka_share.protocol.share_fetch import ShareFetchResponse

    PartitionData = ShareFetchResponse.ShareFetchableTopicResponse.PartitionData

RENEW_VERSION = 2
"""Of ShareFetch and ShareAcknowledge: renewals and record_limit (Kafka 4.2)."""

FREE_EMPTY_ANSWERS = 2
"""How many empty answers in a row may come early and cost no pause: a lock that ended, an acknowledgement that moved
the start offset, or deleted records make a healthy broker answer so, and the next fetch brings records."""

_END_OF_TIME_MS = 1 << 62


@attrs.frozen
class _UnderWay:
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
        node: Node,
        session: ShareSession,
        config: ShareConsumerConfig,
        metadata: Metadata,
        requests: Requests,
        acknowledgements: Acknowledgements,
        batch_ids: Iterator[int],
        on_fetched: Callable[[FetchedBatch, int], None],
        source: random.Random,
    ) -> None:
        self.node = node
        self.session = session
        self._config = config
        self._metadata = metadata
        self._requests = requests
        self._acknowledgements = acknowledgements
        self._batch_ids = batch_ids
        self._on_fetched = on_fetched
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, source)
        self._empty_pause = Backoff(
            config.retry_backoff_ms, config.retry_backoff_max_ms, source, free_failures=FREE_EMPTY_ANSWERS
        )
        self._reported = ReportedErrors()
        self._under_way: _UnderWay | None = None

    @property
    def is_busy(self) -> bool:
        return self._under_way is not None

    @property
    def is_fetching(self) -> bool:
        """Whether a fetch that may bring records is under way."""
        return self._under_way is not None and self._under_way.is_real_fetch

    def ready_at_ms(self) -> int:
        """From when on a request may be sent, if none is under way."""
        return max(self._requests.ready_at_ms(self.node.id, Channel.DATA), self._backoff.ready_at_ms)

    def bare_fetch_ready_at_ms(self) -> int:
        """The same for a fetch without acknowledgements and changes: it keeps the pause after empty answers, too."""
        return max(self.ready_at_ms(), self._empty_pause.ready_at_ms)

    # ---- sending

    def fetch(self, wanted: Wanted, *, max_records: int, max_wait_ms: int, now_ms: int) -> None:
        """Send a ShareFetch with the differences and, in an open session, all acknowledgements that may go."""
        assert self._under_way is None, "one request at a time"
        units = self._acknowledgements.take(self.node.id, now_ms) if self.session.is_open else {}
        is_bare = max_records > 0 and not units and not self.session.differs_from(wanted)
        request = self.session.fetch(wanted, _said(units), max_records=max_records, max_wait_ms=max_wait_ms)
        self._under_way = _UnderWay(units, now_ms, max_records > 0, is_bare, max_wait_ms)
        timeout_ms = self._config.request_timeout_ms
        if timeout_ms <= max_wait_ms:
            timeout_ms += max_wait_ms  # the broker may hold the answer back for max_wait_ms
        min_version = RENEW_VERSION if self._config.has_record_limit else 0
        self._requests.send(
            self.node, Channel.DATA, request, timeout_ms, self._fetched, self._fetch_failed, min_version
        )

    def acknowledge(self, *, is_final: bool, timeout_ms: int, now_ms: int) -> None:
        """Send all acknowledgements that may go as ShareAcknowledge; a final one closes the session."""
        assert self._under_way is None, "one request at a time"
        # There is no later request for what waits to be tried again: a final one takes it along.
        units = self._acknowledgements.take(self.node.id, _END_OF_TIME_MS if is_final else now_ms)
        said = _said(units)
        epoch = self.session.epoch
        request = self.session.acknowledge(said, is_final=is_final)
        self._under_way = _UnderWay(units, now_ms, is_real_fetch=False)

        def failed(error: KafkaShareError, now_ms: int) -> None:
            if isinstance(error, UnsupportedVersionError) and has_renewal(said):
                self.session.epoch = epoch  # nothing was sent
                self._renewals_unsupported(error)
            else:
                self._failed(error, now_ms)

        min_version = RENEW_VERSION if request.is_renew_ack else 0
        self._requests.send(self.node, Channel.DATA, request, timeout_ms, self._acknowledged, failed, min_version)

    # ---- failures

    def _renewals_unsupported(self, error: KafkaShareError) -> None:
        """The broker is too old for renewals: those fail, and the rest goes without them."""
        for units in self._take_back().values():
            renewals, finals = self._acknowledgements.split_renewals(units)
            if renewals:
                self._acknowledgements.settle(renewals, error)
            self._acknowledgements.give_back(finals)
        self._acknowledgements.flush()

    def _fetch_failed(self, error: KafkaShareError, now_ms: int) -> None:
        if isinstance(error, UnsupportedVersionError) and self._reported.new_whole(error):
            self._requests.raise_error(error)
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
        for units in self._take_back().values():
            self._acknowledgements.settle(units, reason)
        self._acknowledgements.flush()
        self.reset()
        if isinstance(error, UnsupportedVersionError):
            self._backoff.failed(now_ms)  # the connection is good, so `Requests` would not hold back
        self._metadata.request_update()

    def connection_lost(self) -> None:
        """An idle connection broke, and the share session with it."""
        if self._under_way is None:
            self.reset()

    def reset(self) -> None:
        if self.session.is_open:
            self._requests.note("session-reset", node_id=self.node.id)
        self.session.reset()

    def _take_back(self) -> Units:
        assert self._under_way is not None, "an answer without a question"
        units, self._under_way = self._under_way.units, None
        return units

    def abandon(self, error: KafkaShareError) -> None:
        """Time is up: end what is under way without its answer."""
        if self._under_way is not None:
            for units in self._take_back().values():
                self._acknowledgements.settle(units, error)

    # ---- answers

    def _top_level(self, error: BrokerError, units: Units, now_ms: int) -> None:
        for unit_list in units.values():
            self._acknowledgements.settle(unit_list, error)
        self._acknowledgements.flush()
        if error.code in (*SESSION_ERRORS, SESSION_LIMIT_REACHED):
            self.reset()
        else:
            # The broker may not have advanced; if so, its next answer tells, and the session begins anew.
            self.session.advance()
        self._backoff.failed(now_ms)
        reaction = top_level_reaction(error)
        if reaction is Reaction.REFRESH:
            self._metadata.request_update()
        elif reaction is Reaction.RAISE and self._reported.new_whole(error):
            self._requests.raise_error(error)

    def _acknowledged(self, response: ShareAcknowledgeResponse, now_ms: int) -> None:
        sent_at_ms = now_ms if self._under_way is None else self._under_way.sent_at_ms
        units = self._take_back()
        error = error_for_code(response.error_code, response.error_message)
        if error is not None:
            self._top_level(error, units, now_ms)
            return
        self.session.advance()
        self._backoff.succeeded()
        lock_ms = response.acquisition_lock_timeout_ms
        endpoints = node_endpoints(response)
        for topic in response.responses:
            for partition in topic.partitions:
                ended = self._pop(units, topic.topic_id, partition.partition_index)
                if ended is None:
                    continue
                if partition.error_code in LEADER_CHANGES:
                    leader = partition.current_leader
                    self._learn_leader(ended[0].partition, leader.leader_id, leader.leader_epoch, endpoints)
                result = error_for_code(partition.error_code, partition.error_message)
                if self.session.epoch < 0:  # closing: no second try
                    self._acknowledgements.settle(ended, result)
                else:
                    new_lock = (sent_at_ms, lock_ms) if lock_ms > 0 else None
                    self._acknowledgements.settle_or_retry(ended, result, new_lock, now_ms)
        self._settle_missing(units)
        self._acknowledgements.flush()

    def _fetched(self, response: ShareFetchResponse, now_ms: int) -> None:
        assert self._under_way is not None, "an answer without a question"
        asked = self._under_way
        sent_at_ms = asked.sent_at_ms
        full_wait_ms = max(asked.max_wait_ms, self._config.retry_backoff_ms)
        units = self._take_back()
        error = error_for_code(response.error_code, response.error_message)
        if error is not None:
            self._top_level(error, units, now_ms)
            return
        self.session.advance()
        endpoints = node_endpoints(response)
        acquired: list[FetchedPartition] = []
        to_raise: dict[TopicIdPartition, tuple[int, str | None]] = {}
        has_errors = False
        for where, answer in self._asked_partitions(response, units):
            self._settle_riding(where, answer, units, endpoints)
            if answer.error_code:
                has_errors = True
                if self._partition_failed(where, answer, endpoints):
                    to_raise[where] = (answer.error_code, answer.error_message)
            fetched = self._acquired(where, answer)
            if fetched is not None:
                acquired.append(fetched)
        self._settle_missing(units)
        self._acknowledgements.flush()
        for new in self._reported.take(to_raise):
            self._requests.raise_error(new)
        if has_errors and not acquired and now_ms - sent_at_ms < full_wait_ms:
            # No hot loop. An answer that comes when its time is over needs no pause, which other partitions would feel.
            self._backoff.failed(now_ms)
        else:
            self._backoff.succeeded()
        self._pace(asked, bool(acquired), now_ms)
        if acquired:
            lock_ms = max(0, response.acquisition_lock_timeout_ms)
            self._on_fetched(FetchedBatch(next(self._batch_ids), tuple(acquired), sent_at_ms, lock_ms), now_ms)

    def _pace(self, asked: _UnderWay, has_acquired: bool, now_ms: int) -> None:
        """No hot loop with a broker that answers with nothing long before its time is over."""
        if has_acquired:
            self._empty_pause.succeeded()
        elif asked.is_bare and asked.max_wait_ms > 0:
            if now_ms - asked.sent_at_ms >= asked.max_wait_ms // 2:
                self._empty_pause.succeeded()
            else:
                self._empty_pause.failed(now_ms)

    def _asked_partitions(
        self, response: ShareFetchResponse, units: Units
    ) -> Iterator[tuple[TopicIdPartition, PartitionData]]:
        """The partitions of an answer that we asked for, each once."""
        said = {(where.topic_id, where.partition): where for where in units}
        seen: dict[TopicIdPartition, None] = {}
        for topic in response.responses:
            if topic.topic_id is None:
                continue
            for answer in topic.partitions:
                index = answer.partition_index
                where = self.session.find(topic.topic_id, index) or said.get((topic.topic_id, index))
                if where is not None and where not in seen:
                    seen[where] = None
                    yield where, answer

    def _settle_riding(
        self, where: TopicIdPartition, answer: PartitionData, units: Units, endpoints: list[Node]
    ) -> None:
        """End the acknowledgements of one partition that rode on the fetch; they are never tried again."""
        ended = units.pop(where, None)
        if ended is None:
            return
        code = answer.acknowledge_error_code
        self._acknowledgements.settle(ended, error_for_code(code, answer.acknowledge_error_message))
        if code in LEADER_CHANGES:
            self._learn_leader(where, answer.current_leader.leader_id, answer.current_leader.leader_epoch, endpoints)

    def _partition_failed(self, where: TopicIdPartition, answer: PartitionData, endpoints: list[Node]) -> bool:
        """React to a fetch error; True if it has to be raised."""
        reaction = partition_reaction(answer.error_code)
        if answer.error_code in LEADER_CHANGES:
            self._learn_leader(where, answer.current_leader.leader_id, answer.current_leader.leader_epoch, endpoints)
        elif reaction is Reaction.REFRESH:
            self._metadata.request_update()
        return reaction is Reaction.RAISE

    def _learn_leader(self, where: TopicIdPartition, leader_id: int, epoch: int, endpoints: list[Node]) -> None:
        if not self._metadata.leader_moved(where.topic_id, where.partition, leader_id, epoch, endpoints):
            self._metadata.request_update()

    def _acquired(self, where: TopicIdPartition, answer: PartitionData) -> FetchedPartition | None:
        if not answer.acquired_records:
            return None
        named = (AcquiredRange(r.first_offset, r.last_offset, r.delivery_count) for r in answer.acquired_records)
        ranges, is_impossible = clean_acquired(named)
        if is_impossible:
            self._requests.raise_error(
                RemoteProtocolError(f"{self.node} named acquired offsets of {where} that cannot be; they are left out")
            )
        if not ranges:
            return None
        locks = self.session.locks_of(where)
        return FetchedPartition(where, self.node.id, self.session.session_id, answer.records or b"", ranges, locks)

    def _pop(self, units: Units, topic_id: UUID | None, partition: int) -> list[Unit] | None:
        for where in units:
            if where.topic_id == topic_id and where.partition == partition:
                return units.pop(where)
        return None

    def _settle_missing(self, units: Units) -> None:
        for where, unit_list in units.items():
            error = InvalidRecordStateError(f"the answer of {self.node} says nothing about {where}")
            self._acknowledgements.settle(unit_list, error)

    # ---- queued acknowledgements that can never be sent

    def lose_moved(self) -> None:
        """Partitions that another node leads now: their new leader does not know our locks."""
        for where in self.session.locked_partitions:
            if self._leader_elsewhere(where):
                self.session.lose_locks(where)

    def _leader_elsewhere(self, where: TopicIdPartition) -> bool:
        leader = self._metadata.leader(where.topic_id, where.partition)
        return leader is not None and leader != self.node.id

    def fail_unsendable(self) -> None:
        """End queued acknowledgements whose session has ended, or whose partition is led by another node now."""
        self._acknowledgements.fail_queued(self.node.id, self._verdict)
        self._acknowledgements.flush()

    def _verdict(self, unit: Unit) -> KafkaShareError | None:
        if unit.gathered.session_id != self.session.session_id or not self.session.is_open:
            return NotLeaderOrFollowerError(
                f"the share session in which {unit.partition} was fetched from {self.node} has ended, "
                f"and the broker has released the records or will"
            )
        if self._leader_elsewhere(unit.partition):
            return NotLeaderOrFollowerError(f"{unit.partition} is led by another broker than {self.node} now")
        return None

    def check(self) -> None:
        self.session.check()
        if self._under_way is not None:
            assert self._requests.is_busy(self.node.id, Channel.DATA), "a request under way that nobody sent"


def _said(units: Units) -> dict[TopicIdPartition, list[AcknowledgementRun]]:
    return {where: [run for unit in unit_list for run in unit.runs] for where, unit_list in units.items()}
