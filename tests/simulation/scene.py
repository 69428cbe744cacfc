"""One cluster without faults, and applications whose work is written out: for stories with numbers in them.

Time is virtual, all parts are the package's own, and the auditors of the simulation watch.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from simulation.books import Books
from simulation.broker import SimulatedBroker
from simulation.broker_audit import BrokerAudit
from simulation.client import Life, SimulatedClient
from simulation.client_audit import ClientAudit
from simulation.fault_profile import ClientProfile
from simulation.network import Network
from simulation.plan import Flavour, PlannedBatch
from simulation.producer import produce
from simulation.trace import Trace
from simulation.virtual_time import VirtualTime

from kafka_share.broker.configs.configs import ResourceType
from kafka_share.records import Node

TOPIC, GROUP = "orders", "order-workers"
LARGEST_BATCH = 500
NO_CONFIG: Mapping[str, int] = MappingProxyType({})


class Scene:
    """One node with one partition, `records` records in each of its batches, and clients that are added."""

    def __init__(
        self, records: int, config: Mapping[str, int] = NO_CONFIG, *, kafka_version: str = "4.3", batches: int = 1
    ) -> None:
        self.time = VirtualTime()
        self.trace = Trace(self.time, is_on=False)
        self._network = Network(self.time, random.Random(1), self.trace, (1, 3))
        self._books = Books()
        self.broker = SimulatedBroker(
            self.time,
            self._network,
            self.trace,
            nodes=1,
            kafka_version=kafka_version,
            config={name: str(value) for name, value in config.items()},
            source=random.Random(2),
        )
        cluster = self.broker.cluster
        self.broker.witness = BrokerAudit(cluster, lambda: self.broker.now_ms, self._books, self.trace, LARGEST_BATCH)
        cluster.configs.set_values(ResourceType.GROUP, GROUP, {"share.auto.offset.reset": "earliest"})
        cluster.create_topic(TOPIC, cluster.topics.place(1, 1))
        for _ in range(batches):
            produce(self.broker, PlannedBatch(0, 0, records, Flavour.PLAIN), self.trace)
        self.clients: list[SimulatedClient] = []

    def join(self, life: Life, **changes: Any) -> SimulatedClient:
        """A client whose application does this."""
        number = len(self.clients)
        client = SimulatedClient(
            f"client{number}",
            ClientProfile(group=GROUP, topics=(TOPIC,), **changes),
            (Node(-1, "node1", 9092),),
            random.Random(number),
            self.time,
            self._network,
            self.trace,
            ahead_ms=1_000 * (number + 1),
        )
        keeps_renewed = client.profile.window_records > 0
        audit = ClientAudit(client.name, client.member_id, GROUP, self._books, self.trace, keeps_renewed=keeps_renewed)
        self.clients.append(client)
        client.live(audit, life)
        return client

    def run(self, limit_ms: int = 600_000) -> None:
        """Until every application has ended."""
        while any(client.is_alive for client in self.clients):
            assert self.time.now_ms < limit_ms, "an application goes on and on"
            self.time.run_until(self.time.now_ms + 100)

    def forbid_renewals(self) -> None:
        self.broker.cluster.configs.set_values(ResourceType.GROUP, GROUP, {"share.renew.acknowledge.enable": "false"})

    @property
    def finished(self) -> int:
        """How many records the broker will never deliver again."""
        return sum(len(book.finished) for book in self._books.by_key.values())

    def count(self, name: str) -> int:
        return self.trace.happened[name]
