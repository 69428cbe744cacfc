"""Membership of the share group: joining, heartbeats, the member epoch, fencing, leaving.

Owned by `ShareConsumerCore`; sends ShareGroupHeartbeat to the coordinator and knows nothing of records.

Theory of operation. The group coordinator decides who is a member and which partitions a member may fetch; the client
only keeps saying that it is alive and what it subscribes to. A heartbeat with epoch 0 joins, with -1 leaves, and with
the epoch of the last answer keeps the place. An answer carries the assignment when it has changed. There is no
rebalance protocol: records are locked one by one, so two members may have the same partition, and a member that has
got an assignment confirms it by nothing but the next heartbeat.

The states, and what moves a member from one to the next, are in `TRANSITIONS`. RECONCILING and FENCED are passed
through within one step; they exist because something is done in each: a new assignment is taken over, the old one is
dropped. Ids of topics that the metadata does not know yet stay in the assignment and are resolved by whoever fetches.

The assignment comes one heartbeat late: the coordinator first initialises the share state of a new partition, or waits
to assign for several members at once. So a joined member without an assignment, and one that changed its subscription,
sends a short series of heartbeats before it falls back to the interval of the server (`SERIES_MS`).

max.poll.interval.ms guards against an application that hangs: when no poll has come for so long, the member leaves and
joins again with the next poll. The clock stands still while a poll waits.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kafka_share.core.context import CoreContext
from kafka_share.core.coordinator import Coordinator
from kafka_share.core.events import Channel
from kafka_share.core.metadata import Metadata
from kafka_share.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    KafkaShareError,
    NotCoordinatorError,
    RemoteProtocolError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnsupportedVersionError,
    error_for_code,
)
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from kafka_share.protocol.share_group import ShareGroupHeartbeatResponse


class State(enum.Enum):
    UNSUBSCRIBED = "unsubscribed"
    """No member, no heartbeats."""
    JOINING = "joining"
    """A heartbeat with epoch 0 is due, or its answer awaited."""
    RECONCILING = "reconciling"
    """A new assignment is being taken over."""
    ACKNOWLEDGING = "acknowledging"
    """The heartbeat that confirms a new assignment is due, at once."""
    STABLE = "stable"
    """A heartbeat each interval."""
    FENCED = "fenced"
    """The coordinator does not know the member any more; the assignment is lost."""
    LEAVING = "leaving"
    """A heartbeat with epoch -1 is due, or its answer awaited, because the application wants to leave."""
    EXPIRING = "expiring"
    """The same, because no poll came for max.poll.interval.ms."""
    STALE = "stale"
    """Left because no poll came; the next poll joins again."""
    FATAL = "fatal"
    """The coordinator refused the member for good."""


class Trigger(enum.Enum):
    POLLED = "a poll with a subscription"
    ASSIGNED = "heartbeat answered with an assignment"
    CONFIRMED = "heartbeat answered without a new assignment"
    APPLIED = "assignment taken over"
    REFUSED = "unknown member or fenced epoch"
    DROPPED = "assignment dropped"
    UNSUBSCRIBED = "unsubscribe or close"
    TIMED_OUT = "no poll within max.poll.interval.ms"
    LEFT = "leave answered, failed or pointless"
    FAILED = "fatal error"


_ACTIVE: Final = (State.JOINING, State.RECONCILING, State.ACKNOWLEDGING, State.STABLE)

TRANSITIONS: Final[Mapping[tuple[State, Trigger], State]] = MappingProxyType(
    {
        (State.UNSUBSCRIBED, Trigger.POLLED): State.JOINING,
        (State.STALE, Trigger.POLLED): State.JOINING,
        (State.STALE, Trigger.UNSUBSCRIBED): State.UNSUBSCRIBED,
        (State.JOINING, Trigger.ASSIGNED): State.RECONCILING,
        (State.JOINING, Trigger.CONFIRMED): State.STABLE,
        (State.RECONCILING, Trigger.APPLIED): State.ACKNOWLEDGING,
        (State.ACKNOWLEDGING, Trigger.ASSIGNED): State.RECONCILING,
        (State.ACKNOWLEDGING, Trigger.CONFIRMED): State.STABLE,
        (State.STABLE, Trigger.ASSIGNED): State.RECONCILING,
        (State.STABLE, Trigger.CONFIRMED): State.STABLE,
        (State.FENCED, Trigger.DROPPED): State.JOINING,
        **{(state, Trigger.REFUSED): State.FENCED for state in _ACTIVE},
        **{(state, Trigger.UNSUBSCRIBED): State.LEAVING for state in _ACTIVE},
        **{(state, Trigger.TIMED_OUT): State.EXPIRING for state in _ACTIVE},
        **{(state, Trigger.FAILED): State.FATAL for state in State if state is not State.FATAL},
        (State.EXPIRING, Trigger.UNSUBSCRIBED): State.LEAVING,
        (State.LEAVING, Trigger.LEFT): State.UNSUBSCRIBED,
        (State.EXPIRING, Trigger.LEFT): State.STALE,
    }
)
"""(state, what happened) → next state. Pairs that are not listed cannot happen."""

SERIES_MS: Final = (50, 100, 200, 350, 350)
"""Gaps between the heartbeats of the short series; then every `SERIES_STEP_MS`.

The first finds the assignment of a broker that makes it at once; the last, 1050 ms after the first answer, that of a
broker with the default group.share.assignment.interval.ms of 1000 (Kafka 4.3).
"""
SERIES_STEP_MS: Final = 500
SERIES_LIMIT_MS: Final = 5_000
"""The series ends after this time or two intervals of the server, whichever is shorter."""
MAX_ASSIGNED_PARTITIONS: Final = 100_000
"""Of one member; each costs 250 bytes, and 4 on the wire."""
MIN_INTERVAL_MS: Final = 50
"""A broker that asks for heartbeats more often is not believed."""
STEADY_MS: Final = 5_000
"""A member that is fenced sooner after its join waits before it joins again."""
CHANGES_AT_ONCE: Final = 3
"""So many changed assignments in a row are answered without a pause. (A rolling start of members brings some.)"""
DEFAULT_INTERVAL_MS: Final = 5_000
"""Until a broker has named the interval (group.share.heartbeat.interval.ms)."""

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
_END_OF_TIME_MS: Final = 1 << 62

Assignment = tuple[tuple[UUID, int], ...]


class Membership:
    """See the module's docstring. `assignment` is what may be fetched; `assignment_version` grows when it changes."""

    def __init__(self, context: CoreContext, metadata: Metadata, coordinator: Coordinator) -> None:
        self.state: State = State.UNSUBSCRIBED
        self.subscription: frozenset[str] = frozenset()
        """In force since the last poll."""
        self.assignment: Assignment = ()
        self.assignment_version: int = 0
        self.epoch: int = JOIN_EPOCH
        self._config = context.config
        self._member_id = context.member_id
        self._metadata = metadata
        self._coordinator = coordinator
        self._requests = context.requests
        self._outputs = context.outputs
        self._troubles = context.troubles
        self._measurements = context.measurements
        self._backoff = context.new_backoff()
        self._rejoins = context.new_backoff(free_failures=1)
        self._changes = context.new_backoff(free_failures=CHANGES_AT_ONCE)
        """Paces heartbeats while each answer brings another assignment."""
        self._joined_at_ms = 0
        self.expires_at_ms: int = _END_OF_TIME_MS
        """When the member has not polled for too long, unless a poll comes before."""
        self._polled = False
        self._poll_ends_at_ms = 0
        self._sent_names: frozenset[str] | None = None
        """The subscription that the coordinator has; None: the next heartbeat must be a full one."""
        self._sent_epoch: int | None = None
        """The epoch in the heartbeat whose answer is awaited."""
        self._has_joined = False
        """Whether a heartbeat has been sent since the member was last out: then the coordinator may know it."""
        self._interval_ms = DEFAULT_INTERVAL_MS
        self._sent_at_ms = 0
        self._retry_at_ms: int | None = None
        self._reported: BrokerError | None = None
        self._awaited: frozenset[str] = frozenset()
        self._series_ends_at_ms: int | None = None
        self._series_step = 0
        self._wake_at_ms: int | None = None

    # ---- commands

    def poll_started(self, topics: frozenset[str], now_ms: int, deadline_at_ms: int) -> None:
        """A poll with this subscription began; a changed subscription takes effect now."""
        self._poll_ends_at_ms = max(now_ms, deadline_at_ms)
        self._set_expiry()
        self._polled = bool(topics)
        if topics == self.subscription or self.state is State.FATAL:
            return
        added = topics - self.subscription
        self.subscription = topics
        self._await_assignment(added or topics, now_ms)
        if self._reported is not None:
            self._retry_at_ms = None  # other topics, perhaps allowed ones
            self._troubles.end(self)

    def poll_ended(self, now_ms: int) -> None:
        self._poll_ends_at_ms = min(self._poll_ends_at_ms, now_ms)
        self._set_expiry()

    def leave(self) -> None:
        """Leave the group; `is_out` is true when that has ended. Nothing happens if there is nothing to leave."""
        self._polled = False
        self.subscription = frozenset()
        if self.state in _ACTIVE or self.state in (State.EXPIRING, State.STALE):
            self._drop_assignment()
            self._go(Trigger.UNSUBSCRIBED)

    @property
    def is_out(self) -> bool:
        return self.state in (State.UNSUBSCRIBED, State.STALE, State.FATAL)

    @property
    def is_settled(self) -> bool:
        """Whether it is a member that has taken over and confirmed its assignment."""
        return self.state is State.STABLE

    @property
    def is_abandoned(self) -> bool:
        """Whether the application has left, or no poll has come for too long, and none since."""
        return not self._polled and self.state not in (*_ACTIVE, State.FENCED, State.FATAL)

    @property
    def is_fatal(self) -> bool:
        return self.state is State.FATAL

    @property
    def is_joined(self) -> bool:
        """Whether the coordinator has taken the member in, as far as is known."""
        return self.epoch > JOIN_EPOCH and self.state in _ACTIVE

    def is_joined_for(self, topics: frozenset[str]) -> bool:
        """Whether a poll for these topics changes nothing: the member is in, and has subscribed to them."""
        return topics == self.subscription and self.epoch > JOIN_EPOCH and self.state in _ACTIVE

    def fail(self, error: KafkaShareError, now_ms: int) -> None:
        if self.state is not State.FATAL:
            self._drop_assignment()
            self._go(Trigger.FAILED)
            self._outputs.note("refused", error=str(error))
            self._troubles.begin(self, error, now_ms, is_fatal=True)
            self._outputs.raise_error(error, fatal=True)

    # ---- time

    def poll(self, now_ms: int) -> None:
        self._wake_at_ms = None
        if self._coordinator.refusal is not None:
            self.fail(self._coordinator.refusal, now_ms)
        self._expire(now_ms)
        self._step()
        self._skip_pointless_leave()
        due_at_ms = self._due_at_ms()
        self._coordinator.want(due_at_ms is not None)
        if due_at_ms is not None and self._sent_epoch is None and self._coordinator.node is not None:
            ready_at_ms = self._requests.ready_at_ms(self._coordinator.node.id, Channel.CONTROL)
            due_at_ms = max(due_at_ms, ready_at_ms)
            if due_at_ms <= now_ms:
                self._send(now_ms)
            else:
                self._wake_at_ms = due_at_ms

    def wake_at_ms(self) -> int | None:
        """When a heartbeat may leave; `expires_at_ms` stands beside it, because each poll moves it."""
        return self._wake_at_ms

    def _set_expiry(self) -> None:
        is_guarded = self.state in _ACTIVE
        self.expires_at_ms = (
            self._poll_ends_at_ms + self._config.max_poll_interval_ms if is_guarded else _END_OF_TIME_MS
        )

    def _expire(self, now_ms: int) -> None:
        if now_ms >= self.expires_at_ms:
            self._polled = False
            self._drop_assignment()
            self._outputs.note("stale", error=f"no poll for {self._config.max_poll_interval_ms} ms")
            self._go(Trigger.TIMED_OUT)

    def _step(self) -> None:
        """Pass through the states that need no answer."""
        if self.state in (State.UNSUBSCRIBED, State.STALE) and self._polled:
            self.epoch = JOIN_EPOCH
            self._sent_names = None
            self._retry_at_ms = None
            self._has_joined = False
            self._go(Trigger.POLLED)
        elif self.state is State.FENCED:
            self.epoch = JOIN_EPOCH
            self._sent_names = None
            self._drop_assignment()
            self._go(Trigger.DROPPED)
        elif self.state is State.RECONCILING:
            self._go(Trigger.APPLIED)

    def _skip_pointless_leave(self) -> None:
        if self.state not in (State.LEAVING, State.EXPIRING) or self._sent_epoch is not None:
            return
        if not self._has_joined or self._coordinator.node is None:
            self._left()
            self._step()

    def _due_at_ms(self) -> int | None:
        """When the next heartbeat may leave; None if none is to be sent."""
        if self.state in (State.LEAVING, State.EXPIRING):
            return 0
        if self.state not in _ACTIVE:
            return None
        if self._retry_at_ms is not None:
            return self._retry_at_ms
        if self.state is not State.STABLE or self._sent_names != self.subscription:
            return self._changes.ready_at_ms
        due_at_ms = self._sent_at_ms + self._interval_ms
        if self._series_ends_at_ms is not None:
            step_ms = SERIES_MS[self._series_step] if self._series_step < len(SERIES_MS) else SERIES_STEP_MS
            next_at_ms = self._sent_at_ms + step_ms
            if next_at_ms <= self._series_ends_at_ms:
                due_at_ms = min(due_at_ms, next_at_ms)
        return max(due_at_ms, self._changes.ready_at_ms)

    # ---- heartbeats

    def _send(self, now_ms: int) -> None:
        node = self._coordinator.node
        assert node is not None
        request = ShareGroupHeartbeatRequest(group_id=self._config.group_id, member_id=self._member_id, rack_id=None)
        if self.state in (State.LEAVING, State.EXPIRING):
            request.member_epoch = LEAVE_EPOCH
            request.subscribed_topic_names = [] if self.state is State.LEAVING else None
        else:
            is_full = self._sent_names is None
            request.member_epoch = self.epoch
            request.rack_id = self._config.client_rack if is_full else None
            is_changed = self._sent_names != self.subscription
            request.subscribed_topic_names = sorted(self.subscription) if is_changed else None
            self._sent_names = self.subscription
            if self._series_ends_at_ms is not None and self.state is State.STABLE and not is_changed:
                self._series_step += 1
        self._has_joined = True
        self._retry_at_ms = None
        self._sent_at_ms = now_ms
        self._measurements.heartbeat_sent(now_ms)
        self._sent_epoch = request.member_epoch
        timeout_ms = self._config.request_timeout_ms
        self._requests.send(node, Channel.CONTROL, request, timeout_ms, self._answered, self._failed)

    def _answered(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        self._measurements.heartbeat_answered(now_ms - self._sent_at_ms, now_ms)
        epoch, self._sent_epoch = self._sent_epoch, None
        if epoch == LEAVE_EPOCH:
            self._left()
        elif self.state in _ACTIVE:
            error = error_for_code(response.error_code, response.error_message)
            if error is not None:
                self._sent_names = None
                self._refused(error, now_ms)
            elif response.member_epoch <= 0:
                self._fenced(f"the answer names the member epoch {response.member_epoch}", now_ms)
            else:
                self._accepted(response, now_ms)

    def _failed(self, error: KafkaShareError, now_ms: int) -> None:
        epoch, self._sent_epoch = self._sent_epoch, None
        self._coordinator.forget()
        if epoch == LEAVE_EPOCH:
            self._left()
        elif isinstance(error, UnsupportedVersionError):
            self.fail(error, now_ms)
        elif self.state in _ACTIVE:
            self._sent_names = None
            self._back_off(now_ms)

    def _left(self) -> None:
        self._has_joined = False
        self.epoch = JOIN_EPOCH
        if self.state in (State.LEAVING, State.EXPIRING):
            self._outputs.note("left")
            self._go(Trigger.LEFT)

    def _accepted(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        was_joining = self.state is State.JOINING
        self.epoch = response.member_epoch
        if was_joining:
            self._joined_at_ms = now_ms
            self._outputs.note("joined", member_epoch=self.epoch)
        if response.heartbeat_interval_ms > 0:
            self._interval_ms = max(response.heartbeat_interval_ms, MIN_INTERVAL_MS)
        self._backoff.succeeded()
        self._coordinator.confirmed()
        self._reported = None
        self._troubles.end(self)
        is_new, version = False, self.assignment_version
        if response.assignment is not None:
            is_new = self._take_assignment(response, now_ms) or (was_joining and bool(self.assignment))
        if was_joining and not self.assignment:
            self._await_assignment(self.subscription, now_ms)
        if version != self.assignment_version:
            self._changes.failed(now_ms)
        else:
            self._changes.succeeded()
        self._go(Trigger.ASSIGNED if is_new else Trigger.CONFIRMED)

    def _take_assignment(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> bool:
        """Take over an assignment; True if it is not empty and another one than before."""
        assert response.assignment is not None
        named = (
            (topic.topic_id, partition)
            for topic in response.assignment.topic_partitions
            for partition in topic.partitions
            if topic.topic_id is not None and partition >= 0
        )
        assignment: Assignment = tuple(dict.fromkeys(islice(named, MAX_ASSIGNED_PARTITIONS)))
        is_too_long = next(named, None) is not None
        if any(self._is_awaited(topic_id) for topic_id, _ in assignment):
            self._series_ends_at_ms = None
        if assignment == self.assignment:
            return False
        had_something = bool(self.assignment)
        self._assign(assignment)
        if is_too_long:
            what = (
                f"more than {MAX_ASSIGNED_PARTITIONS} partitions were assigned to one member; the others are left out"
            )
            self._outputs.raise_error(RemoteProtocolError(what))
        self._measurements.assignment_changed(now_ms)
        self._outputs.note("assignment-changed", member_epoch=self.epoch, partitions=len(assignment))
        if had_something and not assignment:
            self._await_assignment(self.subscription, now_ms)
        return bool(assignment)

    def _is_awaited(self, topic_id: UUID) -> bool:
        name = self._metadata.topic_name(topic_id)
        return name is None or name in self._awaited

    def _await_assignment(self, topics: frozenset[str], now_ms: int) -> None:
        """Begin the short series: an assignment with one of these topics is expected soon."""
        self._awaited = topics
        self._series_step = 0
        self._series_ends_at_ms = now_ms + min(SERIES_LIMIT_MS, 2 * self._interval_ms)

    def _drop_assignment(self) -> None:
        self._series_ends_at_ms = None
        if self.assignment:
            self._assign(())

    def _assign(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.assignment_version += 1

    # ---- errors

    def _refused(self, error: BrokerError, now_ms: int) -> None:
        if isinstance(error, NotCoordinatorError | CoordinatorNotAvailableError):
            self._coordinator.forget()  # which paces the look-ups: the heartbeat itself goes out at once
            self._retry_at_ms = now_ms
        elif isinstance(error, CoordinatorLoadInProgressError):
            self._back_off(now_ms)
        elif isinstance(error, UnknownMemberIdError | FencedMemberEpochError):
            self._fenced(str(error), now_ms)
        elif isinstance(error, GroupIdNotFoundError) and self.state is not State.JOINING:
            # The group was deleted under its member, as when that was silent for longer than its session: a join makes
            # it anew. (Java's client ends here.) A join is refused like this only for a group of another type.
            self._fenced(str(error), now_ms)
        elif isinstance(error, TopicAuthorizationFailedError):
            if self._reported is None or str(self._reported) != str(error):
                self._troubles.begin(self, error, now_ms)
                self._outputs.raise_error(error)
            self._reported = error
            self._retry_at_ms = now_ms + self._interval_ms
        else:
            self.fail(error, now_ms)

    def _fenced(self, why: str, now_ms: int) -> None:
        """Join again at once; with back-off if that is refused too, or again and again soon after the join."""
        self._outputs.note("fenced", error=why)
        if self.state is State.JOINING:
            self._back_off(now_ms)
        else:
            if now_ms - self._joined_at_ms >= STEADY_MS:
                self._rejoins.succeeded()
            self._rejoins.failed(now_ms)
            self._retry_at_ms = self._rejoins.ready_at_ms
        self._go(Trigger.REFUSED)

    def _back_off(self, now_ms: int) -> None:
        self._backoff.failed(now_ms)
        self._retry_at_ms = self._backoff.ready_at_ms

    def _go(self, trigger: Trigger) -> None:
        self.state = TRANSITIONS[self.state, trigger]
        self._set_expiry()

    def check(self) -> None:
        assert not self.assignment or self.state in _ACTIVE, f"an assignment while {self.state.value}"
        assert self.epoch >= 0, "the local epoch is never the leave epoch"
        assert (self.expires_at_ms != _END_OF_TIME_MS) == (self.state in _ACTIVE), (
            "a guard over polls that nobody needs"
        )
        assert self.state is not State.STABLE or self.epoch > 0, "stable without an epoch"
        assert self._sent_epoch is None or self._has_joined or self.state is State.FATAL, "an answer nobody asked for"
