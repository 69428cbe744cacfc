"""Several lease agents for one query, on hosts of their own; and the agent that is part of the runner. No Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from conformance.admin_over_wire import Admin
from spark.agent_hosts import HOSTS, AgentHosts
from support.waiting import poll_until, wait_until

from kafka_share import KafkaShareAdmin, KafkaShareConsumer
from kafka_share.admin_values import SharePartitionOffset
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConfigurationError

pytest.importorskip("pyarrow", reason="the lease agent writes Arrow: pip install 'kafka-share[spark]'")

from kafka_share.spark import agent_start
from kafka_share.spark.agent_client import SplitPlace, fetch_split
from kafka_share.spark.agent_start import proof_of, start_agents
from kafka_share.spark.failures import AgentGoneError, LeaseAgentError
from kafka_share.spark.fleet import NO_LEASE, Fleet, FleetLease, earlier_fleet
from kafka_share.spark.options import SourceOptions
from kafka_share.spark.splits import decode_split

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the hosts are addresses of the loopback, which Linux has"),
    pytest.mark.timeout(120),  # each test starts processes
]


@pytest.fixture(name="broker")
def broker_fixture() -> Iterator[ReferenceBroker]:
    """A partition for each agent."""
    with ReferenceBroker() as broker:
        broker.create_topic("orders", partitions=len(HOSTS))
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        yield broker


@pytest.fixture
def hosts() -> Iterator[AgentHosts]:
    with AgentHosts() as hosts:
        yield hosts


class Runner:
    """The part of a runner, without Spark."""

    def __init__(self, broker: ReferenceBroker, agent_dir: Path, hosts: AgentHosts, **more: str) -> None:
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders", "shareGroup": "g"}
        folder = {"agentDir": str(agent_dir), "orphanGraceMs": "120000"}
        self.options = SourceOptions.of({**given, **folder, **hosts.options(), **more})
        self.proof = proof_of(self.options)

    def started(self) -> Fleet:
        fleet = Fleet(start_agents(self.options))
        assert fleet.attach(self.proof)
        return fleet

    def again(self, fleet: Fleet, lease: FleetLease, *, is_committed: bool = False) -> Fleet | None:
        """A later run, after this one has hung up."""
        return earlier_fleet(fleet.folders, lease.leases, self.proof, is_committed=is_committed)


def leased(fleet: Fleet, most: int, starts: tuple[int, ...] = ()) -> FleetLease:
    return wait_until(lambda: fleet.acquire(starts, most, 500, drain=False), "no records came")


def rows(fleet: Fleet, lease: FleetLease, ca_file: str = "") -> list[tuple[int, int]]:
    """Partition and offset of all rows of a batch, fetched from the agents."""
    found = []
    for client, number in zip(fleet.clients, lease.leases, strict=True):
        for split in (client.rows(number, 0) or []) if number != NO_LEASE else []:
            address = client.address
            place = SplitPlace(address.host, address.data_port, address.data_key, number, split.index, ca_file)
            for batch in decode_split(fetch_split(place), ["partition", "offset"]):
                found += [(row["partition"], row["offset"]) for row in batch.to_pylist()]
    return sorted(found)


def produce(broker: ReferenceBroker, records: int) -> list[tuple[int, int]]:
    """So many records in each partition."""
    for partition in range(len(HOSTS)):
        broker.produce_batch("orders", [b"x"] * records, partition=partition)
    return [(partition, offset) for partition in range(len(HOSTS)) for offset in range(records)]


def lag(broker: ReferenceBroker) -> int:
    """How many records the group is not through with. The lag of a partition of which nobody had any is unknown."""
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = admin.list_share_group_offsets({"g": None})["g"]
    assert isinstance(found, dict)
    known = {where.partition: one.lag for where, one in found.items() if isinstance(one, SharePartitionOffset)}
    lags = {partition: known.get(partition) for partition in range(len(HOSTS))}
    return sum(broker.end_offset("orders", partition) if lag is None else lag for partition, lag in lags.items())


def deliveries(broker: ReferenceBroker, records: int) -> Counter[int]:
    """All records come, so many times each."""
    with KafkaShareConsumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="g") as member:
        return Counter(record.delivery_count for record in poll_until(member, records))


def both_give(fleet: Fleet, records: int) -> FleetLease:
    """A batch that both agents have a part in; what came before it is committed."""
    lease = leased(fleet, records)
    while NO_LEASE in lease.leases:
        lease = leased(fleet, records, lease.leases)
    return lease


def test_a_batch_is_what_all_agents_lease_together_and_is_accepted_as_one(
    broker: ReferenceBroker, hosts: AgentHosts, agent_dir: Path
) -> None:
    everything = produce(broker, 50)
    runner = Runner(broker, agent_dir, hosts)
    fleet = runner.started()
    seen: list[tuple[int, int]] = []
    lease: FleetLease | None = None
    while len(seen) < len(everything):
        lease = leased(fleet, 20, lease.leases if lease else ())
        assert lease.records <= 20
        part = rows(fleet, lease)
        assert len(part) == lease.records
        seen += part
    assert sorted(seen) == everything
    assert lease is not None
    assert fleet.counts()["records"] == len(everything)
    fleet.commit(lease.leases)
    wait_until(lambda: lag(broker) == 0, "not everything was accepted")
    fleet.stop()


def test_agents_take_turns_where_fewer_records_than_agents_are_wanted(
    broker: ReferenceBroker, hosts: AgentHosts, agent_dir: Path
) -> None:
    """And it is nothing only when nobody has anything."""
    everything = produce(broker, 3)
    fleet = Runner(broker, agent_dir, hosts).started()
    seen: list[tuple[int, int]] = []
    starts: tuple[int, ...] = ()
    while (lease := fleet.acquire(starts, 1, 2_000, drain=True)) is not None:
        assert lease.records == 1
        seen += rows(fleet, lease)
        starts = lease.leases
    assert sorted(seen) == everything
    fleet.stop()


def test_a_later_run_gets_the_same_rows_of_all_agents(
    broker: ReferenceBroker, hosts: AgentHosts, agent_dir: Path
) -> None:
    produce(broker, 50)
    runner = Runner(broker, agent_dir, hosts)
    fleet = runner.started()
    lease = both_give(fleet, 40)
    before = rows(fleet, lease)
    fleet.close()
    later = runner.again(fleet, lease)
    assert later is not None
    assert rows(later, lease) == before
    later.stop()


@pytest.mark.parametrize("is_committed", [False, True])
def test_when_one_agent_was_killed_the_others_release_what_is_not_known_to_be_committed(
    broker: ReferenceBroker, hosts: AgentHosts, agent_dir: Path, is_committed: bool
) -> None:
    everything = produce(broker, 20)
    runner = Runner(broker, agent_dir, hosts)
    fleet = runner.started()
    lease = both_give(fleet, 10)
    committed = fleet.counts()["records"] - lease.records
    hosts.kill_agents(HOSTS[0])
    fleet.close()
    wait_until(lambda: not hosts.agents(HOSTS[0]))
    assert runner.again(fleet, lease, is_committed=is_committed) is None
    wait_until(lambda: not hosts.agents(HOSTS[1]), "the other agent has not ended")
    committed += lease.records // 2 if is_committed else 0
    wait_until(lambda: lag(broker) == len(everything) - committed, lambda: f"{committed} committed, lag {lag(broker)}")


def test_nothing_of_a_batch_is_held_any_more_when_a_part_of_it_is_gone(
    broker: ReferenceBroker, hosts: AgentHosts, agent_dir: Path
) -> None:
    pytest.importorskip("pyspark", reason="the splits are Spark's")
    from kafka_share.spark.share_split import splits_of_all

    produce(broker, 20)
    runner = Runner(broker, agent_dir, hosts)
    fleet = runner.started()
    lease = both_give(fleet, 10)
    assert len(splits_of_all(fleet, lease.leases, runner.options) or []) >= len(HOSTS)
    fleet.clients[0].give_back(lease.leases[0])
    assert splits_of_all(fleet, lease.leases, runner.options) is None
    assert not any(client.is_held(number) for client, number in zip(fleet.clients, lease.leases, strict=True))
    starts = lease.leases  # Spark commits the empty batch
    while (later := fleet.acquire(starts, 10, 2_000, drain=True)) is not None:
        starts = later.leases
    assert fleet.counts()["records_redelivered"] == lease.records
    fleet.stop()


def test_agents_on_other_hosts_are_reached_over_tls_only_where_they_have_a_certificate(
    broker: ReferenceBroker, agent_dir: Path, tmp_path: Path
) -> None:
    produce(broker, 10)
    authority, files = trustme.CA(), (tmp_path / "authority.pem", tmp_path / "host.pem")
    authority.cert_pem.write_to_path(str(files[0]))
    authority.issue_cert(*HOSTS).private_key_and_cert_chain_pem.write_to_path(str(files[1]))
    with AgentHosts(str(files[1]), str(files[0])) as hosts:
        runner = Runner(broker, agent_dir, hosts)
        fleet = runner.started()
        assert rows(fleet, leased(fleet, 10), str(files[0]))
        fleet.stop()
        with pytest.raises(LeaseAgentError):
            Runner(broker, agent_dir, hosts, dataPlaneCaFile="").started()


def test_who_does_not_know_the_key_has_no_agent_started(
    broker: ReferenceBroker, hosts: AgentHosts, agent_dir: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text("x" * 64)
    with pytest.raises(LeaseAgentError):
        Runner(broker, agent_dir, hosts, agentsKeyFile=str(other)).started()
    other.write_text("short")
    with pytest.raises(LeaseAgentError, match="longer"):
        Runner(broker, agent_dir, hosts, agentsKeyFile=str(other)).started()
    with pytest.raises(AgentGoneError, match="agent_host"):
        Runner(broker, agent_dir, hosts, agents="127.0.0.7:1").started()
    assert not any(map(hosts.agents, HOSTS))


def test_agents_release_everything_and_end_when_the_runner_is_gone_and_there_is_no_grace(
    broker: ReferenceBroker, hosts: AgentHosts, agent_dir: Path
) -> None:
    produce(broker, 10)
    fleet = Runner(broker, agent_dir, hosts, orphanGraceMs="0").started()
    both_give(fleet, 10)
    fleet.close()
    wait_until(lambda: not any(map(hosts.agents, HOSTS)), "an agent has not ended")
    assert deliveries(broker, 2 * 10)[2] == 10


# ---- the agent in the runner

EMBEDDED = """
import sys
from kafka_share.spark.agent_start import proof_of, start_agents
from kafka_share.spark.fleet import Fleet
from kafka_share.spark.options import SourceOptions

options = SourceOptions.of({
    "kafka.bootstrap.servers": sys.argv[1], "subscribe": "orders", "shareGroup": "g",
    "agentDir": sys.argv[2], "agentMode": "embedded",
})
fleet = Fleet(start_agents(options))
assert fleet.attach(proof_of(options))
print(fleet.acquire((), 10, 2_000, drain=True).records, flush=True)
if sys.argv[3] == "hangs up":
    fleet.close()
else:
    sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["hangs up", "SIGTERM"])
def test_an_embedded_agent_leaves_the_group_when_its_process_ends(
    broker: ReferenceBroker, agent_dir: Path, end: str
) -> None:
    """Spark ends the runner of a stopped query by SIGTERM."""
    produce(broker, 10)
    process = subprocess.Popen(
        [sys.executable, "-c", EMBEDDED, broker.bootstrap_servers, str(agent_dir), end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process, Admin(broker.bootstrap_servers) as admin:
        assert process.stdout is not None
        assert process.stdout.readline() == "10\n"
        if end == "SIGTERM":
            assert admin.share_members("g") == 1
            process.send_signal(signal.SIGTERM)
        assert process.wait() == (143 if end == "SIGTERM" else 0)
        assert admin.share_members("g") == 0
    assert deliveries(broker, 2 * 10)[2] == 10


# ---- options


GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders", "kafka.group.id": "g"}
PLACES = {"agents": "a:1,b:2", "agentsKeyFile": "/key"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"agents": "a:1"}, "agentsKeyFile"),
        ({"agentsKeyFile": "/key"}, "agents"),
        ({"agents": "a", "agentsKeyFile": "/key"}, "host:port"),
        ({**PLACES, "dataPlaneHost": "c"}, "agent_host"),
        ({**PLACES, "dataPlaneCertFile": "/cert", "dataPlaneCaFile": "/ca"}, "agent_host"),
        ({**PLACES, "agentMode": "embedded"}, "write agents or agentMode"),
        ({"agentMode": "thread"}, "subprocess, embedded"),
        ({"agentMode": "embedded", "orphanGraceMs": "1"}, "orphanGraceMs"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        SourceOptions.of({**GIVEN, **options})


def test_passwords_do_not_travel_to_hosts_of_agents_unencrypted(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p")
    sasl = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.plain.username": "u",
        "kafka.sasl.plain.password.file": str(tmp_path / "password"),
    }
    with pytest.raises(ConfigurationError, match="dataPlaneCaFile"):
        SourceOptions.of({**GIVEN, **PLACES, **sasl})
    assert SourceOptions.of({**GIVEN, **PLACES, **sasl, "dataPlaneCaFile": "/ca"}).agents == ("a:1", "b:2")


def test_an_embedded_agent_has_no_grace_and_batch_reads_have_none_of_both() -> None:
    embedded = SourceOptions.of({**GIVEN, "agentMode": "embedded"})
    assert embedded.grace_ms == 0
    for options in (embedded, SourceOptions.of({**GIVEN, **PLACES})):
        with pytest.raises(ConfigurationError, match="streaming queries"):
            options.demand_batch()
    SourceOptions.of(GIVEN).demand_batch()


def test_agents_that_have_started_are_ended_when_another_one_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they would wait on their hosts for a driver that never comes."""
    ended: list[str] = []

    class Started:
        def stop(self) -> None:
            ended.append("stop")

        def close(self) -> None:
            ended.append("close")

    def start(_: SourceOptions, where: str) -> Any:
        if where == "b:1":
            raise AgentGoneError("nobody is there")
        return Started()

    monkeypatch.setattr(agent_start, "_start_elsewhere", start)
    options = SourceOptions.of(
        {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "kafka.group.id": "g", "agents": "a:1,b:1"}
        | {"agentsKeyFile": "key"}
    )
    with pytest.raises(AgentGoneError):
        agent_start.start_agents(options)
    assert ended == ["stop", "close"]
