"""The broker's metrics by the names that Kafka gives them in JMX, as values that do not change any more.

`ReferenceBroker.metrics` makes them on the broker's loop; the command writes them for Prometheus. Machines only count
plain numbers: names, types and tags stand here, once. Kafka's names: KIP-932, and the beans of Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.inspection import group_types
from kafka_share.errors import InvalidArgumentError
from kafka_share.records import AcknowledgeType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.share.node import ShareNode
    from kafka_share.broker.share.partition import SharePartition
    from kafka_share.broker.share.share_counts import TopicCounts


@attrs.frozen
class Metric:
    """What one metric is. `type` is the type of Kafka's MBean."""

    name: str
    type: str
    tags: tuple[str, ...]
    """Those that a sample may have; BrokerTopicMetrics of all topics together lack their tag."""
    text: str
    domain: str = "kafka.server"

    @property
    def is_counter(self) -> bool:
        """Whether it only grows while its node runs. It is a count, as the attribute Count in JMX, and no rate."""
        return self.name.endswith("PerSec")

    @property
    def mbean(self) -> str:
        """Kafka's MBean of it, without tags. The metrics of coordinators are attributes of one."""
        is_attribute = self.type.endswith("-metrics")
        return f"{self.domain}:type={self.type}" if is_attribute else f"{self.domain}:type={self.type},name={self.name}"


_OF_PARTITION: Final = ("group", "topic", "partition")

METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("RecordAcknowledgementsPerSec", "ShareGroupMetrics", ("ackType",), "Records acknowledged."),
        Metric("AcquisitionLockTimeoutPerSec", "SharePartitionMetrics", _OF_PARTITION, "Records whose lock has ended."),
        Metric("InFlightMessageCount", "SharePartitionMetrics", _OF_PARTITION, "Offsets of the window."),
        Metric("InFlightBatchCount", "SharePartitionMetrics", _OF_PARTITION, "Batches in the window."),
        Metric("InFlightBatchMessageCount", "SharePartitionMetrics", _OF_PARTITION, "Sizes of the batches acquired."),
        Metric("ShareSessionsCount", "ShareSessionCache", (), "Share sessions."),
        Metric("SharePartitionsCount", "ShareSessionCache", (), "Partitions in share sessions."),
        Metric("ShareSessionEvictionsPerSec", "ShareSessionCache", (), "Sessions ended by the end of a connection."),
        Metric("ExpiresPerSec", "DelayedShareFetchMetrics", (), "ShareFetches whose wait has run out."),
        Metric("PurgatorySize", "DelayedOperationPurgatory", ("delayedOperation",), "ShareFetches that wait."),
        Metric("TotalShareFetchRequestsPerSec", "BrokerTopicMetrics", ("topic",), "ShareFetches, by topic."),
        Metric("FailedShareFetchRequestsPerSec", "BrokerTopicMetrics", ("topic",), "ShareFetches with an error."),
        Metric(
            "TotalShareAcknowledgementRequestsPerSec", "BrokerTopicMetrics", ("topic",), "Requests that acknowledge."
        ),
        Metric("FailedShareAcknowledgementRequestsPerSec", "BrokerTopicMetrics", ("topic",), "Those with an error."),
        Metric("RequestsPerSec", "RequestMetrics", ("request", "version"), "Requests.", "kafka.network"),
        Metric("group-count", "group-coordinator-metrics", ("protocol",), "Groups."),
        Metric("share-group-count", "group-coordinator-metrics", ("state",), "Share groups."),
    )
}
"""Every metric by its name."""

_STATES: Final = ("Empty", "Stable", "Dead")
_ALL_TYPES: Final = tuple(AcknowledgeType)


@attrs.frozen
class Sample:
    """One value. `value` is a sum where `count` is not None: of that many values, the largest being `largest`."""

    metric: Metric
    tags: dict[str, str]
    """Kafka's tags, such as group, topic and partition."""
    value: int
    node_id: int | None = None
    """The node that counted it; None for what the cluster has as a whole."""
    count: int | None = None
    largest: int | None = None


class BrokerMetrics:
    """All samples of one moment; iterating gives them by metric."""

    def __init__(self, samples: tuple[Sample, ...]) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def __len__(self) -> int:
        return len(self._samples)

    def __repr__(self) -> str:
        return f"<BrokerMetrics: {len(self)} samples>"

    def samples(self, name: str, *, node_id: int | None = None, **tags: str | int) -> list[Sample]:
        """The samples of a metric that have these tags, of one node or of all.

        Raises `InvalidArgumentError` for a name that the broker does not have.
        """
        if name not in METRICS:
            raise InvalidArgumentError(f"the broker has no metric {name!r}; it has {', '.join(METRICS)}")
        wanted = {key: str(value) for key, value in tags.items()}.items()
        return [
            one
            for one in self._samples
            if one.metric.name == name and node_id in (None, one.node_id) and wanted <= one.tags.items()
        ]

    def value(self, name: str, *, node_id: int | None = None, **tags: str | int) -> int:
        """The sum of `samples`, 0 if there is none. Without `topic`, what is counted for all topics is taken for them.

        Raises `InvalidArgumentError` for a name that the broker does not have.
        """
        found = self.samples(name, node_id=node_id, **tags)
        of_all = [] if "topic" in tags else [one for one in found if "topic" not in one.tags]
        return sum(one.value for one in of_all or found)


def metrics_of(cluster: Cluster) -> BrokerMetrics:
    """The metrics of a cluster as they are now."""
    samples: list[Sample] = []
    for node_id, node in sorted(cluster.share_nodes.items()):
        samples.extend(_of_node(cluster, node_id, node))
    for (node_id, key, version), count in sorted(cluster.requests.items()):
        tags = {"request": ApiKey(key).label, "version": str(version)}
        samples.append(Sample(METRICS["RequestsPerSec"], tags, count, node_id))
    samples.extend(_of_groups(cluster))
    order = list(METRICS)
    return BrokerMetrics(tuple(sorted(samples, key=lambda one: order.index(one.metric.name))))


def _of_node(cluster: Cluster, node_id: int, node: ShareNode) -> Iterator[Sample]:
    counts = node.counts
    for kind in _ALL_TYPES:
        tags = {"ackType": kind.name.capitalize()}
        yield Sample(METRICS["RecordAcknowledgementsPerSec"], tags, counts.acknowledged[kind], node_id)
    for partition in node.share_partitions():
        yield from _of_partition(partition, cluster.topic_name(partition.key.topic_id) or "", node_id)
    yield Sample(METRICS["ShareSessionsCount"], {}, len(node.session_keys()), node_id)
    yield Sample(METRICS["SharePartitionsCount"], {}, node.partitions_in_sessions(), node_id)
    yield Sample(METRICS["ShareSessionEvictionsPerSec"], {}, counts.evicted_sessions, node_id)
    yield Sample(METRICS["ExpiresPerSec"], {}, counts.expired_fetches, node_id)
    yield Sample(METRICS["PurgatorySize"], {"delayedOperation": "ShareFetch"}, node.waiting_fetches(), node_id)
    yield from _of_topic(counts.all_topics, {}, node_id)
    for topic_id, of_topic in counts.topics.items():
        yield from _of_topic(of_topic, {"topic": cluster.topic_name(topic_id) or ""}, node_id)


def _of_partition(partition: SharePartition, topic: str, node_id: int) -> Iterator[Sample]:
    tags = {"group": partition.key.group_id, "topic": topic, "partition": str(partition.key.partition)}
    window, sizes = partition.window, partition.batch_sizes
    yield Sample(METRICS["AcquisitionLockTimeoutPerSec"], tags, partition.lock_timeouts, node_id)
    yield Sample(METRICS["InFlightMessageCount"], tags, window.span, node_id)
    yield Sample(METRICS["InFlightBatchCount"], tags, len(window.batches), node_id)
    yield Sample(METRICS["InFlightBatchMessageCount"], tags, sizes.total, node_id, sizes.count, sizes.largest)


def _of_topic(counts: TopicCounts, tags: dict[str, str], node_id: int) -> Iterator[Sample]:
    yield Sample(METRICS["TotalShareFetchRequestsPerSec"], tags, counts.fetches, node_id)
    yield Sample(METRICS["FailedShareFetchRequestsPerSec"], tags, counts.failed_fetches, node_id)
    yield Sample(METRICS["TotalShareAcknowledgementRequestsPerSec"], tags, counts.acknowledgements, node_id)
    yield Sample(METRICS["FailedShareAcknowledgementRequestsPerSec"], tags, counts.failed_acknowledgements, node_id)


def _of_groups(cluster: Cluster) -> Iterator[Sample]:
    protocols = Counter(group_types(cluster).values())
    for protocol in sorted({"classic", "share", *protocols}):
        yield Sample(METRICS["group-count"], {"protocol": protocol}, protocols[protocol])
    states = Counter(group.state for group in cluster.share_groups.groups())
    for state in _STATES:
        yield Sample(METRICS["share-group-count"], {"state": state}, states[state])
