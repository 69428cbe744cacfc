"""Fetched batches on their way to the application: arrived, decoded, about to be returned, put back.

Owned by `ApplicationSide` and used on the thread that polls. What it hands out or gives up goes to `Deliveries`, which
knows it from then on. An interrupt may strike anywhere: a decoded step counts once it stands in `_returning`, and
`recover` puts in order what was begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

import attrs

from kafka_share.application.decoding import Decoder, PartitionDecoding, Problem, Record
from kafka_share.application.deliveries import Deliveries
from kafka_share.application.delivery import Delivery
from kafka_share.core.events import FetchedBatch
from kafka_share.core.fetching.offsets import count_of
from kafka_share.errors import DataError
from kafka_share.records import ShareRecords, TopicPartition

if TYPE_CHECKING:
    from kafka_share.native import Run

_offset_of = attrgetter("offset")


@attrs.define(eq=False)
class _Returning:
    """Records that a poll has yet to return, or return again."""

    delivery: Delivery
    records: Run
    decoding: PartitionDecoding | None = None
    """Where they come from, if they were decoded for this poll."""


@attrs.define(eq=False)
class _Decoding:
    """One fetched partition on its way to the application."""

    batch: FetchedBatch
    steps: PartitionDecoding
    delivery: Delivery
    first_offset: int

    @property
    def topic(self) -> str:
        return self.delivery.partition.topic

    @property
    def is_lost(self) -> bool:
        return self.delivery.lock.is_lost(self.first_offset)


class IncomingRecords:
    """`is_wanted` knows the topics that are subscribed to. `has_window`: no poll returns more than fits."""

    def __init__(
        self, decoder: Decoder, deliveries: Deliveries, is_wanted: Callable[[str], bool], *, has_window: bool
    ) -> None:
        self._decoder = decoder
        self._deliveries = deliveries
        self._is_wanted = is_wanted
        self._has_window = has_window
        self._arrived: deque[FetchedBatch] = deque()
        self._decoding: deque[_Decoding] = deque()
        self._problems: deque[tuple[_Decoding, Problem]] = deque()
        """To be raised one by one, when all records that are at hand have been returned: an application that ends with
        the error then costs no other record a delivery."""
        self._returning: list[_Returning] = []

    def arrive(self, batch: FetchedBatch) -> None:
        """Take over a batch; one that comes again changes nothing."""
        if not any(known is batch for known in self._arrived):
            self._arrived.append(batch)

    def has_ready(self, *, counts_returning: bool) -> bool:
        """Whether `collect` has something to give without another answer of a broker."""
        return bool(self._arrived or self._decoding or self._problems or (counts_returning and self._returning))

    def collect(self, limit: int) -> ShareRecords[object, object] | None:
        """About `limit` records, those that were put back or renewed first; None if there are none.

        They stay to be returned until `returned`. Raises `DataError` for a record or batch that could not be decoded,
        when no other records are at hand.
        """
        self._fill(limit)
        if self._returning:
            found: dict[TopicPartition, list[Run]] = {}
            for returning in self._returning:
                self._deliveries.deliver(returning.delivery, returning.records)
                found.setdefault(returning.delivery.place, []).append(returning.records)
            return ShareRecords.of_runs(found)
        if self._problems:
            self._raise_problem(*self._problems[0])
        return None

    def returned(self) -> None:
        """What was collected has reached the application."""
        self._returning.clear()

    def return_again(self, delivery: Delivery, records: list[Record]) -> None:
        """The next poll returns these, which were renewed; nothing changes if it does already."""
        if not any(known.records == records for known in self._returning):
            self._returning.append(_Returning(delivery, records))

    def return_whole(self, delivery: Delivery, records: Run) -> None:
        """The next poll returns these; nothing changes if it does already."""
        if not any(known.records is records for known in self._returning):
            self._returning.append(_Returning(delivery, records))

    def put_back(self, records: Iterable[Record]) -> None:
        """These were returned, and did not reach the application after all: they belong to the next poll."""
        # A renewed record may have come before those that were put back earlier.
        present = [
            _Returning(delivery, sorted(there, key=_offset_of)) for delivery, there in self._deliveries.present(records)
        ]
        self._returning.extend(present)
        for returning in present:
            self._deliveries.take_back(returning.delivery, returning.records)

    def recover(self) -> None:
        """Put the books in order after an interrupt. May itself be interrupted, and is then done again."""
        for returning in self._returning:
            self._deliveries.take_back(returning.delivery, returning.records)
            if returning.decoding is not None:
                returning.decoding.confirm_up_to(returning.records[-1].offset)
        for decoding, problem in self._problems:
            decoding.steps.confirm_up_to(problem.runs[-1].last)
        for decoding in self._decoding:
            self._preset_gaps(decoding)
        self._drop_begun()
        self._drop_unwanted()

    def _raise_problem(self, decoding: _Decoding, problem: Problem) -> None:
        # The offsets count as acknowledged from now on: only now can the application override their type.
        self._deliveries.fail(decoding.delivery, problem.runs)
        try:
            raise problem.error
        except DataError:
            self._problems.popleft()
            raise

    # ---- decoding

    def _fill(self, limit: int) -> None:
        """Decode until one broker's answer more would be too much for one poll.

        An open window ends it behind the record batch that fills it; the rest of the answer waits for a later poll.
        """
        left = limit - (self._count_returning() if self._returning else 0)
        self._drop_unwanted()
        while not self._is_full(limit):
            if not self._decoding:
                if not self._arrived:
                    return
                size = sum([count_of(p.acquired) for p in self._arrived[0].partitions])
                if self._returning and size > left:
                    return
                left -= size
                self._begin_batch(self._arrived[0])
            self._drop_unwanted()
            if self._decoding:
                self._decode_partition(self._decoding[0], limit)

    def _is_full(self, limit: int) -> bool:
        return self._has_window and self._count_returning() >= limit

    def _count_returning(self) -> int:
        return sum(len(returning.records) for returning in self._returning)

    def _begin_batch(self, batch: FetchedBatch) -> None:
        lock_ms = batch.acquisition_lock_timeout_ms
        self._deliveries.lock_ms = lock_ms
        begun: list[_Decoding] = []
        for fetched in batch.partitions:
            lock = self._deliveries.new_lock(fetched.locks, batch.acquired_at_ms, lock_ms)
            steps = PartitionDecoding(fetched, self._decoder, lock)
            begun.append(_Decoding(batch, steps, Delivery(fetched, lock), fetched.acquired[0].first))
        self._decoding.extend(begun)
        self._drop_begun()

    def _drop_begun(self) -> None:
        """A batch that is being decoded has not merely arrived."""
        for decoding in self._decoding if self._arrived else ():
            if decoding.batch is self._arrived[0]:
                self._arrived.popleft()
                return

    def _decode_partition(self, decoding: _Decoding, limit: int) -> None:
        steps, delivery = decoding.steps, decoding.delivery
        while not (steps.is_done or self._is_full(limit)):
            step = steps.next_step(limit - self._count_returning() if self._has_window else None)
            if step is None:
                break
            if isinstance(step, Problem):
                self._problems.append((decoding, step))
            else:
                self._returning.append(_Returning(delivery, step, steps))
            steps.confirm(step)
        self._preset_gaps(decoding)
        if steps.is_done:
            self._decoding.popleft()  # else the next poll would look there before it asks for more

    def _preset_gaps(self, decoding: _Decoding) -> None:
        gaps = decoding.steps.gaps()
        if gaps:
            self._deliveries.preset(decoding.delivery, gaps)
            decoding.steps.drop_gaps()

    def _drop_unwanted(self) -> None:
        """Give back what came for topics that have been left since: no poll returns or raises it.

        What waited until its lock was lost, for room in an open window or for the answer to a renewal, is dropped and
        not acknowledged: it is another's.
        """
        if self._problems:
            for decoding, problem in self._problems:
                if not self._is_wanted(decoding.topic):
                    self._deliveries.preset(decoding.delivery, list(problem.runs))
            self._problems = deque(known for known in self._problems if self._is_wanted(known[0].topic))
        while self._decoding:
            decoding = self._decoding[0]
            has_left = not self._is_wanted(decoding.topic)
            if not has_left and not decoding.is_lost:
                return
            if has_left:
                self._deliveries.preset(decoding.delivery, decoding.steps.released_rest())
            self._decoding.popleft()
