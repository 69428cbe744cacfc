"""Producers and transactional ids that are not used: forgotten alike by the reference broker and real Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import attrs
import pytest
from conformance.kafka_targets import Target
from support.waiting import rest, wait_until
from support.wire_connection import WireConnection

from kafka_share.protocol.cluster import FindCoordinatorRequest
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.producers import DescribeProducersRequest, DescribeTransactionsRequest
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.topics import CreateTopicsRequest
from kafka_share.protocol.transactions import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(90)]  # what is forgotten after two seconds is waited for

OUT_OF_SEQUENCE, NOT_MAPPED, NOT_FOUND = 45, 49, 105
_EARLY = (6, 14, 15, 16, 51)
"""A leader or coordinator that is being made, and a transaction whose markers are being written."""
_LATER_S = 3.0


@attrs.define
class Producer:
    """Raw requests of one producer to partition 0 of a topic of its own."""

    connection: WireConnection
    topic: str
    transactional_id: str | None = None
    id: int = -1
    epoch: int = -1

    def init(self) -> int:
        def initialised() -> list[int] | None:
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=60_000,
                producer_id=self.id,
                producer_epoch=self.epoch,
            )
            answer = self.connection.call(request, 5)
            if answer.error_code == 0:
                self.id, self.epoch = answer.producer_id, answer.producer_epoch
            return None if answer.error_code in _EARLY else [answer.error_code]

        return wait_until(initialised)[0]

    def write(self, sequence: int, *, version: int = 11, age_ms: int = 0) -> int:
        at_ms = int(time.time() * 1000) - age_ms
        records = encode_batch(
            [(0, at_ms, None, b"v", [])],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=self.transactional_id is not None,
        )
        topic = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[topic(name=self.topic, partition_data=[topic.PartitionProduceData(index=0, records=records)])],
        )

        def written() -> list[int] | None:
            code = int(self.connection.call(request, version).responses[0].partition_responses[0].error_code)
            return None if code in _EARLY else [code]

        return wait_until(written)[0]

    def add(self) -> int:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=self.topic, partitions=[0])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id or "",
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )
        (result,) = self.connection.call(request, 3).results_by_topic_v3_and_below
        return int(result.results_by_partition[0].partition_error_code)

    def end(self, version: int = 4) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id or "",
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=True,
        )
        answer = self.connection.call(request, version)
        if version >= 5 and answer.error_code == 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def is_known(self) -> bool:
        """By the partition."""
        topic = DescribeProducersRequest.TopicRequest(name=self.topic, partition_indexes=[0])
        answer = self.connection.call(DescribeProducersRequest(topics=[topic]), 0)
        return self.id in [one.producer_id for one in answer.topics[0].partitions[0].active_producers]

    def state(self) -> int | str:
        """Of the transactional id, or an error code."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id or ""])
        (found,) = self.connection.call(request, 0).transaction_states
        return int(found.error_code) or str(found.transaction_state)


@pytest.fixture
def producer(forgetful_kafka: Target, unique: Callable[[str], str]) -> Iterator[Producer]:
    with WireConnection(forgetful_kafka.bootstrap_servers) as connection:
        topic = CreateTopicsRequest.CreatableTopic(
            name=unique("expiry"), num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 7)
        one = Producer(connection, topic.name)
        asked = DescribeProducersRequest.TopicRequest(name=topic.name, partition_indexes=[0])
        request = DescribeProducersRequest(topics=[asked])
        wait_until(lambda: connection.call(request, 0).topics[0].partitions[0].error_code == 0 or None)
        yield one


@pytest.fixture
def transactional(producer: Producer) -> Producer:
    producer.transactional_id = f"{producer.topic}-id"
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[producer.transactional_id])
    wait_until(lambda: producer.connection.call(request, 4).coordinators[0].error_code == 0 or None)
    return producer


def test_a_producer_that_was_forgotten_goes_on_with_any_sequence_number(producer: Producer) -> None:
    assert producer.init() == 0
    assert [producer.write(0), producer.write(1), producer.write(7)] == [0, 0, OUT_OF_SEQUENCE]
    rest(_LATER_S)
    assert not producer.is_known()
    assert [producer.write(7), producer.write(9), producer.write(8)] == [0, OUT_OF_SEQUENCE, 0]


def test_it_is_the_time_of_its_records_that_counts(producer: Producer) -> None:
    assert producer.init() == 0
    assert producer.write(0, age_ms=3_600_000) == 0
    wait_until(lambda: not producer.is_known() or None)
    assert producer.write(0, age_ms=-10_000) == 0
    rest(_LATER_S)
    assert producer.is_known()


def test_a_transactional_id_that_was_forgotten_is_nobodys(transactional: Producer) -> None:
    assert transactional.init() == 0
    assert (transactional.add(), transactional.write(0)) == (0, 0)
    rest(_LATER_S)
    assert (transactional.state(), transactional.is_known()) == ("Ongoing", True)
    assert transactional.end() == 0
    rest(_LATER_S)
    assert transactional.state() == NOT_FOUND
    assert (transactional.add(), transactional.end(), transactional.end(5)) == (NOT_MAPPED, NOT_MAPPED, NOT_MAPPED)
    assert (transactional.write(1), transactional.write(1, version=12)) == (NOT_MAPPED, NOT_MAPPED)
    before = transactional.id
    assert (transactional.init(), transactional.id != before, transactional.epoch) == (0, True, 0)


def test_of_the_second_protocol_of_transactions_the_first_sequence_number_is_0(transactional: Producer) -> None:
    assert transactional.init() == 0
    assert transactional.write(5, version=12) == OUT_OF_SEQUENCE
    assert (transactional.write(0, version=12), transactional.end(5)) == (0, 0)
    wait_until(lambda: transactional.state() == "CompleteCommit" or None)
    assert transactional.write(5, version=12) == OUT_OF_SEQUENCE
    assert transactional.write(0, version=12) == 0
