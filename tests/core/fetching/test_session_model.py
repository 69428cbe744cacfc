"""Share sessions against a plain model of brokers: each holds a set of partitions and the epoch that is due."""

from __future__ import annotations

import random
from typing import Any

import pytest
from core.scripted_cluster import (
    Harness,
    acknowledge_answer,
    fetch_answer,
    fetch_data,
    forgotten_in,
    heartbeat_answer,
    runs,
    said_in,
    tp,
)

from kafka_share.core.events import (
    Channel,
    ConnectionLost,
    GatheredAcknowledgements,
    PollStarted,
    Send,
    SubscriptionChanged,
)
from kafka_share.errors import BrokerUnreachableError
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.records import TopicIdPartition

PARTITIONS = [tp(0), tp(1), tp(2), tp(0, "u"), tp(1, "u")]
NODES = (1, 2, 3)
NOT_FOUND, INVALID_EPOCH, NOT_LEADER = 122, 123, 6
Key = tuple[Any, int]


class Broker:
    """One node's session of this member, by the rules of KIP-932 and nothing else."""

    def __init__(self) -> None:
        self.partitions: set[Key] | None = None
        self.due = 0
        self.was_disturbed = False
        """Something happened that the client cannot know yet."""

    def lose(self) -> None:
        self.partitions = None
        self.was_disturbed = True

    def accept(self, request: Any) -> int:
        """Apply a request; the error code of its answer."""
        epoch = request.share_session_epoch
        is_fetch = isinstance(request, ShareFetchRequest)
        if epoch == 0:
            assert is_fetch, "a ShareAcknowledge opens no session"
            assert not any(said_in(request).values()), "acknowledgements with the first request of a session"
            self.partitions, self.due, self.was_disturbed = set(said_in(request)), 1, False
            assert not forgotten_in(request)
            return 0
        if self.partitions is None or epoch != self.due:
            assert self.was_disturbed, f"epoch {epoch} where {self.due} was due"
            return NOT_FOUND if self.partitions is None else INVALID_EPOCH
        self.due += 1
        if is_fetch:
            self.partitions |= set(said_in(request))
            self.partitions -= set(forgotten_in(request))
        return 0


class Cluster:
    """Brokers, their leaders and what the coordinator assigns; every choice is drawn."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.h = Harness(dict.fromkeys(PARTITIONS, 1))
        self.h.nodes = {node: self.h.nodes[1]._replace(id=node, host=f"node{node}") for node in NODES}
        self.brokers = {node: Broker() for node in NODES}
        self.assigned = list(PARTITIONS)
        self.topics = frozenset({"t", "u"})
        self.member_epoch = 1
        self.next_offset = 0
        self.held: list[tuple[TopicIdPartition, int, int, int]] = []
        self.taken = 0
        self.is_quiet = False
        for where in PARTITIONS:
            self.h.leaders[where] = self.pick(*NODES)
        self.h.joined(timeout_ms=60_000)
        self.h.heartbeat = lambda request: heartbeat_answer(self.member_epoch, self.assigned_now())

    def pick(self, *choices: Any) -> Any:
        return self.source.choice(choices)

    def assigned_now(self) -> list[TopicIdPartition]:
        return [where for where in self.assigned if where.topic in self.topics]

    # ---- moves

    def answer_one(self) -> None:
        if self.h.data_pending:
            self.answer(self.pick(*self.h.data_pending))

    def answer(self, send: Send) -> None:
        broker = self.brokers[send.node.id]
        fate = (
            "answer" if self.is_quiet else self.pick("answer", "answer", "answer", "answer", "lost", "never", "evicted")
        )
        if fate == "evicted":
            broker.lose()
        if fate != "never":
            code = broker.accept(send.request)
        if fate in ("never", "lost"):
            broker.lose()  # a request without an answer costs the connection, and the session goes with it
            self.h.fail(send)
            return
        said = [self.place(key) for key, batches in said_in(send.request).items() if batches]
        if not isinstance(send.request, ShareFetchRequest):
            self.h.answer(send, acknowledge_answer(*((where, 0) for where in said), error=code))
            return
        self.h.answer(send, fetch_answer(*([] if code else self.data(send, said)), error=code))

    def place(self, key: Key) -> TopicIdPartition:
        return next(where for where in PARTITIONS if (where.topic_id, where.partition) == key)

    def data(self, send: Send, said: list[TopicIdPartition]) -> list[Any]:
        found = []
        for key in sorted(self.brokers[send.node.id].partitions or ()):
            where = self.place(key)
            if self.h.leaders[where] != send.node.id:
                leader = (self.h.leaders[where], self.h.leader_epochs.get(where, 1))
                found.append(fetch_data(where, error=NOT_LEADER, leader=leader))
            elif send.request.max_records and not self.is_quiet and self.pick(True, False):
                first, self.next_offset = self.next_offset, self.next_offset + 10
                found.append(fetch_data(where, (first, first + 4, 1)))
            elif where in said:
                found.append(fetch_data(where))
        return found

    def poll(self) -> None:
        self.take()
        said = []
        for where, node, session, first in self.held:
            kind = self.pick(1, 1, 2)
            said.append(GatheredAcknowledgements(where, node, session, runs((first, first + 4, kind))))
        self.held = []
        self.h.handle(PollStarted(self.h.now_ms + 60_000, tuple(said)))

    def take(self) -> None:
        for batch in self.h.delivered[self.taken :]:
            for fetched in batch.partitions:
                self.held += [
                    (fetched.partition, fetched.node_id, fetched.session_id, r.first) for r in fetched.acquired
                ]
        self.taken = len(self.h.delivered)

    def reassign(self) -> None:
        self.assigned = [where for where in PARTITIONS if self.pick(True, False)]
        self.member_epoch += 1
        self.h.advance(1_100)

    def move_leader(self) -> None:
        where = self.pick(*PARTITIONS)
        self.h.leaders[where] = self.pick(*NODES)
        self.h.leader_epochs[where] = self.h.leader_epochs.get(where, 1) + 1

    def subscribe(self) -> None:
        self.topics = frozenset(self.pick(["t"], ["u"], ["t", "u"]))
        self.member_epoch += 1
        self.h.handle(SubscriptionChanged(self.topics))
        self.poll()

    def cut(self) -> None:
        node = self.pick(*NODES)
        for send in self.h.data_pending:
            if send.node.id == node:
                self.brokers[node].lose()
                self.h.fail(send)
        self.brokers[node].lose()
        self.h.handle(ConnectionLost(node, Channel.DATA, BrokerUnreachableError("cut")))

    # ---- the end

    def settle(self) -> None:
        """No more faults: what sessions hold becomes what is wanted of each node."""
        self.is_quiet = True
        for _ in range(30):
            self.poll()
            for send in list(self.h.data_pending):
                if send in self.h.pending:
                    self.answer(send)
            self.h.advance(700)
        if not self.assigned_now():
            return  # nothing is fetched: what sessions hold does not matter until then
        for node, broker in self.brokers.items():
            wanted = {(w.topic_id, w.partition) for w in self.assigned_now() if self.h.leaders[w] == node}
            assert (broker.partitions or set()) == wanted, f"node {node}"


@pytest.mark.parametrize("seed", range(60))
def test_sessions_hold_what_is_wanted_when_assignments_leaders_and_connections_change(seed: int) -> None:
    """Whatever was lost on the way, epochs are those that brokers expect, and sessions get the right partitions."""
    source = random.Random(seed)
    cluster = Cluster(source)
    moves = [cluster.answer_one] * 5 + [
        cluster.poll,
        cluster.poll,
        cluster.reassign,
        cluster.move_leader,
        cluster.subscribe,
        cluster.cut,
        lambda: cluster.h.advance(400),
    ]
    for _ in range(source.randint(3, 60)):
        source.choice(moves)()
    cluster.settle()


def test_the_model_notices_a_wrong_epoch() -> None:
    """The model itself refuses what no sound client sends."""
    broker = Broker()
    request = Harness().joined().fetch().request
    assert broker.accept(request) == 0
    request.share_session_epoch = 7
    with pytest.raises(AssertionError, match="was due"):
        broker.accept(request)
