"""confluent-kafka's ordinary consumer in consumer groups (KIP-848) of the reference broker: group.protocol=consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conformance.confluent_peer import admin_client, consumer_of, create_topic, held, produce, read

pytestmark = pytest.mark.foreign

Names = Callable[[str], str]


def described(bootstrap: str, group: str) -> Any:
    client = admin_client(bootstrap)
    return client.describe_consumer_groups([group])[group].result(10)


def test_a_second_consumer_goes_on_where_the_first_has_committed(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    values = [b"%d" % i for i in range(20)]
    produce(bootstrap, topic, values)
    first = consumer_of(bootstrap, group, "consumer")
    first.subscribe([topic])
    assert read(first, 12) == values[:12]
    (committed,) = first.commit(asynchronous=False)
    assert (committed.error, committed.offset) == (None, 12)
    first.close()
    second = consumer_of(bootstrap, group, "consumer")
    second.subscribe([topic])
    assert read(second, 8) == values[12:]
    second.close()


@pytest.mark.timeout(90)  # members learn of each other with their heartbeats, every five seconds
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_two_consumers_share_the_partitions_and_one_takes_all_when_the_other_closes(
    bootstrap: str, unique: Names, assignor: str
) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic, partitions=4)
    members = [consumer_of(bootstrap, group, "consumer", **{"group.remote.assignor": assignor}) for _ in range(2)]
    members[0].subscribe([topic])
    held(members[0], counts=[4])
    members[1].subscribe([topic])
    first, second = held(*members, counts=[2, 2])
    assert first | second == {0, 1, 2, 3}
    found = described(bootstrap, group)
    assert (found.type.name, len(found.members), found.partition_assignor) == ("CONSUMER", 2, assignor)
    members[0].close()
    held(members[1], counts=[4])
    members[1].close()


def test_a_regular_expression_is_resolved_by_the_broker(bootstrap: str, unique: Names) -> None:
    prefix, group = unique("p"), unique("g")
    for name in (f"{prefix}-a", f"{prefix}-b", unique("other")):
        create_topic(bootstrap, name)
    produce(bootstrap, f"{prefix}-a", [b"a"])
    produce(bootstrap, f"{prefix}-b", [b"b"])
    consumer = consumer_of(bootstrap, group, "consumer")
    consumer.subscribe([f"^{prefix}-[ab]$"])
    assert sorted(read(consumer, 2)) == [b"a", b"b"]
    consumer.close()


def test_a_static_consumer_comes_back_to_its_partitions(bootstrap: str, unique: Names) -> None:
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic, partitions=2)
    for _ in range(2):
        consumer = consumer_of(bootstrap, group, "consumer", **{"group.instance.id": "one"})
        consumer.subscribe([topic])
        held(consumer, counts=[2])
        consumer.close()
        (member,) = described(bootstrap, group).members
        assert member.group_instance_id == "one"
