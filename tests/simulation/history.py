"""One seed's history: a cluster, clients, faults, then quiet; what the auditor demands at the end of each part.

`run_history` is what the command and the tests call. The parts: while the plan lasts, things go wrong; then everything
is mended, and every record has to end and every client to be a member again, with some progress in each
`SETTLE_LIMIT_MS`; then all clients close, which must take no longer than healthy brokers need.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import attrs
from simulation.books import BookKey, Books
from simulation.broker import SimulatedBroker
from simulation.broker_audit import BrokerAudit
from simulation.client import SimulatedClient
from simulation.client_audit import ClientAudit
from simulation.fault_profile import (
    HEARTBEAT_INTERVAL_MS,
    LOCK_LIMIT,
    ClientProfile,
    ClusterProfile,
    draw_client,
    draw_cluster,
    steady_client,
    steady_cluster,
)
from simulation.faults import Faults
from simulation.network import Network
from simulation.plan import LARGEST_BATCH, Plan, draw_plan, steady_plan
from simulation.producer import produce
from simulation.trace import ComplaintError, Trace
from simulation.virtual_time import VirtualTime
from simulation.workload import live

from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.share.partition import SharePartition
from kafka_share.records import Node

SETTLE_LIMIT_MS: Final = 60_000
CLOSE_LIMIT_MS: Final = 3_000
"""A ShareFetch that waits, the end of the session and the leave take this long at the most with the slowest network."""
MAX_CLIENTS: Final = 12
STEADY_EACH: Final = 10
"""One seed of so many is a history in which polls get records all the time, and so fetch by themselves."""
STUCK_BEHIND_GAP: Final = "share partition stuck behind a gap"


@attrs.frozen
class Outcome:
    """How a history ended; `complaint` is None for a good one."""

    seed: int
    steps: int
    virtual_ms: int
    happened: Counter[str]
    complaint: str | None
    lines: list[str]


def run_history(seed: int, *, trace: bool = False) -> Outcome:
    """Run the history of a seed to its end, or to the first complaint or failed assertion of the product."""
    history = History(seed, is_traced=trace)
    complaint = None
    try:
        history.run()
    except Exception as error:  # noqa: BLE001 - whatever the product raises where it must not is the finding
        complaint = f"{type(error).__name__}: {error}" if not isinstance(error, ComplaintError) else str(error)
        history.trace.add("COMPLAINT", complaint)
        if trace:
            import traceback

            history.trace.lines += traceback.format_exc().splitlines()
    time = history.time
    return Outcome(seed, time.steps, time.now_ms, history.trace.happened, complaint, history.trace.lines)


class History:
    """The parts of one history, joined."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        source = random.Random(seed)
        self.is_steady: bool = seed % STEADY_EACH == 0
        self.profile: ClusterProfile = draw_cluster(source)
        self.plan: Plan = draw_plan(source)
        if self.is_steady:
            self.profile, self.plan = steady_cluster(self.profile), steady_plan(self.plan, random.Random(seed))
        self._source = source
        self.time = VirtualTime()
        self.trace = Trace(self.time, is_on=is_traced)
        self.network = Network(self.time, _fork(source), self.trace, self.profile.latency_ms)
        self.broker = SimulatedBroker(
            self.time,
            self.network,
            self.trace,
            nodes=self.profile.nodes,
            kafka_version=self.profile.kafka_version,
            config=self.profile.config(),
            source=_fork(source),
        )
        self.books = Books()
        cluster = self.broker.cluster
        self.broker.witness = BrokerAudit(cluster, lambda: self.broker.now_ms, self.books, self.trace, LARGEST_BATCH)
        self.clients: list[SimulatedClient] = []
        self.faults = Faults(self.time, self.network, self.broker, self, self.trace)
        self._is_quiet = False
        self.trace.add("SEED", seed, self.profile)
        for group in self.profile.groups:
            cluster.configs.set_values(ResourceType.GROUP, group, {"share.auto.offset.reset": self.profile.reset})
        for name, partitions in self.profile.topics.items():
            cluster.create_topic(name, cluster.topics.place(partitions, self.profile.nodes))

    # ---- clients

    def join(self) -> None:
        """Another client, in a group of the seed's choice; not when the faults are over."""
        if not self._is_quiet and len(self.clients) < MAX_CLIENTS:
            self._join(self._source.choice(self.profile.groups))

    def _join(self, group: str, profile: ClientProfile | None = None) -> None:
        number = len(self.clients)
        if profile is None:
            drawn = draw_client(self._source, self.profile, group)
            profile = steady_client(drawn) if self.is_steady else drawn
        bootstrap = tuple(Node(-1 - i, f"node{node}", 9092) for i, node in enumerate(self.broker.running))
        client = SimulatedClient(
            f"client{number}",
            profile,
            bootstrap,
            _fork(self._source),
            self.time,
            self.network,
            self.trace,
            ahead_ms=1_000 * (number + 1),
        )
        client.is_quiet = self._is_quiet
        self.clients.append(client)
        self.trace.add(client.name, "joins", profile)
        audit = ClientAudit(
            client.name, client.member_id, group, self.books, self.trace, keeps_renewed=profile.window_records > 0
        )
        client.live(audit, live)

    @property
    def _living(self) -> list[SimulatedClient]:
        return [client for client in self.clients if client.is_alive]

    # ---- the parts

    def run(self) -> None:
        for group in self.profile.groups:
            for _ in range(self._source.choice((1, 2, 2, 3))):
                self.time.at(self._source.choice((0, 0, 300, 1_500)), lambda group=group: self._join(group))  # type: ignore[misc]
        for batch in self.plan.batches:
            self.time.at(batch.at_ms, lambda batch=batch: produce(self.broker, batch, self.trace))  # type: ignore[misc]
        for fault in self.plan.faults:
            self.time.at(fault.at_ms, lambda fault=fault: self.faults.happen(fault))  # type: ignore[misc]
        self._run_until(max(self.plan.active_ms, *(batch.at_ms for batch in self.plan.batches)) + 1)
        self._settle()
        self._close()
        self.broker.cluster.check()
        for client in self.clients:
            client.driver.core.check()

    def _run_until(self, end_ms: int) -> None:
        self.time.run_until(end_ms)

    def _settle(self) -> None:
        """The faults are over: every record has to end, and every client to be a member."""
        self.trace.add("QUIET")
        self._is_quiet = True
        self.faults.stop()
        self.broker.cluster.configs.set_values(ResourceType.BROKER, "", {"group.share.max.share.sessions": "2000"})
        for client in self.clients:
            client.is_quiet = True
        for group in self.profile.groups:
            living = [c for c in self._living if c.profile.group == group and not c.should_close]
            if not any(set(client.profile.topics) == set(self.profile.topics) for client in living):
                profile = attrs.evolve(
                    draw_client(self._source, self.profile, group), topics=tuple(self.profile.topics)
                )
                self._join(group, profile)
        limit_ms = self.time.now_ms + SETTLE_LIMIT_MS
        seen: set[str] = set()
        while True:
            while (missing := self._unsettled()) is not None:
                if missing not in seen:  # work that is slower than its locks gets on slowly, but it gets on
                    seen.add(missing)
                    limit_ms = self.time.now_ms + SETTLE_LIMIT_MS
                if self.time.now_ms >= limit_ms:
                    raise ComplaintError(f"{missing}, and nothing has changed for {SETTLE_LIMIT_MS} ms")
                self._run_until(self.time.now_ms + 250)
            # What looks settled may be an hour-glass: an old heartbeat whose answer is about to bring news.
            self._run_until(self.time.now_ms + 2 * HEARTBEAT_INTERVAL_MS)
            if self._unsettled() is None:
                return

    def _unsettled(self) -> str | None:
        """What is still missing for the end."""
        cluster = self.broker.cluster
        for client in self._living:
            group = cluster.share_groups.group(client.profile.group)
            if client.should_close:
                continue
            if client.driver.paused_until_ms > self.time.now_ms:
                return f"{client.name} is paused"
            if group is None or client.member_id not in group.members:
                return f"{client.name} is no member of its group"
            if not client.knows_its_place:
                return f"{client.name} does not know that it is a member of its group"
        for group_id in self.profile.groups:
            for topic in cluster.topics.public():
                for partition in topic.partitions:
                    node = cluster.share_nodes[partition.leader_id]
                    found = node.share_partition(group_id, topic.id, partition.partition)
                    start = found.window.start_offset if found is not None and found.active else -1
                    end = partition.log.high_watermark
                    book = self.books.by_key.get(BookKey(group_id, topic.id, partition.partition))
                    # Behind a gap in what a leader loaded the start offset waits for new records (as in Kafka), so
                    # that offsets may have ended which it has not passed.
                    left = [] if book is None else [o for o in range(start, end) if o not in book.finished]
                    if left and found and found.active and _is_stuck(found):
                        self.trace.fault(STUCK_BEHIND_GAP, group_id, topic.name, partition.partition)
                        self.broker.act(lambda node=node, found=found: node.unload(found))  # type: ignore[misc]
                    if start < 0 or left:
                        name = f"{group_id}/{topic.name}-{partition.partition}"
                        return f"{name} has come to {start} of {end}; not ended: {left[:10]}"
        return None

    def _close(self) -> None:
        """All clients close: they get what they wait for, leave, and hold nothing any more."""
        self.trace.add("CLOSE")
        closing = self._living
        members = [client for client in closing if not client.should_close]
        for client in closing:
            client.should_close = True
        limit_ms = self.time.now_ms + 10_000 + CLOSE_LIMIT_MS
        while any(client.is_alive for client in closing):
            if self.time.now_ms >= limit_ms:
                late = [client.name for client in closing if client.is_alive]
                raise ComplaintError(f"{', '.join(late)} did not close in time")
            self._run_until(self.time.now_ms + 50)
        for client in members:
            if client.close_took_ms > CLOSE_LIMIT_MS:
                raise ComplaintError(f"{client.name} took {client.close_took_ms} ms to close with healthy brokers")
        self._run_until(self.time.now_ms + 1_000)
        self._check_all_left(members)

    def _check_all_left(self, closed: list[SimulatedClient]) -> None:
        cluster = self.broker.cluster
        for client in closed:
            group = cluster.share_groups.group(client.profile.group)
            if group is not None and client.member_id in group.members:
                raise ComplaintError(f"{client.name} has closed and is still a member of its group")
            for node in cluster.share_nodes.values():
                if any(key.member_id == client.member_id for key in node.session_keys()):
                    raise ComplaintError(f"{client.name} has closed and still has a session on node {node.node_id}")


def _is_stuck(partition: SharePartition) -> bool:
    """Whether it hands out nothing until it is loaded again, by a rule of Kafka's.

    A gap in what the leader loaded keeps the start offset back and the window full, though all of it has ended.
    """
    window = partition.window
    if not window.gaps_active or window.span < LOCK_LIMIT:
        return False
    return all(state.state.is_terminal for batch in window.batches for _, _, state in batch.pieces())


def _fork(source: random.Random) -> random.Random:
    return random.Random(source.getrandbits(64))
