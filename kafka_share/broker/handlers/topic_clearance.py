"""The steps of `authorization.py` for APIs that show, create or delete topics: what exists is not told to everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_share.admin_values import AclOperation
from kafka_share.broker.handlers.clearance import keep
from kafka_share.broker.security.acls import AclResource
from kafka_share.broker.storage.topics import topic_name_problem
from kafka_share.errors import TopicAuthorizationFailedError
from kafka_share.protocol.cluster import DescribeTopicPartitionsRequest

if TYPE_CHECKING:
    from kafka_share.broker.events import Message
    from kafka_share.broker.handlers.clearance import Clearance, Denial

_TOPIC = AclResource.TOPIC


def _describe_denied(clearance: Clearance, name: str | None) -> Denial | None:
    return clearance.denied(AclOperation.DESCRIBE, _TOPIC, name)


def _mask_operations(clearance: Clearance) -> None:
    def addition(answer: Message) -> None:
        for topic in answer.topics:
            if topic.authorized_operations is not None and topic.name is not None:
                topic.authorized_operations = clearance.allowed_of(topic.authorized_operations, _TOPIC, topic.name)

    clearance.add(addition)


# ---- Metadata


def metadata(clearance: Clearance) -> None:
    """All topics are those that the client may see; a named one that it may not see is refused, there or not."""
    asked, is_oldest = clearance.request.topics, clearance.context.api_version == 0
    _mask_operations(clearance)
    if asked is None or (is_oldest and not asked):
        clearance.add(lambda answer: keep(answer, "topics", lambda topic: not _describe_denied(clearance, topic.name)))
        return
    if is_oldest:  # the handler takes it for a request of all topics when no name is left
        clearance.add(lambda answer: keep(answer, "topics", lambda topic: _is_asked(clearance, topic.name)))
    clearance.take_out("topics", _metadata_denied, asks_anyway=True)


def _is_asked(clearance: Clearance, name: str) -> bool:
    return any(topic.name == name for topic in clearance.request.topics)


def _metadata_denied(clearance: Clearance, asked: Any) -> Denial | None:
    name = asked.name if asked.topic_id is None else clearance.topic_name(asked.topic_id)
    denial = _describe_denied(clearance, name)
    if denial is not None or name is None or not _would_create(clearance, name):
        return denial
    if clearance.cluster_denied(AclOperation.CREATE) is None:
        return None
    return clearance.denied(AclOperation.CREATE, _TOPIC, name)


def _would_create(clearance: Clearance, name: str) -> bool:
    cluster = clearance.cluster
    if not clearance.request.allow_auto_topic_creation or not cluster.configs.broker_flag("auto.create.topics.enable"):
        return False
    return cluster.topics.by_name(name) is None and topic_name_problem(name) is None


# ---- DescribeTopicPartitions


def describe_partitions(clearance: Clearance) -> None:
    """Pages and their cursors are made of what the client may see."""
    request, cursor = clearance.request, clearance.request.cursor
    if cursor is not None and request.topics and all(topic.name != cursor.topic_name for topic in request.topics):
        return  # the handler refuses the cursor, and shows nothing
    _mask_operations(clearance)
    first = "" if cursor is None else cursor.topic_name
    if request.topics:
        clearance.leave("topics", [topic for topic in request.topics if topic.name >= first])
        clearance.take_out("topics", lambda _, topic: _describe_denied(clearance, topic.name))
    else:
        names = [topic.name for topic in clearance.cluster.topics if topic.name >= first]
        seen = [name for name in names if not _describe_denied(clearance, name)]
        clearance.leave("topics", [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in seen])
    if cursor is not None and not _is_asked(clearance, first):
        clearance.change("cursor", None)  # its topic is not to be seen, or gone: the page begins behind it


# ---- CreateTopics and DeleteTopics


def create(clearance: Clearance) -> None:
    """Whoever may create a topic need not be able to see its settings."""
    names = [topic.name for topic in clearance.request.topics]

    def judge(clearance: Clearance, topic: Any) -> Denial | None:
        if names.count(topic.name) > 1 or clearance.cluster_denied(AclOperation.CREATE) is None:
            return None
        return clearance.denied(AclOperation.CREATE, _TOPIC, topic.name)

    clearance.take_out("topics", judge)
    clearance.add(lambda answer: _hide_configs(clearance, answer))


def _hide_configs(clearance: Clearance, answer: Message) -> None:
    for topic in answer.topics:
        hidden = clearance.denied(AclOperation.DESCRIBE_CONFIGS, _TOPIC, topic.name)
        if topic.error_code == 0 and hidden is not None:
            topic.topic_config_error_code = hidden.code
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []


def delete(clearance: Clearance) -> None:
    """A topic that the client may see is named in its refusal, also where the request knew only the id."""
    if clearance.cluster_denied(AclOperation.DELETE) is None:
        return
    for array in ("topics", "topic_names"):
        if getattr(clearance.request, array):
            clearance.take_out(array, _delete_denied)
    clearance.add(lambda answer: _name_visible(clearance, answer))


def _delete_denied(clearance: Clearance, asked: Any) -> Denial | None:
    name = asked if isinstance(asked, str) else asked.name or clearance.topic_name(asked.topic_id)
    denial = _describe_denied(clearance, name)
    if denial is None and name is not None and clearance.cluster.topics.by_name(name) is not None:
        denial = clearance.denied(AclOperation.DELETE, _TOPIC, name)
    return denial


def _name_visible(clearance: Clearance, answer: Message) -> None:
    for entry in answer.responses:
        if entry.error_code == TopicAuthorizationFailedError.code and entry.name is None:
            name = clearance.topic_name(entry.topic_id)
            entry.name = None if _describe_denied(clearance, name) else name
