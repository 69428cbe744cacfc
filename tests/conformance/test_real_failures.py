"""Real brokers that are killed while our consumer works: nothing is lost, and every acknowledgement is accounted for.

The account is what the acknowledgement commit callback says. A broker that dies may have applied an acknowledgement
whose answer never came: such a record is reported with an error, and is delivered again or not; both are right.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import pytest
from admin_over_wire import Admin
from kafka import KafkaAdminClient
from kafka_probe import call
from kafka_server import KafkaServer, KafkaUnavailableError
from kafka_targets import SETTINGS

from kafka_share import KafkaShareConsumer, KafkaShareError, TopicIdPartition
from kafka_share.protocol.share_offsets import DescribeShareGroupOffsetsRequest

PARTITIONS = 2
RECORDS = 1_000
"""In each partition."""
FAIL_AFTER = 400
"""So many records have been delivered when the broker dies."""
PATIENCE_S = 120
EVERYTHING = {(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)}

At = tuple[int, int]
"""Partition and offset."""


@attrs.define
class Account:
    """What was delivered, and what the callback said of it."""

    delivered: Counter[At] = attrs.Factory(Counter)
    settled: Counter[At] = attrs.Factory(Counter)
    failed: Counter[At] = attrs.Factory(Counter)
    errors: Counter[str] = attrs.Factory(Counter)

    def __call__(self, offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        for partition, found in offsets.items():
            for offset in found:
                (self.settled if error is None else self.failed)[partition.partition, offset] += 1
                if error is not None:
                    self.errors[type(error).__name__] += 1

    @property
    def reported(self) -> Counter[At]:
        return self.settled + self.failed

    @property
    def story(self) -> str:
        again = sum(1 for count in self.delivered.values() if count > 1)
        gone = sum(1 for at in self.failed if at not in self.settled)
        return (
            f"{self.delivered.total()} deliveries of {len(self.delivered)} records, {again} of them more than once; "
            f"{self.settled.total()} acknowledgements settled, {self.failed.total()} failed: {dict(self.errors)}; "
            f"{gone} records whose acknowledgement failed did not come again"
        )


@pytest.fixture(scope="module")
def one_node(real_version: str) -> Iterator[KafkaServer]:
    yield from _started(real_version, 1)


@pytest.fixture(scope="module")
def three_nodes(real_version: str, pytestconfig: pytest.Config) -> Iterator[KafkaServer]:
    if not pytestconfig.getoption("kafka_three_nodes"):
        pytest.skip("it needs three nodes of a real Apache Kafka: give --kafka-three-nodes")
    yield from _started(real_version, 3)


def _started(version: str, nodes: int) -> Iterator[KafkaServer]:
    try:
        with KafkaServer(version, nodes=nodes, settings=SETTINGS) as kafka:
            yield kafka
    except KafkaUnavailableError as error:
        pytest.skip(str(error))


def prepare(kafka: KafkaServer, topic: str, group: str) -> dict[int, int]:
    """A topic on all nodes, full of records; answers who leads its partitions."""
    client = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers.split(","))
    spec = {topic: {"num_partitions": PARTITIONS, "replication_factor": kafka.nodes}}
    client.create_topics(spec, wait_for_metadata=True)
    client.close()
    with Admin(kafka.bootstrap_servers) as admin:
        admin.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        for partition in range(PARTITIONS):
            admin.produce(topic, (b"%d" % i for i in range(RECORDS)), partition=partition)
        return admin.leaders(topic)


def lag(kafka: KafkaServer, topic: str, group: str) -> int | None:
    """How many records the group has not finished; None while nobody can say."""
    named = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    topics = [named.DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=list(range(PARTITIONS)))]
    request = DescribeShareGroupOffsetsRequest(groups=[named(group_id=group, topics=topics)])
    for server in kafka.bootstrap_servers.split(","):
        host, port = server.rsplit(":", 1)
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=10) as connection:
            [answer] = call(connection, request, 1).groups
            lags: list[int] = [p.lag for found in answer.topics for p in found.partitions if p.error_code == 0]
            if answer.error_code == 0 and len(lags) == PARTITIONS and min(lags) >= 0:
                return sum(lags)
    return None


@contextlib.contextmanager
def in_background(action: Callable[[], object]) -> Iterator[None]:
    """Start the action; its error is raised at the end of the block."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the test
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if errors:
        raise errors[0]


class Consumption:
    """One consumer that works until its group has finished everything."""

    def __init__(self, kafka: KafkaServer, topic: str, group: str, mode: str) -> None:
        self.account = Account()
        self._kafka, self._topic, self._group = kafka, topic, group
        self._explicit = mode == "explicit"
        self._consumer: KafkaShareConsumer[Any, Any] = KafkaShareConsumer(
            topic,
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group,
            share_acknowledgement_mode=mode,
            share_acquire_mode="record_limit" if kafka.version > "4.2" else "batch_optimized",
            max_poll_records=10,
        )
        self._consumer.set_acknowledgement_commit_callback(self.account)

    def take(self) -> None:
        for record in self._consumer.poll(timeout_ms=200):
            self.account.delivered[record.partition, record.offset] += 1
            if self._explicit:
                self._consumer.acknowledge(record)

    def take_until(self, enough: Callable[[], bool]) -> None:
        end_at_s = time.monotonic() + PATIENCE_S
        while not enough():
            if time.monotonic() > end_at_s:
                pytest.fail(f"it does not go on: {self.account.story}")
            self.take()

    def finish(self) -> None:
        """Until every record was delivered, and no record is left to anybody."""
        self.take_until(lambda: len(self.account.delivered) == len(EVERYTHING))
        self.take_until(lambda: lag(self._kafka, self._topic, self._group) == 0)

    def close(self) -> None:
        self._consumer.close()


def work_through(kafka: KafkaServer, name: str, mode: str, failure: Callable[[dict[int, int]], object]) -> Account:
    """Consume everything while `failure`, which is told the leaders, happens after some of it."""
    group = f"{name}-group"
    leaders = prepare(kafka, name, group)
    work = Consumption(kafka, name, group, mode)
    try:
        work.take_until(lambda: work.account.delivered.total() >= FAIL_AFTER)
        with in_background(lambda: failure(leaders)):
            work.finish()
    finally:
        work.close()
    return work.account


def check(account: Account) -> None:
    assert set(account.delivered) == EVERYTHING, "a record was lost"
    assert {at: count for at, count in account.settled.items() if count > 1} == {}, "settled twice"
    assert account.reported == account.delivered, "an acknowledgement was not reported exactly once"
    assert set(account.reported) == EVERYTHING


@pytest.mark.parametrize("mode", ["explicit", "implicit"])
def test_nothing_is_lost_and_nothing_settled_twice_when_the_only_broker_is_killed(
    one_node: KafkaServer, mode: str, record_property: Callable[[str, object], None]
) -> None:
    def kill_and_restart(_: object) -> None:
        one_node.kill(1)
        one_node.restart(1)

    account = work_through(one_node, f"killed-{mode}", mode, kill_and_restart)
    record_property("account", account.story)
    check(account)


@pytest.mark.parametrize("mode", ["explicit", "implicit"])
def test_nothing_is_lost_and_nothing_settled_twice_when_the_leader_is_killed(
    three_nodes: KafkaServer, mode: str, record_property: Callable[[str, object], None]
) -> None:
    def kill_a_leader(leaders: dict[int, int]) -> None:
        # Node 1 is the controller too; without it no leader would be chosen.
        victim = next((node for node in leaders.values() if node != 1), 2)
        three_nodes.kill(victim)
        three_nodes.restart(victim)

    account = work_through(three_nodes, f"moved-{mode}", mode, kill_a_leader)
    record_property("account", account.story)
    check(account)
