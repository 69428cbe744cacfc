"""A driver without a network for tests of the client core: virtual time, and a cluster that the test scripts.

`Harness` plays the driver: it hands events to the core, keeps its requests until the test answers them, and sorts the
other outputs. Metadata and FindCoordinator are answered by themselves from `Harness.leaders`; heartbeats too while
`Harness.heartbeat` is set.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import attrs

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.condition import Condition
from kafka_share.core.consumer import ShareConsumerCore
from kafka_share.core.events import (
    AcknowledgementOutcome,
    Channel,
    CommitRequested,
    CompleteCommit,
    CompleteUnsubscribe,
    Deliver,
    Disconnect,
    Event,
    FetchedBatch,
    FinishClose,
    GatherAcknowledgements,
    GatheredAcknowledgements,
    Lend,
    Log,
    Output,
    PollStarted,
    RaiseError,
    Recall,
    Reclaim,
    ReportOutcomes,
    RequestFailed,
    ResponseReceived,
    Resume,
    Send,
    SubscriptionChanged,
    TellClientInstanceId,
    TellCondition,
)
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.errors import BrokerUnreachableError, KafkaShareError
from kafka_share.protocol.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka_share.protocol.configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_share.records import Node, TopicIdPartition

T, U = UUID(int=1), UUID(int=2)
TOPIC_IDS = {"t": T, "u": U}
MEMBER_ID = "AAAAAAAAQACAAAAAAAAAAQ"

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Config = _Result.DescribeConfigsResourceResult
_Topic = MetadataResponse.MetadataResponseTopic
_Fetchable = ShareFetchResponse.ShareFetchableTopicResponse
_FetchData = _Fetchable.PartitionData
_Acknowledged = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
_Assigned = ShareGroupHeartbeatResponse.Assignment


def tp(partition: int = 0, topic: str = "t") -> TopicIdPartition:
    return TopicIdPartition(TOPIC_IDS[topic], topic, partition)


def runs(*triples: tuple[int, int, int]) -> tuple[AcknowledgementRun, ...]:
    return tuple(AcknowledgementRun(*triple) for triple in triples)


def batches(*triples: tuple[int, int, list[int]]) -> list[tuple[int, int, list[int]]]:
    return list(triples)


# ---- answers


def heartbeat_answer(
    epoch: int = 1,
    assignment: Iterable[TopicIdPartition] | None = None,
    *,
    error: int = 0,
    interval_ms: int = 1000,
    message: str | None = None,
) -> ShareGroupHeartbeatResponse:
    assigned = None
    if assignment is not None:
        assigned = _Assigned(
            topic_partitions=[
                _Assigned.TopicPartitions(topic_id=where.topic_id, partitions=[where.partition]) for where in assignment
            ]
        )
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=message,
        member_id=MEMBER_ID,
        member_epoch=0 if error else epoch,
        heartbeat_interval_ms=0 if error else interval_ms,
        assignment=assigned,
    )


def configs_answer(limit: int | None) -> DescribeConfigsResponse:
    """The group's delivery count limit; None: the group has no such config."""
    configs = [] if limit is None else [_Config(name="share.delivery.count.limit", value=str(limit))]
    return DescribeConfigsResponse(results=[_Result(resource_type=32, resource_name="g", configs=configs)])


def fetch_data(
    where: TopicIdPartition,
    *acquired: tuple[int, int, int],
    error: int = 0,
    acknowledge_error: int = 0,
    leader: tuple[int, int] = (0, 0),
) -> tuple[TopicIdPartition, _FetchData]:
    return where, _FetchData(
        partition_index=where.partition,
        error_code=error,
        error_message=None,
        acknowledge_error_code=acknowledge_error,
        acknowledge_error_message=None,
        current_leader=_FetchData.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
        records=b"records" if acquired else b"",
        acquired_records=[
            _FetchData.AcquiredRecords(first_offset=a, last_offset=b, delivery_count=c) for a, b, c in acquired
        ],
    )


def fetch_answer(
    *data: tuple[TopicIdPartition, _FetchData],
    error: int = 0,
    lock_ms: int = 30_000,
    throttle_ms: int = 0,
    endpoints: Iterable[Node] = (),
) -> ShareFetchResponse:
    return ShareFetchResponse(
        throttle_time_ms=throttle_ms,
        error_code=error,
        error_message=None,
        acquisition_lock_timeout_ms=0 if error else lock_ms,
        responses=[_Fetchable(topic_id=where.topic_id, partitions=[found]) for where, found in data],
        node_endpoints=[
            ShareFetchResponse.NodeEndpoint(node_id=n.id, host=n.host, port=n.port, rack=None) for n in endpoints
        ],
    )


def acknowledge_answer(
    *results: tuple[TopicIdPartition, int], error: int = 0, lock_ms: int = 30_000, leader: tuple[int, int] = (0, 0)
) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=None,
        acquisition_lock_timeout_ms=lock_ms,
        responses=[
            _Acknowledged(
                topic_id=where.topic_id,
                partitions=[
                    _Acknowledged.PartitionData(
                        partition_index=where.partition,
                        error_code=code,
                        error_message=None,
                        current_leader=_Acknowledged.PartitionData.LeaderIdAndEpoch(
                            leader_id=leader[0], leader_epoch=leader[1]
                        ),
                    )
                ],
            )
            for where, code in results
        ],
        node_endpoints=[],
    )


# ---- what requests say


def said_in(request: Any) -> dict[tuple[UUID, int], list[tuple[int, int, list[int]]]]:
    """The partitions that a ShareFetch or ShareAcknowledge lists, with their acknowledgements."""
    return {
        (topic.topic_id, partition.partition_index): [
            (b.first_offset, b.last_offset, b.acknowledge_types) for b in partition.acknowledgement_batches
        ]
        for topic in request.topics
        for partition in topic.partitions
    }


def forgotten_in(request: Any) -> list[tuple[UUID, int]]:
    return [(topic.topic_id, partition) for topic in request.forgotten_topics_data for partition in topic.partitions]


class Harness:
    """See the module's docstring; `now_ms` is the virtual clock."""

    def __init__(
        self, leaders: dict[TopicIdPartition, int] | None = None, *, lends: bool = False, **settings: Any
    ) -> None:
        self.config = ShareConsumerConfig(
            **{"bootstrap_servers": "boot:9092", "group_id": "g", "enable_metrics_push": False, **settings}
        )
        self.core = ShareConsumerCore(self.config, MEMBER_ID, random.Random(7), lends=lends)
        self.now_ms = 1_000
        self.leaders = {tp(): 1} if leaders is None else leaders
        self.leader_epochs: dict[TopicIdPartition, int] = {}
        self.topic_errors: dict[str, int] = {}
        self.nodes = {i: Node(i, f"node{i}", 9092) for i in sorted({1, *self.leaders.values()}) if i >= 0}
        self.coordinator = 1
        self.coordinator_error = 0
        self.heartbeat: Callable[[Any], ShareGroupHeartbeatResponse] | None = None
        self.serves_metadata = True
        self.pending: list[Send] = []
        self.sent: list[tuple[int, Send]] = []
        self.delivered: list[FetchedBatch] = []
        self.outcomes: list[AcknowledgementOutcome] = []
        self.errors: list[RaiseError] = []
        self.commits: list[CompleteCommit] = []
        self.unsubscribed: list[int] = []
        self.reclaims: list[int] = []
        self.serves_configs = True
        """The group's configs are asked for once, which no test has to know."""
        self.delivery_limit: int | None = 5
        self.gathers: list[int] = []
        """When the core asked for what was acknowledged; the test answers with `AcknowledgementsGathered`."""
        self.disconnects: list[int] = []
        self.lends: list[Lend] = []
        self.recalls: list[int] = []
        self.resumed: list[Resume] = []
        self.logs: list[Log] = []
        self.instance_ids: list[UUID | None] = []
        self.condition = Condition()
        self.is_finished = False
        self.steps = 0

    # ---- the driver

    def handle(self, *events: Event) -> None:
        """A poll has taken all that was delivered, unless it says something else or has no room."""
        for event in events:
            if isinstance(event, PollStarted) and event.max_records != 0 and self.delivered:
                taken = event.taken_batch_id or self.delivered[-1].batch_id
                event = attrs.evolve(event, taken_batch_id=taken)
            self.core.handle(event, self.now_ms)
        self.poll()

    def poll(self) -> None:
        self._take(self.core.poll(self.now_ms))
        self.core.check()
        self._serve()

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            assert not self.is_finished, f"{output!r} after FinishClose"
            if isinstance(output, Send):
                assert output.timeout_ms > 0
                self.pending.append(output)
                if not (isinstance(output.request, DescribeConfigsRequest) and self.serves_configs):
                    self.sent.append((self.now_ms, output))
            elif isinstance(output, Deliver):
                self.delivered.append(output.batch)
            elif isinstance(output, ReportOutcomes):
                self.outcomes.extend(output.outcomes)
            elif isinstance(output, RaiseError):
                self.errors.append(output)
            elif isinstance(output, CompleteCommit):
                self.commits.append(output)
            elif isinstance(output, CompleteUnsubscribe):
                self.unsubscribed.append(output.request_id)
            elif isinstance(output, Reclaim):
                self.reclaims.append(output.batch_id)
            elif isinstance(output, GatherAcknowledgements):
                self.gathers.append(self.now_ms)
            elif isinstance(output, Disconnect):
                self.disconnects.append(output.node_id)
            elif isinstance(output, Lend):
                self.lends.append(output)
            elif isinstance(output, Recall):
                self.recalls.append(output.node_id)
            elif isinstance(output, Resume):
                self.resumed.append(output)
            elif isinstance(output, Log):
                self.logs.append(output)
            elif isinstance(output, TellClientInstanceId):
                self.instance_ids.append(output.client_instance_id)
            elif isinstance(output, TellCondition):
                self.condition = output.condition
            else:
                assert isinstance(output, FinishClose)
                self.is_finished = True

    def advance(self, span_ms: int) -> None:
        """Let time pass; every timer of the core fires at its moment, and none may fire twice at one moment."""
        end_ms = self.now_ms + span_ms
        while True:
            at_ms = self.core.wake_at_ms()
            if at_ms is None or at_ms > end_ms:
                break
            assert at_ms > self.now_ms, f"the timer at {at_ms} spins at {self.now_ms}"
            self.now_ms = at_ms
            self.poll()
        self.now_ms = end_ms
        self.poll()

    # ---- the cluster

    def _serve(self) -> None:
        for send in list(self.pending):
            self.steps += 1
            assert self.steps < 20_000, "requests without end"
            request = send.request
            if isinstance(request, MetadataRequest) and self.serves_metadata:
                self.answer(send, self.metadata_answer(request))
            elif isinstance(request, FindCoordinatorRequest) and self.serves_metadata:
                self.answer(send, self.coordinator_answer())
            elif isinstance(request, DescribeConfigsRequest) and self.serves_configs:
                self.answer(send, configs_answer(self.delivery_limit))
            elif isinstance(request, ShareGroupHeartbeatRequest) and self.heartbeat is not None:
                self.answer(send, self.heartbeat(request))
            else:
                continue
            self._serve()
            return

    def metadata_answer(self, request: MetadataRequest) -> MetadataResponse:
        topics = []
        for asked in request.topics or []:
            name = asked.name or ""
            partitions = [
                _Topic.MetadataResponsePartition(
                    error_code=0,
                    partition_index=where.partition,
                    leader_id=leader,
                    leader_epoch=self.leader_epochs.get(where, 1),
                )
                for where, leader in self.leaders.items()
                if where.topic == name
            ]
            known = next((where.topic_id for where in self.leaders if where.topic == name), None)
            error = self.topic_errors.get(name, 0 if known else 3)
            topics.append(_Topic(error_code=error, name=name, topic_id=known, partitions=partitions))
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=n.id, host=n.host, port=n.port, rack=None)
            for n in self.nodes.values()
        ]
        return MetadataResponse(throttle_time_ms=0, brokers=brokers, topics=topics, error_code=0)

    def coordinator_answer(self) -> FindCoordinatorResponse:
        node = self.nodes[self.coordinator]
        found = FindCoordinatorResponse.Coordinator(
            key="g",
            node_id=-1 if self.coordinator_error else node.id,
            host="" if self.coordinator_error else node.host,
            port=-1 if self.coordinator_error else node.port,
            error_code=self.coordinator_error,
            error_message=None,
        )
        return FindCoordinatorResponse(throttle_time_ms=0, error_code=0, error_message=None, coordinators=[found])

    # ---- requests that wait for an answer

    def asked(self, kind: type[Any], node_id: int | None = None) -> list[Send]:
        found = [s for s in self.pending if isinstance(s.request, kind)]
        return [s for s in found if node_id is None or s.node.id == node_id]

    def only(self, kind: type[Any], node_id: int | None = None) -> Send:
        found = self.asked(kind, node_id)
        assert len(found) == 1, f"{len(found)} {kind.__name__} wait for an answer"
        return found[0]

    def fetch(self, node_id: int | None = None) -> Send:
        return self.only(ShareFetchRequest, node_id)

    def acknowledge(self, node_id: int | None = None) -> Send:
        return self.only(ShareAcknowledgeRequest, node_id)

    def beat(self) -> Send:
        return self.only(ShareGroupHeartbeatRequest)

    def answer(self, send: Send, response: Any) -> None:
        self.pending.remove(send)
        self.handle(ResponseReceived(send.send_id, response))

    def fail(self, send: Send, error: KafkaShareError | None = None) -> None:
        self.pending.remove(send)
        self.handle(RequestFailed(send.send_id, error or BrokerUnreachableError("the connection broke")))

    def sent_of(self, kind: type[Any]) -> list[tuple[int, Any]]:
        return [(at_ms, send.request) for at_ms, send in self.sent if isinstance(send.request, kind)]

    @property
    def data_pending(self) -> list[Send]:
        return [send for send in self.pending if send.channel is Channel.DATA]

    # ---- common beginnings

    def subscribe(self, *topics: str) -> None:
        self.handle(SubscriptionChanged(frozenset(topics or ("t",))))

    def start_poll(self, timeout_ms: int = 10_000, *said: GatheredAcknowledgements, wants_records: bool = True) -> None:
        self.handle(PollStarted(self.now_ms + timeout_ms, said, wants_records))

    def joined(self, *assignment: TopicIdPartition, timeout_ms: int = 10_000) -> Harness:
        """Subscribe, poll, and be assigned all partitions (or these); the first fetches are under way."""
        where = list(assignment or self.leaders)
        self.subscribe(*{w.topic: None for w in where})
        self.start_poll(timeout_ms)
        self.answer(self.beat(), heartbeat_answer(1, where))
        self.answer(self.beat(), heartbeat_answer(1))
        self.heartbeat = lambda request: heartbeat_answer(max(1, request.member_epoch))
        return self

    def delivering(self, last: int = 9, **options: Any) -> FetchedBatch:
        """Answer the one fetch with records 0..last of t-0, which ends the poll."""
        self.answer(self.fetch(), fetch_answer(fetch_data(tp(), (0, last, 1)), **options))
        return self.delivered[-1]

    def said(self, *triples: tuple[int, int, int], where: TopicIdPartition | None = None) -> GatheredAcknowledgements:
        """Acknowledgements of records of the latest batch that has this partition."""
        where = where or tp()
        for batch in reversed(self.delivered):
            for fetched in batch.partitions:
                if fetched.partition == where:
                    return GatheredAcknowledgements(where, fetched.node_id, fetched.session_id, runs(*triples))
        raise AssertionError(f"nothing of {where} was delivered")

    def commit(
        self, request_id: int, *said: GatheredAcknowledgements, timeout_ms: int = 60_000, wait: bool = True
    ) -> None:
        self.handle(CommitRequested(request_id, said, self.now_ms + timeout_ms, wait))
