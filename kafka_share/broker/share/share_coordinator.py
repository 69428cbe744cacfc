"""The share coordinator: what a share group has stored about each partition, kept as records of `__share_group_state`.

Called by the share partitions (read when they load, write with every acknowledgement), by the group coordinator and the
admin handlers (initialize, delete, summary), by the handler of APIs 83-87, and by the cluster (time, `load`). One state
per group, topic id and partition. It must not know what is acquired at the moment: acquisitions are never stored.

Each change is decided here and becomes one record, which is first appended to the log and then replayed
(`ShareStates`): a log that refuses leaves everything as it was. `load` replays the same records again. Every 500th
change or so is a snapshot. From time to time states that were idle are written again, and what is before the oldest
of the last snapshots is deleted. That happens by the clock, as in Kafka, and besides when a partition of the log has
grown long: here it lies in memory.

Every refusal carries one of Kafka's codes: INVALID_REQUEST (negative partition, value not initialised),
FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_SERVER_ERROR (batches that cannot be
merged). Source: KIP-932 and Kafka 4.3's `ShareCoordinatorShard`.
"""

from __future__ import annotations

import contextlib
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.kafka_version import KAFKA_4_3, NegativeEpochs
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share.share_states import ShareState, ShareStates
from kafka_share.broker.share.state_batches import StateBatch, UnmergeableError, merge_state_batches
from kafka_share.broker.share.state_records import Snapshot, StateKey, Tombstone, Update, decode, encode
from kafka_share.errors import (
    FencedLeaderEpochError,
    FencedStateEpochError,
    InvalidRequestError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.share.cluster_view import ClusterView
    from kafka_share.broker.share.state_records import StateRecord
    from kafka_share.broker.storage.internal_topic import InternalTopic

UNINITIALISED_START: Final = -1
"""A start offset that the reset policy has yet to choose."""
NO_EPOCH: Final = -1
"""An epoch that switches the check against it off."""


@attrs.frozen
class ShareStateSettings:
    """The broker's settings share.coordinator.*: after how many updates a snapshot is due, and how often is tidied."""

    updates_per_snapshot: int = 500
    prune_interval_ms: int = 300_000
    cold_interval_ms: int = 300_000


@attrs.frozen
class StoredState:
    """What a read answers."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


@attrs.frozen
class StateSummary:
    """What describing a group's offsets needs. `delivery_complete_count` is -1 where it is not known."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALISED_START
    delivery_complete_count: int = -1


DEFAULT_SETTINGS: Final = ShareStateSettings()
_MOST_RECORDS: Final = 10_000
"""A partition of the log with more records than this is tidied before its time."""


class ShareCoordinator:
    """All stored share states. Methods answer a value or raise `Refusal`; nothing changes when they raise."""

    def __init__(
        self,
        view: ClusterView,
        log: InternalTopic,
        behaviour: Behaviour = KAFKA_4_3,
        settings: ShareStateSettings = DEFAULT_SETTINGS,
    ) -> None:
        self._view = view
        self._log = log
        self._behaviour = behaviour
        self._settings = settings
        self._states = ShareStates(settings.updates_per_snapshot)
        self._prune_at_ms: int | None = None
        self._rewrite_at_ms: int | None = None
        """When idle states are written again. Both are set by a change, and idle coordinators wait for nothing."""
        self._long: set[int] = set()
        """Partitions of the log that have grown long."""

    # ---- requests

    def initialize(self, key: StateKey, state_epoch: int, start_offset: int, now_ms: int) -> None:
        """Start anew at `start_offset` (-1: to be chosen by the reset policy; others are taken as they are).

        The leader epoch shown by the summary falls back to 0; the fence against older leaders stays.
        """
        self._require_partition_number(key)
        self._require_epochs(state_epoch)
        state = self._states.get(key)
        if state is not None:
            _fence_state_epoch(state, state_epoch)
        self._require_known_partition(key)
        snapshot = Snapshot(
            key,
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=-1 if start_offset == UNINITIALISED_START else 0,
            created_at_ms=now_ms,
            written_at_ms=now_ms,
            batches=(),
        )
        home = self._log.partition_for(coordinator_key(key)) if state is None else state.home
        self._change(home, [snapshot], now_ms)

    def read(self, key: StateKey, leader_epoch: int, now_ms: int) -> StoredState:
        """The stored state, for the leader of `leader_epoch`; a higher epoch than the last one is remembered."""
        state = self._state(key)
        self._require_epochs(leader_epoch)
        compared = self._behaviour.negative_epochs is NegativeEpochs.FENCED_IN_READS
        _fence_leader_epoch(state, leader_epoch, even_none=compared)
        if leader_epoch > state.fence:
            complete = state.delivery_complete_count
            record = self._record(key, state, state.start_offset, complete, (), now_ms, leader_epoch=leader_epoch)
            self._change(state.home, [record], now_ms)
        return StoredState(state.state_epoch, state.start_offset, tuple(self._state(key).batches))

    def write(
        self,
        key: StateKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        now_ms: int,
    ) -> None:
        """Merge `batches` over the stored ones; `start_offset` -1 leaves the start, a lower one is taken as it is.

        (Kafka 4.4: a lower one leaves the start and the count of what is complete behind it.)
        """
        state = self._state(key)
        self._require_epochs(leader_epoch, state_epoch)
        _fence_leader_epoch(state, leader_epoch)
        _fence_state_epoch(state, state_epoch)
        self._require_known_partition(key)
        if self._behaviour.refuses_reversed_batches and any(batch.first > batch.last for batch in batches):
            raise Refusal(UnknownServerError, "a batch ends before it begins")
        if self._behaviour.start_only_rises and UNINITIALISED_START < start_offset < state.start_offset:
            start_offset, delivery_complete_count = UNINITIALISED_START, state.delivery_complete_count
        raised_leader = raised_state = NO_EPOCH
        if self._behaviour.writes_raise_epochs:
            raised_leader = leader_epoch
            raised_state = state_epoch if state_epoch > state.state_epoch else NO_EPOCH
        record = self._record(
            key,
            state,
            start_offset,
            delivery_complete_count,
            batches,
            now_ms,
            leader_epoch=raised_leader,
            state_epoch=raised_state,
        )
        self._change(state.home, [record], now_ms)

    def _record(
        self,
        key: StateKey,
        state: ShareState,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        now_ms: int,
        *,
        leader_epoch: int = NO_EPOCH,
        state_epoch: int = NO_EPOCH,
    ) -> Snapshot | Update:
        """What a write stores: an update, or a snapshot if one is due or the state epoch changes. Raises `Refusal`."""
        new_leader_epoch = max(state.leader_epoch, leader_epoch)
        new_start = state.start_offset if start_offset == UNINITIALISED_START else start_offset
        try:
            if state.updates >= self._settings.updates_per_snapshot or state_epoch != NO_EPOCH:
                return Snapshot(
                    key,
                    snapshot_epoch=state.snapshot_epoch + 1,
                    state_epoch=max(state.state_epoch, state_epoch),
                    leader_epoch=new_leader_epoch,
                    start_offset=new_start,
                    delivery_complete_count=delivery_complete_count,
                    created_at_ms=now_ms,
                    written_at_ms=now_ms,
                    batches=merge_state_batches(tuple(state.batches), batches, new_start),
                )
            merged = merge_state_batches((), batches, start_offset)
            state.batches.check_mergeable(merged, new_start)
        except UnmergeableError as error:
            raise Refusal(UnknownServerError, str(error)) from None
        return Update(key, state.snapshot_epoch, new_leader_epoch, start_offset, delivery_complete_count, merged)

    def _change(self, home: int, records: Sequence[StateRecord], now_ms: int) -> None:
        """Write the records to a partition of the topic, and do what they say. Raises `Refusal`."""
        offset = self._log.append(home, [encode(record) for record in records], now_ms)
        for number, record in enumerate(records):
            self._states.replay(record, home, offset + number)
        if isinstance(records[-1], Snapshot) and offset - self._log.start_offset(home) > _MOST_RECORDS:
            self._long.add(home)
        if self._prune_at_ms is None:
            self._prune_at_ms = now_ms + self._settings.prune_interval_ms
        if self._rewrite_at_ms is None:
            self._rewrite_at_ms = now_ms + self._settings.cold_interval_ms

    def delete(self, key: StateKey, now_ms: int) -> None:
        """Forget the state and its fences; deleting what is not there is fine."""
        self._require_partition_number(key)
        state = self._states.get(key)
        if state is not None:
            self._change(state.home, [Tombstone(key)], now_ms)

    def summary(self, key: StateKey) -> StateSummary:
        """Start offset and counts without the batches; the defaults of `StateSummary` if nothing is stored."""
        self._require_partition_number(key)
        state = self._states.get(key)
        if state is None:
            return StateSummary()
        return StateSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)

    def keys(self, group_id: str) -> list[StateKey]:
        """What is stored for a group, in the order of initialisation."""
        return [key for key in self._states if key.group_id == group_id]

    def states(self) -> Iterator[tuple[StateKey, ShareState]]:
        """Everything that is stored, to look at."""
        return self._states.items()

    def delete_group(self, group_id: str, now_ms: int) -> None:
        """Forget everything about a group."""
        for key in self.keys(group_id):
            self.delete(key, now_ms)

    def topic_deleted(self, topic_id: UUID, now_ms: int) -> None:
        """Forget a topic in all groups. What the log refuses to forget is of no use to anybody, and stays."""
        for key in [key for key in self._states if key.topic_id == topic_id]:
            with contextlib.suppress(Refusal):
                self.delete(key, now_ms)

    # ---- the log

    def load(self) -> None:
        """Forget what is in memory, and read all of it from the log."""
        self._states = ShareStates(self._settings.updates_per_snapshot)
        for home in range(self._log.partition_count):
            for offset, key, value in self._log.records(home):
                self._states.replay(decode(key, value), home, offset)

    def poll(self, now_ms: int) -> None:
        """Tidy the log if it is time: write idle states again, and delete what is redundant.

        If the log refuses that, it stays as it is until the next time.
        """
        if self._rewrite_at_ms is not None and self._rewrite_at_ms <= now_ms:
            self._rewrite_at_ms = None
            self._rewrite_idle(now_ms)
        if self._prune_at_ms is not None and self._prune_at_ms <= now_ms:
            self._prune_at_ms = None
            for home in self._states.homes():
                self._log.prune(home, self._states.redundant_before(home), now_ms)
        long, self._long = self._long, set()
        for home in sorted(long):
            self._shorten(home, now_ms)

    def _shorten(self, home: int, now_ms: int) -> None:
        """Write the states again that keep the older half of a partition, and delete that half."""
        middle = self._log.end_offset(home) - _MOST_RECORDS // 2
        old = [(key, state) for key, state in self._states.items() if state.home == home and state.snapshot_at < middle]
        self._rewrite(home, old, now_ms)
        self._log.prune(home, self._states.redundant_before(home), now_ms)

    def _rewrite_idle(self, now_ms: int) -> None:
        """An old snapshot keeps the log from being pruned: Kafka's cold partitions.

        Where all states of a partition have been rewritten already, nothing is gained by doing it again.
        """
        idle: dict[int, list[tuple[StateKey, ShareState]]] = {}
        active = set()
        for key, state in self._states.items():
            if state.created_at_ms == state.written_at_ms:
                active.add(state.home)
            if now_ms - state.written_at_ms >= self._settings.cold_interval_ms:
                idle.setdefault(state.home, []).append((key, state))
        for home, states in idle.items():
            if home in active:
                self._rewrite(home, states, now_ms)

    def _rewrite(self, home: int, states: Sequence[tuple[StateKey, ShareState]], now_ms: int) -> None:
        if states:
            with contextlib.suppress(Refusal):
                self._change(home, [_rewritten(key, state, now_ms) for key, state in states], now_ms)

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run, None if nothing was written since it last did."""
        times = (self._prune_at_ms, self._rewrite_at_ms)
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def check(self) -> None:
        """Assert the invariants of what is stored."""
        self._states.check()

    # ---- rules

    def _state(self, key: StateKey) -> ShareState:
        self._require_partition_number(key)
        state = self._states.get(key)
        if state is None:
            raise Refusal(InvalidRequestError, "no state has been initialised for this share partition")
        return state

    def _require_partition_number(self, key: StateKey) -> None:
        if key.partition < 0:
            raise Refusal(InvalidRequestError, "a partition has no negative number")

    def _require_known_partition(self, key: StateKey) -> None:
        if self._view.partition(key.topic_id, key.partition) is None:
            raise Refusal(UnknownTopicOrPartitionError, "there is no such topic partition")

    def _require_epochs(self, *epochs: int) -> None:
        if self._behaviour.negative_epochs is NegativeEpochs.REFUSED and min(epochs) < 0:
            raise Refusal(InvalidRequestError, "an epoch cannot be negative")


def coordinator_key(key: StateKey) -> str:
    """The key by which the coordinator of a state is found: group, topic id in base 64, partition."""
    topic_id = urlsafe_b64encode(key.topic_id.bytes).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


def _rewritten(key: StateKey, state: ShareState, now_ms: int) -> Snapshot:
    return Snapshot(
        key,
        snapshot_epoch=state.snapshot_epoch + 1,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        created_at_ms=state.created_at_ms,
        written_at_ms=now_ms,
        batches=tuple(state.batches),
    )


def _fence_leader_epoch(state: ShareState, leader_epoch: int, *, even_none: bool = False) -> None:
    compared = leader_epoch != NO_EPOCH or even_none
    if compared and leader_epoch < state.fence:
        raise Refusal(FencedLeaderEpochError, "a later leader of the partition has read the state")


def _fence_state_epoch(state: ShareState, state_epoch: int) -> None:
    if state_epoch != NO_EPOCH and state_epoch < state.highest_state_epoch:
        raise Refusal(FencedStateEpochError, "the state has been initialised with a higher state epoch")
