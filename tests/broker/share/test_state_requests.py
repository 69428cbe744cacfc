"""What the requests about share state (APIs 83 to 87) are answered: what Apache Kafka answered, version by version.

The conversation is the scenario `state_rpcs` of the wire probe, whose recorded lines are beside it in
`tests/conformance/probes`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from broker.cluster_world import World

from kafka_share.broker.kafka_version import BEHAVIOURS
from kafka_share.errors import NotCoordinatorError
from kafka_share.protocol.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)

RECORDED: Final = Path(__file__).parents[2] / "conformance" / "probes"
NOWHERE: Final = UUID(int=3 << 64 | 4)
JAVA_NAMES: Final = {"error_message": "msg"}


def initialize(group: str, topic_id: UUID, partition: int, state_epoch: int, start: int) -> Any:
    topic = InitializeShareGroupStateRequest.InitializeStateData
    named = topic.PartitionData(partition=partition, state_epoch=state_epoch, start_offset=start)
    return InitializeShareGroupStateRequest(group_id=group, topics=[topic(topic_id=topic_id, partitions=[named])])


def read(group: str, topic_id: UUID, leader_epoch: int) -> Any:
    topic = ReadShareGroupStateRequest.ReadStateData
    named = topic.PartitionData(partition=0, leader_epoch=leader_epoch)
    return ReadShareGroupStateRequest(group_id=group, topics=[topic(topic_id=topic_id, partitions=[named])])


def summary(group: str, topic_id: UUID, leader_epoch: int) -> Any:
    topic = ReadShareGroupStateSummaryRequest.ReadStateSummaryData
    named = topic.PartitionData(partition=0, leader_epoch=leader_epoch)
    return ReadShareGroupStateSummaryRequest(group_id=group, topics=[topic(topic_id=topic_id, partitions=[named])])


def delete(group: str, topic_id: UUID) -> Any:
    topic = DeleteShareGroupStateRequest.DeleteStateData
    return DeleteShareGroupStateRequest(
        group_id=group, topics=[topic(topic_id=topic_id, partitions=[topic.PartitionData(partition=0)])]
    )


def write(
    group: str,
    topic_id: UUID,
    epochs: tuple[int, int],
    start: int,
    complete: int,
    *batches: tuple[int, int, int, int],
) -> Any:
    """`epochs`: state epoch and leader epoch; a batch: first and last offset, delivery state, delivery count."""
    topic = WriteShareGroupStateRequest.WriteStateData
    named = topic.PartitionData(
        partition=0,
        state_epoch=epochs[0],
        leader_epoch=epochs[1],
        start_offset=start,
        delivery_complete_count=complete,
        state_batches=[
            topic.PartitionData.StateBatch(first_offset=a, last_offset=b, delivery_state=state, delivery_count=count)
            for a, b, state, count in batches
        ],
    )
    return WriteShareGroupStateRequest(group_id=group, topics=[topic(topic_id=topic_id, partitions=[named])])


def conversation(g: str, t: UUID) -> list[tuple[str, Any]]:
    """The probe's steps, with the request of each."""
    several = ((0, 4, 2, 1), (5, 9, 0, 2), (20, 29, 4, 3))
    return [
        ("read uninit", read(g, t, 0)),
        ("summary uninit", summary(g, t, 0)),
        ("write uninit", write(g, t, (0, 0), 0, 0)),
        ("delete uninit", delete(g, t)),
        ("init unknown topic", initialize(g, NOWHERE, 0, 0, 0)),
        ("init unknown partition", initialize(g, t, 9, 0, 0)),
        ("init neg partition", initialize(g, t, -1, 0, 0)),
        ("init empty group", initialize("", t, 0, 0, 0)),
        ("init neg epoch", initialize(g, t, 0, -5, 0)),
        ("delete", delete(g, t)),
        ("init so -1 se 5", initialize(g, t, 0, 5, -1)),
        ("summary", summary(g, t, 0)),
        ("read le 3", read(g, t, 3)),
        ("read le 2", read(g, t, 2)),
        ("read le -1", read(g, t, -1)),
        ("read le 3", read(g, t, 3)),
        ("summary le 9", summary(g, t, 9)),
        ("summary le 1", summary(g, t, 1)),
        ("summary le -1", summary(g, t, -1)),
        ("init se 4", initialize(g, t, 0, 4, 0)),
        ("init se 5 again so 7", initialize(g, t, 0, 5, 7)),
        ("read", read(g, t, 3)),
        ("write le 1", write(g, t, (5, 1), 0, 0)),
        ("write se 4", write(g, t, (4, 3), 0, 0)),
        ("write ok", write(g, t, (5, 3), 0, 3, *several)),
        ("read", read(g, t, 3)),
        ("summary", summary(g, t, 3)),
        ("write 3-6 state 0 count 1", write(g, t, (5, 3), -1, 4, (3, 6, 0, 1))),
        ("read", read(g, t, 3)),
        ("write start 8", write(g, t, (5, 3), 8, 5)),
        ("read", read(g, t, 3)),
        ("write start 2 (back)", write(g, t, (5, 3), 2, 1)),
        ("read", read(g, t, 3)),
        ("write se 6 le 4", write(g, t, (6, 4), -1, 1)),
        ("read", read(g, t, 9)),
        ("write se -1 le -1", write(g, t, (-1, -1), -1, 1)),
        ("write state 1 (acquired)", write(g, t, (5, 9), -1, 1, (40, 41, 1, 1))),
        ("write state 9", write(g, t, (5, 9), -1, 1, (50, 51, 9, 1))),
        ("write first>last", write(g, t, (5, 9), -1, 1, (61, 60, 2, 1))),
        ("write neg first", write(g, t, (5, 9), -1, 1, (-3, 60, 2, 1))),
        ("read", read(g, t, 9)),
        ("delete", delete(g, t)),
        ("delete", delete(g, t)),
        ("read", read(g, t, 0)),
        ("summary", summary(g, t, 0)),
    ]


def java_text(value: Any) -> str:
    """A struct of an answer as Java prints it, without the topic id, and with `text` for the text of an error."""
    shown = []
    for field in value.declared_fields:
        if field != "topic_id":
            first, *rest = field.split("_")
            name = JAVA_NAMES.get(field, first + "".join(word.capitalize() for word in rest))
            shown.append(f"{name}={_java_value(field, getattr(value, field))}")
    return f"{type(value).__name__}({', '.join(shown)})"


def _java_value(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(java_text, value))}]"
    if name == "error_message":
        return "null" if value is None else "text"
    return str(value)


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_each_request_is_answered_as_apache_kafka_answered_it(version: str) -> None:
    world = World(kafka_version=version)
    topic_id = world.topic("t").id
    recorded = [
        line
        for line in (RECORDED / f"wire-{version}.txt").read_text(encoding="utf-8").splitlines()
        if line.startswith("state_rpcs | ")
    ]
    answered = [
        f"state_rpcs | {step} | {', '.join(map(java_text, world.ask(request).results))}])"
        for step, request in conversation("g", topic_id)
    ]
    assert answered == recorded


def test_each_partition_is_answered_for_itself_when_a_request_names_several() -> None:
    world = World()
    topics = [world.topic(name, 2) for name in ("a", "b")]
    data = InitializeShareGroupStateRequest.InitializeStateData
    request = InitializeShareGroupStateRequest(
        group_id="g",
        topics=[
            data(
                topic_id=topic.id,
                partitions=[data.PartitionData(partition=p, state_epoch=0, start_offset=p) for p in (1, 7, 0)],
            )
            for topic in topics
        ],
    )
    results = world.ask(request).results
    assert [result.topic_id for result in results] == [topic.id for topic in topics]
    for result in results:
        assert [(entry.partition, entry.error_code) for entry in result.partitions] == [(1, 0), (7, 3), (0, 0)]


def test_every_request_is_refused_when_share_groups_are_switched_off() -> None:
    world = World(share_version=0)
    topic_id = world.topic("t").id
    for request in (
        initialize("g", topic_id, 0, 0, 0),
        read("g", topic_id, 0),
        summary("g", topic_id, 0),
        write("g", topic_id, (0, 0), 0, 0),
        delete("g", topic_id),
    ):
        results = world.ask(request).results
        codes = [entry.error_code for result in results for entry in result.partitions]
        assert codes == [NotCoordinatorError.code]
