"""What others see of a running lease agent: its open leases, and the lag of the group."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from support.waiting import wait_until

from kafka_share.admin_values import ShareGroupOffsets, SharePartitionOffset
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import GroupAuthorizationFailedError, UnknownTopicOrPartitionError
from kafka_share.records import TopicPartition
from kafka_share.spark.group_lag import GroupLag, lag_of

pytest.importorskip("pyarrow", reason="the lease agent writes Arrow: pip install 'kafka-share[spark]'")

from spark.test_agent import Agents, acquire, agents_fixture, pytestmark

from kafka_share.spark.agent_client import AgentClient
from kafka_share.spark.agent_config import KEY, SOCKET
from kafka_share.spark.agent_status import AgentStatus, agents_of_group

__all__ = ["agents_fixture", "pytestmark"]


def status(agents: Agents, group: str = "g") -> tuple[AgentStatus, ...]:
    return agents_of_group(group, str(agents.folder))


def test_an_open_lease_is_seen_with_its_age_and_renewals(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(maxRecordsPerTrigger="10")
    lease, _ = acquire(client)
    wait_until(lambda: status(agents)[0].leases[0].renewals >= 2)
    (agent,) = status(agents)
    (seen,) = agent.leases
    assert (agent.name, agent.is_batch) == (client.folder.name, False)
    assert (seen.number, seen.records, seen.records_lost, seen.replays) == (lease, 10, 0, 0)
    assert seen.age_ms >= 2_000  # a lock of 3 s is renewed each second
    assert agent.counts["oldest_lease_ms"] >= 2_000
    assert agent.counts["renewals"] >= 20
    client.commit(lease)
    (agent,) = status(agents)
    assert (agent.leases, agent.counts["leases_done"], agent.counts["oldest_lease_ms"]) == ((), 1, 0)


def test_a_lease_whose_locks_are_lost_shows_how_many(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(renew="false")
    acquire(client)
    wait_until(lambda: status(agents)[0].counts["records_lost"] == 10)
    assert status(agents)[0].leases == ()  # all of them: the lease has ended


def test_the_lag_of_the_group_is_among_the_counts(broker: ReferenceBroker, agents: Agents) -> None:
    """Records of open leases are not finished, so they count. A group that has finished nothing has no lag yet."""
    broker.produce_batch("orders", [b"x"] * 30)
    client = agents.start()
    lease, _ = acquire(client, most=10)
    assert "lag" not in client.counts()
    acquire(client, lease, most=10)
    wait_until(lambda: client.counts().get("lag") == 20)


def test_agents_of_other_groups_and_folders_of_dead_ones_are_left_out(agents: Agents) -> None:
    dead = agents.folder / "dead"
    dead.mkdir()
    (dead / SOCKET).touch()
    (dead / KEY).write_bytes((agents.start().folder / KEY).read_bytes())
    (agents.folder / "log-of-an-old-one").mkdir()
    assert status(agents, "another") == ()
    assert len(status(agents)) == 1


def test_an_agent_that_does_not_answer_is_left_out(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    client = agents.start()
    monkeypatch.setattr("kafka_share.spark.agent_status._ANSWER_S", 0.1)
    key = (client.folder / "key").read_text()
    silent = agents.folder / "silent"
    silent.mkdir()
    (silent / "key").write_text(key)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(silent / SOCKET))
        listener.listen()
        monkeypatch.setattr("kafka_share.spark.channel.AUTHENTICATION_S", 0.1)
        assert [agent.name for agent in status(agents)] == [client.folder.name]


def test_to_look_is_not_to_be_a_runner(broker: ReferenceBroker, agents: Agents) -> None:
    """An agent whose runner is gone ends, however often somebody looks."""
    client = agents.start(orphanGraceMs="0")
    watching = AgentClient(client.folder, answer_s=5)
    assert watching.status()["leases"] == []
    client.close()
    wait_until(lambda: status(agents) == ())
    watching.close()


def test_a_folder_that_others_may_enter_has_no_agents(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    assert agents_of_group("g", str(tmp_path / "open")) == ()
    assert agents_of_group("g", str(tmp_path / "missing")) == ()


def test_the_lag_is_that_of_the_topics_of_the_query_as_far_as_it_is_known() -> None:
    offsets: ShareGroupOffsets = {
        TopicPartition("orders", 0): SharePartitionOffset(5, 0, 7),
        TopicPartition("orders", 1): SharePartitionOffset(5, 0, None),
        TopicPartition("orders", 2): UnknownTopicOrPartitionError("gone"),
        TopicPartition("orders", 3): None,
        TopicPartition("other", 0): SharePartitionOffset(5, 0, 100),
    }
    assert lag_of(offsets, frozenset({"orders"})) == 7
    assert lag_of({}, frozenset({"orders"})) is None


class EnoughError(Exception):
    """There are no more answers."""


class Admin:
    """An admin client whose looks are answered so."""

    answers: Iterator[ShareGroupOffsets | GroupAuthorizationFailedError]

    def __init__(self, **settings: str) -> None:
        assert settings == {"bootstrap_servers": "broker:9092"}  # no others of the consumer's

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def list_share_group_offsets(
        self, groups: dict[str, None]
    ) -> dict[str, ShareGroupOffsets | GroupAuthorizationFailedError]:
        for answer in self.answers:
            return dict.fromkeys(groups, answer)
        raise EnoughError


def test_a_lag_that_is_not_told_is_forgotten_and_the_reason_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    where = TopicPartition("orders", 0)
    refused = GroupAuthorizationFailedError("you may not describe g")
    known: ShareGroupOffsets = {where: SharePartitionOffset(5, 0, 7)}
    Admin.answers = iter([known, refused, refused, known])
    monkeypatch.setattr("kafka_share.spark.group_lag.KafkaShareAdmin", Admin)
    monkeypatch.setattr("kafka_share.spark.group_lag.time.sleep", lambda _: None)
    told: list[int | None] = []
    settings = {"group_id": "g", "bootstrap_servers": "broker:9092", "max_poll_records": 5}
    with pytest.raises(EnoughError):
        GroupLag(settings, ["orders"], told.append)._run()
    assert told == [7, None, None, 7]
    (warning,) = caplog.records
    assert "you may not describe g" in warning.message
