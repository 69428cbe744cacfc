"""The client core of one share consumer: routes events to the machines of the core and collects their outputs.

Driven by `kafka_share.network` on the background thread, and by the simulation of the tests: `handle(event, now_ms)`,
then `poll(now_ms)`, then one timer for `wake_at_ms()`. No sockets, threads, clocks; randomness comes in. Whatever a
broker does becomes an output; exceptions are for mistakes of the driver.
"""

from __future__ import annotations

import random
from typing import assert_never

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.condition import Condition, Troubles
from kafka_share.core.context import CoreContext
from kafka_share.core.coordinator import Coordinator
from kafka_share.core.events import (
    AcknowledgementsGathered,
    AcknowledgementsMade,
    BatchReclaimed,
    Channel,
    ClientInstanceIdWanted,
    CloseRequested,
    CommitRequested,
    CompleteUnsubscribe,
    ConnectionLost,
    Event,
    FinishClose,
    Output,
    PollEnded,
    PollStarted,
    RequestFailed,
    ResponseReceived,
    SessionReturned,
    SessionUsed,
    SubscriptionChanged,
    TellCondition,
    Unsubscribed,
    WorkBegun,
)
from kafka_share.core.fetching.fetcher import Fetching
from kafka_share.core.group_limit import GroupLimit
from kafka_share.core.membership import Membership
from kafka_share.core.metadata import Metadata
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.core.metrics.telemetry import TelemetryPush
from kafka_share.core.outage import Outage
from kafka_share.core.outputs import Outputs, Requests
from kafka_share.records import TopicPartition

_AFTER_CLOSE = (PollEnded, WorkBegun, BatchReclaimed, AcknowledgementsMade, SessionReturned, SessionUsed)
"""Commands of other threads, or posted before, that may come behind close; it has taken what they are about."""
_END_OF_TIME_MS = 1 << 62


class ShareConsumerCore:
    """Membership knows what may be fetched, metadata where it is; fetching does it.

    Fetching is polled at every step, because it has something to do at nearly every one. The other machines change with
    their own answers, with commands, and with time: they are polled when something of that has come (`_is_control_due`,
    `_control_at_ms`), and not for each batch of records. That is a third of what a step costs.
    """

    def __init__(
        self, config: ShareConsumerConfig, member_id: str, source: random.Random, *, lends: bool = False
    ) -> None:
        self.measurements: Measurements = Measurements(config.metrics_num_samples, config.metrics_sample_window_ms)
        """What the client counts and times; the driver and the façade record into it as well."""
        self.measurements.labels.update(group_id=config.group_id, member_id=member_id)
        self._outputs = Outputs()
        self._troubles = Troubles()
        self._outage = Outage(config, self._outputs, self._troubles)
        self._requests = Requests(config, self._outputs.add, source)
        context = CoreContext(
            config, member_id, self._outputs, self._requests, self.measurements, source, self._troubles
        )
        self._metadata = Metadata(context)
        self._coordinator = Coordinator(context, self._metadata)
        self._membership = Membership(context, self._metadata, self._coordinator)
        self._fetching = Fetching(context, self._metadata, self._membership, lends=lends)
        self._group_limit = GroupLimit(context, self._coordinator)
        self._telemetry = TelemetryPush(context, self._metadata, self._coordinator)
        self._topics: frozenset[str] = frozenset()
        """What the application subscribes to; in force from the next poll on."""
        self._unsubscribing: list[Unsubscribed] = []
        self._closing: CloseRequested | None = None
        self._told: object = None
        self._told_troubles = -1
        self._is_finished = False
        self._is_control_due = True
        """Something has happened that concerns more machines than fetching."""
        self._control_at_ms = _END_OF_TIME_MS
        """When one of them wants to be polled even if nothing happens."""

    # ---- events

    def handle(self, event: Event, now_ms: int) -> None:
        if self._is_finished:
            return
        if isinstance(event, ResponseReceived):
            self._outage.answered()
            channel = self._requests.answered(event.send_id, event.response, now_ms)
            self._is_control_due |= channel is Channel.CONTROL
        elif isinstance(event, PollStarted):
            assert self._closing is None, f"{event!r} after close"
            self._poll_started(event, now_ms)
        elif isinstance(event, PollEnded):
            self._fetching.poll_ended()
            self._membership.poll_ended(now_ms)
        elif isinstance(event, RequestFailed):
            self._is_control_due = True
            self._outage.failed(event.error, now_ms)
            self._requests.failed(event.send_id, event.error, now_ms)
        elif isinstance(event, ConnectionLost):
            self._fetching.connection_lost(event.node_id, event.channel)
        elif isinstance(event, ClientInstanceIdWanted):
            self._is_control_due = True
            self._telemetry.want_client_instance_id()
        else:
            self._command(event, now_ms)

    def _command(
        self,
        event: SubscriptionChanged
        | Unsubscribed
        | WorkBegun
        | AcknowledgementsMade
        | AcknowledgementsGathered
        | CommitRequested
        | CloseRequested
        | BatchReclaimed
        | SessionReturned
        | SessionUsed,
        now_ms: int,
    ) -> None:
        assert self._closing is None or isinstance(event, _AFTER_CLOSE), f"{event!r} after close"
        if isinstance(event, WorkBegun):
            self._fetching.work_begun(event, now_ms)
        elif isinstance(event, SessionReturned):
            self._fetching.session_returned(event, now_ms)
        elif isinstance(event, SessionUsed):
            self._fetching.session_used(event, now_ms)
        elif isinstance(event, CommitRequested):
            self._fetching.commit(event)
        elif isinstance(event, AcknowledgementsMade):
            self._fetching.acknowledgements_made(now_ms)
        elif isinstance(event, AcknowledgementsGathered):
            self._fetching.acknowledgements_gathered(event, now_ms)
        elif isinstance(event, SubscriptionChanged):
            assert event.topics, "an empty subscription is Unsubscribed"
            self._topics = event.topics
        elif isinstance(event, Unsubscribed):
            self._is_control_due = True
            self._leave()
            self._unsubscribing.append(event)
        elif isinstance(event, BatchReclaimed):
            self._fetching.batch_reclaimed(event.batch_id, now_ms)
        elif isinstance(event, CloseRequested):
            self._is_control_due = True
            self._closing = event
            self._fetching.acknowledgements.add(event.acknowledgements, now_ms, is_urgent=True)
            self._fetching.close(event.deadline_at_ms)
            self._telemetry.close(event.deadline_at_ms)
        else:
            assert_never(event)

    def _poll_started(self, event: PollStarted, now_ms: int) -> None:
        assert self._topics, "a poll without a subscription"
        if not self._membership.is_joined_for(self._topics):
            self._is_control_due = True
            self._outage.poll_started(now_ms)
            if not self._membership.is_fatal:
                self._metadata.set_interest(self._topics, now_ms)
        self._membership.poll_started(self._topics, now_ms, event.deadline_at_ms)
        self._fetching.poll_started(event, now_ms)

    def _leave(self) -> None:
        """Leave the group. The share sessions stay: what was delivered can still be acknowledged."""
        self._topics = frozenset()
        self._membership.leave()
        self._fetching.poll_ended()
        self._troubles.forget()

    # ---- time

    def poll(self, now_ms: int) -> list[Output]:
        if self._is_finished:
            return self._outputs.take()
        # The end of a poll brings the time nearer at which the member has not polled for too long.
        is_late = now_ms >= self._control_at_ms or now_ms >= self._membership.expires_at_ms
        is_whole = is_late or self._is_control_due or self._closing is not None
        if is_whole:
            self._outage.poll(now_ms)
            self._telemetry.poll(now_ms)
        if self._closing is not None:
            self._poll_closing(self._closing, now_ms)
        else:
            if is_whole:
                self._membership.poll(now_ms)
            if self._fetching.poll(now_ms):
                self._membership.poll_ended(now_ms)
        # What fetching misses is looked up at once.
        if is_whole or self._metadata.is_needed:
            self._poll_control(now_ms)
        if is_whole or self._told_troubles != self._troubles.version:
            self._tell_condition()
        return self._outputs.take()

    def _poll_control(self, now_ms: int) -> None:
        """The second half, behind fetching: where things are, and when to look at all of this again."""
        if self._is_finished:
            return  # nothing follows FinishClose
        self._coordinator.poll(now_ms)
        if self._closing is None:
            self._group_limit.poll(now_ms)
        self._metadata.poll(now_ms)
        self._complete_unsubscribes(now_ms)
        self._is_control_due = False
        times = [
            self._membership.wake_at_ms(),
            self._coordinator.wake_at_ms(),
            self._group_limit.wake_at_ms() if self._closing is None else None,
            self._metadata.wake_at_ms(),
            self._telemetry.wake_at_ms(),
            self._outage.wake_at_ms(),
            None if self._closing is None else self._closing.deadline_at_ms,
            *(unsubscribed.deadline_at_ms for unsubscribed in self._unsubscribing),
        ]
        self._control_at_ms = min((at_ms for at_ms in times if at_ms is not None), default=_END_OF_TIME_MS)

    def _poll_closing(self, closing: CloseRequested, now_ms: int) -> None:
        """Acknowledgements and the ends of the sessions first, then the group: leaving does not release records."""
        is_late = now_ms >= closing.deadline_at_ms
        self._fetching.poll(now_ms)
        if is_late or self._fetching.is_closed:
            self._membership.leave()
        self._membership.poll(now_ms)
        is_over = self._fetching.is_closed and self._membership.is_out and self._telemetry.is_closed
        if is_late or is_over:
            self._fetching.abandon(now_ms)
            for unsubscribed in self._unsubscribing:
                self._outputs.add(CompleteUnsubscribe(unsubscribed.request_id))
            self._unsubscribing.clear()
            self._outputs.add(FinishClose())
            self._is_finished = True

    def _complete_unsubscribes(self, now_ms: int) -> None:
        for unsubscribed in list(self._unsubscribing):
            if self._membership.is_out or now_ms >= unsubscribed.deadline_at_ms:
                self._unsubscribing.remove(unsubscribed)
                self._outputs.add(CompleteUnsubscribe(unsubscribed.request_id))

    @property
    def is_settled(self) -> bool:
        """Whether it is a member in its own eyes, with nothing under way, and knows whom to tell when it leaves."""
        return self._membership.is_settled and self._coordinator.node is not None

    def _tell_condition(self) -> None:
        if self._is_finished:
            return
        membership, metadata = self._membership, self._metadata
        self._told_troubles = self._troubles.version
        told = (membership.is_joined, membership.assignment_version, metadata.version, self._troubles.version)
        if told == self._told:
            return
        self._told = told
        named = [(metadata.topic_name(topic_id), partition) for topic_id, partition in membership.assignment]
        assigned = tuple(TopicPartition(topic, partition) for topic, partition in named if topic is not None)
        condition = Condition(membership.is_joined, assigned, metadata.missing_topics, self._troubles.worst)
        self._outputs.add(TellCondition(condition))

    def wake_at_ms(self) -> int | None:
        if self._is_finished:
            return None
        at_ms = min(self._control_at_ms, self._membership.expires_at_ms)
        fetching_at_ms = self._fetching.next_at_ms
        if fetching_at_ms is not None and fetching_at_ms < at_ms:
            at_ms = fetching_at_ms
        return None if at_ms == _END_OF_TIME_MS else at_ms

    def check(self) -> None:
        """Assert the invariants of all machines; tests and the simulation call it after every step."""
        self._requests.check()
        self._metadata.check()
        self._coordinator.check()
        self._membership.check()
        self._fetching.check()
        self._telemetry.check()
        assert self._outputs.is_empty or not self._is_finished, "an output after the end"
