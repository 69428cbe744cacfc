"""What of a cluster survives a restart, and where: the one place that lists it.

`ENTRIES` are the kinds of entries of the journal: how to read one from the cluster, and how to put it back.
`ELSEWHERE` says of all other parts of a `Cluster` why they need none. Whoever adds a part to `Cluster` adds a line to
one of the two; a test compares. Used by `persistence`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from kafka_share.broker.classic.transactions import Transaction, TransactionState
from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.quotas.entity import entity_of, host_of
from kafka_share.broker.security.acls import Acl
from kafka_share.broker.security.scram import ScramCredential, ScramMechanism
from kafka_share.broker.storage.topics import Topic
from kafka_share.protocol.uuids import same_uuid

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.durability.journal import Json


@attrs.frozen
class Kind:
    """A kind of entries. `part` is the attribute of `Cluster` whose `on_change` names the entries."""

    part: str
    read: Callable[[Cluster, str], Json]
    """The entry now, None if there is no such thing any more."""
    restore: Callable[[Cluster, str, Json], None]


def _topic(cluster: Cluster, topic_id: str) -> Json:
    topic = cluster.topics.by_id(UUID(topic_id))
    if topic is None:
        return None
    return {
        "name": topic.name,
        "replication_factor": topic.replication_factor,
        "partitions": [
            {
                "replicas": list(one.replicas),
                "leader": one.leader_id,
                "leader_epoch": one.leader_epoch,
                "start_offset": one.log.start_offset,
                "clean_to": one.log.clean_to,
            }
            for one in topic.partitions
        ],
    }


def _restore_topic(cluster: Cluster, topic_id: str, entry: Json) -> None:
    partitions = entry["partitions"]
    cluster.topics.restore(
        Topic(entry["name"], same_uuid(UUID(topic_id)), entry["replication_factor"]),
        [one["replicas"] for one in partitions],
        [(one["leader"], one["leader_epoch"]) for one in partitions],
    )


def _config(cluster: Cluster, resource: str) -> Json:
    kind, _, name = resource.partition("/")
    return cluster.configs.own_values(ResourceType[kind], name) or None


def _restore_config(cluster: Cluster, resource: str, entry: Json) -> None:
    kind, _, name = resource.partition("/")
    cluster.configs.restore(ResourceType[kind], name, entry)


def _scram_user(cluster: Cluster, name: str) -> Json:
    credentials = {}
    for mechanism in ScramMechanism:
        found = cluster.scram_users.find(name, mechanism)
        if found is not None:
            secrets = (found.salt, found.stored_key, found.server_key)
            credentials[mechanism.name] = [*(base64.b64encode(one).decode() for one in secrets), found.iterations]
    return credentials or None


def _restore_scram_user(cluster: Cluster, name: str, entry: Json) -> None:
    for mechanism, (salt, stored_key, server_key, iterations) in entry.items():
        decoded = (base64.b64decode(salt), base64.b64decode(stored_key), base64.b64decode(server_key))
        cluster.scram_users.put(name, ScramMechanism[mechanism], ScramCredential(*decoded, iterations))


def _acl(cluster: Cluster, key: str) -> Json:
    """False: it was given by `Security`, and removed."""
    acl = Acl.of_key(key)
    return True if acl in cluster.acls else False if cluster.acls.is_withdrawn(acl) else None


def _restore_acl(cluster: Cluster, key: str, entry: Json) -> None:
    (cluster.acls.add if entry else cluster.acls.withdraw)(Acl.of_key(key))


def _feature(cluster: Cluster, name: str) -> Json:
    return cluster.features.level(name)


def _restore_feature(cluster: Cluster, name: str, entry: Json) -> None:
    cluster.set_feature(name, entry)


def _client_quota(cluster: Cluster, key: str) -> Json:
    return dict(cluster.client_quotas.of(entity_of(key))) or None


def _restore_client_quota(cluster: Cluster, key: str, entry: Json) -> None:
    entity = entity_of(key)
    cluster.client_quotas.put(entity, entry)
    host = host_of(entity)
    if host is not None:
        cluster.host_lookups.look_up(host)


def _producer_ids(cluster: Cluster, key: str) -> Json:
    return cluster.producer_ids.block_end


def _restore_producer_ids(cluster: Cluster, key: str, entry: Json) -> None:
    cluster.producer_ids.restore(entry)


def _transaction(cluster: Cluster, transactional_id: str) -> Json:
    found = cluster.transactions.find(transactional_id)
    if found is None:
        return None
    return {
        "producer": list(found.producer),
        "timeout_ms": found.timeout_ms,
        "state": found.state.name,
        "started_at_ms": found.started_at_ms,
        "updated_at_ms": found.updated_at_ms,
        "ends_at_ms": found.ends_at_ms,
        "partitions": [[str(topic_id), index, found.begins[topic_id, index]] for topic_id, index in found.partitions],
        "ended": [[str(topic_id), index, begin] for (topic_id, index), begin in found.ended_begins.items()],
        "groups": list(found.groups),
        "last_end": found.last_end,
        "last_producer": list(found.last_producer),
    }


def _restore_transaction(cluster: Cluster, transactional_id: str, entry: Json) -> None:
    producer_id, epoch = entry["producer"]
    transaction = Transaction(
        transactional_id,
        producer_id,
        epoch,
        entry["timeout_ms"],
        ends_at_ms=entry["ends_at_ms"],
        state=TransactionState[entry["state"]],
        started_at_ms=entry["started_at_ms"],
        updated_at_ms=entry.get("updated_at_ms", entry["started_at_ms"]),
        groups=entry["groups"],
        last_end=entry["last_end"],
        last_producer=tuple(entry["last_producer"]),
    )
    for topic_id, index, begin in entry["partitions"]:
        partition = cluster.partition(UUID(topic_id), index)
        if partition is not None:
            transaction.partitions[partition.topic_id, index] = partition
            transaction.begins[partition.topic_id, index] = begin
    transaction.ended_begins = {(UUID(topic_id), index): begin for topic_id, index, begin in entry["ended"]}
    cluster.transactions.restore(transaction)


ENTRIES: Final = {
    kind.part: kind
    for kind in (
        Kind("topics", _topic, _restore_topic),
        Kind("configs", _config, _restore_config),
        Kind("scram_users", _scram_user, _restore_scram_user),
        Kind("acls", _acl, _restore_acl),
        Kind("features", _feature, _restore_feature),
        Kind("client_quotas", _client_quota, _restore_client_quota),
        Kind("producer_ids", _producer_ids, _restore_producer_ids),
        Kind("transactions", _transaction, _restore_transaction),
    )
}
"""By the part of the cluster, in the order in which they are put back."""

ELSEWHERE: Final = {
    "cluster_id": "the format file of the directory",
    "behaviour": "given at each start",
    "authorizer": "given at each start",
    "api_versions": "follows from the version of Kafka",
    "nodes": "their number is in the format file, and their addresses are given at each start",
    "client_metrics": "a subscription lives as long as the test that made it",
    "retention": "has no state but the time of its next look",
    "log_cleaner": "what is clean stands in the topic; a round begins anew",
    "producer_expiry": "has no state but the time of its next look",
    "share_nodes": "locks and sessions are lost with a node, as in Kafka",
    "fetches": "requests that wait are lost with their connections",
    "host_lookups": "hosts are looked up again at each start",
    "produces": "requests that wait are lost with their connections",
    "requests": "counted from each start on",
    "group_ids": "follow from the groups",
    "append_fault": "what a test has ordered",
    "persister_fault": "what a test has ordered",
    "journal": "writes the records of an internal topic",
    "group_records": "records of an internal topic",
    "share_states": "records of an internal topic",
    "share_groups": "records of an internal topic",
    "classic_groups": "records of an internal topic",
    "consumer_groups": "records of an internal topic",
    "offsets": "records of an internal topic",
}
"""Part of the cluster -> what becomes of it."""
