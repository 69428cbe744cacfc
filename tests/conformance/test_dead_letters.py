"""What becomes of records that were given up, where brokers have dead-letter topics: Kafka 4.4 with share.version 2.

Those of the reference broker have tests of their own. The consumer takes no part in it: it rejects or releases, and
the broker writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from conformance.admin_over_wire import Admin
from conformance.kafka_server import KafkaServer
from conformance.kafka_targets import SETTINGS, Target
from conformance.share_flow import Flow, Keep, Member, begin
from support.waiting import poll_until

from kafka_share import AcknowledgeType

# isort: split
from kafka import KafkaAdminClient

Names = Callable[[str], str]
FEATURES = ("share.version=2",)
WITHOUT = ("4.1", "4.2", "4.3")
ABOUT = "__dlq.errors."
ACCEPT, REJECT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.RELEASE


@pytest.fixture(scope="module")
def with_dead_letters(real_version: str) -> Iterator[Target]:
    if real_version.startswith(WITHOUT):
        pytest.skip("Kafka has dead-letter topics from 4.4 on")
    with KafkaServer(real_version, settings=SETTINGS, features=FEATURES) as kafka:
        yield Target(kafka.bootstrap_servers, real_version, 1)


@pytest.fixture
def flow(with_dead_letters: Target, unique: Names, closing: Keep) -> Iterator[Flow]:
    with Admin(with_dead_letters.bootstrap_servers) as admin:
        yield begin(with_dead_letters, admin, unique, closing)


def dead_letters_of(flow: Flow, *, copied: bool) -> Member:
    """Send what the group gives up to a topic of its own; answers a member of another group, which reads that topic."""
    topic, reader = f"dlq.{flow.topic}", f"{flow.group}-reader"
    client = KafkaAdminClient(bootstrap_servers=flow.target.bootstrap_servers.split(","))
    configs = {"errors.deadletterqueue.group.enable": "true"}
    client.create_topics(
        {topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs}}, wait_for_metadata=True
    )
    client.close()
    wanted = {"share.delivery.count.limit": "2", "errors.deadletterqueue.topic.name": topic}
    if copied:
        wanted["errors.deadletterqueue.copy.record.enable"] = "true"
    flow.admin.set_group_config(flow.group, wanted)
    flow.admin.set_group_config(reader, {"share.auto.offset.reset": "earliest"})
    return Flow(flow.target, flow.admin, topic, reader, flow.keep).member()


@pytest.mark.behaviour("transactions")
@pytest.mark.parametrize("copied", [True, False])
def test_records_go_to_the_dead_letter_topic_when_the_group_gives_them_up(copied: bool, flow: Flow) -> None:
    """Rejected and exhausted records are written to a dead-letter topic with their place, and if wanted their value."""
    reader = dead_letters_of(flow, copied=copied)
    flow.produce(b"accepted", b"rejected", b"released")
    words = {b"accepted": ACCEPT, b"rejected": REJECT, b"released": RELEASE}
    consumer = flow.explicit()
    poll_until(consumer, 3, lambda record: consumer.acknowledge(record, words[record.value]))
    consumer.commit_sync()
    poll_until(consumer, 1, lambda record: consumer.acknowledge(record, RELEASE))
    consumer.commit_sync()
    found = {}
    for record in poll_until(reader, 2):
        about = {name: (value or b"").decode() for name, value in record.headers}
        assert all(name.startswith(ABOUT) for name in about)
        place = [about[ABOUT + name] for name in ("topic", "partition", "group")]
        assert place == [flow.topic, "0", flow.group]
        found[about[ABOUT + "offset"]] = (record.key, record.value, about[ABOUT + "delivery.count"])
    key, rejected, released = (b"k", b"rejected", b"released") if copied else (None, None, None)
    assert found == {"1": (key, rejected, "1"), "2": (key, released, "2")}
