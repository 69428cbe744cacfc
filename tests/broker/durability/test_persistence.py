"""What survives a restart besides records: the list of it is whole, and each kind comes back as it was."""

from __future__ import annotations

from random import Random

import pytest
from broker.cluster_world import START_MS, batch
from broker.durability.tearing_disk import TearingDisk

from kafka_share.broker.classic.transactions import NO_PRODUCER, TransactionState
from kafka_share.broker.cluster import Cluster
from kafka_share.broker.durability.cluster_state import ELSEWHERE, ENTRIES
from kafka_share.broker.durability.journal import JOURNAL_FOLDER
from kafka_share.broker.durability.persistence import Persistence
from kafka_share.broker.security.acls import Acl
from kafka_share.broker.security.scram import ScramCredential, ScramMechanism
from kafka_share.broker.share.share_groups import Heartbeat
from kafka_share.broker.share.state_records import StateKey
from kafka_share.broker.storage.producer_ids import BLOCK
from kafka_share.broker.storage.producers import AppendedBatch, SequenceVerdict
from kafka_share.broker.storage.topics import Partition
from kafka_share.protocol.record_batches import control_batch


class Restarts:
    """A cluster that is killed and started again, on one disk."""

    def __init__(self, nodes: int = 1) -> None:
        self._disk = TearingDisk(Random(1))
        self._nodes = range(1, nodes + 1)
        self._random = Random(2)
        self.now_ms = START_MS
        self.start()

    def start(self) -> Cluster:
        self.persistence = Persistence(self._disk, "cluster", len(self._nodes))
        self.cluster = Cluster(
            self._nodes, config={}, cluster_id="c", random=self._random, log_files=self.persistence.log_files
        )
        self.persistence.recover(self.cluster, self.now_ms)
        self.cluster.check()
        return self.cluster

    def again(self) -> Cluster:
        """Everything is synced, and the power fails."""
        self.persistence.write(START_MS)
        self.persistence.sync()
        self._disk = self._disk.after_crash()
        return self.start()

    def killed(self) -> Cluster:
        """Nothing but the process is gone."""
        return self.start()

    def journal_bytes(self) -> int:
        return sum(len(self._disk.read(f"{JOURNAL_FOLDER}/{name}")) for name in self._disk.names(JOURNAL_FOLDER))


def partition_of(cluster: Cluster, topic: str = "t") -> Partition:
    found = cluster.topics.by_name(topic)
    assert found is not None
    return found.partitions[0]


def test_every_part_of_the_cluster_is_kept_or_has_a_reason_not_to_be() -> None:
    """Whoever adds state to the cluster decides here what becomes of it when the broker is killed."""
    parts = {name for name in vars(Restarts().cluster) if not name.startswith("_")}
    assert parts == ENTRIES.keys() | ELSEWHERE.keys()
    assert not ENTRIES.keys() & ELSEWHERE.keys()


def test_leaders_and_epochs_stay_and_every_start_is_a_new_epoch() -> None:
    restarts = Restarts(nodes=2)
    restarts.cluster.create_topic("t", [[1, 2]])
    restarts.cluster.move_leader(partition_of(restarts.cluster), 2, START_MS)
    restarts.cluster.append(partition_of(restarts.cluster), batch(3), START_MS)
    again = partition_of(restarts.again())
    assert (again.leader_id, again.leader_epoch, again.replicas) == (2, 2, (1, 2))
    assert again.log.epoch_end(1) == (1, 3)
    restarts.cluster.append(again, batch(1), START_MS)
    assert partition_of(restarts.again()).log.epoch_end(1) == (1, 3)


def test_a_topic_is_in_the_journal_before_anything_is_in_its_log() -> None:
    """So nothing that is written later, in another log, is there without it when the broker is killed in between."""
    restarts = Restarts()
    topic = restarts.cluster.create_topic("t", [[1]])
    topic.partitions[0].log.append(batch(2), 0, START_MS)
    again = restarts.killed()
    assert partition_of(again).log.high_watermark == 2


def test_a_partition_whose_share_state_was_lost_with_the_power_is_initialised_again() -> None:
    """The group's record and the share state are in two logs, which are synced one after the other."""
    restarts = Restarts()
    topic = restarts.cluster.create_topic("t", [[1]] * 2)
    for index in range(2):
        restarts.cluster.share_groups.initialise("g", topic.id, index, 0, START_MS)
    restarts.cluster.share_states.delete(StateKey("g", topic.id, 1), START_MS)
    groups = restarts.again().share_groups
    assert groups.existing("g").initialised == {topic.id: {0}}
    groups.heartbeat(Heartbeat("g", "m", 0, None, ["t"], "c", "h"), START_MS)
    assert groups.existing("g").initialised == {topic.id: {0, 1}}
    assert restarts.cluster.share_states.summary(StateKey("g", topic.id, 1)).state_epoch > 0


def test_partitions_that_were_added_are_there() -> None:
    restarts = Restarts()
    topic = restarts.cluster.create_topic("t", [[1]])
    restarts.cluster.topics.grow(topic, [[1]])
    found = restarts.again().topics.by_name("t")
    assert found is not None
    assert (len(found.partitions), found.id) == (2, topic.id)


def test_producer_ids_are_given_out_once() -> None:
    restarts = Restarts()
    assert [restarts.cluster.next_producer_id() for _ in range(2)] == [0, 1]
    assert restarts.again().next_producer_id() == BLOCK
    assert [restarts.cluster.next_producer_id() for _ in range(BLOCK)][-1] == 2 * BLOCK
    assert restarts.again().next_producer_id() == 3 * BLOCK


def test_users_are_known_and_those_that_were_removed_are_not() -> None:
    restarts = Restarts()
    mechanism = ScramMechanism.SCRAM_SHA_256
    credential = ScramCredential.of_password(mechanism, "secret", b"salt")
    for name in ("alice", "bob"):
        restarts.cluster.scram_users.put(name, mechanism, credential)
    users = restarts.again().scram_users
    assert users.find("alice", mechanism) == credential
    users.remove("bob", mechanism)
    assert restarts.again().scram_users.names() == ["alice"]


def test_quotas_hold_and_those_of_hosts_when_these_have_been_looked_up_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    restarts = Restarts()
    rate = {"connection_creation_rate": 1.0}
    restarts.cluster.client_quotas.alter((("ip", "10.0.0.2"),), rate)
    restarts.cluster.client_quotas.alter((("ip", "there"),), rate, address="10.0.0.1")
    restarts.cluster.client_quotas.alter((("user", "u"),), {"request_percentage": 0.5})
    cluster = restarts.again()

    def let_in(address: str) -> int:
        return [cluster.client_quotas.connect(address, START_MS) for _ in range(20)].count(0)

    assert len(list(cluster.client_quotas)) == 3
    assert cluster.host_lookups.take_new() == ["there"]
    assert (let_in("10.0.0.2"), let_in("10.0.0.1"), let_in("10.0.0.3")) == (10, 20, 20)
    cluster.host_looked_up("there", "10.0.0.3")
    assert (let_in("10.0.0.1"), let_in("10.0.0.3")) == (20, 10)
    restarts.cluster.host_looked_up("there", None)
    assert "the host 'there' of a client quota is not found" in caplog.text


def test_acls_are_known_and_those_that_were_removed_are_not() -> None:
    restarts = Restarts()
    kept = Acl('User:"a|b', "read", "topic", "ord", pattern="prefixed", permission="deny", host="10.0.0.1")
    gone = Acl("User:bob", "all", "cluster")
    for acl in (kept, gone):
        restarts.cluster.acls.add(acl)
    acls = restarts.again().acls
    assert list(acls) == [kept, gone]
    acls.remove(gone)
    assert list(restarts.again().acls) == [kept]


def test_an_acl_that_is_given_at_each_start_stays_removed_until_it_is_added_again() -> None:
    restarts = Restarts()
    one, other, late = (Acl("User:a", "read", "topic", name) for name in ("t", "u", "v"))
    restarts.cluster.acls.give([one, other])
    acls = restarts.again().acls
    acls.give([one, other])
    acls.remove(one)
    acls = restarts.again().acls
    acls.give([one, other, late])
    assert list(acls) == [other, late]
    acls = restarts.again().acls
    assert list(acls) == [other, late], "what is given no more stays"
    acls.add(one)
    acls.remove(other)
    acls = restarts.again().acls
    acls.give([one, other])
    assert set(acls) == {one, other, late}, "other was not given when it was removed"


def test_a_repeated_batch_is_known_and_open_transactions_are_open() -> None:
    restarts = Restarts()
    restarts.cluster.create_topic("t", [[1]])
    partition = partition_of(restarts.cluster)
    sent = batch(2, producer_id=7, producer_epoch=1, base_sequence=0)
    restarts.cluster.append(partition, sent, START_MS)
    log = partition.log
    log.append(batch(1, producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True), 0, START_MS)
    log.append(batch(1, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True), 0, START_MS)
    log.append(
        control_batch("abort", producer_id=9, producer_epoch=3, timestamp=START_MS, coordinator_epoch=4), 0, START_MS
    )
    again = partition_of(restarts.again())
    assert restarts.cluster.append(again, sent, START_MS) == (0, -1)
    assert again.log.high_watermark == 5
    assert again.log.last_stable_offset == 2
    assert list(again.log.aborted_ranges(0, 5)) == [(9, 3, 4)]
    assert again.producers.judge(9, 2, 1, 1)[0] is SequenceVerdict.FENCED


WEEK_MS = 604_800_000


def test_a_producer_that_expired_while_the_broker_was_down_is_not_known() -> None:
    restarts = Restarts()
    restarts.cluster.create_topic("t", [[1]])
    for producer_id, age_ms in ((7, 86_400_000), (8, 86_399_000)):
        sent = batch(1, START_MS - age_ms, producer_id=producer_id, producer_epoch=0, base_sequence=0)
        restarts.cluster.append(partition_of(restarts.cluster), sent, START_MS)
    open_one = batch(1, 0, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    partition_of(restarts.cluster).log.append(open_one, 0, START_MS)
    known = partition_of(restarts.again()).producers
    assert [one.producer_id for one in known.summaries()] == [8, 9]


def test_of_a_producer_whose_batches_are_gone_from_the_log_any_next_one_is_taken() -> None:
    """Its producer goes on where it was; only the partition has forgotten where that is."""
    restarts = Restarts()
    partition = restarts.cluster.create_topic("t", [[1]]).partitions[0]
    sequence = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    restarts.cluster.append(partition, batch(3, base_sequence=0, **sequence), START_MS)
    partition = partition_of(restarts.again())  # each start begins a segment
    restarts.cluster.write_marker(partition, (7, 0), committed=True, now_ms=START_MS)
    restarts.cluster.delete_records(partition, 3, START_MS)
    assert partition.producers.judge(7, 0, 4, 4)[0] is SequenceVerdict.OUT_OF_ORDER
    again = partition_of(restarts.again()).producers
    assert again.judge(7, 0, 4, 4)[0] is SequenceVerdict.APPEND
    again.appended(7, 0, AppendedBatch(4, 4, 4), START_MS)
    assert again.judge(7, 0, 6, 6)[0] is SequenceVerdict.OUT_OF_ORDER


def test_a_transactional_id_expires_by_when_it_was_used_last_also_before_a_restart() -> None:
    restarts = Restarts()
    restarts.cluster.transactions.initialise("old", 60_000, NO_PRODUCER, START_MS)
    restarts.cluster.transactions.initialise("new", 60_000, NO_PRODUCER, START_MS + 1)
    restarts.now_ms = START_MS + WEEK_MS - 3_600_000
    transactions = restarts.again().transactions
    assert transactions.wake_at_ms() == START_MS + WEEK_MS
    transactions.poll(START_MS + WEEK_MS)
    assert [one.id for one in transactions.all()] == ["new"]
    assert [one.id for one in restarts.again().transactions.all()] == ["new"]


def transactional(restarts: Restarts) -> tuple[tuple[int, int], list[Partition]]:
    """A producer with an open transaction in two partitions, and those; before it, it has committed another."""
    topic = restarts.cluster.create_topic("t", [[1]] * 2)
    transactions = restarts.cluster.transactions
    producer = transactions.initialise("tx", 60_000, NO_PRODUCER, START_MS)
    for is_second in (False, True):
        for partition in topic.partitions:
            transactions.require_writable("tx", producer, partition, add=True, now_ms=START_MS)
            sequence = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": int(is_second)}
            restarts.cluster.append(partition, batch(1, is_transactional=True, **sequence), START_MS)
        if not is_second:
            transactions.end("tx", producer, committed=True, raise_epoch=False, now_ms=START_MS)
    return producer, topic.partitions


def test_an_open_transaction_is_open_after_a_restart_and_can_be_committed() -> None:
    restarts = Restarts()
    producer, _ = transactional(restarts)
    transactions = restarts.again().transactions
    found = transactions.find("tx")
    assert found is not None
    assert (found.state, len(found.partitions), found.ends_at_ms) == (TransactionState.ONGOING, 2, START_MS + 60_000)
    assert partition_of(restarts.cluster).log.last_stable_offset == 2
    transactions.end("tx", producer, committed=True, raise_epoch=False, now_ms=START_MS)
    assert partition_of(restarts.again()).log.last_stable_offset == 4
    assert restarts.cluster.transactions.initialise("tx", 60_000, NO_PRODUCER, START_MS) == (producer[0], 1)


def test_an_open_transaction_is_aborted_after_a_restart_when_its_time_is_over() -> None:
    restarts = Restarts()
    transactional(restarts)
    restarts.again().transactions.poll(START_MS + 60_000)
    log = partition_of(restarts.again()).log
    assert (log.last_stable_offset, list(log.aborted_ranges(0, 4))) == (4, [(0, 2, 3)])


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("raised", [0, 1])
def test_a_transaction_that_was_ended_in_one_partition_when_the_broker_was_killed_is_ended_in_all(
    committed: bool, raised: int
) -> None:
    restarts = Restarts()
    producer, partitions = transactional(restarts)
    restarts.persistence.write(START_MS)
    marker = (producer[0], producer[1] + raised)
    restarts.cluster.write_marker(partitions[1], marker, committed=committed, now_ms=START_MS)
    found = restarts.again().transactions.find("tx")
    assert found is not None
    assert (found.ends_at_ms, found.last_end, found.epoch) == (None, committed, producer[1] + raised)
    for partition in partition_of(restarts.cluster).owner.partitions:
        assert partition.log.last_stable_offset == partition.log.high_watermark
        assert bool(partition.log.aborted_ranges(0, 9)) is not committed


@pytest.mark.parametrize("is_first", [True, False])
def test_what_a_transaction_wrote_last_belongs_to_it_though_the_broker_was_killed_before_it_noted_that(
    is_first: bool,
) -> None:
    restarts = Restarts()
    if is_first:
        producer = restarts.cluster.transactions.initialise("tx", 60_000, NO_PRODUCER, START_MS)
        partition = restarts.cluster.create_topic("t", [[1]]).partitions[0]
    else:
        producer, (partition, _) = transactional(restarts)
        restarts.cluster.transactions.end("tx", producer, committed=True, raise_epoch=False, now_ms=START_MS)
    restarts.persistence.write(START_MS)
    begin = partition.log.high_watermark
    written = batch(1, producer_id=producer[0], producer_epoch=0, base_sequence=5, is_transactional=True)
    partition.log.append(written, 0, START_MS)
    transactions = restarts.again().transactions
    found = transactions.find("tx")
    assert found is not None
    assert (found.state, list(found.begins.values())) == (TransactionState.ONGOING, [begin])
    transactions.initialise("tx", 60_000, NO_PRODUCER, START_MS)
    log = partition_of(restarts.again()).log
    assert (log.last_stable_offset, list(log.aborted_ranges(0, 9))) == (begin + 2, [(producer[0], begin, begin + 1)])


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_that_was_lost_with_the_power_is_written_again(committed: bool) -> None:
    """The journal says that the transaction has ended, and one of the logs does not: they are synced one by one."""
    restarts = Restarts()
    producer, _ = transactional(restarts)
    found = restarts.again().transactions.find("tx")
    assert found is not None
    entry = restarts.cluster.transactions
    partitions = partition_of(restarts.cluster).owner.partitions
    restarts.cluster.write_marker(partitions[0], producer, committed=committed, now_ms=START_MS)
    found.partitions.popitem()
    lost, begin = found.begins.popitem()
    entry.end("tx", producer, committed=committed, raise_epoch=False, now_ms=START_MS)
    found.ended_begins[lost] = begin
    restarts.again()
    for partition in partition_of(restarts.cluster).owner.partitions:
        assert partition.log.last_stable_offset == partition.log.high_watermark
        assert bool(partition.log.aborted_ranges(0, 9)) is not committed


def test_the_journal_is_written_anew_when_it_has_grown() -> None:
    restarts = Restarts()
    partitions = [[1]] * 500
    restarts.cluster.create_topic("t", partitions)
    for _ in range(60):
        restarts.cluster.topics.move_leader(partition_of(restarts.cluster), 1)
        restarts.persistence.write(START_MS)
        restarts.persistence.sync()
    assert restarts.journal_bytes() < 1_300_000  # 60 times 30 kB, without
    assert partition_of(restarts.again()).leader_epoch == 61
    assert restarts.journal_bytes() < 1_300_000
