"""What the Java program leaves to Apache's producer and plain admin: topics, records, group configs, other groups.

Raw requests on one connection, so that nothing is batched, retried or cached by a client that is not compared. For
targets with one node. Used by `scene`; every method returns when the broker acts on what it was told.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from support.waiting import wait_until
from support.wire_connection import WireConnection

from kafka_share.errors import KafkaShareError, error_for_code
from kafka_share.protocol.classic_group import JoinGroupRequest
from kafka_share.protocol.cluster import FindCoordinatorRequest, MetadataRequest
from kafka_share.protocol.committed_offsets import OffsetCommitRequest
from kafka_share.protocol.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka_share.protocol.groups import DeleteGroupsRequest
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.record_encoder import encode_batch
from kafka_share.protocol.share_group import ShareGroupDescribeRequest
from kafka_share.protocol.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)

_TIMEOUT_MS: Final = 30_000
_GROUP_RESOURCE: Final = 32
_SET: Final = 0
_GROUP_KEY: Final = 0
_JOIN_VERSION: Final = 3
"""The last one in which a member need not ask for its id first."""
_TRANSACTION_ENDS: Final = {True: "commit_transaction", False: "abort_transaction"}

KeyAndValue = tuple[bytes | None, bytes]


class Desk:
    """Close it when done."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._wire = WireConnection(bootstrap_servers)

    def close(self) -> None:
        self._wire.close()

    # ---- topics

    def create_topic(self, name: str, partitions: int) -> None:
        spec = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[spec], timeout_ms=_TIMEOUT_MS, validate_only=False)
        _demand(self._wire.call(request, 5).topics[0].error_code)
        self._wait_for(name, partitions)

    def add_partitions(self, name: str, partitions: int) -> None:
        spec = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        request = CreatePartitionsRequest(topics=[spec], timeout_ms=_TIMEOUT_MS, validate_only=False)
        _demand(self._wire.call(request, 1).results[0].error_code)
        self._wait_for(name, partitions)

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=_TIMEOUT_MS)
        _demand(self._wire.call(request, 4).responses[0].error_code)
        wait_until(lambda: not self.has_topic(name))

    def has_topic(self, name: str) -> bool:
        return self._partitions(name) > 0

    def _wait_for(self, name: str, partitions: int) -> None:
        wait_until(lambda: self._partitions(name) == partitions)

    def _partitions(self, name: str) -> int:
        """How many partitions with a leader the topic has; 0 if there is no such topic."""
        asked = MetadataRequest.MetadataRequestTopic(topic_id=UUID(int=0), name=name)
        [found] = self._wire.call(MetadataRequest(topics=[asked], allow_auto_topic_creation=False), 12).topics
        return sum(1 for p in found.partitions if p.error_code == 0 and p.leader_id >= 0)

    # ---- records

    def produce(self, topic: str, partition: int, records: Sequence[KeyAndValue]) -> None:
        """One record batch."""
        now_ms = time.time_ns() // 1_000_000
        batch = encode_batch([(i, now_ms, key, value, []) for i, (key, value) in enumerate(records)])
        data = ProduceRequest.TopicProduceData
        entry = data.PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[data(name=topic, partition_data=[entry])],
        )
        wait_until(lambda: self._is_stored(request))

    def _is_stored(self, request: ProduceRequest) -> bool:
        """False: not yet; a leader needs a moment to learn that it leads a new partition."""
        answer = self._wire.call(request, 9)
        error = error_for_code(answer.responses[0].partition_responses[0].error_code)
        if error is not None and not error.retriable:
            raise error
        return error is None

    def produce_transactions(self, topic: str, transactional_id: str, ends: Sequence[bool]) -> None:
        """A transaction of two records for each of `ends`: True commits it, False aborts it."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self._servers.split(","), transactional_id=transactional_id)
        producer.init_transactions()
        for committed in ends:
            producer.begin_transaction()
            for _ in range(2):
                producer.send(topic, b"v", key=b"k", partition=0)
            producer.flush()
            getattr(producer, _TRANSACTION_ENDS[committed])()
        producer.close()

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        named = DeleteRecordsRequest.DeleteRecordsTopic
        entry = named.DeleteRecordsPartition(partition_index=partition, offset=before_offset)
        request = DeleteRecordsRequest(topics=[named(name=topic, partitions=[entry])], timeout_ms=_TIMEOUT_MS)
        _demand(self._wire.call(request, 1).topics[0].partitions[0].error_code)

    # ---- groups

    def configure_group(self, group: str, configs: Mapping[str, str]) -> None:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        entries = [resource.AlterableConfig(name=n, config_operation=_SET, value=v) for n, v in configs.items()]
        named = resource(resource_type=_GROUP_RESOURCE, resource_name=group, configs=entries)
        answer = self._wire.call(IncrementalAlterConfigsRequest(resources=[named], validate_only=False), 1)
        _demand(answer.responses[0].error_code)
        wait_until(lambda: self._group_configs(group, list(configs)) == dict(configs))

    def _group_configs(self, group: str, names: list[str]) -> dict[str, str]:
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_GROUP_RESOURCE, resource_name=group, configuration_keys=names
        )
        answer = self._wire.call(DescribeConfigsRequest(resources=[resource]), 4)
        return {config.name: config.value for config in answer.results[0].configs}

    def make_classic_group(self, group: str, topic: str) -> None:
        """A classic consumer group without members: it has committed an offset."""
        entry = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[entry])],
        )
        wait_until(lambda: self._has_coordinator(group))
        wait_until(lambda: self._wire.call(request, 8).topics[0].partitions[0].error_code == 0)

    @contextlib.contextmanager
    def classic_member(self, group: str, topic: str) -> Iterator[None]:
        """A member of a classic consumer group, as long as the block lasts."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=_TIMEOUT_MS,
            rebalance_timeout_ms=_TIMEOUT_MS,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        wait_until(lambda: self._has_coordinator(group))
        with WireConnection(self._servers) as wire:
            wire.send(request, _JOIN_VERSION)  # a broker may wait for others before it answers
            yield

    def share_group(self, group: str) -> Any:
        """What the coordinator tells of it."""
        return self._wire.call(ShareGroupDescribeRequest(group_ids=[group]), 1).groups[0]

    def delete_group(self, group: str) -> None:
        _demand(self._wire.call(DeleteGroupsRequest(groups_names=[group]), 2).results[0].error_code)

    def _has_coordinator(self, group: str) -> bool:
        answer = self._wire.call(FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=[group]), 4)
        return bool(answer.coordinators[0].error_code == 0)


def _demand(code: int) -> None:
    """Raises the error of a code that is not 0."""
    error: KafkaShareError | None = error_for_code(code)
    if error is not None:
        raise error
