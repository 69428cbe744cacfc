"""What the share coordinator writes to `__share_group_state`, and that a log brings back what was in memory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from broker.share.coordinator_log import LogHost, contents, records_of, state_topic
from broker.share.probe import FakeCluster, Probe
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.broker.kafka_version import behaviour_of
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share.share_coordinator import ShareCoordinator, ShareStateSettings, coordinator_key
from kafka_share.broker.share.state_batches import StateBatch
from kafka_share.broker.share.state_records import Snapshot, StateKey, StateRecord, Tombstone, Update, decode, encode
from kafka_share.broker.storage.internal_topic import InternalTopic
from kafka_share.errors import CoordinatorNotAvailableError, RemoteProtocolError, UnknownServerError
from kafka_share.protocol.coordinator_records import encode_value
from kafka_share.protocol.share_state_records import ShareUpdateValue

NOW = 1_000_000
TOPIC_ID = UUID("62456f4d-9707-4499-90f9-1b304942490d")
KEYS = [StateKey(group, TOPIC_ID, partition) for group in ("g", "h") for partition in (0, 1)]


class Bench:
    """A coordinator and its log."""

    def __init__(self, version: str = "4.3", **settings: int) -> None:
        self.host = LogHost()
        self.log = state_topic(self.host)
        self.probe = Probe(version)
        self.probe.view.topics[TOPIC_ID] = "t"
        for key in KEYS:
            self.probe.view.partitions[TOPIC_ID, key.partition] = _partition(self.probe.view)
        self.settings = ShareStateSettings(**settings)
        self.states = self.new()

    def new(self) -> ShareCoordinator:
        return ShareCoordinator(self.probe.view, self.log, self.probe.view.behaviour, self.settings)

    def reloaded(self) -> ShareCoordinator:
        loaded = self.new()
        loaded.load()
        loaded.check()
        return loaded

    def write(self, key: StateKey, *batches: tuple[int, int, int, int], start: int = -1, now_ms: int = NOW) -> None:
        self.states.write(
            key,
            state_epoch=-1,
            leader_epoch=-1,
            start_offset=start,
            delivery_complete_count=0,
            batches=[StateBatch(*batch) for batch in batches],
            now_ms=now_ms,
        )

    def records(self) -> list[StateRecord]:
        return records_of(self.log)


def _partition(view: FakeCluster) -> Any:
    probe = Probe()
    probe.topic("t")
    return next(iter(probe.view.partitions.values()))


KEY = KEYS[0]


def test_each_change_is_one_record_when_it_is_made() -> None:
    bench = Bench(updates_per_snapshot=2)
    states = bench.states
    states.initialize(KEY, 5, -1, NOW)
    states.read(KEY, 0, NOW)
    states.read(KEY, 3, NOW + 1)
    bench.write(KEY, (0, 4, 2, 1), (5, 5, 0, 1), start=0)
    bench.write(KEY, (5, 9, 2, 2), start=5, now_ms=NOW + 2)
    bench.write(KEY, (10, 10, 4, 1))
    states.delete(KEY, NOW + 3)
    states.delete(KEY, NOW + 3)
    assert bench.records() == [
        Snapshot(KEY, 0, 5, 0, -1, -1, NOW, NOW, ()),
        Update(KEY, 0, 3, -1, -1, ()),
        Update(KEY, 0, 3, 0, 0, (StateBatch(0, 4, 2, 1), StateBatch(5, 5, 0, 1))),
        Snapshot(KEY, 1, 5, 3, 5, 0, NOW + 2, NOW + 2, (StateBatch(5, 9, 2, 2),)),
        Update(KEY, 1, 3, -1, 0, (StateBatch(10, 10, 4, 1),)),
        Tombstone(KEY),
    ]


def test_an_update_has_the_bytes_of_its_schema() -> None:
    """They are written without it."""
    for count, batches in (
        (-1, ()),
        (0, (StateBatch(0, 4, 2, 1), StateBatch(2**40, 2**41, 4, 300))),
        (2**31 - 1, [StateBatch(at, at, -1, -1) for at in range(200)]),
    ):
        record = Update(KEY, 3, -1, 2**40, count, tuple(batches))
        value = ShareUpdateValue(
            snapshot_epoch=3,
            leader_epoch=-1,
            start_offset=2**40,
            delivery_complete_count=count,
            state_batches=[
                ShareUpdateValue.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=times
                )
                for first, last, state, times in batches
            ],
        )
        assert encode(record)[1] == encode_value(value, 0)
        assert decode(*encode(record)) == record


def test_a_raised_state_epoch_is_a_snapshot_when_writes_raise_epochs() -> None:
    """Kafka 4.1: an update has no place for a state epoch."""
    bench = Bench("4.1")
    bench.states.initialize(KEY, 5, 0, NOW)
    bench.states.write(
        KEY, state_epoch=6, leader_epoch=2, start_offset=-1, delivery_complete_count=0, batches=(), now_ms=NOW
    )
    assert bench.records()[1] == Snapshot(KEY, 1, 6, 2, 0, 0, NOW, NOW, ())
    assert contents(bench.reloaded()) == contents(bench.states)


def test_nothing_changes_when_the_log_refuses() -> None:
    bench = Bench()
    bench.states.initialize(KEY, 5, 0, NOW)
    before = contents(bench.states)
    bench.host.broken = True
    for attempt in (
        lambda: bench.write(KEY, (0, 4, 2, 1)),
        lambda: bench.states.initialize(KEY, 6, 3, NOW),
        lambda: bench.states.read(KEY, 4, NOW),
        lambda: bench.states.delete(KEY, NOW),
    ):
        with pytest.raises(Refusal) as error:
            attempt()
        assert error.value.code == CoordinatorNotAvailableError.code
    assert contents(bench.states) == before == contents(bench.reloaded())


def test_a_reversed_batch_is_refused_when_it_would_overlap_another() -> None:
    """Kafka 4.3.1 stores a reversed batch that stands alone, and never ends merging one that does not."""
    bench = Bench()
    bench.states.initialize(KEY, 0, 0, NOW)
    bench.write(KEY, (5, 3, 2, 1))
    with pytest.raises(Refusal) as error:
        bench.write(KEY, (0, 9, 0, 1))
    assert error.value.code == UnknownServerError.code
    with pytest.raises(Refusal):
        bench.write(KEY, (20, 29, 0, 1), (25, 21, 2, 1))
    assert bench.states.read(KEY, 0, NOW).batches == (StateBatch(5, 3, 2, 1),)
    assert contents(bench.reloaded()) == contents(bench.states)


def test_a_reversed_batch_that_stands_alone_comes_back_as_it_was_stored() -> None:
    bench = Bench()
    bench.states.initialize(KEY, 0, 0, NOW)
    bench.write(KEY, (0, -1, 0, 1))
    assert bench.states.read(KEY, 0, NOW).batches == (StateBatch(0, -1, 0, 1),)
    assert contents(bench.reloaded()) == contents(bench.states)


_batches = st.lists(
    st.builds(
        lambda first, size, state, count: (first, first + size, state, count),
        st.integers(0, 30),
        st.integers(-3, 8),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 3),
    ),
    max_size=4,
)
_operations = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(KEYS), st.integers(-1, 20), _batches),
        st.tuples(st.just("initialize"), st.sampled_from(KEYS), st.integers(-1, 9), st.integers(0, 3)),
        st.tuples(st.just("read"), st.sampled_from(KEYS), st.integers(-1, 4), st.none()),
        st.tuples(st.just("delete"), st.sampled_from(KEYS), st.none(), st.none()),
        st.tuples(st.just("wait"), st.none(), st.integers(1, 1_000), st.none()),
    ),
    max_size=40,
)


def _perform(bench: Bench, operations: list[Any], *, tidies: bool) -> None:
    """All of them, from NOW on; refusals are part of the history."""
    now_ms = NOW
    for kind, key, number, more in operations:
        now_ms += 10
        try:
            if kind == "write":
                bench.write(key, *more, start=number, now_ms=now_ms)
            elif kind == "initialize":
                bench.states.initialize(key, more, number, now_ms)
            elif kind == "read":
                bench.states.read(key, number, now_ms)
            elif kind == "delete":
                bench.states.delete(key, now_ms)
            else:
                now_ms += number
                if tidies:
                    bench.states.poll(now_ms)
        except Refusal:
            pass


@given(_operations, st.sampled_from(["4.1", "4.3", "4.4"]))
def test_a_reloaded_coordinator_equals_the_living_one_after_any_history(operations: list[Any], version: str) -> None:
    bench = Bench(version, updates_per_snapshot=3)
    _perform(bench, operations, tidies=False)
    assert contents(bench.reloaded()) == contents(bench.states)


@given(_operations)
def test_pruning_loses_nothing_but_old_fences_after_any_history(operations: list[Any]) -> None:
    bench = Bench(updates_per_snapshot=3, prune_interval_ms=200, cold_interval_ms=300)
    _perform(bench, operations, tidies=True)
    living, loaded = dict(bench.states.states()), dict(bench.reloaded().states())
    assert loaded.keys() == living.keys()
    for key, state in living.items():
        found = loaded[key]
        assert found.fence == state.fence or found.leader_epoch == state.leader_epoch < state.fence
        for name in ("snapshot_epoch", "state_epoch", "start_offset", "delivery_complete_count", "leader_epoch"):
            assert getattr(found, name) == getattr(state, name)
        assert tuple(found.batches) == tuple(state.batches)


def _one_partition(bench: Bench) -> tuple[StateKey, StateKey, int]:
    """Two keys whose states lie in the same partition of the topic."""
    home = bench.log.partition_for(coordinator_key(KEY))
    other = next(
        key
        for number in range(1_000)
        if bench.log.partition_for(coordinator_key(key := StateKey(f"x{number}", TOPIC_ID, 0))) == home
    )
    return KEY, other, home


def test_idle_states_are_written_again_and_the_log_is_pruned_when_time_passes() -> None:
    bench = Bench(updates_per_snapshot=2, prune_interval_ms=1_000, cold_interval_ms=1_000)
    idle, busy, home = _one_partition(bench)
    bench.states.initialize(idle, 0, 0, NOW)
    bench.write(idle, (0, 0, 2, 1))
    bench.states.initialize(busy, 0, 0, NOW + 900)
    assert bench.states.wake_at_ms() == NOW + 1_000
    bench.states.poll(NOW + 999)
    assert len(bench.records()) == 3
    bench.states.poll(NOW + 1_000)
    assert bench.records() == [
        Snapshot(busy, 0, 0, 0, 0, 0, NOW + 900, NOW + 900, ()),
        Snapshot(idle, 1, 0, 0, 0, 0, NOW, NOW + 1_000, (StateBatch(0, 0, 2, 1),)),
    ]
    assert bench.log.start_offset(home) == 2
    assert bench.states.wake_at_ms() == NOW + 2_000  # what was written again may make more redundant


def test_a_quiet_coordinator_waits_for_nothing_when_all_was_written_again() -> None:
    bench = Bench(prune_interval_ms=1_000, cold_interval_ms=1_000)
    bench.states.initialize(KEY, 0, 0, NOW)
    assert bench.new().wake_at_ms() is None
    for second in range(1, 5):
        bench.states.poll(NOW + 1_000 * second)
    assert bench.states.wake_at_ms() is None
    assert len(bench.records()) == 1


def test_everything_before_a_tombstone_is_pruned_when_no_state_is_left() -> None:
    bench = Bench(prune_interval_ms=1_000)
    bench.states.initialize(KEY, 0, 0, NOW)
    bench.states.delete(KEY, NOW)
    bench.states.poll(NOW + 1_000)
    assert bench.records() == [Tombstone(KEY)]
    assert contents(bench.reloaded()) == {}


def test_a_long_log_is_shortened_before_its_time_when_a_neighbour_is_idle() -> None:
    bench = Bench(updates_per_snapshot=100)
    idle, busy, home = _one_partition(bench)
    bench.states.initialize(idle, 0, 0, NOW)
    bench.write(idle, (0, 0, 2, 1))
    bench.states.initialize(busy, 0, 0, NOW)
    longest = 0
    for offset in range(25_000):
        bench.write(busy, (offset, offset, 2, 1), start=offset)
        bench.states.poll(NOW)
        longest = max(longest, bench.log.end_offset(home) - bench.log.start_offset(home))
    assert 10_000 < longest < 10_200
    assert contents(bench.reloaded()) == contents(bench.states)
    assert bench.states.read(idle, 0, NOW).batches == (StateBatch(0, 0, 2, 1),)


def test_tidying_waits_for_its_next_time_when_the_log_refuses() -> None:
    bench = Bench(prune_interval_ms=1_000, cold_interval_ms=1_000)
    bench.states.initialize(KEY, 0, 0, NOW)
    bench.host.broken = True
    bench.states.poll(NOW + 1_000)
    bench.states.topic_deleted(KEY.topic_id, NOW + 1_000)
    assert bench.records() == [Snapshot(KEY, 0, 0, 0, 0, 0, NOW, NOW, ())]
    bench.host.broken = False
    bench.states.topic_deleted(KEY.topic_id, NOW + 2_000)
    assert contents(bench.states) == {}


def test_damaged_records_are_refused_when_they_are_read() -> None:
    key, value = encode(Snapshot(KEY, 0, 5, 0, -1, -1, NOW, NOW, (StateBatch(0, 1, 2, 1),)))
    assert value is not None
    for wrong in (
        (b"\0", value),
        (b"\0\x07" + key[2:], value),
        (key[:-1], value),
        (key + b"\0", value),
        (key, value[:-1]),
        (key, b"\0\x01" + value[2:]),
    ):
        with pytest.raises(RemoteProtocolError):
            decode(*wrong)
    assert decode(key, None) == Tombstone(KEY)


def test_records_are_byte_for_byte_those_of_the_format_when_encoded() -> None:
    """Written out by hand from Kafka's schemas: type and version, then the fields; the count of what is complete is a
    tagged field, which follows the batches."""
    topic = TOPIC_ID.bytes.hex()
    key, value = encode(Update(KEY, 2, 3, 7, 4, (StateBatch(7, 9, 2, 1),)))
    assert key.hex() == "0001" + "000167" + topic + "00000000"
    batch = "0000000000000007" + "0000000000000009" + "02" + "0001" + "00"
    fields = "00000002" + "00000003" + "0000000000000007"
    assert value is not None
    assert value.hex() == "0000" + fields + "02" + batch + "01" + "00" + "04" + "00000004"


def test_keys_lie_in_the_partitions_that_kafka_chooses() -> None:
    """Java's hash of the text, without its sign, modulo the number of partitions."""
    topic = InternalTopic("t", 50, LogHost())
    assert coordinator_key(KEY) == "g:YkVvTZcHRJmQ-RswSUJJDQ:0"
    assert topic.partition_for("") == 0
    assert topic.partition_for("hello") == 99162322 % 50
    assert topic.partition_for("polygenelubricants") == 0  # the hash is -2**31
    assert topic.partition_for("Aa") == topic.partition_for("BB") == 2112 % 50
    assert behaviour_of("4.3").refuses_reversed_batches is False
