"""Real brokers that are killed while our consumer works: nothing is lost, and every acknowledgement is accounted for.

The account is what the acknowledgement commit callback gets. A broker that dies may have applied an acknowledgement
whose answer never came: such a record is reported with an error, and is delivered again or not; both are right.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import attrs
import pytest
from conformance.admin_over_wire import Admin
from conformance.kafka_server import KafkaServer
from conformance.kafka_targets import SETTINGS, controlled
from kafka import KafkaAdminClient
from support.waiting import looks, wait_until
from support.wire_connection import WireConnection

from kafka_share import KafkaShareConsumer, KafkaShareError, TopicIdPartition
from kafka_share.errors import OutcomeUnknownError
from kafka_share.protocol.cluster import FindCoordinatorRequest
from kafka_share.protocol.share_offsets import DescribeShareGroupOffsetsRequest

PARTITIONS = 2
RECORDS = 1_000
"""In each partition."""
FAIL_AFTER = 400
"""So many records have been delivered when the broker dies."""
ANSWER_S = 10
NO_LEADER = -1
QUIET_POLLS = 20
"""After a restart everything that is not finished comes at once: so many empty polls in a row mean that nothing is."""
EVERYTHING = {(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)}

At = tuple[int, int]
"""Partition and offset."""


@attrs.define
class Account:
    """What was delivered, and what the callback got for it."""

    delivered: Counter[At] = attrs.Factory(Counter)
    settled: Counter[At] = attrs.Factory(Counter)
    failed: Counter[At] = attrs.Factory(Counter)
    errors: Counter[str] = attrs.Factory(Counter)
    unknown: set[At] = attrs.Factory(set)
    """Those that may have been applied although they failed: only they need not come again."""

    def __call__(self, offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        for partition, found in offsets.items():
            for offset in found:
                (self.settled if error is None else self.failed)[partition.partition, offset] += 1
                if error is not None:
                    self.errors[type(error).__name__] += 1
                if isinstance(error, OutcomeUnknownError):
                    self.unknown.add((partition.partition, offset))

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
    with controlled(version, nodes=nodes, settings=SETTINGS) as kafka:
        yield kafka


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
        with contextlib.suppress(OSError), WireConnection(server, answer_within_s=ANSWER_S) as connection:
            [answer] = connection.call(request, 1).groups
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
        self._polls_without_records = 0
        self._consumer: KafkaShareConsumer[Any, Any] = KafkaShareConsumer(
            topic,
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group,
            share_acknowledgement_mode="explicit" if self._explicit else "implicit",
            share_acquire_mode="record_limit" if kafka.version > "4.2" else "batch_optimized",
            max_poll_records=10,
        )
        self._consumer.set_acknowledgement_commit_callback(self.account)

    def take(self, holding: Callable[[set[At]], object] = lambda _: None) -> None:
        """One poll; `holding` gets the records before any is acknowledged."""
        records = list(self._consumer.poll(timeout_ms=200))
        self._polls_without_records = 0 if records else self._polls_without_records + 1
        self.account.delivered.update((record.partition, record.offset) for record in records)
        holding({(record.partition, record.offset) for record in records})
        if self._explicit:
            for record in records:
                self._consumer.acknowledge(record)

    def take_until(self, enough: Callable[[], bool], holding: Callable[[set[At]], object] = lambda _: None) -> None:
        for _ in looks(lambda: f"it does not go on: {self.account.story}"):
            if enough():
                return
            self.take(holding)

    def finish(self, held: set[At]) -> None:
        """Until every record was delivered, and no record is left to anybody; of those `held` no broker has heard."""
        self.take_until(lambda: len(self.account.delivered) == len(EVERYTHING))
        if self._kafka.version > "4.2":
            self.take_until(lambda: lag(self._kafka, self._topic, self._group) == 0)
        else:
            self.take_until(lambda: self._is_quiet(held))

    def _is_quiet(self, held: set[At]) -> bool:
        """Kafka 4.1 tells no lag: nothing is left if what was not settled may have been, and does not come again."""
        is_accounted_for = EVERYTHING - set(self.account.settled) <= self.account.unknown - held
        return is_accounted_for and self._polls_without_records >= QUIET_POLLS

    def close(self) -> None:
        self._consumer.close()


def work_through(
    kafka: KafkaServer, topic: str, mode: str, choose: Callable[[dict[int, int]], int], *, while_held: bool = True
) -> tuple[Account, set[At]]:
    """Consume everything. The node that `choose` finds among the leaders is killed on the way, and started again.

    With `while_held` that happens between a poll that brought records of that node and the first acknowledgement of
    them; they are the second answer, and no acknowledgement of them can have reached a broker. Otherwise it
    happens whenever it happens, mostly while a request is under way.
    """
    leaders = prepare(kafka, topic, f"{topic}-group")
    victim = choose(leaders)
    held: set[At] = set()

    def kill(records: set[At]) -> None:
        # Not at once, and not too late: on a fast machine one poll may bring most of what the victim has.
        is_time = (
            delivered.total() >= FAIL_AFTER or len({at for at in delivered if leaders[at[0]] == victim}) > RECORDS / 2
        )
        if is_time and not held and any(leaders[partition] == victim for partition, _ in records):
            kafka.kill(victim)
            held.update(at for at in records if leaders[at[0]] == victim)

    def restart() -> None:
        if not while_held:
            kafka.kill(victim)
        kafka.restart(victim)

    work = Consumption(kafka, topic, f"{topic}-group", mode)
    delivered = work.account.delivered
    try:
        if while_held:
            work.take_until(lambda: bool(held), kill)
        else:
            work.take_until(lambda: delivered.total() >= FAIL_AFTER)
        with in_background(restart):
            work.finish(held)
    finally:
        work.close()
    return work.account, held


def check(account: Account, held: set[At]) -> None:
    assert set(account.delivered) == EVERYTHING, "a record was lost"
    assert {at for at, count in account.settled.items() if count > 1} == set(), "settled twice"
    assert account.reported == account.delivered, "an acknowledgement was not reported exactly once"
    assert held <= set(account.failed), "an acknowledgement that nobody received did not fail"
    assert held <= set(account.settled), "a record whose acknowledgement nobody received did not come again"


@pytest.mark.behaviour("share sessions")
@pytest.mark.parametrize("while_held", [True, False], ids=["while records are held", "at any moment"])
@pytest.mark.parametrize("mode", ["explicit", "implicit"])
def test_nothing_is_lost_and_nothing_settled_twice_when_the_only_broker_is_killed(
    one_node: KafkaServer, mode: str, while_held: bool, record_property: Callable[[str, object], None]
) -> None:
    """The only broker is killed and started again: every record is finished once, each acknowledgement reported."""
    topic = f"killed-{mode}-{while_held}"
    account, held = work_through(one_node, topic, mode, lambda _: 1, while_held=while_held)
    record_property("account", account.story)
    check(account, held)


@pytest.mark.behaviour("share sessions")
@pytest.mark.parametrize("mode", ["explicit", "implicit"])
def test_nothing_is_lost_and_nothing_settled_twice_when_a_leader_is_killed(
    three_nodes: KafkaServer, mode: str, record_property: Callable[[str, object], None]
) -> None:
    # Node 1 is the controller too; without it no leader would be chosen.
    """One of three brokers is killed: its partitions get other leaders, and every record is finished once."""
    account, held = work_through(
        three_nodes, f"moved-{mode}", mode, lambda leaders: next(node for node in leaders.values() if node != 1)
    )
    record_property("account", account.story)
    check(account, held)


def coordinator(kafka: KafkaServer, group: str) -> int | None:
    """The node that coordinates a group; None while none does."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    with WireConnection(kafka.bootstrap_servers, answer_within_s=ANSWER_S) as connection:
        [found] = connection.call(request, 4).coordinators
    return found.node_id if found.error_code == 0 else None


def led_by_others(admin: Admin, topic: str, victim: int | None) -> list[int]:
    """The partitions whose leader stays when this node is killed."""
    return [partition for partition, leader in admin.leaders(topic).items() if leader not in (victim, NO_LEADER)]


@pytest.mark.behaviour("membership")
def test_the_member_goes_on_and_learns_a_new_assignment_when_its_coordinator_is_killed(
    three_nodes: KafkaServer,
) -> None:
    """The node that coordinates the group is killed: nothing is raised, and another coordinator serves the member."""
    groups = [f"coordinated-{number}" for number in range(30)]
    wait_until(lambda: all(coordinator(three_nodes, group) is not None for group in groups), "there is no coordinator")
    # Node 1 is the controller too; without it no other coordinator would be found.
    group, victim = next((g, n) for g in groups if (n := coordinator(three_nodes, g)) not in (1, None))
    with Admin(three_nodes.bootstrap_servers) as admin:
        admin.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        places = {}
        for topic in ("coordinated", "coordinated-later"):
            admin.create_topic(topic, partitions=3)
            # The node that is asked may not have heard of the new topic yet.
            led = partial(led_by_others, admin, topic, victim)
            places[topic] = wait_until(led, f"no partition of {topic} is led by another node")[0]
            admin.produce(topic, [b"1"], partition=places[topic])
        consumer = KafkaShareConsumer("coordinated", bootstrap_servers=three_nodes.bootstrap_servers, group_id=group)
        with consumer:
            seen: list[str] = []

            def poll_for(topic: str) -> None:
                for _ in looks(f"no record of {topic} came"):
                    if topic in seen:
                        return
                    seen.extend(record.topic for record in consumer.poll(timeout_ms=200))

            poll_for("coordinated")
            assert victim is not None
            three_nodes.kill(victim)
            try:
                consumer.subscribe(["coordinated", "coordinated-later"])
                poll_for("coordinated-later")
            finally:
                three_nodes.restart(victim)
