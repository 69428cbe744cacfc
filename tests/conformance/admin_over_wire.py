"""Topics, group configs and records for a test, by kafka-python's clients: the same for every target.

Each call returns when all nodes act on it. That is not when the broker has answered: metadata and group configs reach
the nodes a moment later, and a member that came before would start at the end of its topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, Self

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    ResourcePattern,
    ResourceType,
)
from support.waiting import wait_until
from support.wire_connection import WireConnection

from kafka_share.protocol.configs import DescribeConfigsRequest
from kafka_share.protocol.share_group import ShareGroupDescribeRequest

_TIMEOUT_S: Final = 30
_GROUP: Final = 32
"""DescribeConfigs' number for the configs of a group."""
_DESCRIBE_CONFIGS_VERSION: Final = 4
_SHARE_GROUP_DESCRIBE_VERSION: Final = 1


class Admin:
    """Connections for preparing tests on one target; use it as a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers.split(",")
        self._admin = KafkaAdminClient(bootstrap_servers=self._servers, client_id="conformance-admin")
        self._producer = self._new_producer()

    def _new_producer(self) -> KafkaProducer:
        return KafkaProducer(bootstrap_servers=self._servers, client_id="conformance-producer", linger_ms=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close(timeout=_TIMEOUT_S)
        self._admin.close()

    def create_topic(self, topic: str, *, partitions: int = 1) -> None:
        spec = {topic: {"num_partitions": partitions, "replication_factor": 1}}
        self._admin.create_topics(spec, wait_for_metadata=True)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and wait until its name is free."""
        self._admin.delete_topics([topic])
        wait_until(lambda: topic not in self._admin.list_topics(), f"{topic} is still there")

    def grow_topic(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions, and wait until each has a leader."""
        self._admin.create_partitions({topic: partitions})
        wait_until(lambda: self._led(topic) >= partitions, f"{topic} does not grow")
        self._producer.close(timeout=_TIMEOUT_S)  # it would go on with the partitions that it knows
        self._producer = self._new_producer()

    def share_members(self, group: str) -> int:
        """How many members a share group has, by its coordinator on a target with one node."""
        with WireConnection(self._servers[0]) as connection:
            answer = connection.call(ShareGroupDescribeRequest(group_ids=[group]), _SHARE_GROUP_DESCRIBE_VERSION)
        assert answer.groups[0].error_code == 0, f"{group} is not described: {answer.groups[0]}"
        return len(answer.groups[0].members)

    def _led(self, topic: str) -> int:
        """How many partitions have a leader."""
        return sum(1 for leader in self.leaders(topic).values() if leader >= 0)

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition -> id of the node that leads it."""
        [described] = self._admin.describe_topics([topic])
        return {p["partition_index"]: p["leader_id"] for p in described["partitions"]}

    def set_group_config(self, group: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.GROUP, group, dict(configs))
        answer = self._admin.alter_configs([resource], raise_on_unknown=False, incremental=True)["group"][group]
        assert answer == "OK", f"group {group} was not configured: {answer}"
        for server in self._servers:
            with WireConnection(server) as node:
                story = f"{server} does not apply the configs of {group}"
                wait_until(partial(_has_configs, node, group, configs), story)

    def allow_consuming(self, user: str, topic: str, group: str) -> None:
        """Grant a user what a member of the share group needs: read the topic, read the group."""
        resources = (ResourcePattern(ResourceType.TOPIC, topic), ResourcePattern(ResourceType.GROUP, group))
        operations = (ACLOperation.READ, ACLOperation.DESCRIBE)
        acls = [
            ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, resource)
            for resource in resources
            for operation in operations
        ]
        answer = self._admin.create_acls(acls)
        assert not answer["failed"], f"{user} was not allowed: {answer['failed']}"

    def produce(self, topic: str, values: Iterable[bytes], *, partition: int = 0) -> None:
        """Produce records with the key b"k" and the header h=1, and wait until all are confirmed."""
        sent = [
            self._producer.send(topic, value, key=b"k", headers=[("h", b"1")], partition=partition) for value in values
        ]
        for future in sent:
            future.get(timeout=_TIMEOUT_S)


def _has_configs(node: WireConnection, group: str, wanted: Mapping[str, str]) -> bool:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_GROUP, resource_name=group, configuration_keys=list(wanted)
    )
    answer = node.call(DescribeConfigsRequest(resources=[resource]), _DESCRIBE_CONFIGS_VERSION)
    return {config.name: config.value for config in answer.results[0].configs} == dict(wanted)
