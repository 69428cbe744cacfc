"""Brokers with a data directory that are killed with -9 under load, started again on the same port, and checked.

A script (`tox run -e kills -- --seeds 0-999`), and `test_kills.py` runs a few seeds. A run has a producer, one with
transactions, somebody who commits offsets, an admin that makes and deletes topics, and two share consumers of ours. Two
to four times the broker is killed: at a random moment, or in the middle of its n-th operation on the disk, also while
it starts. At the end all that is left is consumed, and the account is made: nothing that was answered is lost, no
record comes again after its acknowledgement was answered, one that was only acquired comes again, with the count that
was stored plus one, and a transaction is in both of its partitions or in none. Exit code 1 if any of that fails.
"""

# ruff: noqa: T201 - a command line of its own

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final, Self

import attrs
from broker.durability.kill_account import KillAccount, Place
from broker.durability.killed_broker import CONFIG, REAP, Life
from support.documentation import environment
from support.wire_connection import WireConnection

from kafka_share import AcknowledgeType, KafkaShareConsumer, ShareRecord
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import KafkaShareError
from kafka_share.protocol.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from kafka_share.protocol.topics import CreateTopicsRequest, DeleteTopicsRequest
from kafka_share.protocol.transactions import EndTxnRequest, InitProducerIdRequest
from kafka_share.records import TopicIdPartition

TOPIC: Final = "t"
TRANSACTIONS: Final = "transactions"
GROUP: Final = "g"
PARTITIONS: Final = 2
CONSUMERS: Final = 2
LONGEST_LIFE_S: Final = 0.35
MOST_OPERATIONS: Final = 250
PATIENCE_S: Final = 20
LEAVE: Final = -1
PRODUCE_VERSION: Final = 9
PRODUCE_VERSION_OF_TRANSACTIONS: Final = 12
"""Adds the partitions to the transaction; the last one with topics by name."""


class Nursery:
    """The process that brokers are forked from: one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "broker.durability.killed_broker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            bufsize=0,
        )
        self._told = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @contextlib.contextmanager
    def broker(self, life: Life) -> Iterator[Living]:
        """A broker, which is killed at the end of the block at the latest."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(attrs.asdict(life)).encode() + b"\n")
        pid = int(self._line(PATIENCE_S).removeprefix("pid "))
        first = self._line(PATIENCE_S)
        living = Living(self, pid, first.removeprefix("ready ") if first != "dead" else "")
        try:
            yield living
        finally:
            living.kill()
            self._process.stdin.write(f"{REAP}\n".encode())

    def _line(self, limit_s: float) -> str:
        """Raises `TimeoutError`."""
        assert self._process.stdout is not None
        limit_s += time.monotonic()
        while b"\n" not in self._told:
            left_s = max(0.0, limit_s - time.monotonic())
            if not select.select([self._process.stdout], [], [], left_s)[0]:
                raise TimeoutError("a broker does not start, or does not die")
            self._told += self._process.stdout.read(1_000)
        line, _, self._told = self._told.partition(b"\n")
        return line.decode()

    def dies_within(self, limit_s: float) -> bool:
        """Whether the broker dies by itself."""
        with contextlib.suppress(TimeoutError):
            return self._line(limit_s) == "dead"
        return False


class Living:
    """A broker's process; `servers` is "" if it died before it could listen."""

    def __init__(self, nursery: Nursery, pid: int, servers: str) -> None:
        self._nursery = nursery
        self._pid = pid
        self.servers = servers
        self._is_dead = not servers

    def lives_for(self, limit_s: float) -> None:
        """Let it live so long, unless it kills itself before, and kill it."""
        self._is_dead = self._is_dead or self._nursery.dies_within(limit_s)
        self.kill()

    def kill(self) -> None:
        if not self._is_dead:
            os.kill(self._pid, signal.SIGKILL)
            self._is_dead = self._nursery.dies_within(PATIENCE_S)


class Killing:
    """One run."""

    def __init__(self, seed: int, data_dir: Path, nursery: Nursery) -> None:
        self.account = KillAccount()
        self._seed = seed
        self._random = Random(seed)
        self._data_dir = data_dir
        self._nursery = nursery
        self._port = _free_port(Random())
        self._fsync = self._random.choice(["always", "interval"])
        self._next_value = 0
        self._next_topic = 0
        self._next_transaction = 0

    def run(self) -> KillAccount:
        """Raises `TimeoutError` if a broker does not start, or records do not come."""
        with ReferenceBroker(data_dir=self._data_dir, config=CONFIG) as broker:
            broker.create_topic(TOPIC, PARTITIONS)
            broker.create_topic(TRANSACTIONS, PARTITIONS)
            broker.set_group_config(GROUP, share_auto_offset_reset="earliest")
        for _ in range(self._random.randint(2, 4)):
            self._live_and_die()
        with self._nursery.broker(self._life(None)) as living:
            assert living.servers, "the last broker did not start"
            self._bury(living.servers)
            self._drain(living.servers)
        self._look()
        return self.account

    # ---- brokers

    def _life(self, dies_at: int | None) -> Life:
        return Life(str(self._data_dir), self._port, self._fsync, dies_at, self._random.random())

    def _live_and_die(self) -> None:
        dies_at = self._random.choice([None, self._random.randint(1, MOST_OPERATIONS)])
        with self._nursery.broker(self._life(dies_at)) as living:
            if living.servers and self._bury(living.servers):
                writers = [self._produce, self._commit_transactions, self._commit_offsets, self._administer]
                work = [*writers, *[self._consume] * CONSUMERS]
                ended = threading.Event()
                seeds = [self._random.random() for _ in work]
                threads = [
                    threading.Thread(target=self._work, args=(one, living.servers, Random(seed), ended))
                    for one, seed in zip(work, seeds, strict=True)
                ]
                for thread in threads:
                    thread.start()
                living.lives_for(self._random.uniform(0.05, LONGEST_LIFE_S))
                ended.set()
                for thread in threads:
                    thread.join()
        self.account.killed()

    def _bury(self, servers: str) -> bool:
        """Have the members leave that died with the last broker: they would keep partitions until their sessions end.

        Returns whether the broker is still alive.
        """
        try:
            with WireConnection(servers) as connection:
                (group,) = connection.call(ShareGroupDescribeRequest(group_ids=[GROUP]), 1).groups
                for member in group.members:
                    leave = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=member.member_id, member_epoch=LEAVE)
                    connection.call(leave, 1)
        except OSError:
            return False
        return True

    # ---- clients; each ends when its broker is gone

    def _work(
        self, work: Callable[[str, Random, threading.Event], None], servers: str, random: Random, ended: threading.Event
    ) -> None:
        """Do the work of one client."""
        try:
            work(servers, random, ended)
        except OSError:
            pass  # the broker is dead
        except Exception as error:  # whatever else it is, the run has failed
            self.account.complaints.append(f"a client failed: {error!r}")
            raise

    def _produce(self, servers: str, random: Random, ended: threading.Event) -> None:
        data = ProduceRequest.TopicProduceData
        with WireConnection(servers) as connection:
            while not ended.is_set():
                values = [b"%d" % (self._next_value + number) for number in range(random.randint(1, 4))]
                self._next_value += len(values)
                partition = random.randrange(PARTITIONS)
                batch = encode_batch([(number, _now_ms(), None, value, ()) for number, value in enumerate(values)])
                sent = data(name=TOPIC, partition_data=[data.PartitionProduceData(index=partition, records=batch)])
                request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[sent])
                (answer,) = connection.call(request, PRODUCE_VERSION).responses[0].partition_responses
                if answer.error_code != 0:
                    self.account.complaints.append(f"a producer was answered {answer.error_code}")
                self.account.produced(partition, answer.base_offset, values)
                time.sleep(random.uniform(0, 0.004))

    def _commit_transactions(self, servers: str, random: Random, ended: threading.Event) -> None:
        """Each writes its number into both partitions."""
        version = random.choice([3, 5])  # the latter raises the epoch at each end
        with WireConnection(servers) as connection:
            began = connection.call(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 4)
            assert began.error_code == 0, f"InitProducerId was answered {began.error_code}"
            producer, sequence = (began.producer_id, began.producer_epoch), 0
            while not ended.is_set():
                self._next_transaction += 1
                number = self._next_transaction
                connection.call(_transactional(producer, sequence, b"%d" % number), PRODUCE_VERSION_OF_TRANSACTIONS)
                committed = random.random() < 0.7
                self.account.transactions[number] = None
                end = EndTxnRequest(
                    transactional_id="tx", producer_id=producer[0], producer_epoch=producer[1], committed=committed
                )
                answer = connection.call(end, version)
                assert answer.error_code == 0, f"EndTxn was answered {answer.error_code}"
                self.account.transactions[number] = committed
                self.account.numbers["transactions"] += 1
                sequence += 1
                if version >= 5:
                    producer, sequence = (answer.producer_id, answer.producer_epoch), 0
                ended.wait(random.uniform(0, 0.02))

    def _commit_offsets(self, servers: str, random: Random, ended: threading.Event) -> None:
        """As a consumer without a group of members does."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        with WireConnection(servers) as connection:
            while not ended.is_set():
                self.account.sent_offset += 1
                offset = self.account.sent_offset
                one = topic.OffsetCommitRequestPartition(
                    partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
                )
                request = OffsetCommitRequest(
                    group_id="offsets",
                    generation_id_or_member_epoch=-1,
                    member_id="",
                    group_instance_id=None,
                    topics=[topic(name=TOPIC, partitions=[one])],
                )
                answer = connection.call(request, 8)
                assert answer.topics[0].partitions[0].error_code == 0, answer
                self.account.committed_offset = offset
                self.account.numbers["commits of offsets"] += 1
                ended.wait(random.uniform(0, 0.02))

    def _administer(self, servers: str, random: Random, ended: threading.Event) -> None:
        topics = self.account.topics
        with WireConnection(servers) as connection:
            while not ended.is_set():
                living = [name for name, exists in topics.items() if exists]
                if living and random.random() < 0.4:
                    name = random.choice(living)
                    del topics[name]  # until the answer says that it is gone
                    connection.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=1_000), 5)
                    topics[name] = False
                else:
                    self._next_topic += 1
                    name = f"extra-{self._next_topic}"
                    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
                    request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=False)
                    connection.call(request, 7)
                    topics[name] = True
                self.account.numbers["changes of topics"] += 1
                ended.wait(random.uniform(0.005, 0.04))

    def _consume(self, servers: str, random: Random, ended: threading.Event) -> None:
        consumer = _consumer(servers)
        told = Told(self.account)
        try:
            with contextlib.suppress(KafkaShareError):
                consumer.set_acknowledgement_commit_callback(told.answered)
                while not ended.is_set():
                    for record in consumer.poll(timeout_ms=100):
                        told.delivered(record)
                        kind = AcknowledgeType.RELEASE if _releases(random, record) else AcknowledgeType.ACCEPT
                        ended.wait(random.choice([0, 0, 0, 0.003]))
                        told.sent(record, kind)
                        consumer.acknowledge(record, kind)
                    if random.random() < 0.5 and not ended.is_set():
                        consumer.commit_sync(timeout_ms=200)
        finally:
            consumer.close(timeout_ms=0)

    # ---- the end

    def _drain(self, servers: str) -> None:
        """Consume what is left: everything comes that nobody may have accepted."""
        limit_s = time.monotonic() + PATIENCE_S
        told = Told(self.account)
        with _consumer(servers) as consumer:
            consumer.set_acknowledgement_commit_callback(told.answered)
            while missing := self.account.outstanding():
                if time.monotonic() > limit_s:
                    self.account.complaints.append(f"never delivered: {sorted(missing)[:10]}")
                    return
                for record in consumer.poll(timeout_ms=1_000):
                    told.delivered(record)
                    told.sent(record, AcknowledgeType.ACCEPT)
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT)
            consumer.commit_sync()
        with WireConnection(servers) as connection:
            wanted = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
            answer = connection.call(OffsetFetchRequest(group_id="offsets", topics=[wanted], require_stable=False), 7)
        self.account.compare_offset(answer.topics[0].partitions[0].committed_offset)

    def _look(self) -> None:
        """Look into the directory, as the last broker has left it."""
        with ReferenceBroker(data_dir=self._data_dir, config=CONFIG) as broker:
            found = {(record.partition, record.offset): record.value for record in broker.records(TOPIC)}
            self.account.compare_log(found)
            committed = [
                [int(one.value or 0) for one in broker.records(TRANSACTIONS, partition, read_committed=True)]
                for partition in range(PARTITIONS)
            ]
            self.account.compare_transactions(committed)
            self.account.compare_topics(broker.topics())
            broker.check()


class Told:
    """What one consumer tells the account. Answers name offsets only, so it knows what it has sent."""

    def __init__(self, account: KillAccount) -> None:
        self._account = account
        self._sent: dict[Place, tuple[str, int]] = {}

    def delivered(self, record: ShareRecord) -> None:
        assert record.delivery_count is not None
        self._account.delivered((record.partition, record.offset), record.value, record.delivery_count)

    def sent(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        place = (record.partition, record.offset)
        self._sent[place] = kind.name, record.delivery_count or 0
        self._account.sent(place, *self._sent[place])

    def answered(self, offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        for where, numbers in offsets.items():
            for offset in numbers:
                sent = self._sent.pop((where.partition, offset), None)
                if error is None and sent is not None:  # None: a gap
                    self._account.answered((where.partition, offset), *sent)


def _consumer(servers: str) -> KafkaShareConsumer:
    return KafkaShareConsumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id=GROUP,
        share_acknowledgement_mode="explicit",
        max_poll_records=10,
        fetch_max_wait_ms=50,
        reconnect_backoff_ms=10,
        retry_backoff_ms=10,
        enable_metrics_push=False,
    )


def _transactional(producer: tuple[int, int], sequence: int, value: bytes) -> ProduceRequest:
    """A record with this value for each partition."""
    data = ProduceRequest.TopicProduceData
    batch = encode_batch(
        [(0, _now_ms(), None, value, ())],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )
    partitions = [data.PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
    sent = data(name=TRANSACTIONS, partition_data=partitions)
    return ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=1_000, topic_data=[sent])


def _releases(random: Random, record: ShareRecord) -> bool:
    return (record.delivery_count or 0) < 3 and random.random() < 0.2


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _free_port(random: Random) -> int:
    """One that the system gives to no client while a broker is dead."""
    while True:
        port = random.randint(10_000, 19_999)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def run_seed(seed: int, nursery: Nursery, folder: Path | None = None) -> KillAccount:
    """One run, in a directory that is deleted unless there are complaints."""
    data_dir = Path(tempfile.mkdtemp(prefix=f"kills-{seed}-", dir=folder))
    account = Killing(seed, data_dir, nursery).run()
    if account.complaints:
        account.complaints.append(f"the directory is {data_dir}")
    else:
        shutil.rmtree(data_dir)
    return account


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-99", help="first and last seed (default: %(default)s)")
    words = parser.parse_args()
    logging.disable(logging.CRITICAL)  # clients that lose their broker, and torn ends, by the thousand
    first, _, last = words.seeds.partition("-")
    numbers: Counter[str] = Counter()
    failed = []
    began_s = time.monotonic()
    with Nursery() as nursery:
        for seed in range(int(first), int(last or first) + 1):
            account = run_seed(seed, nursery)
            numbers += account.numbers
            if account.complaints:
                failed.append(seed)
                print(f"seed {seed}:", *account.complaints[:10], sep="\n  ", flush=True)
    print(f"seeds {words.seeds}, {time.monotonic() - began_s:.0f} s:", dict(numbers))
    print(f"failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
