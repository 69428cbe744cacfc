"""A real Kafka and the reference broker side by side: each step of a script is taken on both at the same time.

`Pair` prepares a topic and a group of their own for each script, so that scripts do not see each other. The group is
made by altering its offsets, and has no member: brokers do not look at the membership of those who fetch.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, Self
from uuid import UUID

from support.share_requests import ALTER_VERSION, SHARE_VERSION, Limits, Topic, alter_request, fetch_request
from support.waiting import wait_until
from support.wire_connection import WireConnection

from kafka_share.protocol.cluster import FindCoordinatorRequest, MetadataRequest
from kafka_share.protocol.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.topics import CreateTopicsRequest

LOADER: Final = "loader"
"""The member that has the share partitions loaded before a script begins, and whose connection keeps them loaded."""

_GROUP_RESOURCE: Final = 32
_GROUP: Final = 0
_SET: Final = 0


class Broker:
    """One of the two, with the topic and the connections of the script that runs."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.topic = Topic("", UUID(int=0), "", 0)
        self.connections: dict[str, WireConnection] = {}
        self._control = WireConnection(address)

    def control(self, request: Any, version: int) -> Any:
        """Ask on a connection that no member uses."""
        return self._control.call(request, version)

    def connection(self, member_id: str) -> WireConnection:
        if member_id not in self.connections:
            self.connections[member_id] = WireConnection(self.address)
        return self.connections[member_id]

    def drop(self, member_id: str) -> None:
        found = self.connections.pop(member_id, None)
        if found is not None:
            found.close()

    def drop_all(self) -> None:
        for member_id in list(self.connections):
            self.drop(member_id)

    def close(self) -> None:
        self.drop_all()
        self._control.close()

    # ---- before a script

    def prepare(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """A new topic and a new group, initialised at offset 0 and loaded."""
        self.drop_all()
        self._configure(name, configs)
        spec = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        self.control(CreateTopicsRequest(topics=[spec], timeout_ms=10_000, validate_only=False), 5)
        topic_id = wait_until(lambda: self._topic_id(name, partitions))
        self.topic = Topic(name, topic_id, name, partitions)
        wait_until(lambda: self._is_configured(name, configs))
        wait_until(self._has_coordinator)
        wait_until(self._is_initialised)
        self.load()

    def _configure(self, group: str, configs: Mapping[str, str]) -> None:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        entries = [
            resource.AlterableConfig(name=name, config_operation=_SET, value=value) for name, value in configs.items()
        ]
        named = resource(resource_type=_GROUP_RESOURCE, resource_name=group, configs=entries)
        answer = self.control(IncrementalAlterConfigsRequest(resources=[named], validate_only=False), 1)
        assert answer.responses[0].error_code == 0, answer

    def _is_configured(self, group: str, configs: Mapping[str, str]) -> bool:
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_GROUP_RESOURCE, resource_name=group, configuration_keys=list(configs)
        )
        answer = self.control(DescribeConfigsRequest(resources=[resource]), 4)
        return {config.name: config.value for config in answer.results[0].configs} == dict(configs)

    def _topic_id(self, name: str, partitions: int) -> UUID | None:
        asked = MetadataRequest.MetadataRequestTopic(topic_id=UUID(int=0), name=name)
        [found] = self.control(MetadataRequest(topics=[asked], allow_auto_topic_creation=False), 12).topics
        ready = [p for p in found.partitions if p.error_code == 0 and p.leader_id >= 0]
        topic_id: UUID | None = found.topic_id if len(ready) == partitions else None
        return topic_id

    def _has_coordinator(self) -> bool:
        """Asking has a fresh Kafka make the topic in which groups are stored."""
        answer = self.control(FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[self.topic.group]), 4)
        code: int = answer.coordinators[0].error_code
        return code == 0

    def _is_initialised(self) -> bool:
        starts = dict.fromkeys(range(self.topic.partitions), 0)
        answer = self.control(alter_request(self.topic, starts), ALTER_VERSION)
        codes = [p.error_code for t in answer.responses for p in t.partitions]
        return answer.error_code == 0 and codes == [0] * self.topic.partitions

    def load(self) -> None:
        """Have the share partitions loaded by a member that ends its session again but keeps its connection."""
        connection = self.connection(LOADER)
        opened = fetch_request(self.topic, LOADER, 0, Limits(max_wait_ms=5, max_records=1), ())

        def is_loaded() -> bool:
            answer = connection.call(opened, SHARE_VERSION)
            found = [p.error_code for t in answer.responses for p in t.partitions]
            return found == [0] * self.topic.partitions

        wait_until(is_loaded)
        ending = ShareAcknowledgeRequest(
            group_id=self.topic.group, member_id=LOADER, share_session_epoch=-1, is_renew_ack=False, topics=[]
        )
        assert connection.call(ending, SHARE_VERSION).error_code == 0


class Pair:
    """Both brokers; use it as a context manager."""

    def __init__(self, real_address: str, reference_address: str) -> None:
        self.real = Broker(real_address)
        self.reference = Broker(reference_address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.real.close()
        self.reference.close()

    @property
    def both(self) -> tuple[Broker, Broker]:
        return self.real, self.reference

    def prepare(self, partitions: int, configs: Mapping[str, str]) -> None:
        name = f"script-{uuid.uuid4().hex[:12]}"
        for broker in self.both:
            broker.prepare(name, partitions, configs)
