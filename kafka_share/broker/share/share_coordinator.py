"""The share coordinator: what a share group has stored about each partition, kept in memory.

Called by the share partitions (read when they load, write with every acknowledgement), by the group coordinator and the
admin handlers (initialize, delete, summary) and by the handler of APIs 83-87. One value per group, topic id and
partition. A real cluster spreads these values over the partitions of an internal topic; here every node sees the same
coordinator. It must not know what is acquired at the moment: acquisitions are never stored.

Every refusal carries one of Kafka's codes: INVALID_REQUEST (negative partition, value not initialised),
FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION. Source: KIP-932 and Kafka 4.3's
`ShareCoordinatorShard`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from kafka_share.broker.kafka_version import KAFKA_4_3, NegativeEpochs
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share.state_batches import StateBatch, StoredBatches, UnmergeableError
from kafka_share.errors import (
    FencedLeaderEpochError,
    FencedStateEpochError,
    InvalidRequestError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.share.cluster_view import ClusterView

UNINITIALISED_START: Final = -1
"""A start offset that the reset policy has yet to choose."""
NO_EPOCH: Final = -1
"""An epoch that switches the check against it off."""


class StateKey(NamedTuple):
    """What one stored value belongs to."""

    group_id: str
    topic_id: UUID
    partition: int


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


@attrs.define
class _Value:
    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    leader_epoch: int = 0
    batches: StoredBatches = attrs.Factory(StoredBatches)


class ShareCoordinator:
    """All stored share states. Methods answer a value or raise `Refusal`; nothing changes when they raise."""

    def __init__(self, view: ClusterView, behaviour: Behaviour = KAFKA_4_3) -> None:
        self._view = view
        self._behaviour = behaviour
        self._values: dict[StateKey, _Value] = {}
        self._leader_epochs: dict[StateKey, int] = {}
        self._state_epochs: dict[StateKey, int] = {}

    def initialize(self, key: StateKey, state_epoch: int, start_offset: int) -> None:
        """Start anew at `start_offset` (-1: to be chosen by the reset policy; others are taken as they are).

        The leader epoch shown by the summary falls back to 0; the fence against older leaders stays.
        """
        self._require_partition_number(key)
        self._require_epochs(state_epoch)
        self._fence_state_epoch(key, state_epoch)
        self._require_known_partition(key)
        complete = -1 if start_offset == UNINITIALISED_START else 0
        self._values[key] = _Value(state_epoch, start_offset, complete)
        self._state_epochs[key] = max(state_epoch, self._state_epochs.get(key, state_epoch))

    def read(self, key: StateKey, leader_epoch: int) -> StoredState:
        """The stored state, for the leader of `leader_epoch`; a higher epoch than the last one is remembered."""
        value = self._value(key)
        self._require_epochs(leader_epoch)
        compared = self._behaviour.negative_epochs is NegativeEpochs.FENCED_IN_READS
        self._fence_leader_epoch(key, leader_epoch, even_none=compared)
        if leader_epoch > self._leader_epochs.get(key, 0):
            self._leader_epochs[key] = value.leader_epoch = leader_epoch
        return StoredState(value.state_epoch, value.start_offset, tuple(value.batches))

    def write(
        self,
        key: StateKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """Merge `batches` over the stored ones; `start_offset` -1 leaves the start, a lower one is taken as it is.

        (Kafka 4.4: a lower one leaves the start and the count of what is complete behind it.)
        """
        value = self._value(key)
        self._require_epochs(leader_epoch, state_epoch)
        self._fence_leader_epoch(key, leader_epoch)
        self._fence_state_epoch(key, state_epoch)
        self._require_known_partition(key)
        if self._behaviour.refuses_reversed_batches and any(batch.first > batch.last for batch in batches):
            raise Refusal(UnknownServerError, "a batch ends before it begins")
        goes_back = self._behaviour.start_only_rises and UNINITIALISED_START < start_offset < value.start_offset
        stays = goes_back or start_offset == UNINITIALISED_START
        start_offset = value.start_offset if stays else start_offset
        try:
            value.batches.merge(batches, start_offset)
        except UnmergeableError as error:
            raise Refusal(UnknownServerError, str(error)) from error
        if self._behaviour.writes_raise_epochs:
            self._raise_epochs(key, value, leader_epoch, state_epoch)
        value.start_offset = start_offset
        if not goes_back:
            value.delivery_complete_count = delivery_complete_count

    def delete(self, key: StateKey) -> None:
        """Forget the value and its fences; deleting what is not there is fine."""
        self._require_partition_number(key)
        self._values.pop(key, None)
        self._leader_epochs.pop(key, None)
        self._state_epochs.pop(key, None)

    def summary(self, key: StateKey) -> StateSummary:
        """Start offset and counts without the batches; the defaults of `StateSummary` if nothing is stored."""
        self._require_partition_number(key)
        value = self._values.get(key)
        if value is None:
            return StateSummary()
        return StateSummary(value.state_epoch, value.leader_epoch, value.start_offset, value.delivery_complete_count)

    def keys(self, group_id: str) -> list[StateKey]:
        """What is stored for a group, in the order of initialisation."""
        return [key for key in self._values if key.group_id == group_id]

    def delete_group(self, group_id: str) -> None:
        """Forget everything about a group."""
        for key in self.keys(group_id):
            self.delete(key)

    def topic_deleted(self, topic_id: UUID) -> None:
        """Forget a topic in all groups."""
        for key in [key for key in self._values if key.topic_id == topic_id]:
            self.delete(key)

    def check(self) -> None:
        """Assert that stored batches do not overlap and that none lies below its start."""
        for key, value in self._values.items():
            for before, after in pairwise(value.batches):
                assert before.last < after.first, f"{key}: {after} after {before}"
            assert all(value.start_offset <= batch.last for batch in value.batches), f"{key}: below the start"
        assert self._leader_epochs.keys() <= self._values.keys()
        assert self._state_epochs.keys() == self._values.keys()

    def _value(self, key: StateKey) -> _Value:
        self._require_partition_number(key)
        value = self._values.get(key)
        if value is None:
            raise Refusal(InvalidRequestError, "no state has been initialised for this share partition")
        return value

    def _require_partition_number(self, key: StateKey) -> None:
        if key.partition < 0:
            raise Refusal(InvalidRequestError, "a partition has no negative number")

    def _require_known_partition(self, key: StateKey) -> None:
        if self._view.partition(key.topic_id, key.partition) is None:
            raise Refusal(UnknownTopicOrPartitionError, "there is no such topic partition")

    def _require_epochs(self, *epochs: int) -> None:
        if self._behaviour.negative_epochs is NegativeEpochs.REFUSED and min(epochs) < 0:
            raise Refusal(InvalidRequestError, "an epoch cannot be negative")

    def _raise_epochs(self, key: StateKey, value: _Value, leader_epoch: int, state_epoch: int) -> None:
        """The fences have let these epochs pass: they are the highest ones, or -1."""
        if leader_epoch > value.leader_epoch:
            self._leader_epochs[key] = value.leader_epoch = leader_epoch
        if state_epoch > value.state_epoch:
            self._state_epochs[key] = value.state_epoch = state_epoch

    def _fence_leader_epoch(self, key: StateKey, leader_epoch: int, *, even_none: bool = False) -> None:
        compared = leader_epoch != NO_EPOCH or even_none
        if compared and leader_epoch < self._leader_epochs.get(key, leader_epoch):
            raise Refusal(FencedLeaderEpochError, "a later leader of the partition has read the state")

    def _fence_state_epoch(self, key: StateKey, state_epoch: int) -> None:
        if state_epoch != NO_EPOCH and state_epoch < self._state_epochs.get(key, state_epoch):
            raise Refusal(FencedStateEpochError, "the state has been initialised with a higher state epoch")
