"""What the demo asks of a cluster besides consuming, where brokers of different versions answer differently, or not."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace

import kafka
import pytest
from kafka.admin import ConfigResource, NewTopic

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import ConfigSource
from kafka_share.broker import ReferenceBroker
from kafka_share.cli import foreign, topics
from kafka_share.cli.demo.cluster import Cluster
from kafka_share.errors import KafkaShareError


def reset_policy(broker: ReferenceBroker) -> tuple[str | None, ConfigSource]:
    """The group's, and where it comes from."""
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        configs = admin.describe_group_configs(["g"])["g"]
    assert not isinstance(configs, KafkaShareError)
    return configs["share.auto.offset.reset"].value, configs["share.auto.offset.reset"].source


def cluster_of(broker: ReferenceBroker) -> Cluster:
    return Cluster(broker.bootstrap_servers, time.monotonic() + 60)


@pytest.mark.parametrize("version", ["4.1", "4.2", "4.3"])
def test_the_brokers_limit_counts_when_the_group_names_none(version: str) -> None:
    """Kafka below 4.3 has no delivery count limit among a group's configs: the broker's is asked for."""
    with (
        ReferenceBroker(kafka_version=version, config={"group.share.delivery.count.limit": 7}) as broker,
        cluster_of(broker) as cluster,
    ):
        assert cluster.start_group_at_earliest("g") == 7
        assert reset_policy(broker) == ("earliest", ConfigSource.DYNAMIC_GROUP_CONFIG)


def test_the_groups_own_limit_counts_when_it_has_one() -> None:
    """A group's config wins over the broker's."""
    with ReferenceBroker() as broker, cluster_of(broker) as cluster:
        broker.set_group_config("g", {"share.delivery.count.limit": "3"})
        assert cluster.start_group_at_earliest("g") == 3


def test_nothing_is_left_behind_when_a_run_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    """Topic and config are gone; a group that nobody joined is no failure."""
    with ReferenceBroker(config={"auto.create.topics.enable": False}) as broker, cluster_of(broker) as cluster:
        cluster.create_topic("t", 1)
        cluster.start_group_at_earliest("g")
        cluster.remove("t", "g")
        assert [record.message for record in caplog.records if record.name == "kafka_share.cli.demo.cluster"] == []
        cluster.create_topic("t", 1)  # it would be refused if the first one were still there
        assert reset_policy(broker)[1] is not ConfigSource.DYNAMIC_GROUP_CONFIG


def test_what_could_not_be_removed_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The result of a run stands although its topic was gone before it ended."""
    with ReferenceBroker() as broker, cluster_of(broker) as cluster, caplog.at_level(logging.WARNING):
        cluster.remove("nowhere", "g")
    assert [record.message.partition(":")[0] for record in caplog.records if "removed" in record.message] == [
        "topic nowhere could not be removed"
    ]


class AdminOfVersion2:
    """Takes and returns what kafka-python's admin client took and returned in version 2.3."""

    def __init__(self, **settings: object) -> None:
        assert sorted(settings) == ["bootstrap_servers", "client_id"]
        self.created: list[tuple[str, int, int]] = []

    def create_topics(self, topics: list[NewTopic]) -> None:
        self.created += [(topic.name, topic.num_partitions, topic.replication_factor) for topic in topics]

    def describe_configs(self, resources: list[ConfigResource]) -> list[SimpleNamespace]:
        entries: list[tuple[object, ...]] = [("a", "1", False, 5, False, []), ("b", None, False, 5, False, [])]
        return [SimpleNamespace(resources=[(0, "", 4, resources[0].name, entries)])]


def test_version_2_of_kafka_python_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its admin client takes and returns other values than that of version 3."""
    monkeypatch.setattr(topics, "IS_VERSION_2", True)
    monkeypatch.setattr(foreign, "IS_VERSION_2", True)
    monkeypatch.setattr(kafka, "KafkaAdminClient", AdminOfVersion2)
    admin = topics.Topics(foreign.client_settings({"bootstrap_servers": "h:1,h:2", "client_id": "c"}, 5))
    admin.create("t", 3)
    assert admin._admin.created == [("t", 3, 1)]
    assert [admin.broker_config(1, name) for name in ("a", "b", "c")] == ["1", None, None]
