"""The same requests of a client with few rights, to any broker with ACLs, and its answers as texts.

For each set of ACLs the same requests are sent: alice sends them, and admin, who may do everything, has made what they
are about. A line of the result is what a request was answered with, without what differs from run to run: error codes,
names, and the operations that are allowed. `test_denials.py` compares with what Apache Kafka 4.3.1 answered.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from support.denied_requests import requests
from support.waiting import wait_until
from support.wire_connection import WireConnection

from kafka_share.admin_values import AclOperation
from kafka_share.broker.security.acls import Acl, AclPattern, AclPermission, AclResource
from kafka_share.protocol.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kafka_share.protocol.cluster import FindCoordinatorRequest, MetadataRequest
from kafka_share.protocol.committed_offsets import OffsetFetchRequest
from kafka_share.protocol.handshake import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest
from kafka_share.protocol.share_offsets import DescribeShareGroupOffsetsRequest
from kafka_share.protocol.topics import CreateTopicsRequest, DeleteTopicsRequest
from kafka_share.protocol.transactions import InitProducerIdRequest

ALICE: Final = "User:alice"
OF_ALICE: Final[dict[str, Any]] = {
    "resource_type_filter": AclResource.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": AclPattern.ANY,
    "principal_filter": ALICE,
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": AclPermission.ANY,
}
"""What finds all of her ACLs."""
ANSWERS_OF_KAFKA: Final = Path(__file__).parents[1] / "broker" / "security" / "kafka_4_3_denials.txt"
_SHOWN: Final = (
    "error_code", "partition_error_code", "acknowledge_error_code", "topic_config_error_code", "name", "topic",
    "topic_name", "topic_id", "group_id", "group", "partition", "partition_index", "partition_id", "index", "key",
    "transactional_id", "authorized_operations", "resource_type", "resource_name", "pattern_type", "principal",
    "operation", "permission_type", "host", "user", "num_partitions", "replication_factor", "low_watermark",
    "committed_offset",
)  # fmt: skip
_HIDDEN_LISTS: Final = frozenset(("brokers", "node_endpoints", "configs", "members", "isr_nodes", "replica_nodes"))


def acl(operation: str, resource: str, name: str = "kafka-cluster", **rest: Any) -> Acl:
    return Acl(ALICE, operation, resource, name, **rest)


ALLOWED: Final[dict[str, list[Acl]]] = {
    "nothing": [],
    "all of open": [
        acl("all", "topic", "open", pattern="prefixed"),
        acl("all", "group", "g"),
        acl("all", "group", "s"),
        acl("all", "transactional_id", "t"),
    ],
    "describe": [
        acl("describe", "topic", "*"),
        acl("describe", "group", "*"),
        acl("describe", "transactional_id", "*"),
    ],
    "read": [acl("read", "topic", "open"), acl("read", "group", "*")],
    "write": [acl("write", "topic", "open"), acl("write", "transactional_id", "t")],
    "deny": [
        acl("all", "topic", "*"),
        acl("all", "group", "*"),
        acl("read", "topic", "open", permission="deny"),
        acl("describe", "group", "g", permission="deny"),
    ],
    "other host": [acl("all", "topic", "*", host="10.1.2.3"), acl("all", "group", "*", host="10.1.2.3")],
    "cluster describe": [acl("describe", "cluster"), acl("describe_configs", "cluster")],
    "cluster alter": [acl("alter", "cluster"), acl("alter_configs", "cluster")],
    "cluster create": [acl("create", "cluster"), acl("delete", "cluster"), acl("idempotent_write", "cluster")],
    "cluster action": [acl("cluster_action", "cluster")],
}


class Denials:
    """One run against a secured broker, where alice and admin (a super user) authenticate with PLAIN."""

    def __init__(self, address: str, passwords: dict[str, str]) -> None:
        self._admin = self._connect(address, "admin", passwords)
        self._alice = self._connect(address, "alice", passwords)
        self._names: dict[uuid.UUID, str] = {}
        apis = self._admin.call(ApiVersionsRequest(), 0).api_keys
        self._offered: dict[int, tuple[int, int]] = {one.api_key: (one.min_version, one.max_version) for one in apis}

    def close(self) -> None:
        self._admin.close()
        self._alice.close()

    @staticmethod
    def _connect(address: str, user: str, passwords: dict[str, str]) -> WireConnection:
        connection = WireConnection(address)
        assert connection.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = f"\0{user}\0{passwords[user]}".encode()
        assert connection.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
        return connection

    # ---- what admin does

    def _set_up(self) -> None:
        wanted = ["open", "open-gone", "shut", "shut-gone"]
        topics = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in wanted
        ]
        self._admin.call(CreateTopicsRequest(topics=topics), 7)
        self._admin.call(DeleteTopicsRequest(topic_names=["open-new", "shut-new", "open-auto", "shut-auto"]), 5)
        wait_until(lambda: self._learn_ids(wanted), "the topics are there")
        for group in ("g", "s", "h"):
            wait_until(partial(self._coordinator_is_ready, group), "the coordinator is there")

    def _learn_ids(self, wanted: list[str]) -> bool:
        answer = self._admin.call(MetadataRequest(topics=None), 12)
        found = {topic.name: topic for topic in answer.topics if topic.partitions[0].leader_id >= 0}
        self._names |= {topic.topic_id: name for name, topic in found.items()}
        gone = {"open-new", "shut-new", "open-auto", "shut-auto"}
        return all(name in found for name in wanted) and not gone & set(found)

    def _coordinator_is_ready(self, group: str) -> bool:
        for kind, key in ((0, group), (1, "t")):
            if (
                self._admin.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
                .coordinators[0]
                .error_code
            ):
                return False
        if self._admin.call(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4).error_code:
            return False
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
        return bool(self._admin.call(OffsetFetchRequest(groups=[asked]), 8).groups[0].error_code == 0)

    def allow(self, acls: list[Acl]) -> None:
        """Alice has these ACLs and no others."""
        everything = DeleteAclsRequest.DeleteAclsFilter(**OF_ALICE)
        self._admin.call(DeleteAclsRequest(filters=[everything]), 3)
        creations = [
            CreateAclsRequest.AclCreation(
                resource_type=one.resource,
                resource_name=one.name,
                resource_pattern_type=one.pattern,
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in acls
        ]
        answer = self._admin.call(CreateAclsRequest(creations=creations), 3)
        assert all(result.error_code == 0 for result in answer.results), answer
        wait_until(lambda: self._acl_count() == len(acls), "the ACLs are known")

    def _acl_count(self) -> int:
        found = self._admin.call(DescribeAclsRequest(**OF_ALICE), 3)
        return sum(len(resource.acls) for resource in found.resources)

    # ---- what alice does

    def lines(self) -> Iterator[str]:
        """One for each request, under each set of ACLs, that the broker offers."""
        for title, acls in ALLOWED.items():
            self.allow([])
            self._set_up()
            self.allow(acls)
            ids = {name: topic_id for topic_id, name in self._names.items()}
            for name, version, request in requests(ids):
                low, high = self._offered.get(request.API_KEY, (0, -1))
                if not low <= version <= high:
                    continue
                answer = self._alice.call(request, version)
                if isinstance(request, ShareGroupHeartbeatRequest) and answer.assignment is not None:
                    self._wait_until_initialised(request)
                yield f"{title} | {name} v{version} | {self._text(answer)}"

    def _wait_until_initialised(self, beat: ShareGroupHeartbeatRequest) -> None:
        """Until the group's coordinator has made state for the topics: Kafka assigns them then."""
        asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
            group_id=beat.group_id, topics=None
        )
        request = DescribeShareGroupOffsetsRequest(groups=[asked])
        version = min(1, self._offered[request.API_KEY][1])

        def is_initialised() -> bool:
            topics = {topic.topic_name for topic in self._admin.call(request, version).groups[0].topics}
            return topics >= set(beat.subscribed_topic_names or ())

        wait_until(is_initialised, "the share state is there")

    def _text(self, value: Any) -> str:
        parts = []
        for field in value.declared_fields:
            one = getattr(value, field)
            if isinstance(one, list) and one and hasattr(one[0], "declared_fields") and field not in _HIDDEN_LISTS:
                entries = sorted(self._text(entry) for entry in one if not _is_internal(entry))
                parts.append(f"{field}=[{', '.join(entries)}]")
            elif isinstance(one, list) and field in ("groups", "topics", "responses", "resources"):
                parts.append(f"{field}=[]")
            elif type(value).__name__ == "CreatableTopicResult" and field == "topic_id":
                continue  # Kafka has one for topics that it only validates, too
            elif field in _SHOWN and not isinstance(one, list):
                parts.append(f"{field}={self._plain(one)}")
        return f"({' '.join(parts)})"

    def _plain(self, value: Any) -> str:
        if isinstance(value, uuid.UUID):
            return f"id({self._names.get(value, 'unknown')})"
        if isinstance(value, set):
            return "+".join(AclOperation(one).name for one in sorted(value)) or "none"
        if isinstance(value, str):
            for topic_id, name in self._names.items():
                value = value.replace(str(topic_id), f"id({name})")
        return repr(value)


def _is_internal(entry: Any) -> bool:
    """Topics of the broker's own: which there are is another matter."""
    return (getattr(entry, "name", None) or "").startswith("__")
