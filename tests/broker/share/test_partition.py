"""The share partition: rules that recorded conversations do not reach, and a model that knows only offsets."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from broker.share.coordinator_log import state_topic
from broker.share.probe import Probe
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_share.broker.configs.configs import GroupSettings
from kafka_share.broker.inspection import snapshot_of_window
from kafka_share.broker.refusals import Refusal, RequestFailedError
from kafka_share.broker.share.acquisition import LogRead, acquire, offset_to_read
from kafka_share.broker.share.exchange import AcknowledgementBatch, AcquireMode
from kafka_share.broker.share.partition import PendingChange, SharePartition
from kafka_share.broker.share.persister import Persister
from kafka_share.broker.share.record_state import ACQUIRED, ARCHIVED, AVAILABLE, RecordState
from kafka_share.broker.share.state_batches import StateBatch
from kafka_share.broker.share.state_records import StateKey
from kafka_share.broker.storage.stored_batch import BatchSpan, StoredBatch
from kafka_share.errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    FencedStateEpochError,
    InvalidRecordStateError,
    InvalidRequestError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownServerError,
)

NOW = 1_000_000
LOCK = 30_000


class Bench:
    """One share partition, and record batches given as (first, last)."""

    def __init__(self, *, start: int = 0, stored: tuple[StateBatch, ...] = (), **changes: Any) -> None:
        self.probe = Probe()
        self.settings = GroupSettings(**changes)
        self.key = StateKey("g", self.probe.topic("t"), 0)
        self.states = self.probe.coordinator
        self.states.initialize(self.key, 1, start, NOW)
        if stored:
            self.write(*stored, start=start)
        self.partition = self.load()

    def load(self) -> SharePartition:
        partition = SharePartition(self.key, 0, Persister(self.states), lambda: self.settings)
        answers: list[Refusal | None] = []
        partition.load(lambda now_ms: 0, NOW, lambda refusal, now_ms: answers.append(refusal))
        assert answers == [None]
        partition.check()
        return partition

    def write(self, *batches: StateBatch, start: int = -1) -> None:
        self.states.write(
            self.key,
            state_epoch=1,
            leader_epoch=0,
            start_offset=start,
            delivery_complete_count=0,
            batches=batches,
            now_ms=NOW,
        )

    def acquire(
        self,
        *batches: tuple[int, int],
        member: str = "A",
        at: int | None = None,
        records: int = 500,
        size: int = 500,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        aborted: tuple[tuple[int, int, int], ...] = (),
        producer: int = -1,
        now_ms: int = NOW,
    ) -> list[tuple[int, int, int]]:
        read = [
            StoredBatch(first, last, 0, b"", is_control=False, is_transactional=producer >= 0, producer_id=producer,
                        appended_at_ms=0)
            for first, last in batches
        ]  # fmt: skip
        offset = self.partition.window.next_fetch_offset() if at is None else at
        span = BatchSpan(read, 0, len(read), 0)
        found = acquire(self.partition, member, mode, size, records, LogRead(offset, span, aborted), now_ms)
        self.partition.check()
        return [(one[0], one[1], one[2]) for one in found]

    def ack(self, *batches: tuple[int, int, int], member: str = "A", now_ms: int = NOW) -> bool:
        change = self.partition.acknowledge(
            member, [AcknowledgementBatch(first, last, (kind,)) for first, last, kind in batches], now_ms
        )
        moved = self.complete(change)
        self.partition.check()
        return moved

    def complete(self, change: PendingChange) -> bool:
        """Store a change; returns whether the start moved. Raises `Refusal`."""
        answers: list[bool | Refusal] = []
        self.partition.complete(change, NOW, lambda moved, now_ms: answers.append(moved))
        (moved,) = answers
        if isinstance(moved, Refusal):
            raise moved
        return moved

    def end_locks(self, now_ms: int) -> bool:
        """End the locks that are due, which is stored at once; returns whether there were any."""
        late: list[int] = []
        is_stored = self.partition.expire_locks(now_ms, late.append)
        self.partition.advance_start()
        assert late == []
        return is_stored

    def ranges(self) -> list[tuple[int, int, RecordState, int]]:
        return [one[:4] for one in snapshot_of_window(self.partition).ranges]


def test_locks_end_at_the_renewed_time_when_half_of_a_batch_is_renewed() -> None:
    bench = Bench()
    bench.acquire((0, 9))
    bench.ack((0, 4, 4), now_ms=NOW + 10_000)
    assert bench.partition.next_lock_end_at_ms() == NOW + LOCK
    assert bench.end_locks(NOW + LOCK)
    assert bench.ranges() == [(0, 4, ACQUIRED, 1), (5, 9, AVAILABLE, 1)]
    assert bench.partition.next_lock_end_at_ms() == NOW + 10_000 + LOCK


def test_renewal_is_refused_when_the_group_does_not_allow_it() -> None:
    bench = Bench(renew_enabled=False)
    bench.acquire((0, 9))
    with pytest.raises(Refusal) as error:
        bench.ack((0, 9, 4))
    assert error.value.code == InvalidRecordStateError.code


@pytest.mark.behaviour("acquisition locks")
def test_held_locks_keep_their_duration_when_the_setting_changes() -> None:
    """A changed lock duration counts for later acquisitions; locks that are running keep theirs."""
    bench = Bench()
    bench.acquire((0, 4))
    bench.settings = attrs.evolve(bench.settings, record_lock_duration_ms=1_000)
    bench.acquire((5, 9))
    assert [one.lock_expires_at_ms for one in snapshot_of_window(bench.partition).ranges] == [NOW + LOCK, NOW + 1_000]


@pytest.mark.behaviour("acquisition locks")
def test_only_the_rest_comes_back_when_part_of_a_batch_was_acknowledged() -> None:
    """When part of a batch has been acknowledged, only the rest comes back at the end of the lock."""
    bench = Bench()
    bench.acquire((0, 9))
    bench.ack((3, 6, 1))
    bench.end_locks(NOW + LOCK)
    assert bench.acquire((0, 9)) == [(0, 2, 2), (7, 9, 2)]


@pytest.mark.behaviour("acquisition locks")
def test_nothing_is_applied_when_one_offset_is_not_held_any_more() -> None:
    """An acknowledgement of several ranges applies to none of them when one record is not acquired any more."""
    bench = Bench()
    bench.acquire((0, 4), (5, 9), size=1)
    bench.ack((7, 7, 2))
    before = snapshot_of_window(bench.partition)
    with pytest.raises(Refusal) as error:
        bench.ack((0, 4, 1), (5, 9, 1))
    assert error.value.code == InvalidRecordStateError.code
    assert snapshot_of_window(bench.partition) == before


@pytest.mark.behaviour("broker failures")
def test_records_stay_held_when_the_write_of_an_acknowledgement_fails() -> None:
    """An acknowledgement that the broker cannot store is refused, and the records stay locked as they were."""
    bench = Bench()
    bench.acquire((0, 9))
    before = snapshot_of_window(bench.partition)
    bench.states.delete(bench.key, NOW)
    with pytest.raises(Refusal) as error:
        bench.ack((0, 9, 1))
    assert error.value.code == UnknownServerError.code
    assert snapshot_of_window(bench.partition) == before
    assert bench.partition.next_lock_end_at_ms() == NOW + LOCK


@pytest.mark.behaviour("broker")
def test_released_records_wait_for_their_write_when_others_fetch_meanwhile() -> None:
    """Released records can be acquired again when their release has been stored, not before."""
    bench = Bench()
    bench.acquire((0, 9))
    change = bench.partition.acknowledge("A", [AcknowledgementBatch(2, 5, (2,))], NOW)
    assert bench.partition.window.next_fetch_offset() == 10
    assert bench.acquire((0, 9), at=0, member="B") == []
    bench.complete(change)
    assert bench.partition.window.next_fetch_offset() == 2
    assert bench.acquire((0, 9), member="B") == [(2, 5, 2)]


@pytest.mark.behaviour("broker")
def test_locks_end_in_memory_when_that_cannot_be_stored() -> None:
    """Locks end in time even if the broker cannot store that."""
    bench = Bench()
    bench.acquire((0, 9))
    bench.states.delete(bench.key, NOW)
    assert bench.end_locks(NOW + LOCK)
    assert bench.ranges() == [(0, 9, AVAILABLE, 1)]


@pytest.mark.behaviour("broker failures")
@pytest.mark.parametrize(
    ("refused_with", "answered_with"),
    [
        (NotCoordinatorError, CoordinatorNotAvailableError),
        (FencedStateEpochError, NotLeaderOrFollowerError),
        (InvalidRequestError, UnknownServerError),
    ],
)
def test_load_fails_with_the_consumers_error_when_the_coordinator_refuses(
    refused_with: type[BrokerError], answered_with: type[BrokerError]
) -> None:
    """When stored share state cannot be read, the error tells the consumer whether to look for another node."""
    bench = Bench()

    class Refusing(type(bench.states)):  # type: ignore[misc]
        def read(self, key: object, leader_epoch: int, now_ms: int) -> Any:
            raise Refusal(refused_with, "on purpose")

    persister = Persister(Refusing(bench.probe.view, state_topic()))
    partition = SharePartition(bench.key, 0, persister, lambda: bench.settings)
    codes = []
    partition.load(lambda now_ms: 0, NOW, lambda refusal, now_ms: codes.append(refusal and refusal.code))
    assert codes == [answered_with.code]
    assert offset_to_read(partition) is None


@pytest.mark.behaviour("broker")
def test_gaps_are_read_again_when_stored_state_has_holes() -> None:
    """Stored state with holes is loaded: the records in the holes are fetched again, those that are done are not."""
    stored = (StateBatch(5, 9, 4, 1), StateBatch(15, 19, 0, 2))
    bench = Bench(start=0, stored=stored)
    assert bench.partition.window.next_fetch_offset() == 0
    assert bench.acquire((0, 4), (5, 9), (10, 14), (15, 19), (20, 24)) == [
        (0, 4, 1),
        (10, 14, 1),
        (15, 19, 3),
        (20, 24, 1),
    ]


@pytest.mark.behaviour("broker")
def test_start_stays_before_a_gap_when_what_follows_is_finished() -> None:
    """The group's start stays before records that stored state does not know until they have been acknowledged."""
    bench = Bench(start=0, stored=(StateBatch(5, 9, 2, 1), StateBatch(12, 14, 4, 1)))
    assert snapshot_of_window(bench.partition).start_offset == 0
    assert bench.acquire((0, 4), (5, 9), (10, 14)) == [(0, 4, 1), (10, 11, 1)]
    bench.ack((0, 4, 1))
    assert snapshot_of_window(bench.partition).start_offset == 10
    bench.ack((10, 11, 1))
    assert snapshot_of_window(bench.partition).start_offset == 12
    assert bench.acquire((15, 19)) == [(15, 19, 1)]
    bench.ack((15, 19, 1))
    assert snapshot_of_window(bench.partition).start_offset == 20


def test_offsets_in_a_hole_of_the_log_are_archived_when_the_log_answers_a_later_one() -> None:
    bench = Bench()
    bench.acquire((0, 4), (5, 9), (10, 14), size=1)
    bench.ack((0, 14, 2))
    assert bench.acquire((10, 14), at=0) == [(10, 14, 2)]
    assert bench.ranges() == [(0, 9, ARCHIVED, 1), (10, 14, ACQUIRED, 2)]


@pytest.mark.behaviour("start offset")
def test_held_records_below_the_log_start_are_archived_when_they_are_released() -> None:
    """Acquired records that were deleted from the log are gone once they are released."""
    bench = Bench()
    bench.acquire((0, 9))
    bench.partition.log_start_raised(5)
    bench.complete(bench.partition.release("A"))
    assert bench.acquire((5, 9)) == [(5, 9, 2)]
    assert snapshot_of_window(bench.partition).start_offset == 5


@pytest.mark.behaviour("start offset")
def test_deleted_records_of_a_batch_do_not_block_the_rest_when_a_finished_batch_lies_before() -> None:
    """Of a batch whose beginning was deleted, what a record limit leaves of that beginning is archived."""
    bench = Bench()
    bench.acquire((0, 4), (5, 9), size=1)
    bench.ack((5, 9, 1))
    bench.partition.log_start_raised(15)
    assert bench.acquire((10, 29), records=3, mode=AcquireMode.RECORD_LIMIT) == [(10, 12, 1)]
    assert bench.partition.window.next_fetch_offset() == 15


@pytest.mark.behaviour("start offset")
def test_deleted_records_of_a_batch_do_not_block_the_rest_when_its_beginning_is_finished() -> None:
    """What follows a finished beginning of a batch is handed out, though the log begins behind it."""
    bench = Bench(stored=(StateBatch(0, 4, 0, 1), StateBatch(10, 12, 2, 1)))
    assert bench.acquire((0, 4)) == [(0, 4, 2)]
    bench.partition.log_start_raised(15)
    assert bench.acquire((10, 29), records=3, mode=AcquireMode.RECORD_LIMIT) == [(13, 15, 1)]
    assert bench.partition.window.next_fetch_offset() == 16


@pytest.mark.behaviour("start offset")
@pytest.mark.parametrize("log_start", [3, 7, 20])
def test_a_gap_below_the_log_start_is_not_read_again_when_its_records_were_deleted(log_start: int) -> None:
    """A new leader that finds deleted records missing in the stored state goes on behind them."""
    bench = Bench(start=2, stored=(StateBatch(5, 9, 2, 1),))
    assert bench.partition.window.next_fetch_offset() == 2
    bench.partition.log_start_raised(log_start)
    assert bench.partition.window.next_fetch_offset() >= log_start
    assert bench.acquire((0, 4), (5, 9), (10, 29))[-1][1] == 29
    bench.ack((10, 29, 1))
    if log_start < 5:
        bench.ack((log_start, 4, 1))
    # 10 to 19, if they were deleted, were handed out with their batch; they stay held until their lock ends
    assert snapshot_of_window(bench.partition).start_offset == (30 if log_start < 10 else 20)


def test_aborted_batches_are_archived_when_the_group_is_read_committed() -> None:
    bench = Bench(read_committed=True)
    assert bench.acquire((0, 4), (5, 9), producer=7, aborted=((7, 0, 4),)) == [(5, 9, 1)]
    assert bench.ranges() == [(0, 4, ARCHIVED, 1), (5, 9, ACQUIRED, 1)]
    bench.ack((5, 9, 1))
    assert snapshot_of_window(bench.partition).start_offset == 10


def test_no_more_than_asked_for_is_acquired_when_the_mode_is_record_limit() -> None:
    bench = Bench()
    assert bench.acquire((0, 9), records=3, mode=AcquireMode.RECORD_LIMIT) == [(0, 2, 1)]
    assert bench.ranges() == [(0, 2, ACQUIRED, 1), (3, 9, AVAILABLE, 0)]


@pytest.mark.behaviour("fetching")
def test_deliveries_shrink_when_a_batch_of_512_is_always_released() -> None:
    """A large batch that always comes back is delivered in ever smaller pieces, to spare its good records."""
    bench = Bench(delivery_count_limit=10)
    sizes = []
    for _ in range(9):
        found = bench.acquire((0, 511))
        sizes.append(sum(last - first + 1 for first, last, _ in found))
        for first, last, _ in found:
            bench.ack((first, last, 2))
    assert sizes == [512] * 5 + [256, 128, 64, 32]


@pytest.mark.behaviour("delivery counts")
def test_deliveries_do_not_shrink_when_the_limit_is_2() -> None:
    """With a delivery limit of 2 a large batch is delivered whole both times."""
    bench = Bench(delivery_count_limit=2)
    for count in (1, 2):
        assert bench.acquire((0, 511)) == [(0, 511, count)]
        bench.ack((0, 511, 2))
    assert snapshot_of_window(bench.partition).start_offset == 512


@pytest.mark.behaviour("delivery counts")
def test_every_offset_is_delivered_ten_times_when_the_limit_is_10() -> None:
    """With a delivery limit of 10 each record of a batch that is always released is delivered ten times."""
    bench = Bench(delivery_count_limit=10)
    deliveries = [0] * 100
    while bench.partition.window.next_fetch_offset() < 100:
        for first, last, _ in bench.acquire((0, 99)):
            for offset in range(first, last + 1):
                deliveries[offset] += 1
            bench.ack((first, last, 2))
    assert deliveries == [10] * 100


@pytest.mark.behaviour("delivery counts")
def test_start_waits_when_an_archived_batch_is_behind_an_available_one() -> None:
    """The group's start does not move past available records, even if those behind them are archived."""
    bench = Bench(delivery_count_limit=2)
    bench.acquire((0, 9))
    bench.acquire((10, 19))
    bench.ack((10, 19, 2))
    bench.acquire((10, 19))
    bench.ack((0, 9, 2))
    bench.end_locks(NOW + LOCK)
    assert bench.ranges() == [(0, 9, AVAILABLE, 1), (10, 19, ARCHIVED, 2)]
    assert snapshot_of_window(bench.partition).start_offset == 0


def test_request_as_a_whole_fails_when_a_batch_spans_the_start_of_an_empty_window() -> None:
    bench = Bench()
    bench.acquire((0, 9))
    bench.ack((0, 9, 1))
    with pytest.raises(RequestFailedError):
        bench.ack((8, 10, 1))
    bench.ack((0, 9, 1))


def test_offsets_beyond_the_window_are_an_invalid_request_when_acknowledged() -> None:
    bench = Bench()
    bench.acquire((0, 9))
    for batch in ((5, 12, 1), (10, 12, 1)):
        with pytest.raises(Refusal) as error:
            bench.ack(batch)
        assert error.value.code == InvalidRequestError.code


def test_nothing_can_be_acquired_when_fenced() -> None:
    bench = Bench()
    bench.partition.fence()
    assert offset_to_read(bench.partition) is None
    assert bench.acquire((0, 9)) == []


class OffsetModel(RuleBasedStateMachine):
    """What any share partition must do, offset by offset; grouping and order are not this model's business."""

    members = st.sampled_from(["A", "B"])

    @initialize(limit=st.sampled_from([2, 3, 5]), locks=st.sampled_from([100, 20]))
    def begin(self, limit: int, locks: int) -> None:
        self.bench = Bench(delivery_count_limit=limit, max_record_locks=locks)
        self.limit, self.locks, self.now, self.start = limit, locks, NOW, 0
        self.log: list[tuple[int, int]] = []
        self.known: dict[int, tuple[RecordState, int, str, int]] = {}
        self.largest = 0

    @rule(size=st.integers(1, 12))
    def produce(self, size: int) -> None:
        end = self.log[-1][1] + 1 if self.log else 0
        self.log.append((end, end + size - 1))
        self.largest = max(self.largest, size)

    @rule(member=members, records=st.integers(1, 30), size=st.integers(1, 20), mode=st.sampled_from(AcquireMode))
    def fetch(self, member: str, records: int, size: int, mode: AcquireMode) -> None:
        partition = self.bench.partition
        if offset_to_read(partition) is None:
            free = [o for o, (state, *_) in self.known.items() if state is AVAILABLE and o >= self.start]
            assert not free
            assert self.known
            assert max(self.known) - self.start + 1 >= self.locks
            return
        offset = partition.window.next_fetch_offset()
        batches = [batch for batch in self.log if batch[1] >= offset]
        if not batches:
            return
        found = self.bench.acquire(*batches, member=member, records=records, size=size, mode=mode, now_ms=self.now)
        taken = 0
        for first, last, count in found:
            for each in range(first, last + 1):
                state, before, _, _ = self.known.get(each, (AVAILABLE, 0, "", 0))
                assert state is AVAILABLE, f"{each} is {state}"
                assert count == before + 1 <= self.limit
                self.known[each] = (ACQUIRED, count, member, self.now + LOCK)
                taken += 1
        assert mode is AcquireMode.BATCH_OPTIMIZED or taken <= records
        for first, last, state, count in self.bench.ranges():
            for each in range(first, last + 1):
                if each not in self.known and each >= self.start:
                    assert (state, count) == (AVAILABLE, 0)
                    self.known[each] = (AVAILABLE, 0, "", 0)

    @rule(member=members, first=st.integers(0, 60), size=st.integers(0, 9), kind=st.sampled_from([0, 1, 2, 3, 4]))
    def acknowledge(self, member: str, first: int, size: int, kind: int) -> None:
        last = first + size
        offsets = range(max(first, self.start), last + 1)
        held = all(o in self.known and self.known[o][0] is ACQUIRED and self.known[o][2] == member for o in offsets)
        try:
            self.bench.ack((first, last, kind), member=member, now_ms=self.now)
        except (Refusal, RequestFailedError):
            assert not held
            return
        assert held
        for each in offsets:
            if kind == 4:
                self.known[each] = (ACQUIRED, self.known[each][1], member, self.now + LOCK)
            else:
                self._end_delivery(each, {0: ARCHIVED, 1: RecordState.ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}[kind])
        self._move_start()

    @rule(member=members)
    def close(self, member: str) -> None:
        change = self.bench.partition.release(member)
        self.bench.complete(change)
        for each, (state, _, holder, _) in list(self.known.items()):
            if state is ACQUIRED and holder == member:
                self._end_delivery(each, AVAILABLE)
        self._move_start()

    @rule(span=st.sampled_from([1, 10_000, LOCK]))
    def wait(self, span: int) -> None:
        self.now += span
        due = [o for o, (state, _, _, at) in self.known.items() if state is ACQUIRED and at <= self.now]
        at_ms = self.bench.partition.next_lock_end_at_ms()
        assert (at_ms is not None and at_ms <= self.now) == bool(due)
        self.bench.end_locks(self.now)
        for each in due:
            self._end_delivery(each, AVAILABLE)
        self._move_start()

    @rule()
    def reload(self) -> None:
        if any(state is ACQUIRED for state, *_ in self.known.values()):
            return
        self.bench.partition = self.bench.load()
        self.known = {
            o: entry for o, entry in self.known.items() if entry[1] or self._stored(o)
        }  # a record that was cut off by record_limit and never delivered is not stored
        self.start = snapshot_of_window(self.bench.partition).start_offset
        self.known = {o: entry for o, entry in self.known.items() if o >= self.start}

    def _stored(self, offset: int) -> bool:
        return any(b.first <= offset <= b.last for b in self.bench.states.read(self.bench.key, -1, NOW).batches)

    def _end_delivery(self, offset: int, state: RecordState) -> None:
        _, count, _, _ = self.known[offset]
        if state is AVAILABLE and count >= self.limit:
            state = ARCHIVED
        self.known[offset] = (state, count, "", 0)

    def _move_start(self) -> None:
        start = snapshot_of_window(self.bench.partition).start_offset
        while self.start < start:
            assert self.known.pop(self.start)[0].is_terminal
            self.start += 1
        finished = self.start in self.known and self.known[self.start][0].is_terminal
        assert not finished or self.bench.partition.window.gaps is not None

    @invariant()
    def same_state(self) -> None:
        partition = self.bench.partition
        partition.check()
        found = {
            o: (one.state, one.delivery_count, one.member)
            for one in snapshot_of_window(partition).ranges
            for o in range(one.first, one.last + 1)
            if o >= snapshot_of_window(partition).start_offset
        }
        assert snapshot_of_window(partition).start_offset == self.start
        assert found == {o: entry[:3] for o, entry in self.known.items()}
        assert partition.window.span < self.locks + max(self.largest, 1)


OffsetModel.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
TestOffsetModel = OffsetModel.TestCase
