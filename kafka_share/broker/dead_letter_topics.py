"""Dead letters on their way into the dead-letter topics of share groups (KIP-1191, Kafka 4.4).

Called by `BrokerMachine` for each letter of a share partition. The topic has to exist or may be made by the broker, has
to allow dead letters (`errors.deadletterqueue.group.enable`) and to begin with the broker's prefix. A letter that
cannot be written is lost, as in Kafka: its records are archived all the same.

A letter is one record for each offset, with headers that say where it came from and why, at the partition of the same
number modulo the topic's partitions, with the time of writing. Key and value are there if the group wants copies; the
headers of the original are not. Source: running brokers 4.4.0.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeAlias

from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.topics import topic_name_problem
from kafka_share.errors import InvalidTopicError, UnknownTopicOrPartitionError
from kafka_share.protocol.record_batches import RecordBatch, encode_batch
from kafka_share.protocol.record_format import RecordBatchError

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.share.dead_letter import DeadLetter
    from kafka_share.broker.storage.topics import Partition, Topic

    _Content: TypeAlias = tuple[bytes | None, bytes | None]

logger: logging.Logger = logging.getLogger(__name__)

_ENABLE: Final = "errors.deadletterqueue.group.enable"
_HEADER: Final = "__dlq.errors."


def write(cluster: Cluster, letter: DeadLetter, now_ms: int) -> None:
    """Write a dead letter, as far as that is possible; what is not is an ERROR in the log."""
    settings = cluster.configs.group_settings(letter.key.group_id)
    if not settings.dead_letter_topic:
        return  # the group wants none any more
    try:
        topic = _destination(cluster, settings.dead_letter_topic)
        contents = _contents(cluster, letter) if settings.copies_dead_letters else {}
        partition = topic.partitions[letter.key.partition % len(topic.partitions)]
        _append(cluster, partition, letter, (letter.first, letter.last), contents, now_ms)
    except Refusal as refusal:
        _report(cluster, letter, (letter.first, letter.last), refusal.message)


def _report(cluster: Cluster, letter: DeadLetter, offsets: tuple[int, int], problem: str) -> None:
    """Say that records of a letter are archived without it."""
    logger.error(
        "offsets %d to %d of %s-%d, which group %r has given up, get no dead letter: %s",
        *offsets,
        cluster.topic_name(letter.key.topic_id) or letter.key.topic_id,
        letter.key.partition,
        letter.key.group_id,
        problem,
    )


def _destination(cluster: Cluster, name: str) -> Topic:
    """The dead-letter topic, which is made if it may be. Raises `Refusal` if no letter can go there."""
    configs = cluster.configs
    prefix = configs.broker_value("errors.deadletterqueue.topic.name.prefix")
    if not name.startswith(prefix):
        raise Refusal(InvalidTopicError, f"the name of the dead-letter topic {name} does not begin with {prefix!r}")
    topic = cluster.topics.by_name(name)
    if topic is not None:
        if configs.topic_value(name, _ENABLE).strip().lower() != "true":
            raise Refusal(InvalidTopicError, f"the topic {name} does not have {_ENABLE}=true")
        return topic
    if not configs.broker_flag("errors.deadletterqueue.auto.create.topics.enable"):
        raise Refusal(UnknownTopicOrPartitionError, f"there is no topic {name}, and the broker may not make it")
    problem = topic_name_problem(name)
    if problem is not None:
        raise Refusal(InvalidTopicError, problem)
    topic = cluster.create_topic(name)
    configs.set_values(ResourceType.TOPIC, name, {_ENABLE: "true"})
    return topic


def _contents(cluster: Cluster, letter: DeadLetter) -> dict[int, _Content]:
    """Key and value of the records by offset; without those that are gone or cannot be read."""
    found = cluster.partition(letter.key.topic_id, letter.key.partition)
    contents: dict[int, _Content] = {}
    if found is None:
        return contents
    log, end = found.log, letter.last + 1
    first = max(letter.first, log.start_offset)
    if first >= end:
        return contents
    for stored in log.read(first, log.bytes_between(first, end), end):
        try:
            for offset, _, key, value, _ in RecordBatch(stored.data).records():
                if first <= offset < end:
                    contents[offset] = (key, value)
        except RecordBatchError:
            continue
    return contents


def _append(
    cluster: Cluster,
    partition: Partition,
    letter: DeadLetter,
    offsets: tuple[int, int],
    contents: dict[int, _Content],
    now_ms: int,
) -> None:
    """Append the records of these offsets, in several batches if one would be too large for the topic."""
    first, last = offsets
    batch = encode_batch(
        [
            (index, now_ms, *contents.get(offset, (None, None)), _headers(cluster, letter, offset))
            for index, offset in enumerate(range(first, last + 1))
        ]
    )
    limit = int(cluster.configs.topic_value(partition.topic, "max.message.bytes"))
    if len(batch) > limit and first < last:
        middle = (first + last) // 2
        for half in ((first, middle), (middle + 1, last)):
            _append(cluster, partition, letter, half, contents, now_ms)
        return
    try:
        cluster.append(partition, batch, now_ms)
    except Refusal as refusal:  # too large alone, say, or nobody leads the partition
        _report(
            cluster, letter, offsets, f"{partition.topic}-{partition.partition} does not take it: {refusal.message}"
        )


def _headers(cluster: Cluster, letter: DeadLetter, offset: int) -> list[tuple[str, bytes]]:
    said = {
        "topic": cluster.topic_name(letter.key.topic_id) or str(letter.key.topic_id),
        "partition": letter.key.partition,
        "offset": offset,
        "group": letter.key.group_id,
        "delivery.count": letter.delivery_count,
        "message": letter.reason.value,
    }
    return [(_HEADER + name, str(value).encode()) for name, value in said.items()]
