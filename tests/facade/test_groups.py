"""Several consumers in one group, several groups on one topic: nothing is lost, and each record goes to one member."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable
from functools import partial

import pytest
from facade.delivery_checks import produce_one_batch, produce_values
from support.consumers import Consumer, MakeConsumer, Record
from support.waiting import looks, poll_until, poll_while, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.protocol.share_fetch import ShareFetchRequest

SHARE_FETCH = ShareFetchRequest.API_KEY
LATE_MS = 20_000
"""How late a delayed answer is, on the broker's clock: later than what has to come first, earlier than a lock ends."""


@pytest.fixture
def make_consumer(make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers whose fetches wait shortly, as they are polled in turn; small polls, so that all of them get some."""
    return partial(make_consumer, fetch_max_wait_ms=20, max_poll_records=50)


def drain(consumers: Iterable[Consumer], count: int) -> Counter[int]:
    """Poll these consumers in turn until `count` records have come; how many each of them got, by its place."""
    members = list(consumers)
    got: Counter[int] = Counter()
    for _ in looks(lambda: f"{got} of {count} records came"):
        for place, member in enumerate(members):
            got[place] += len(member.poll(timeout_ms=20))
        if sum(got.values()) >= count:
            assert sum(got.values()) == count, "some records came twice"
            break
    return got


def produce_many(broker: ReferenceBroker, topic: str, count: int, *, partitions: int = 1) -> None:
    """Batches of ten records, spread evenly over the partitions."""
    for number in range(count // 10):
        produce_one_batch(broker, topic, 10, partition=number % partitions)


@pytest.mark.behaviour("several members")
def test_each_group_gets_everything_in_its_own_time(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Two groups on one topic: each gets every record, whenever it polls, whatever the other does."""
    one, two = (make_consumer(topic, group_id=group) for group in ("one", "two"))
    produce_values(broker, topic, 3)
    assert [len(poll_until(consumer, 3)) for consumer in (one, two)] == [3, 3]
    produce_values(broker, topic, 2)
    assert len(poll_until(one, 2)) == 2
    produce_values(broker, topic, 3)
    assert [len(poll_until(one, 3)), len(poll_until(two, 5))] == [3, 5]


@pytest.mark.behaviour("several members")
def test_two_members_get_each_record_once_when_they_poll_in_turn(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Two members of one group share one partition: together they get each of 2000 records once, and both get some."""
    members = [make_consumer(topic), make_consumer(topic)]
    produce_many(broker, topic, 2_000)
    got = drain(members, 2_000)
    assert min(got.values()) > 0


@pytest.mark.behaviour("several members")
def test_members_in_parallel_get_each_record_once_when_producers_write_meanwhile(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Four members on threads of their own, four producers at the same time: each record is accepted once."""
    total = 2_000
    broker.create_topic("t", partitions=2)
    members = [make_consumer("t", max_poll_records=20) for _ in range(4)]
    seen: list[list[tuple[int, int]]] = [[] for _ in members]
    failures: list[BaseException] = []
    over = threading.Event()

    def consume(place: int) -> None:
        try:
            while not over.is_set():
                seen[place] += [(r.partition, r.offset) for r in members[place].poll(timeout_ms=20)]
            members[place].commit_sync()
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            failures.append(error)

    def write() -> None:
        produce_many(broker, "t", total // 4, partitions=2)

    workers = [threading.Thread(target=consume, args=(place,)) for place in range(4)]
    writers = [threading.Thread(target=write) for _ in range(4)]
    for thread in (*workers, *writers):
        thread.start()
    wait_until(lambda: sum(map(len, seen)) >= total or bool(failures))
    over.set()
    for thread in (*workers, *writers):
        thread.join()
    assert not failures
    found = [place for places in seen for place in places]
    assert (len(found), len(set(found))) == (total, total)


@pytest.mark.behaviour("several members")
def test_every_group_gets_everything_when_each_has_several_members(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Three groups of two members each: every group gets each record once."""
    broker.create_topic("t", partitions=2)
    produce_many(broker, "t", 800, partitions=2)
    for group in ("a", "b", "c"):
        drain([make_consumer("t", group_id=group) for _ in range(2)], 800)


@pytest.mark.behaviour("several members")
def test_the_others_get_everything_when_a_member_polls_once_and_closes(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A member that polls once and closes accepts nothing: the four others get every record."""
    produce_many(broker, topic, 1_000)
    quitter = make_consumer(topic)
    held = poll_until(quitter, 1)
    members = [make_consumer(topic) for _ in range(4)]
    got = Counter({-1: 0})
    for place, member in enumerate(members):
        got[place] += len(poll_until(member, 1))
    quitter.close()
    assert held
    drain(members, 1_000 - sum(got.values()))


@pytest.mark.behaviour("several members")
@pytest.mark.parametrize(("members", "partitions"), [(8, 1), (6, 2), (2, 1), (3, 24)])
def test_nothing_is_lost_when_members_and_partitions_are_of_any_number(
    members: int, partitions: int, broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """More members than partitions, fewer, one partition for all: together they get each record once."""
    broker.create_topic("t", partitions=partitions)
    consumers = [make_consumer("t") for _ in range(members)]
    for consumer in consumers:
        consumer.poll(timeout_ms=20)
    produce_many(broker, "t", 960, partitions=partitions)
    got = drain(consumers, 960)
    assert sum(1 for count in got.values() if count) > 1


@pytest.mark.behaviour("several members")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_record_is_new_twice_and_none_is_lost_when_members_come_and_go(
    seed: int, broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Members join, poll and close at random while records are written: none is lost, none comes twice with count 1.

    Some come with count 2 at first: a member that closes may have acquired records that it never showed to anybody.
    """
    choose = random.Random(seed)
    broker.create_topic("t", partitions=2)
    # a close in implicit mode gives the last batch back: without a higher limit some records would be set aside
    broker.set_group_config("g", {"share.delivery.count.limit": "10"})
    members: list[Consumer] = []
    written = 0
    first: Counter[tuple[int, int]] = Counter()
    accepted: set[tuple[int, int]] = set()
    held: dict[int, list[Record]] = {}

    def poll(member: Consumer) -> None:
        accepted.update((r.partition, r.offset) for r in held.pop(id(member), ()))
        found = list(member.poll(timeout_ms=20))
        first.update((r.partition, r.offset) for r in found if r.delivery_count == 1)
        held[id(member)] = found

    for _ in range(40):
        move = choose.choice(["join", "leave", "write", "poll", "poll", "poll"])
        if move == "join" and len(members) < 4:
            members.append(make_consumer("t", max_poll_records=5))
        elif move == "leave" and members:
            member = members.pop(choose.randrange(len(members)))
            member.close()
            held.pop(id(member), None)
        elif move == "write":
            produce_values(broker, "t", 5, partitions=[choose.randrange(2)])
            written += 5
        elif members:
            poll(choose.choice(members))
    last = make_consumer("t", max_poll_records=5)
    for member in members:
        member.close()
        held.pop(id(member), None)
    for _ in looks(lambda: f"{len(accepted)} of {written} records were accepted"):
        poll(last)
        if len(accepted) == written:
            break
    assert set(first.values()) == {1}


@pytest.mark.behaviour("several members")
def test_every_group_gets_everything_when_groups_join_one_after_the_other(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Five groups that begin at the start of the topic get everything, whenever they join."""
    members: list[Consumer] = []
    for number in range(5):
        produce_values(broker, topic, 10)
        members.append(make_consumer(topic, group_id=f"g{number}"))
        for member, count in zip(members, [10] * number + [10 * (number + 1)], strict=True):
            assert len(poll_until(member, count)) == count


# ---- several brokers, and none with anything


@pytest.mark.behaviour("several members")
def test_records_of_a_fast_broker_come_at_once_when_another_is_slow(make_consumer: MakeConsumer) -> None:
    """A broker that holds its answer back delays its own records only."""
    with ReferenceBroker(nodes=2) as broker:
        broker.create_topic("t", partitions=2)
        fast, slow = (broker.leader("t", index) for index in range(2))
        assert fast != slow
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        consumer = make_consumer("t", reset=None, bootstrap_servers=broker.bootstrap_servers)
        produce_values(broker, "t", 1, partitions=[0, 1])
        poll_until(consumer, 2)
        broker.faults.delay(SHARE_FETCH, LATE_MS, node_id=slow)
        # a single poll might find the slow broker still busy with an earlier fetch, and ask it nothing
        poll_while(consumer, lambda: broker.faults.pending() > 0)
        produce_values(broker, "t", 1, partitions=[1, 0])
        assert [record.partition for record in poll_until(consumer, 1)] == [0]
        broker.advance(LATE_MS)
        assert [record.partition for record in poll_until(consumer, 1)] == [1]
        consumer.close()


@pytest.mark.behaviour("several members")
def test_a_poll_without_records_waits_and_asks_seldom(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A poll that finds nothing sends one fetch after the other, each for fetch_max_wait_ms, and does not spin."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic, fetch_max_wait_ms=200)
    poll_until(consumer, 1)
    consumer.commit_sync()
    broker.clear_requests()
    assert not consumer.poll(timeout_ms=1_000)
    assert 1 <= len(broker.requests(SHARE_FETCH)) <= 7
