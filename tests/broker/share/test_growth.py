"""What a request costs does not grow with what waits, is held or was finished elsewhere: counted in lines that run.

Times would depend on the machine. Few and many idle things are compared, so a line of the package that runs once more
for each of them is seen with certainty.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from broker.cluster_world import START_MS, World, batch

import kafka_share
from kafka_share.broker.storage.log import Log
from kafka_share.protocol.logs import FetchRequest, ProduceRequest
from kafka_share.protocol.record_batches import control_batch
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest
from kafka_share.protocol.transactions import AddPartitionsToTxnRequest, InitProducerIdRequest

Asked = ShareFetchRequest.FetchTopic
AskedPartition = Asked.FetchPartition
Acknowledged = ShareAcknowledgeRequest.AcknowledgeTopic
PACKAGE = str(Path(kafka_share.__file__).parent)
FEW, MANY = 5, 60
ACCEPT, RELEASE = 1, 2
EXACT = 1
"""The acquire mode in which a fetch gets no more records than it asked for."""
BISECTIONS = 40
"""Lines more that searches in twelve times as many records may run."""
LINES_FOR_AN_IDLE_PARTITION = 80


class Unchecked(World):
    """A world that does not look at all its invariants after each request: that grows with everything."""

    def take_answers(self) -> None:
        for reply in self.machine.poll(self.now_ms):
            self.late[reply.context.correlation_id] = reply.response
        self.machine.wake_at_ms()


class Member:
    """A member of a share group on a connection of its own."""

    def __init__(
        self, world: World, topic: Any, number: int, group: str = "g", partitions: tuple[int, ...] = (0,)
    ) -> None:
        self.world, self.topic, self.group = world, topic, group
        self.number, self.partitions, self.epoch = number, partitions, 0

    def fetch(self, wait_ms: int = 0, records: int = 500, mode: int = 0) -> Any:
        """The answer, None while the fetch waits."""
        named = [Asked(topic_id=self.topic.id, partitions=[AskedPartition(partition_index=p) for p in self.partitions])]
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=f"member-{self.number}",
            share_session_epoch=self.epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=50_000_000,
            max_records=records,
            batch_size=records,
            share_acquire_mode=mode,
            topics=named if self.epoch == 0 else [],
        )
        self.epoch += 1
        return self.world.ask(request, connection=self.number)

    def acknowledge(self, first: int, last: int, kind: int = ACCEPT) -> None:
        entry = Acknowledged.AcknowledgePartition
        one = entry.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=f"member-{self.number}",
            share_session_epoch=self.epoch,
            topics=[
                Acknowledged(
                    topic_id=self.topic.id, partitions=[entry(partition_index=0, acknowledgement_batches=[one])]
                )
            ],
        )
        self.epoch += 1
        (answered,) = self.world.ask(request, connection=self.number).responses
        assert answered.partitions[0].error_code == 0


def new_world(partitions: int = 1, *, groups: tuple[str, ...] = ("g",), **config: str) -> tuple[World, Any]:
    """A world with a topic, and groups whose share state begins at its start."""
    world = Unchecked(config=config)
    topic = world.topic("t", partitions=partitions)
    for group_id in groups:
        group = world.cluster.share_groups.get_or_create(group_id)
        for partition in range(partitions):
            world.cluster.share_groups.initialise(group.id, topic.id, partition, 0, world.now_ms)
    return world, topic


def produce(world: World, topic: Any, partition: int = 0, records: bytes = batch()) -> None:
    data = ProduceRequest.TopicProduceData
    one = data.PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        acks=-1, timeout_ms=1_000, topic_data=[data(name=topic.name, topic_id=topic.id, partition_data=[one])]
    )
    (answered,) = world.ask(request, 9, connection=0).responses
    assert answered.partition_responses[0].error_code == 0


def beat(world: World, number: int, epoch: int) -> int:
    """A heartbeat of a member of the group; returns the epoch of the next one."""
    request = ShareGroupHeartbeatRequest(
        group_id="g",
        member_id=f"member-{number}",
        member_epoch=epoch,
        subscribed_topic_names=["t"] if epoch == 0 else None,
    )
    answer = world.ask(request, connection=number)
    assert answer.error_code == 0
    return int(answer.member_epoch)


def acquired(answer: Any) -> list[tuple[int, int]]:
    return [
        (one.first_offset, one.last_offset)
        for topic in answer.responses
        for partition in topic.partitions
        for one in partition.acquired_records
    ]


def lines_of(action: Callable[[], object]) -> int:
    """How many lines of the package run."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def costs(action: Callable[[int], Callable[[], object]]) -> tuple[int, int]:
    """What the request that `action` prepares costs with few other things, and with many.

    The codecs of all messages have been made by then: few would cost more than many.
    """
    action(FEW)()
    return lines_of(action(FEW)), lines_of(action(MANY))


def assert_flat(found: tuple[int, int], margin: int = 0) -> None:
    few, many = found
    assert few > 100, "the request has been worked on"
    assert many <= few + margin, f"{FEW} others: {few} lines, {MANY}: {many}"


# ---- waiting fetches


def wait(world: World, topic: Any, count: int, **members: Any) -> None:
    """So many members wait for records, and nobody has found any."""
    for number in range(1, count + 1):
        member = Member(world, topic, number, **members)
        member.fetch()  # the first request of a group is not answered with records: it loads the share partition
        assert member.fetch(wait_ms=60_000) is None


def test_a_record_costs_the_same_however_many_fetches_of_the_group_wait_for_it() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic = new_world()
        wait(world, topic, count)
        return lambda: produce(world, topic)

    assert_flat(costs(prepared))


def test_a_record_costs_the_same_however_many_fetches_wait_for_other_partitions() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic = new_world(2)
        wait(world, topic, count, partitions=(1,))
        return lambda: produce(world, topic, 0)

    assert_flat(costs(prepared))


def test_an_acknowledgement_costs_the_same_however_many_fetches_wait() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic = new_world()
        holder = Member(world, topic, MANY + 1)
        holder.fetch()
        produce(world, topic)
        assert acquired(holder.fetch()) == [(0, 0)]
        wait(world, topic, count)
        return lambda: holder.acknowledge(0, 0)

    assert_flat(costs(prepared))


def test_the_cost_of_a_record_is_linear_in_the_groups_that_get_it() -> None:
    """Each group is answered; that must not make the others look once for each."""

    def prepared(count: int) -> Callable[[], object]:
        groups = tuple(f"g{number}" for number in range(count))
        world, topic = new_world(groups=groups)
        for number, group in enumerate(groups, 1):
            member = Member(world, topic, number, group)
            member.fetch()
            assert member.fetch(wait_ms=60_000) is None
        return lambda: produce(world, topic)

    few, many = costs(prepared)
    assert many < few * MANY / FEW


def test_a_record_costs_the_same_however_many_ordinary_consumers_wait_for_other_partitions() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic = new_world(2)
        asked = FetchRequest.FetchTopic
        for number in range(1, count + 1):
            one = asked.FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1_000)
            request = FetchRequest(
                max_wait_ms=60_000, min_bytes=1, max_bytes=1_000, topics=[asked(topic=topic.name, partitions=[one])]
            )
            assert world.ask(request, 12, connection=number) is None
        return lambda: produce(world, topic, 0)

    assert_flat(costs(prepared))


def test_the_first_one_that_waits_gets_the_records_and_the_next_one_the_next() -> None:
    world, topic = new_world()
    wait(world, topic, 3)
    for offset in range(3):
        produce(world, topic)
        (answered,) = world.late.values()
        assert acquired(answered) == [(offset, offset)]
        world.late.clear()


def test_all_that_wait_are_served_when_there_is_enough() -> None:
    world, topic = new_world()
    for number in (1, 2, 3):
        member = Member(world, topic, number)
        member.fetch()
        assert member.fetch(wait_ms=60_000, records=2, mode=EXACT) is None
    produce(world, topic, records=batch(5))
    assert [acquired(answer) for answer in world.late.values()] == [[(0, 1)], [(2, 3)], [(4, 4)]]


def test_what_was_released_in_one_partition_is_found_by_a_look_for_another_one() -> None:
    """Nobody is woken when a release is stored; the next reason to look will do, as in Kafka."""
    world, topic = new_world(2)
    holder = Member(world, topic, 9, partitions=(0,))
    holder.fetch()
    produce(world, topic, 0)
    assert acquired(holder.fetch()) == [(0, 0)]
    wait(world, topic, 1, partitions=(1,))
    both = Member(world, topic, 2, partitions=(0, 1))
    both.fetch()
    assert both.fetch(wait_ms=60_000) is None
    holder.acknowledge(0, 0, RELEASE)
    assert not world.late
    produce(world, topic, 1)
    found = [acquired(answer) for answer in world.late.values()]
    assert found == [[(0, 0)], [(0, 0)]], "the first took the new record, the second looked for what is left"


# ---- what is held, finished or stored elsewhere


def holding(count: int) -> tuple[World, Any, Member]:
    """A member holds so many records, each acquired by itself; then one more has been produced."""
    world, topic = new_world()
    holder = Member(world, topic, 1)
    holder.fetch()
    for _ in range(count):
        produce(world, topic)
        assert len(acquired(holder.fetch())) == 1
    produce(world, topic)
    return world, topic, holder


def test_a_fetch_costs_the_same_however_many_records_are_held_before_it() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic, _ = holding(count)
        other = Member(world, topic, 2)
        other.fetch(records=1, mode=EXACT)
        produce(world, topic)
        return lambda: other.fetch()

    assert_flat(costs(prepared), BISECTIONS)


def test_a_fetch_costs_the_same_however_many_records_are_held_before_the_one_that_is_free() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic, holder = holding(count)
        other = Member(world, topic, 2)
        other.fetch()
        holder.acknowledge(count - 1, count - 1, RELEASE)

        def take() -> None:
            assert acquired(other.fetch()) == [(count - 1, count - 1)]

        return take

    assert_flat(costs(prepared), BISECTIONS)


def test_an_acknowledgement_costs_the_same_however_many_of_its_batch_were_finished_before() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic = new_world()
        member = Member(world, topic, 1)
        member.fetch()
        produce(world, topic, records=batch(2 * MANY))
        assert acquired(member.fetch()) == [(0, 2 * MANY - 1)]
        for offset in range(count):
            member.acknowledge(offset, offset)
        return lambda: member.acknowledge(count, count)

    assert_flat(costs(prepared), BISECTIONS)


def test_an_acknowledgement_costs_the_same_however_many_records_are_held_before_it() -> None:
    def prepared(count: int) -> Callable[[], object]:
        _, _, holder = holding(count)
        return lambda: holder.acknowledge(count - 1, count - 1)

    assert_flat(costs(prepared), BISECTIONS)


def test_an_acknowledgement_costs_the_same_however_many_were_stored_out_of_order() -> None:
    def prepared(count: int) -> Callable[[], object]:
        _, _, holder = holding(2 * count)
        for offset in range(1, 2 * count - 2, 2):
            holder.acknowledge(offset, offset)
        return lambda: holder.acknowledge(2 * count - 1, 2 * count - 1)

    assert_flat(costs(prepared), BISECTIONS)


def test_a_fetch_costs_the_same_however_many_records_are_finished() -> None:
    def prepared(count: int) -> Callable[[], object]:
        _, _, holder = holding(count)
        holder.acknowledge(0, count - 1)
        return lambda: holder.fetch()

    assert_flat(costs(prepared), BISECTIONS)


def test_a_fetch_costs_the_same_however_many_records_wait_behind_those_that_it_gets() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic = new_world()
        member = Member(world, topic, 1)
        member.fetch()
        for _ in range(count):
            produce(world, topic)
        return lambda: member.fetch(records=1)

    assert_flat(costs(prepared), BISECTIONS)


def test_a_request_costs_the_same_however_many_share_partitions_have_locks() -> None:
    def prepared(count: int) -> Callable[[], object]:
        groups = tuple(f"g{number}" for number in range(count + 1))
        world, topic = new_world(2, groups=groups)
        produce(world, topic, 1)
        for number, group in enumerate(groups[1:], 1):
            member = Member(world, topic, number, group, partitions=(1,))
            member.fetch()
            assert acquired(member.fetch()) == [(0, 0)]
        return lambda: produce(world, topic, 0)

    assert_flat(costs(prepared))


def test_a_fetch_of_committed_records_costs_the_same_however_many_transactions_were_aborted_later() -> None:
    log = Log()
    marker = {"producer_epoch": 0, "is_transactional": True}
    for number in range(200):
        log.append(batch(producer_id=number, base_sequence=0, **marker), 0, START_MS)
        log.append(control_batch("abort", producer_id=number, producer_epoch=0, timestamp=START_MS), 0, START_MS)
    assert log.aborted_ranges(10, 11) == [(5, 10, 11)]
    assert lines_of(lambda: log.aborted_ranges(10, 11)) < 50


# ---- idle members, producers and partitions


def test_requests_cost_the_same_however_many_members_have_a_session_and_do_nothing() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic = new_world()
        for number in range(1, count + 1):
            Member(world, topic, number).fetch()
            beat(world, number, 0)
        busy = Member(world, topic, MANY + 1)
        busy.fetch()

        def through() -> None:
            produce(world, topic)
            assert acquired(busy.fetch()) == [(0, 0)]
            busy.acknowledge(0, 0)

        return through

    assert_flat(costs(prepared))


def test_a_heartbeat_costs_the_same_however_many_members_there_are() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, _ = new_world()
        epoch = 0
        for number in range(1, count + 1):
            epoch = beat(world, number, 0)
        world.now_ms += 2_000
        epoch = beat(world, count, epoch)
        epoch = beat(world, count, epoch)
        return lambda: beat(world, count, epoch)

    assert_flat(costs(prepared))


def test_requests_cost_the_same_however_many_transactions_are_open() -> None:
    def prepared(count: int) -> Callable[[], object]:
        world, topic = new_world(2)
        for number in range(count):
            made = world.ask(InitProducerIdRequest(transactional_id=f"t{number}", transaction_timeout_ms=60_000), 4)
            asked = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
            world.ask(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=f"t{number}",
                    v3_and_below_producer_id=made.producer_id,
                    v3_and_below_producer_epoch=made.producer_epoch,
                    v3_and_below_topics=[asked(name="t", partitions=[1])],
                ),
                3,
            )
        return lambda: produce(world, topic, 0)

    assert_flat(costs(prepared))


def test_an_idle_partition_of_a_session_costs_a_fetch_few_lines() -> None:
    """Each is looked at, since the order in which they are served is Kafka's; that is all."""

    def prepared(count: int) -> Callable[[], object]:
        world, topic = new_world(count)
        member = Member(world, topic, 1, partitions=tuple(range(count)))
        member.fetch()
        member.fetch()
        produce(world, topic, 0)
        return lambda: member.fetch()

    few, many = costs(prepared)
    assert (many - few) / (MANY - FEW) < LINES_FOR_AN_IDLE_PARTITION
