"""The lease agent as a process, on the reference broker: no Spark, the test is the driver.

What the group has done is read from the broker; what the agent does is asked through its socket.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trustme
from spark.agent_hosts import pid_of
from support.waiting import rest, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.share.record_state import RecordState
from kafka_share.errors import ConfigurationError

pytest.importorskip("pyarrow", reason="the lease agent writes Arrow: pip install 'kafka-share[spark]'")

from kafka_share.spark import agent_client
from kafka_share.spark.agent_client import AgentClient, SplitPlace, fetch_split, find_agent
from kafka_share.spark.agent_config import KEY, LOG, SOCKET
from kafka_share.spark.agent_start import new_agent_name, proof_of, start_agent
from kafka_share.spark.door import UNPROVED_CONNECTIONS
from kafka_share.spark.failures import AgentGoneError, LeaseAgentError, LeaseLostError
from kafka_share.spark.options import SourceOptions
from kafka_share.spark.splits import decode_split

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="what becomes of processes is read from /proc"),
    pytest.mark.timeout(120),  # each test starts processes, one after the other
]


class Agents:
    """Starts agents for one broker, and sees to it that none is left."""

    def __init__(self, broker: ReferenceBroker, folder: Path) -> None:
        self.folder = folder
        self._broker = broker
        self._clients: list[AgentClient] = []

    def options(self, **more: str) -> SourceOptions:
        given = {"kafka.bootstrap.servers": self._broker.bootstrap_servers, "subscribe": "orders", "shareGroup": "g"}
        return SourceOptions.of({**given, "agentDir": str(self.folder), "orphanGraceMs": "30000", **more})

    def start(self, *, is_batch: bool = False, name: str | None = None, **more: str) -> AgentClient:
        options = self.options(**more)
        client = start_agent(options, name or new_agent_name(), is_batch=is_batch)
        self._clients.append(client)
        assert client.attach(proof_of(options))
        return client

    def connect(self, name: str) -> AgentClient:
        client = AgentClient(self.folder / name)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            try:
                self.connect(client.folder.name).stop()
            except AgentGoneError:
                pass
            client.close()
            self.wait_for_end(client)

    def wait_for_end(self, client: AgentClient) -> None:
        wait_until(lambda: pid_of(client.folder) is None, f"the agent {client.folder.name} did not end")


@pytest.fixture(name="agents")
def agents_fixture(broker: ReferenceBroker, agent_dir: Path) -> Iterator[Agents]:
    agents = Agents(broker, agent_dir)
    yield agents
    agents.close()


def acquire(client: AgentClient, start: int = 0, most: int = 1_000) -> tuple[int, int]:
    return wait_until(lambda: client.acquire(start, most, 500, drain=False), "no records came")


def rows_of(client: AgentClient, lease: int) -> list[int] | None:
    """Offsets of the rows of a lease."""
    splits = client.rows(lease, 1 << 30)
    if splits is None:
        return None
    return [
        row["offset"] for split in splits for batch in decode_split(split.data, ["offset"]) for row in batch.to_pylist()
    ]


def states(broker: ReferenceBroker) -> dict[RecordState, int]:
    """How many records of the topic are in which state; finished ones below the window count as acknowledged."""
    partition = broker.share_partition("g", "orders")
    assert partition is not None
    found = dict.fromkeys(RecordState, 0)
    found[RecordState.ACKNOWLEDGED] = partition.start_offset
    for one in partition.ranges:
        found[one.state] += (
            one.last - max(one.first, partition.start_offset) + 1 if one.last >= partition.start_offset else 0
        )
    return found


def delivery_counts(broker: ReferenceBroker) -> set[int]:
    partition = broker.share_partition("g", "orders")
    assert partition is not None
    return {one.delivery_count for one in partition.ranges}


def come_again(broker: ReferenceBroker, agents: Agents) -> None:
    """The ten records are free: another agent gets all of them, by their second delivery."""
    later = agents.start()
    assert rows_of(later, acquire(later)[0]) == list(range(10))
    assert delivery_counts(broker) == {2}


def test_records_are_accepted_when_the_batch_is_proved_to_be_committed_and_not_before(
    broker: ReferenceBroker, agents: Agents
) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start()
    lease, count = acquire(client)
    assert count == 10
    assert rows_of(client, lease) == list(range(10))
    assert states(broker)[RecordState.ACQUIRED] == 10
    assert client.acquire(lease, 1_000, 0, drain=False) is None
    wait_until(lambda: states(broker)[RecordState.ACKNOWLEDGED] == 10)


def test_a_lease_has_no_more_records_than_asked_for_and_the_size_may_change(
    broker: ReferenceBroker, agents: Agents
) -> None:
    broker.produce_batch("orders", [b"x"] * 100)
    client = agents.start()
    lease, count = acquire(client, most=7)
    assert count == 7
    lease, count = acquire(client, lease, most=50)
    assert count == 50
    assert rows_of(client, lease) == list(range(7, 57))


def test_locks_are_renewed_while_a_batch_is_slow(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start()
    lease, _ = acquire(client)
    wait_until(lambda: client.counts()["renewals"] >= 40)  # more than a lock time has passed
    assert client.is_held(lease)
    assert states(broker)[RecordState.ACQUIRED] == 10
    assert delivery_counts(broker) == {1}


def test_records_come_again_when_locks_are_not_renewed(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(renew="false")
    lease, _ = acquire(client)
    wait_until(lambda: not client.is_held(lease))
    wait_until(lambda: states(broker)[RecordState.AVAILABLE] == 10)
    assert client.counts()["records_lost"] == 10
    again, _ = acquire(client, lease)
    assert rows_of(client, again) == list(range(10))
    assert client.counts()["records_redelivered"] == 10


def test_a_later_runner_gets_the_same_rows_and_no_delivery_is_spent(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start()
    lease, _ = acquire(client)
    rows = rows_of(client, lease)
    client.close()
    later = agents.connect(client.folder.name)
    assert later.attach(proof_of(agents.options()))
    assert rows_of(later, lease) == rows
    later.commit(lease)
    wait_until(lambda: states(broker)[RecordState.ACKNOWLEDGED] == 10)


def test_a_lease_that_was_replayed_often_enough_is_released(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(maxReplays="0")
    lease, _ = acquire(client)
    client.close()
    later = agents.connect(client.folder.name)
    assert later.attach(proof_of(agents.options(maxReplays="0")))
    assert rows_of(later, lease) is None
    wait_until(lambda: states(broker)[RecordState.AVAILABLE] == 10)


def test_records_are_released_and_the_agent_ends_when_no_runner_comes_back(
    broker: ReferenceBroker, agents: Agents
) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(orphanGraceMs="0")
    acquire(client)
    client.close()
    agents.wait_for_end(client)
    assert not (client.folder / KEY).exists()
    come_again(broker, agents)


def test_records_are_free_again_when_the_agent_is_killed(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start()
    lease, _ = acquire(client)
    pid = pid_of(agents.folder / client.folder.name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(AgentGoneError):
        client.rows(lease, 1)
    with pytest.raises(AgentGoneError):
        agents.connect(client.folder.name)
    come_again(broker, agents)


def test_sigterm_releases_what_is_open(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start()
    acquire(client)
    pid = pid_of(agents.folder / client.folder.name)
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    agents.wait_for_end(client)
    come_again(broker, agents)


def test_the_agent_of_a_batch_read_ends_when_its_driver_has_died(
    broker: ReferenceBroker, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as driver:
        monkeypatch.setattr(agent_client, "driver_pid", lambda: driver.pid)
        client = agents.start(is_batch=True)
        acquire(client)
        client.close()  # the process that planned the read has ended; the lease stays
        later = agents.connect(client.folder.name)
        assert later.is_held(1)
        driver.kill()
    agents.wait_for_end(client)
    monkeypatch.undo()
    come_again(broker, agents)


def test_decisions_about_a_streaming_lease_are_sent_with_its_commit(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start()
    lease, _ = acquire(client)
    writer, number = find_agent(f"{client.folder.name}-{lease}", agents.folder)
    writer.decide(number, [("orders", 0, 4, "RELEASE"), ("orders", 0, 5, "REJECT")])
    writer.close()
    assert states(broker)[RecordState.ACQUIRED] == 10
    client.commit(lease)
    wait_until(lambda: states(broker)[RecordState.AVAILABLE] == 1)
    assert states(broker)[RecordState.ARCHIVED] == 1
    with pytest.raises(LeaseLostError):
        client.decide(lease, [("orders", 0, 4, "RELEASE")])


def test_decisions_about_a_batch_read_are_sent_at_once_and_end_it(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(is_batch=True)
    lease, _ = acquire(client)
    client.decide(lease, [("orders", 0, offset, "ACCEPT") for offset in range(8)] + [("orders", 0, 8, "REJECT")])
    found = states(broker)
    assert found[RecordState.AVAILABLE] == 1
    assert found[RecordState.ACQUIRED] == 0
    with pytest.raises(LeaseLostError):
        client.decide(lease, [("orders", 0, 9, "ACCEPT")])


def test_settling_a_batch_read_fails_loudly_when_its_locks_were_lost(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(is_batch=True)
    lease, _ = acquire(client)
    broker.drop_connections()
    with pytest.raises(LeaseLostError):
        client.settle(lease, "ACCEPT")


def test_a_lease_survives_the_restart_of_a_broker_as_lost_and_its_records_come_again(
    broker: ReferenceBroker, agents: Agents
) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start()
    lease, _ = acquire(client)
    broker.stop()
    broker.start()
    wait_until(lambda: not client.is_held(lease))
    again, count = acquire(client, lease)
    assert count == 10
    client.commit(again)
    wait_until(lambda: states(broker)[RecordState.ACKNOWLEDGED] == 10)
    counts = client.counts()
    assert (counts["leases_lost"], counts["leases_done"], counts["records_lost"]) == (1, 1, 10)


def test_records_that_were_delivered_too_often_are_rejected_instead_of_handed_out(
    broker: ReferenceBroker, agents: Agents
) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(rejectAfterDeliveries="1", orphanGraceMs="0")
    acquire(client, most=4)
    client.close()
    agents.wait_for_end(client)
    later = agents.start(rejectAfterDeliveries="1")
    assert rows_of(later, acquire(later)[0]) == list(range(4, 10))
    assert later.counts()["records_rejected_for_deliveries"] == 4


def test_the_query_hears_once_that_records_were_archived(broker: ReferenceBroker, agents: Agents) -> None:
    broker.set_group_config("g", share_delivery_count_limit=2)
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(maxReplays="0")
    lease, _ = acquire(client)
    client.close()
    second = agents.connect(client.folder.name)
    assert second.attach(proof_of(agents.options(maxReplays="0")))
    assert rows_of(second, lease) is None
    lease, _ = acquire(second, lease)
    second.close()
    third = agents.connect(client.folder.name)
    assert third.attach(proof_of(agents.options(maxReplays="0")))
    assert rows_of(third, lease) is None
    with pytest.raises(LeaseAgentError, match=r"10 records .* archived"):
        third.acquire(lease, 10, 100, drain=False)
    assert third.acquire(lease, 10, 100, drain=False) is None


def test_locks_are_not_renewed_when_the_group_forbids_it_and_the_batch_may_still_use_its_lock_time(
    broker: ReferenceBroker, agents: Agents
) -> None:
    broker.set_group_config("g", share_renew_acknowledge_enable=False, share_record_lock_duration_ms=15_000)
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(lockRenewFraction="0.05")
    lease, _ = acquire(client)
    rest(1.0)  # it would have been renewed by now, refused, and taken for lost
    assert client.is_held(lease)
    assert client.counts()["renewals"] == 0
    client.commit(lease)
    wait_until(lambda: states(broker)[RecordState.ACKNOWLEDGED] == 10)


def test_an_agent_works_on_brokers_that_know_neither_renewals_nor_record_limits(agent_dir: Path) -> None:
    with ReferenceBroker(kafka_version="4.1") as broker:
        broker.create_topic("orders")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.produce_batch("orders", [b"x"] * 10)
        agents = Agents(broker, agent_dir)
        client = agents.start(lockRenewFraction="0.05")
        lease, count = acquire(client, most=7)
        assert count == 10  # the whole record batch
        rest(2.0)  # a renewal was due, and cannot be
        assert client.is_held(lease)
        log = (client.folder / LOG).read_text()
        assert "locks cannot be renewed" in log
        assert "acknowledgement-failed" not in log
        client.commit(lease)
        wait_until(lambda: states(broker)[RecordState.ACKNOWLEDGED] == 10)
        agents.close()


def test_metrics_are_served_for_prometheus(broker: ReferenceBroker, agents: Agents) -> None:
    pytest.importorskip("prometheus_client", reason="metricsPort needs the extra prometheus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(metricsPort=str(port))
    acquire(client)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    assert 'kafka_share_spark_open_records{group="g"} 10.0' in lines
    named = {
        line.split("{")[0].removeprefix("kafka_share_spark_").removesuffix("_total") for line in lines if line[0] != "#"
    }
    assert named == set(client.counts())


def test_the_query_hears_that_records_were_lost_on_their_last_delivery(broker: ReferenceBroker, agents: Agents) -> None:
    broker.set_group_config("g", share_delivery_count_limit=2)
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(renew="false")
    first, _ = acquire(client)
    wait_until(lambda: not client.is_held(first))
    second, _ = acquire(client, first)
    wait_until(lambda: not client.is_held(second))
    with pytest.raises(LeaseAgentError, match=r"10 records .* archived"):
        client.acquire(second, 10, 100, drain=False)


def test_draining_waits_until_the_group_is_joined(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start()
    first = client.acquire(0, 1_000, 1, drain=True)
    assert first is not None
    assert client.acquire(first[0], 1_000, 200, drain=True) is None


def test_an_agent_with_other_options_cannot_be_attached_to(broker: ReferenceBroker, agents: Agents) -> None:
    client = agents.start()
    other = agents.connect(client.folder.name)
    assert not other.attach(proof_of(agents.options(maxRecordsPerTrigger="17")))
    with pytest.raises(LeaseAgentError, match="attached"):
        other.acquire(0, 1, 1, drain=False)


def test_large_splits_are_fetched_over_tcp_by_who_knows_the_data_key(broker: ReferenceBroker, agents: Agents) -> None:
    broker.produce_batch("orders", [b"x" * 2_000] * 10)
    client = agents.start(minPartitions="2")
    lease, _ = acquire(client)
    splits = client.rows(lease, 100)
    assert splits is not None
    assert [split.data for split in splits] == [b"", b""]
    place = SplitPlace("127.0.0.1", client.address.data_port, client.address.data_key, lease, 0, "")
    fetched = [fetch_split(attrs.evolve(place, index=split.index)) for split in splits]
    assert sum(batch.num_rows for data in fetched for batch in decode_split(data, ["value"])) == 10
    with pytest.raises(LeaseAgentError):
        fetch_split(attrs.evolve(place, key="00" * 32))
    with pytest.raises(LeaseAgentError, match="gone"):
        fetch_split(attrs.evolve(place, index=99))
    with pytest.raises(AgentGoneError, match="dataPlaneHost"):
        fetch_split(attrs.evolve(place, port=1))


@pytest.mark.parametrize("door", ["tasks", "tasks over TLS", "drivers"])
def test_connections_that_prove_nothing_are_bounded_and_keep_nobody_out(
    broker: ReferenceBroker, agents: Agents, tmp_path: Path, door: str
) -> None:
    """One too many, and who has waited longest is hung up on."""
    broker.produce_batch("orders", [b"x"] * 10)
    authority, certificate = certified(tmp_path) if door == "tasks over TLS" else ("", "")
    client = agents.start(dataPlaneCaFile=authority, dataPlaneCertFile=certificate)
    lease, _ = acquire(client)
    path = client.folder / SOCKET
    with contextlib.ExitStack() as open_ones:
        silent = []
        for _ in range(UNPROVED_CONNECTIONS + 1):
            silent.append(
                open_ones.enter_context(
                    socket.socket(socket.AF_UNIX)
                    if door == "drivers"
                    else socket.create_connection(("127.0.0.1", client.address.data_port))
                )
            )
            if door == "drivers":
                silent[-1].connect(str(path))
        wait_until(lambda: silent[0].recv(4_096) == b"", "the first one was not hung up on")
        place = SplitPlace("127.0.0.1", client.address.data_port, client.address.data_key, lease, 0, authority)
        assert [batch.num_rows for batch in decode_split(fetch_split(place), ["value"])]
        assert agents.connect(client.folder.name).is_held(lease)


def certified(folder: Path) -> tuple[str, str]:
    """An authority's file, and one with a certificate for 127.0.0.1 and its key."""
    authority, files = trustme.CA(), (folder / "authority.pem", folder / "agent.pem")
    authority.cert_pem.write_to_path(str(files[0]))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(files[1]))
    return str(files[0]), str(files[1])


def test_tasks_fetch_over_tls_from_the_agent_whose_certificate_they_can_verify(
    broker: ReferenceBroker, agents: Agents, tmp_path: Path
) -> None:
    authority, certificate = certified(tmp_path)
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    broker.produce_batch("orders", [b"x"] * 10)
    client = agents.start(dataPlaneCaFile=authority, dataPlaneCertFile=certificate)
    lease, _ = acquire(client)
    place = SplitPlace("127.0.0.1", client.address.data_port, client.address.data_key, lease, 0, authority)
    assert list(decode_split(fetch_split(place), ["value"]))
    with pytest.raises(AgentGoneError, match="CERTIFICATE_VERIFY_FAILED"):
        fetch_split(attrs.evolve(place, ca_file=str(tmp_path / "other.pem")))
    with pytest.raises(LeaseAgentError):
        fetch_split(attrs.evolve(place, ca_file=""))
    assert list(decode_split(fetch_split(place), ["value"]))


def test_others_cannot_enter_the_folder_and_a_folder_of_others_is_refused(
    broker: ReferenceBroker, agents: Agents, tmp_path: Path
) -> None:
    client = agents.start()
    folder = agents.folder / client.folder.name
    assert agents.folder.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / SOCKET).stat().st_mode & 0o077 == 0
    assert (folder / KEY).stat().st_mode & 0o077 == 0
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(LeaseAgentError, match="agentDir"):
        start_agent(agents.options(agentDir=str(tmp_path / "open")), "a1", is_batch=False)


def test_a_path_that_is_too_long_for_a_socket_is_refused(
    broker: ReferenceBroker, agents: Agents, tmp_path: Path
) -> None:
    with pytest.raises(LeaseAgentError, match="shorter"):
        start_agent(agents.options(agentDir=str(tmp_path / ("long" * 20))), "a1", is_batch=False)


def test_an_agent_that_cannot_run_says_why(broker: ReferenceBroker, agents: Agents) -> None:
    with pytest.raises(LeaseAgentError, match="cannot run"):
        start_agent(agents.options(dataPlaneHost="256.0.0.1"), "a1", is_batch=False)
    with pytest.raises(ConfigurationError):
        agents.options(subscribe="")
