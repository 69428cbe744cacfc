"""Our consumer and confluent-kafka's in one group on one partition: nothing lost, nothing settled twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from conformance.confluent_peer import create_topic, produce, read_from_start, share_consumer
from support.waiting import looks

from kafka_share import KafkaShareConsumer, KafkaShareError, TopicIdPartition

pytestmark = pytest.mark.foreign

RECORDS = 400


@pytest.mark.behaviour("membership")
def test_records_are_shared_when_both_are_members_of_one_group(bootstrap: str, unique: Callable[[str], str]) -> None:
    """With members of librdkafka and of this library in one group each record is accepted exactly once."""
    topic, group = unique("t"), unique("g")
    create_topic(bootstrap, topic)
    read_from_start(bootstrap, group)
    accepted: Counter[int] = Counter()
    seen_by_ours: set[int] = set()
    seen_by_theirs: set[int] = set()

    def ours_settled(offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        assert error is None
        for of_partition in offsets.values():
            accepted.update(of_partition)

    def theirs_settled(offsets: Mapping[object, set[int]], error: Exception | None) -> None:
        assert error is None
        for of_partition in offsets.values():
            accepted.update(of_partition)

    theirs = share_consumer(bootstrap, group, topic, **{"max.poll.records": 10})
    theirs.set_acknowledgement_commit_callback(theirs_settled)
    with KafkaShareConsumer(topic, bootstrap_servers=bootstrap, group_id=group, max_poll_records=10) as ours:
        ours.set_acknowledgement_commit_callback(ours_settled)
        theirs.poll(0.5)
        ours.poll(timeout_ms=500)
        for start in range(0, RECORDS, 10):
            produce(bootstrap, topic, [str(i).encode() for i in range(start, start + 10)])
        for _ in looks(lambda: f"{len(seen_by_ours)} and {len(seen_by_theirs)} of {RECORDS} records came"):
            seen_by_theirs.update(message.offset() for message in theirs.poll(0.1))
            seen_by_ours.update(record.offset for record in ours.poll(timeout_ms=100))
            if len(seen_by_ours | seen_by_theirs) == RECORDS:
                break
        theirs.commit_sync()
        ours.commit_sync()
    theirs.close()

    assert accepted == Counter(range(RECORDS))
    assert seen_by_ours, "our consumer got nothing"
    assert seen_by_theirs, "confluent-kafka's consumer got nothing"
    assert not seen_by_ours & seen_by_theirs, "a record was delivered to both while its lock held"
