"""Which answers wait for the disk, and what becomes of them when it fails: a cluster on a disk in memory."""

from __future__ import annotations

import logging
from random import Random

import pytest
from broker.cluster_world import START_MS, batch
from broker.durability.tearing_disk import TearingDisk

from kafka_share.broker.cluster import Cluster
from kafka_share.broker.durability.fsync_policy import FsyncPolicy, RequestClass, class_of, fsync_policy
from kafka_share.broker.durability.held_answers import Answer, HeldAnswers
from kafka_share.broker.durability.persistence import Persistence
from kafka_share.broker.events import Message, RequestArrived, RequestContext
from kafka_share.broker.handlers.handler_table import HANDLERS
from kafka_share.broker.machine import BrokerMachine
from kafka_share.errors import ConfigurationError, KafkaStorageError
from kafka_share.protocol.logs import FetchRequest, ListOffsetsRequest, ProduceRequest
from kafka_share.protocol.topics import CreateTopicsRequest

STORAGE_ERROR = KafkaStorageError.code


class DurableWorld:
    """One node, asked as the server asks it."""

    def __init__(self, policy: FsyncPolicy | None = None) -> None:
        self.disk = TearingDisk(Random(1))
        self.persistence = Persistence(self.disk, "cluster", 1)
        self.cluster = Cluster(
            [1], config={}, cluster_id="cluster", random=Random(2), log_files=self.persistence.log_files
        )
        self.persistence.recover(self.cluster, START_MS)
        self.machine = BrokerMachine(self.cluster)
        self.held = HeldAnswers(self.persistence, policy or fsync_policy({}))
        self.topic = self.cluster.create_topic("t", [[1]])
        self.persistence.write(START_MS)
        self.persistence.sync()

    def ask(self, request: Message) -> list[Message]:
        """Answers that leave at once."""
        context = RequestContext(1, 1, "h", request.API_KEY, self.cluster.api_versions[request.API_KEY][1], 1, "c")
        self.machine.handle(RequestArrived(context, request), START_MS)
        answers = [Answer(reply, request) for reply in self.machine.poll(START_MS)]
        return [reply.response for reply in self.held.polled(answers, START_MS)]

    def commit(self) -> list[Message]:
        """Answers that an fsync lets go."""
        return [reply.response for reply in self.held.commit()[0]]

    def produce(self, acks: int = -1) -> ProduceRequest:
        data = ProduceRequest.TopicProduceData
        return ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=1_000,
            topic_data=[
                data(
                    name="t",
                    topic_id=self.topic.id,
                    partition_data=[data.PartitionProduceData(index=0, records=batch())],
                )
            ],
        )

    def list_offsets(self) -> ListOffsetsRequest:
        topic = ListOffsetsRequest.ListOffsetsTopic
        partition = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic(name="t", partitions=[partition])])


def error_of_produce(response: Message) -> int:
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def test_answers_wait_for_one_sync_and_leave_in_order() -> None:
    world = DurableWorld()
    assert world.ask(world.produce()) == []
    assert world.ask(world.produce()) == []
    assert world.ask(world.list_offsets()) == []  # it tells of what may still be lost
    assert world.held.is_waiting
    first, second, listed = world.commit()
    assert [one.responses[0].partition_responses[0].base_offset for one in (first, second)] == [0, 1]
    assert listed.topics[0].partitions[0].offset == 2
    assert not world.held.is_waiting
    assert not world.held.is_behind
    assert len(world.ask(world.list_offsets())) == 1


def test_producers_with_acks_1_wait_only_where_the_policy_says_so() -> None:
    world = DurableWorld()
    (answer,) = world.ask(world.produce(acks=1))
    assert error_of_produce(answer) == 0
    assert not world.held.is_waiting
    assert world.held.is_behind
    assert len(world.ask(world.list_offsets())) == 1  # nobody else waits
    strict = DurableWorld(fsync_policy({"produce-acks-1": "always"}))
    assert strict.ask(strict.produce(acks=1)) == []


def test_writers_get_a_storage_error_and_readers_their_answer_when_a_sync_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = DurableWorld()
    world.ask(world.produce())
    world.ask(world.list_offsets())
    world.disk.sync_fails = True
    produced, listed = world.commit()
    assert error_of_produce(produced) == STORAGE_ERROR
    assert listed.topics[0].partitions[0].error_code == 0
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "nothing is written any more until the broker starts again" in caplog.text
    world.disk.sync_fails = False  # a later sync that succeeds proves nothing
    (refused,) = world.ask(world.produce())
    assert error_of_produce(refused) == STORAGE_ERROR
    assert len(world.ask(world.list_offsets())) == 1
    assert not world.held.is_behind


def test_a_full_disk_refuses_writes_and_changes_nothing_until_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    world = DurableWorld()
    world.disk.full_chance = 1.0
    for _ in range(2):
        (refused,) = world.ask(world.produce())
        assert error_of_produce(refused) == STORAGE_ERROR
    assert world.topic.partitions[0].log.high_watermark == 0
    creatable = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[creatable(name="u", num_partitions=1, replication_factor=1)], timeout_ms=1_000, validate_only=False
    )
    (created,) = world.ask(request)
    assert created.topics[0].error_code == STORAGE_ERROR
    assert len(world.ask(world.list_offsets())) == 1
    world.disk.full_chance = 0.0
    assert world.ask(world.produce()) == []
    (done,) = world.commit()
    assert error_of_produce(done) == 0
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    assert "t-0/" in caplog.messages[0]
    assert caplog.messages[1] == "writes work again"


def test_every_api_that_describes_or_lists_is_a_reader_and_unknown_ones_are_not() -> None:
    produce = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1, topic_data=[])
    readers = {key for key in HANDLERS if class_of(key, produce) is RequestClass.READ}
    names = sorted(key.label for key in readers if not ("Describe" in key.label or key.label.startswith("List")))
    assert names == [
        "ApiVersions",
        "Fetch",
        "GetTelemetrySubscriptions",
        "Heartbeat",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "PushTelemetry",
        "ReadShareGroupStateSummary",
        "SaslAuthenticate",
        "SaslHandshake",
    ]
    assert class_of(FetchRequest.API_KEY, produce) is RequestClass.READ


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"shares": "always"}, "fsync has no class 'shares', only all, produce, produce-acks-1, share"),
        ({"read": "always"}, "fsync has no class 'read'"),
        ({"share": "never"}, "fsync is always or interval: 'never'"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        fsync_policy(settings)


def test_all_is_every_class_that_is_not_named() -> None:
    policy = fsync_policy({"all": "interval", "share": "always"}, 50)
    assert [one for one in RequestClass if policy.awaits_sync(one)] == [RequestClass.SHARE]
    with pytest.raises(ConfigurationError, match="interval has to be 1 to"):
        fsync_policy({}, 0)
