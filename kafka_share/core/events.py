"""What goes into the client core and what comes out of it: the contract between the core and its driver.

The driver (`kafka_share.network`, or the simulation of the tests) takes an event, calls `handle(event, now_ms)`, then
`poll(now_ms)`, performs the outputs and arms one timer for `wake_at_ms()`. Events are in the past tense, outputs in
the imperative. Times are integer milliseconds of one monotonic clock that the driver owns; `*_at_ms` is a point of
that clock, `*_ms` a span.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from kafka_share.core.condition import Condition
from kafka_share.core.fetching.offsets import AcknowledgementRun, merged
from kafka_share.locks import LockGeneration

if TYPE_CHECKING:
    from uuid import UUID

    from kafka_share.errors import KafkaShareError
    from kafka_share.protocol.share_values import AcquiredRange
    from kafka_share.records import Node, TopicIdPartition

Message: TypeAlias = Any
"""A request or response class instance of `kafka_share.protocol`."""


class Channel(enum.Enum):
    """Which connection to a node a request travels on: a ShareFetch that waits there must not hold up a heartbeat."""

    if not TYPE_CHECKING:  # where an Enum has the same, but in Python: every look-up by channel would call a function
        __hash__ = object.__hash__

    CONTROL = "control"
    """Metadata, FindCoordinator, ShareGroupHeartbeat."""
    DATA = "data"
    """ShareFetch and ShareAcknowledge; the share session belongs to this connection."""


@attrs.frozen
class GatheredAcknowledgements:
    """Acknowledgements of one partition, ready to be sent to the node that delivered the records.

    `session_id` names the share session generation that the records were acquired in (from `FetchedPartition`): after
    a reset the broker has released them, and they fail locally instead of being sent. `runs` are ascending and do not
    overlap; type 0 is GAP. What `is_late` (acknowledged after the end of the lock) is sent apart from the rest, for a
    broker that refuses it refuses all acknowledgements of the partition in the same request.

    `is_own` renewals are made by the client, not by the application: they too are sent apart, so that a broker that
    refuses renewals refuses nothing else, and their outcome is for the locks alone.

    `number` is unique within the consumer and ascends in the order in which the acknowledgements are posted. 0 is for
    those that the core makes itself: no outcome names them.
    """

    partition: TopicIdPartition
    node_id: int
    session_id: int
    runs: tuple[AcknowledgementRun, ...]
    is_late: bool = False
    is_own: bool = False
    number: int = 0


@attrs.frozen
class FetchedPartition:
    """What one ShareFetch answer brought for one partition, undecoded."""

    partition: TopicIdPartition
    node_id: int
    session_id: int
    records: bytes | memoryview = attrs.field(repr=lambda records: repr(bytes(records)))
    """Whole record batches, in place: a view of the answer's frame. May hold records outside the acquired ranges."""
    acquired: tuple[AcquiredRange, ...]
    """(first, last, delivery_count), ascending, without overlap: the core has cleaned what the broker sent."""
    locks: LockGeneration = attrs.field(factory=LockGeneration, eq=False, repr=False)
    """The core marks in it when all locks of the partition in this session have ended; the one thing that is shared."""


@attrs.frozen
class FetchedBatch:
    """One ShareFetch answer with at least one acquired range."""

    batch_id: int
    partitions: tuple[FetchedPartition, ...]
    acquired_at_ms: int
    """When the request left: the lock may have started right after."""
    acquisition_lock_timeout_ms: int


@attrs.frozen
class EndedAcknowledgements:
    """What one outcome ends of the `GatheredAcknowledgements` with this number: some or all of its runs, none cut.

    A broker may refuse renewals and take the rest, so that a number ends in two outcomes: once with the runs of type
    RENEW, once with the others. It has ended when each of its runs has been named once.
    """

    number: int
    runs: tuple[AcknowledgementRun, ...]


@attrs.frozen
class AcknowledgementOutcome:
    """How acknowledgements of a partition ended, several numbers perhaps. Each acknowledged offset gets exactly one.

    A RENEW run without an error names records that have to be handed to the application again.
    """

    partition: TopicIdPartition
    ended: tuple[EndedAcknowledgements, ...]
    error: KafkaShareError | None
    acquisition_lock_timeout_ms: int | None = None
    sent_at_ms: int | None = None
    """When the request left, if it was a ShareAcknowledge: a renewed lock may have started right after."""
    is_own: bool = False
    """Of renewals that the client made by itself, of which the application does not hear."""

    @property
    def runs(self) -> tuple[AcknowledgementRun, ...]:
        """All that it is about, ascending."""
        return tuple(merged(run for ended in self.ended for run in ended.runs))


# ---- events: commands of the application


@attrs.frozen
class SubscriptionChanged:
    """subscribe(): the complete new set of topic names, not empty. Takes effect with the next `PollStarted`."""

    topics: frozenset[str]


@attrs.frozen
class Unsubscribed:
    """unsubscribe(): leave the group; answered by `CompleteUnsubscribe`, at the latest at `deadline_at_ms`."""

    request_id: int
    deadline_at_ms: int


@attrs.frozen
class PollStarted:
    """A poll waits for records until `deadline_at_ms`. `acknowledgements` ride on the next request to their node.

    Each idle node gets at least one fetch for it, even if the deadline is now: poll(0) in a loop makes progress. With
    `wants_records` false the poll has its records already, or has no room for any: nothing is fetched for it.
    """

    deadline_at_ms: int
    acknowledgements: tuple[GatheredAcknowledgements, ...] = ()
    wants_records: bool = True
    max_records: int | None = None
    """How many to ask each node for, if less than `max_poll_records`. 0: not even what has arrived already is taken."""
    taken_batch_id: int = 0
    """The application has taken the batches up to this one. One that has come since is what the poll will find."""


@attrs.frozen
class PollEnded:
    """The poll returned (or raised) before its deadline. Posted without waking the driver."""


@attrs.frozen
class WorkBegun:
    """send_ahead: a poll returns records.

    The application has taken the batches up to this one. Without `has_more` it has returned all that it took, and
    wants a batch to be there for its next poll.
    """

    taken_batch_id: int
    has_more: bool


@attrs.frozen
class AcknowledgementsMade:
    """Something was acknowledged between two polls, and should not wait; `GatherAcknowledgements` asks for it soon."""


@attrs.frozen
class LostRecords:
    """Delivered records that the application's side has given up, because their lock was lost; types mean nothing."""

    partition: TopicIdPartition
    runs: tuple[AcknowledgementRun, ...]


@attrs.frozen
class AcknowledgementsGathered:
    """What the application's side had gathered when it was asked; sent with the next fetch, or by itself."""

    acknowledgements: tuple[GatheredAcknowledgements, ...]
    again_at_ms: int | None = None
    """When to ask again, even if nothing is announced before."""
    lost: tuple[LostRecords, ...] = ()


@attrs.frozen
class CommitRequested:
    """commit_sync() or commit_async(): send now as ShareAcknowledge.

    With `wait`, `CompleteCommit(request_id)` follows as soon as everything acknowledged up to now has its outcome; it
    goes before commits that nobody waits for.
    """

    request_id: int
    acknowledgements: tuple[GatheredAcknowledgements, ...]
    deadline_at_ms: int
    wait: bool


@attrs.frozen
class CloseRequested:
    """close(): send the acknowledgements, end the share sessions, leave the group; answered by `FinishClose`."""

    acknowledgements: tuple[GatheredAcknowledgements, ...]
    deadline_at_ms: int


@attrs.frozen
class BatchReclaimed:
    """The mailbox gave a batch back that no poll had taken (answer to `Reclaim`): to be released."""

    batch_id: int


@attrs.frozen
class ClientInstanceIdWanted:
    """client_instance_id(): ask for it now, even if nothing has been polled; answered by `TellClientInstanceId`."""


# ---- a session that is lent


@attrs.define
class Tally:
    """What the application's thread has done with a session that was lent to it."""

    requests: int = 0
    request_bytes: int = 0
    acknowledging: int = 0
    """Requests that acknowledged something…"""
    acknowledged: int = 0
    """…and so many records."""
    fetches: int = 0
    """Those that were answered."""
    latency_ms: int = 0
    """Of all fetches together."""
    highest_latency_ms: int = 0
    records: int = 0
    record_bytes: int = 0
    commits: int = 0
    """The same for ShareAcknowledge."""
    commit_latency_ms: int = 0
    highest_commit_latency_ms: int = 0
    response_bytes: int = 0


@attrs.frozen
class Flight:
    """A request that the application's thread has sent, and whose answer it has not dealt with."""

    acknowledgements: tuple[GatheredAcknowledgements, ...]
    sent_at_ms: int
    max_wait_ms: int
    """Of a ShareFetch."""
    is_fetch: bool = True
    """False: a ShareAcknowledge…"""
    retry_until_ms: int = 0
    """…which is tried again until then after a passing error."""


@attrs.frozen
class SessionReturned:
    """What `Lend` has lent is the core's again; it may come twice."""

    lend_id: int
    epoch: int
    """Of the share session: what its next request carries, or the one that is in flight."""
    flight: Flight | None
    tally: Tally
    fetched_at_ms: int | None
    """When it brought records last; None: never."""
    unsent: tuple[GatheredAcknowledgements, ...] = ()
    """What `Lend` has handed over, if no request has carried it."""


@attrs.frozen
class SessionUsed:
    """The application's thread goes on with what `Lend` has lent, and has done this since it told last."""

    lend_id: int
    tally: Tally
    fetched_at_ms: int
    """When it brought records last."""


# ---- events: from the network


@attrs.frozen
class ResponseReceived:
    send_id: int
    response: Message


@attrs.frozen
class RequestFailed:
    """No answer will come: not connected, connection lost, timed out, malformed answer, unsupported version."""

    send_id: int
    error: KafkaShareError


@attrs.frozen
class ConnectionLost:
    """An idle or busy connection broke. Requests on it have had their `RequestFailed` before this."""

    node_id: int
    channel: Channel
    error: KafkaShareError


# ---- outputs


@attrs.frozen
class Send:
    """Send a request. Exactly one `ResponseReceived` or `RequestFailed` with this `send_id` follows.

    The driver connects if need be (address in `node`), picks the highest version both sides know, and answers
    `RequestFailed(UnsupportedVersionError)` if that is below `min_version`. `timeout_ms` runs from now and includes
    connecting.
    """

    send_id: int
    node: Node
    channel: Channel
    request: Message
    timeout_ms: int
    min_version: int = 0


@attrs.frozen
class Lend:
    """The application's thread may fetch from this node and acknowledge by itself, until `Recall` or `ends_at_ms`; for
    longer if it tells of its progress (`SessionUsed`).

    Until `SessionReturned` the core sends nothing on the node's data connection, which has no request in flight. Where
    that connection cannot be lent, the event follows at once.
    """

    lend_id: int
    node: Node
    session_id: int
    epoch: int
    partitions: tuple[tuple[TopicIdPartition, LockGeneration], ...]
    """What is in the session, all of it."""
    topics: frozenset[str]
    """The subscription that it was lent under."""
    ends_at_ms: int
    group_id: str
    member_id: str
    limits: tuple[int, int, int, int]
    """Of each fetch: the longest wait in milliseconds, the least and the most bytes, the most records."""
    acknowledgements: tuple[GatheredAcknowledgements, ...] = ()
    """To be sent with the first fetch; the core has forgotten them."""


@attrs.frozen
class Recall:
    """The core wants back what it has lent to this node id's data connection."""

    node_id: int


@attrs.frozen
class Resume:
    """The data connection of a node serves the core again.

    With a `send_id` a request of the application's thread is in flight, a ShareFetch or a ShareAcknowledge, and its
    answer is to be brought as the answer to that id, or `RequestFailed`.
    """

    node: Node
    send_id: int | None
    sent_at_ms: int = 0
    timeout_ms: int = 0
    is_fetch: bool = True


@attrs.frozen
class Disconnect:
    """Close the connections to this node id, if any."""

    node_id: int


@attrs.frozen
class Deliver:
    """Put a batch into the mailbox; the core sends no further fetch until a poll asks again (send_ahead: one more)."""

    batch: FetchedBatch


@attrs.frozen
class Reclaim:
    """Take a batch out of the mailbox if no poll has taken it; on success `BatchReclaimed` follows."""

    batch_id: int


@attrs.frozen
class GatherAcknowledgements:
    """Ask the application's side for what was acknowledged between two polls; the driver brings it now."""


@attrs.frozen
class ReportOutcomes:
    outcomes: tuple[AcknowledgementOutcome, ...]


@attrs.frozen
class RaiseError:
    """To be raised by poll as soon as can be. What lasts is a trouble of the `Condition` too, and raised again.

    After a `fatal` one the consumer is no member any more and will not be again.
    """

    error: KafkaShareError
    fatal: bool


@attrs.frozen
class CompleteCommit:
    """Everything that the commit waited for has its outcome (reported before), or its deadline has passed."""

    request_id: int
    timed_out: bool


@attrs.frozen
class CompleteUnsubscribe:
    request_id: int


@attrs.frozen
class FinishClose:
    """All is done: sessions closed, group left (or the deadline passed). The driver may stop."""


@attrs.frozen
class Log:
    """Something changed that an operator may want to know: a name of `core.log_events`, and what it is about.

    `fields` never has keys, values or headers of records, nor secrets.
    """

    event: str
    fields: dict[str, str | int]


@attrs.frozen
class TellClientInstanceId:
    """The id that the brokers know this client by in telemetry (KIP-714); None: there is none to be had."""

    client_instance_id: UUID | None


@attrs.frozen
class TellCondition:
    """Something has changed of what holds of the consumer as a whole; any thread may look at it."""

    condition: Condition


Event: TypeAlias = (
    SubscriptionChanged
    | Unsubscribed
    | PollStarted
    | PollEnded
    | WorkBegun
    | AcknowledgementsMade
    | AcknowledgementsGathered
    | CommitRequested
    | CloseRequested
    | BatchReclaimed
    | ClientInstanceIdWanted
    | SessionReturned
    | SessionUsed
    | ResponseReceived
    | RequestFailed
    | ConnectionLost
)

Output: TypeAlias = (
    Send
    | Lend
    | Recall
    | Resume
    | Disconnect
    | Deliver
    | Reclaim
    | GatherAcknowledgements
    | ReportOutcomes
    | RaiseError
    | CompleteCommit
    | CompleteUnsubscribe
    | FinishClose
    | Log
    | TellClientInstanceId
    | TellCondition
)
