from __future__ import annotations

from broker.cluster_world import START_MS, World, batch

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.storage.log import Log
from kafka_share.broker.storage.log_settings import LogSettings
from kafka_share.protocol.logs import FetchRequest, ListOffsetsRequest
from kafka_share.protocol.record_batches import iter_batches

SIZE = len(batch())
HOUR_MS = 3_600_000


def filled(settings: LogSettings, *timestamps: int) -> Log:
    """A log with a batch of one record for each timestamp."""
    log = Log(lambda: settings)
    for timestamp in timestamps:
        log.append(batch(1, timestamp), 0, START_MS)
    log.check()
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_segment_begins_when_the_one_before_is_full() -> None:
    log = filled(LogSettings(segment_bytes=2 * SIZE + 1), *[START_MS] * 5)
    assert bases(log) == [0, 2, 4]
    log.append(batch(9), 0, START_MS)
    assert bases(log) == [0, 2, 4, 5]


def test_a_segment_begins_when_its_first_record_is_segment_ms_older_than_the_new_one() -> None:
    assert bases(filled(LogSettings(segment_ms=10), START_MS, START_MS + 10, START_MS + 11)) == [0, 2]


def test_segments_without_timestamps_count_from_the_last_write() -> None:
    log = filled(LogSettings(segment_ms=10, retention_ms=100), -2)
    log.append(batch(1, -2), 0, START_MS + 10)
    log.append(batch(1, -2), 0, START_MS + 21)
    assert bases(log) == [0, 2]
    assert not log.delete_old(START_MS + 110)
    assert log.delete_old(START_MS + 111)
    assert log.start_offset == 2


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    settings = LogSettings(segment_bytes=2 * SIZE, retention_ms=100)
    log = filled(settings, START_MS, START_MS + 50, START_MS + 20, START_MS + 60, START_MS + 70)
    assert not log.delete_old(START_MS + 150)
    assert log.delete_old(START_MS + 151)
    assert (log.start_offset, bases(log)) == (2, [2, 4])
    assert log.delete_old(START_MS + 161)
    assert bases(log) == [4]


def test_an_old_segment_stays_when_the_one_before_it_is_young() -> None:
    log = filled(LogSettings(segment_bytes=SIZE, retention_ms=100), START_MS + 1_000, START_MS)
    assert not log.delete_old(START_MS + 500)


def test_the_last_segment_goes_too_when_it_is_old_and_offsets_go_on() -> None:
    log = filled(LogSettings(retention_ms=100), START_MS, START_MS)
    assert log.delete_old(START_MS + 101)
    assert (log.start_offset, log.high_watermark, bases(log)) == (2, 2, [2])
    assert not log.delete_old(START_MS + 1_000_000), "an empty segment does not go"
    assert log.append(batch(1, START_MS + 200), 0, START_MS) == (2, 2)
    log.check()


def test_the_oldest_segments_go_while_the_others_are_enough() -> None:
    log = filled(LogSettings(segment_bytes=SIZE, retention_ms=-1, retention_bytes=2 * SIZE), *[START_MS] * 5)
    assert log.delete_old(START_MS)
    assert bases(log) == [3, 4]
    assert not log.delete_old(START_MS)
    # One byte more may stay, so a segment more does: what is left has to be as much as the setting says.
    log = filled(LogSettings(segment_bytes=SIZE, retention_ms=-1, retention_bytes=2 * SIZE + 1), *[START_MS] * 5)
    log.delete_old(START_MS)
    assert bases(log) == [2, 3, 4]


def test_segments_below_the_start_offset_are_gone_when_records_were_deleted() -> None:
    log = filled(LogSettings(segment_bytes=2 * SIZE), *[START_MS] * 6)
    log.delete_records(3)
    assert (log.start_offset, bases(log)) == (3, [2, 4])
    assert log.bytes_between(3, 6) == 3 * SIZE
    assert sum(len(one.data) for one in log.read(3, 2 * SIZE, 6)) == 2 * SIZE
    log.check()


def _fetch(world: World, topic: object, offset: int, max_wait_ms: int = 0) -> FetchRequest:
    asked = FetchRequest.FetchTopic.FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=offset, partition_max_bytes=1_000_000
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        topics=[FetchRequest.FetchTopic(topic_id=topic.id, partitions=[asked])],  # type: ignore[attr-defined]
    )


def test_old_records_go_at_the_next_check_of_retention() -> None:
    world = World(config={"log.retention.ms": str(HOUR_MS), "log.retention.check.interval.ms": "60000"})
    topic = world.topic("jobs")
    (partition,) = topic.partitions
    assert world.machine.wake_at_ms() is None, "there is nothing to look at"
    world.cluster.append(partition, batch(3, world.now_ms), world.now_ms)
    world.advance(HOUR_MS)
    assert partition.log.start_offset == 0
    world.advance(60_000)
    assert partition.log.start_offset == 3
    assert world.machine.wake_at_ms() is None, "the log is empty again"


def test_a_topic_has_its_own_retention() -> None:
    world = World(config={"log.retention.check.interval.ms": "60000"})
    kept, short = world.topic("kept").partitions[0], world.topic("short").partitions[0]
    for partition in (kept, short):
        world.cluster.append(partition, batch(1, world.now_ms), world.now_ms)
    world.cluster.configs.set_values(ResourceType.TOPIC, "short", {"retention.ms": "1000"})
    world.advance(60_000)
    assert (kept.log.start_offset, short.log.start_offset) == (0, 1)


def test_a_fetch_that_waits_below_the_new_start_is_answered_at_once() -> None:
    world = World(config={"log.retention.ms": "1000", "log.retention.check.interval.ms": "60000"})
    topic = world.topic("jobs")
    world.cluster.append(topic.partitions[0], batch(1, world.now_ms), world.now_ms)
    request = _fetch(world, topic, 0, max_wait_ms=600_000)
    request.min_bytes = 100_000
    assert world.ask(request) is None
    world.advance(60_000)
    (answered,) = world.late[world.last_id].responses[0].partitions
    assert answered.error_code == 1, "OFFSET_OUT_OF_RANGE"


def test_the_start_offset_that_admins_see_follows() -> None:
    world = World(config={"log.retention.ms": "1000", "log.retention.check.interval.ms": "60000"})
    topic = world.topic("jobs")
    world.cluster.append(topic.partitions[0], batch(2, world.now_ms), world.now_ms)
    world.advance(60_000)
    world.cluster.append(topic.partitions[0], batch(1, world.now_ms), world.now_ms)
    asked = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, timestamp=-2)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name="jobs", partitions=[asked])],
    )
    assert world.ask(request).topics[0].partitions[0].offset == 2
    (read,) = world.ask(_fetch(world, topic, 2)).responses[0].partitions
    assert [one.base_offset for one in iter_batches(read.records)] == [2]


def test_a_share_group_goes_on_with_what_is_left_when_its_records_are_too_old() -> None:
    config = {"log.retention.ms": 1_000, "log.retention.check.interval.ms": 1_000}
    with ReferenceBroker(config=config) as broker:
        broker.create_topic("jobs")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.produce("jobs", b"in flight")
        with KafkaShareConsumer(
            "jobs", bootstrap_servers=broker.bootstrap_servers, group_id="g", share_acknowledgement_mode="explicit"
        ) as consumer:
            (held,) = consumer.poll(timeout_ms=10_000)
            broker.produce("jobs", b"never delivered")
            broker.advance(3_000)
            assert broker.records("jobs") == []
            consumer.acknowledge(held)
            assert set(consumer.commit_sync().values()) == {None}
            broker.produce("jobs", b"young")
            (left,) = consumer.poll(timeout_ms=10_000)
            assert (left.offset, left.value) == (2, b"young")
