"""One seed of the client's fuzz: clients whose answers are mutated for a while, and then a sane network.

The clients are those of the simulation: the package's calls, machines and dialogues, under virtual time, so that a
seed is a history. Demanded are: no exception but those that a poll may raise, one outcome for each acknowledgement,
every record settled within `SETTLE_LIMIT_MS` once the network is sane, no question asked without end, and a close in
time. A record that is not settled is explained by a lie that lasts, and by nothing else.
"""

from __future__ import annotations

import random
from typing import Final
from uuid import UUID

import attrs
from fuzz.fuzzed_network import FuzzedNetwork
from fuzz.lies import Effect, Lie
from fuzz.outcome import Outcome
from fuzz.outcomes_audit import OutcomesAudit
from simulation.books import BookKey, Books
from simulation.broker import SimulatedBroker
from simulation.broker_audit import BrokerAudit
from simulation.client import SimulatedClient
from simulation.connection import PORT
from simulation.fault_profile import ClientProfile, ClusterProfile, draw_client, draw_cluster
from simulation.plan import LARGEST_BATCH, Flavour, PlannedBatch
from simulation.producer import produce
from simulation.trace import ComplaintError, Trace
from simulation.virtual_time import VirtualTime
from simulation.workload import live

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.client_metrics import MetricsSubscription
from kafka_share.broker.configs.configs import ResourceType
from kafka_share.core.metrics.telemetry import MIN_INTERVAL_MS as MIN_PUSH_INTERVAL_MS
from kafka_share.records import Node

SETTLE_LIMIT_MS: Final = 20_000
CLOSE_LIMIT_MS: Final = 8_000
"""The timeout of the workload's close, and what the calls around it may take."""
CALM_AFTER_MS: Final = 5_000
"""Back-offs have grown by then."""
CALM_FOR_MS: Final = 5_000
CALM_LIMIT: Final = 20
"""Questions of one kind that a client may ask in `CALM_FOR_MS` once it is calm."""
QUESTIONS: Final = (
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.API_VERSIONS,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
)
PUSH_LIMIT: Final = CALM_FOR_MS // MIN_PUSH_INTERVAL_MS + 1
"""Pushes of metrics go on as the last answer asked for them, at the floor at most."""
GROUP: Final = "g"


def run_client(seed: int, *, trace: bool = False) -> Outcome:
    """Run the history of a seed to its end, or to the first complaint."""
    history = ClientHistory(seed, is_traced=trace)
    complaint = None
    try:
        history.run()
    except Exception as error:  # noqa: BLE001 - whatever comes out of the product is the finding
        complaint = str(error) if isinstance(error, ComplaintError) else f"{type(error).__name__}: {error}"
        history.trace.add("COMPLAINT", complaint)
        if trace:
            import traceback

            history.trace.lines += traceback.format_exc().splitlines()
    return Outcome(
        seed,
        history.mutations - history.network.mutations_left if complaint is not None else history.mutated,
        history.trace.happened,
        complaint,
        history.excuse,
        history.trace.lines,
    )


class ClientHistory:
    """The parts of one history, joined."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        source = random.Random(f"fuzz {seed}")
        drawn = draw_cluster(source)
        self.profile: ClusterProfile = attrs.evolve(
            drawn, reset="earliest", session_limit=2_000, groups=(GROUP,), auto_create=False
        )
        self.time = VirtualTime()
        self.trace = Trace(self.time, is_on=is_traced)
        self.network = FuzzedNetwork(self.time, random.Random(source.getrandbits(64)), self.trace, drawn.latency_ms)
        self.broker = SimulatedBroker(
            self.time,
            self.network,
            self.trace,
            nodes=drawn.nodes,
            kafka_version=drawn.kafka_version,
            config=self.profile.config(),
            source=random.Random(source.getrandbits(64)),
        )
        self.books = Books()
        cluster = self.broker.cluster
        self.broker.witness = BrokerAudit(cluster, lambda: self.broker.now_ms, self.books, self.trace, LARGEST_BATCH)
        cluster.configs.set_values(ResourceType.GROUP, GROUP, {"share.auto.offset.reset": "earliest"})
        for name, partitions in self.profile.topics.items():
            cluster.create_topic(name, cluster.topics.place(partitions, drawn.nodes))
        self.active_ms = source.choice((2_000, 4_000, 8_000))
        self.mutations = source.choice((1, 2, 5, 10, 25))
        self.mutated = 0
        self.excuse: str | None = None
        self.clients: list[SimulatedClient] = []
        self.network.probability = source.choice((0.02, 0.1, 0.3, 0.7))
        self.network.mutations_left = self.mutations
        self._source = source
        self._sane_at_ms = 0
        self._pushes_metrics = seed % 2 == 0
        if self._pushes_metrics:
            cluster.want_client_metrics(MetricsSubscription(("*",), interval_ms=500))

    def run(self) -> None:
        for number in range(self._source.choice((1, 1, 2, 3))):
            self._join(number)
        for _ in range(self._source.choice((3, 10, 20))):
            batch = PlannedBatch(
                self._source.randint(0, self.active_ms),
                self._source.getrandbits(16),
                self._source.choice((1, 3, 10, LARGEST_BATCH)),
                self._source.choice((Flavour.PLAIN, Flavour.PLAIN, Flavour.COMPRESSED)),
            )
            self.time.at(batch.at_ms, lambda batch=batch: produce(self.broker, batch, self.trace))  # type: ignore[misc]
        self.time.run_until(self.active_ms + 1)
        self._become_sane()
        self._settle()
        self._be_calm()
        self.trace.count("pushes of metrics", len(self.broker.cluster.client_metrics.pushes))
        self._close()
        self.broker.cluster.check()
        for client in self.clients:
            client.driver.core.check()

    def _join(self, number: int) -> None:
        profile: ClientProfile = draw_client(self._source, self.profile, GROUP)
        if number == 0:
            profile = attrs.evolve(profile, topics=tuple(self.profile.topics))
        profile = attrs.evolve(profile, metrics_push=self._pushes_metrics)
        client = SimulatedClient(
            f"client{number}",
            profile,
            tuple(Node(-node, f"node{node}", PORT) for node in self.broker.running),
            random.Random(self._source.getrandbits(64)),
            self.time,
            self.network,
            self.trace,
            ahead_ms=1_000 * (number + 1),
        )
        self.clients.append(client)
        self.trace.add(client.name, "joins", profile)
        client.live(OutcomesAudit(client.name), live)

    # ---- the parts

    def _become_sane(self) -> None:
        self.mutated = self.mutations - self.network.mutations_left
        self.network.be_honest()
        self._sane_at_ms = self.time.now_ms
        for client in self.clients:
            client.is_quiet = True
        self.trace.add("SANE", f"after {self.mutated} mutations; lies: {[str(lie) for lie in self.network.lies]}")

    def _settle(self) -> None:
        """Every record ends; a client that was told to be silent has its time when the silence is over."""
        lies = self.network.lies
        silences = [lie.until_ms for lie in lies if lie.effect is Effect.SILENCE]
        limit_ms = max([self.time.now_ms, *silences]) + SETTLE_LIMIT_MS
        while (missing := self._unsettled()) is not None and self.time.now_ms < limit_ms:
            self.time.run_until(self.time.now_ms + 250)
        if missing is None:
            return
        reasons = [lie for lie in lies if self._is_believed(lie)]
        if not reasons:
            raise ComplaintError(f"{missing}, {SETTLE_LIMIT_MS} ms after the last lie, and none that lasts explains it")
        self.excuse = "; ".join(map(str, reasons))
        self.trace.add("EXCUSED", missing, self.excuse)

    def _is_believed(self, lie: Lie) -> bool:
        """Whether a client is still kept from its work by what it was told."""
        client = next(client for client in self.clients if client.name == lie.client)
        membership = client.driver.core._membership
        if lie.effect is Effect.SILENCE:
            return False
        if lie.effect is Effect.INTERVAL:
            return lie.until_ms > self.time.now_ms
        if lie.effect is Effect.ASSIGNMENT:
            return sorted(membership.assignment) != self._true_assignment(client)
        if lie.effect is Effect.VERSIONS and any(wire.id == lie.wire_id for wire in self.network.wires_of(lie.client)):
            return True
        return membership.is_fatal

    def _true_assignment(self, client: SimulatedClient) -> list[tuple[UUID, int]]:
        """What the coordinator has assigned to a client."""
        group = self.broker.cluster.share_groups.group(GROUP)
        member = None if group is None else group.members.get(client.member_id)
        return [] if member is None else sorted(member.assigned)

    def _unsettled(self) -> str | None:
        """What has not ended yet."""
        cluster = self.broker.cluster
        for topic in cluster.topics.public():
            for partition in topic.partitions:
                end = partition.log.high_watermark
                book = self.books.by_key.get(BookKey(GROUP, topic.id, partition.partition))
                left = [offset for offset in range(end) if book is None or offset not in book.finished]
                if left:
                    return f"{topic.name}-{partition.partition}: {len(left)} of {end} records are not settled"
        return None

    def _be_calm(self) -> None:
        """Whatever a client was told: with a sane network it does not ask the same question without end."""
        began_ms = max(self.time.now_ms, self._sane_at_ms + CALM_AFTER_MS)
        first = -(-began_ms // 1_000)
        self.time.run_until(first * 1_000 + CALM_FOR_MS)
        seconds = range(first, first + CALM_FOR_MS // 1_000)
        for client in self.clients:
            for key, limit in (*((key, CALM_LIMIT) for key in QUESTIONS), (ApiKey.PUSH_TELEMETRY, PUSH_LIMIT)):
                asked = sum(self.network.asked[client.name, key, second] for second in seconds)
                if asked > limit:
                    raise ComplaintError(f"{client.name} has asked {key.name} {asked} times in {CALM_FOR_MS} ms")

    def _close(self) -> None:
        self.trace.add("CLOSE")
        closing = [client for client in self.clients if client.is_alive]
        for client in closing:
            client.should_close = True
        limit_ms = self.time.now_ms + CLOSE_LIMIT_MS
        while any(client.is_alive for client in closing):
            if self.time.now_ms >= limit_ms:
                late = [client.name for client in closing if client.is_alive]
                raise ComplaintError(f"{', '.join(late)} did not close in time")
            self.time.run_until(self.time.now_ms + 50)
