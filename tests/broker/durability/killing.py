"""One run of `kills`: a broker with a data directory that is killed with -9 under load, started again, and checked.

A run has a producer, one with transactions, somebody who commits offsets, an admin that makes and deletes topics, and
two share consumers of ours. Two to four times the broker is killed: at a random moment, or in the middle of its n-th
operation on the disk, also while it starts. At the end all that is left is consumed, and the account is made: nothing
that was answered is lost, no record comes again after its acknowledgement was answered, one that was only acquired
comes again, with the count that was stored plus one, and a transaction is in both of its partitions or in none. A
broker that logs an error or ends by one has failed, too.

Nothing here waits without an end: `Killing.run` returns or raises.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from broker.durability.kill_account import KillAccount, Place
from broker.durability.killed_broker import CONFIG, Life
from broker.durability.nursery import PATIENCE_S, Living, Nursery
from support.wire_connection import WireConnection

from kafka_share import AcknowledgeType, KafkaShareConsumer, ShareRecord
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import KafkaShareError, OperationTimeoutError
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
LONGEST_MOMENT_S: Final = 0.35
LONGEST_LIFE_S: Final = 3
MOST_DELIVERIES: Final = 40
MOST_OPERATIONS: Final = 250
BULKY_BYTES: Final = 100_000
"""Of some runs' largest records: segments of a mebibyte come to their end."""
LEAVE: Final = -1
PRODUCE_VERSION: Final = 9
PRODUCE_VERSION_OF_TRANSACTIONS: Final = 12
"""Adds the partitions to the transaction; the last one with topics by name."""


class Killing:
    """One run, in a folder that is empty."""

    def __init__(self, seed: int, folder: Path, nursery: Nursery) -> None:
        self.account = KillAccount()
        self._random = Random(seed)
        self._data_dir = folder / "data"
        self._log = folder / "brokers.log"
        self._nursery = nursery
        self._port = _free_port(Random())
        self._fsync = self._random.choice(["always", "interval"])
        self._most_bytes = self._random.choice([0, 0, BULKY_BYTES])
        self._next_value = 0
        self._next_topic = 0
        self._next_transaction = 0

    def run(self) -> KillAccount:
        """Raises `BrokerFailedError`, and `TimeoutError` if a broker does not start or a client does not end."""
        with ReferenceBroker(data_dir=self._data_dir, config=CONFIG) as broker:
            broker.create_topic(TOPIC, PARTITIONS)
            broker.create_topic(TRANSACTIONS, PARTITIONS)
            broker.set_group_config(GROUP, share_auto_offset_reset="earliest")
        for _ in range(self._random.randint(2, 4)):
            self._live_and_die()
        with self._nursery.broker(self._life(None)) as living:
            assert living.servers, "the last broker did not start"
            self._bury(living.servers)
            if not self._drain(living.servers):
                living.show_stacks()
        self._look()
        if errors := self._log.read_text():
            self.account.complaints.append(f"brokers have errors in their log: {errors}")
        return self.account

    # ---- brokers

    def _life(self, dies_at: int | None) -> Life:
        return Life(
            data_dir=str(self._data_dir),
            log=str(self._log),
            port=self._port,
            fsync=self._fsync,
            dies_at=dies_at,
            part=self._random.random(),
        )

    def _live_and_die(self) -> None:
        dies_at = self._random.choice([None, self._random.randint(1, MOST_OPERATIONS)])
        with self._nursery.broker(self._life(dies_at)) as living:
            if living.servers and self._bury(living.servers):
                ended = threading.Event()
                clients = self._start_clients(living.servers, ended)
                try:
                    self._let_live(living)
                    living.kill()
                finally:
                    ended.set()
                    _join(clients)
        self.account.killed()

    def _let_live(self, living: Living) -> None:
        """For a moment, and then until some records have been consumed: the machine may have been busy elsewhere."""
        numbers = self.account.numbers
        wanted = numbers["delivered"] + self._random.randint(0, MOST_DELIVERIES)
        living.lives_for(self._random.uniform(0.05, LONGEST_MOMENT_S))
        living.lives_until(lambda: numbers["delivered"] >= wanted, LONGEST_LIFE_S)

    def _start_clients(self, servers: str, ended: threading.Event) -> list[threading.Thread]:
        writers = [self._produce, self._commit_transactions, self._commit_offsets, self._administer]
        work = [*writers, *[self._consume] * CONSUMERS]
        clients = [
            threading.Thread(
                target=self._work,
                args=(one, servers, Random(self._random.random()), ended),
                name=one.__name__,
                daemon=True,  # one that does not end keeps nobody from ending
            )
            for one in work
        ]
        for client in clients:
            client.start()
        return clients

    def _bury(self, servers: str) -> bool:
        """Have the members leave that died with the last broker: they would keep partitions until their sessions end.

        Returns whether the broker is still alive. Raises `TimeoutError` if it is and does not answer.
        """
        try:
            with WireConnection(servers) as connection:
                (group,) = connection.call(ShareGroupDescribeRequest(group_ids=[GROUP]), 1).groups
                for member in group.members:
                    leave = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=member.member_id, member_epoch=LEAVE)
                    connection.call(leave, 1)
        except TimeoutError:
            raise
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
        except ConnectionError:
            pass  # the broker is dead
        except Exception:  # noqa: BLE001  whatever else it is, the run has failed
            self.account.complaints.append(f"a client failed: {traceback.format_exc()}")

    def _produce(self, servers: str, random: Random, ended: threading.Event) -> None:
        with WireConnection(servers) as connection:
            while not ended.is_set():
                values = [self._new_value(random) for _ in range(random.randint(1, 4))]
                self._write(connection, random.randrange(PARTITIONS), values)
                ended.wait(random.uniform(0, 0.004))

    def _new_value(self, random: Random) -> bytes:
        self._next_value += 1
        return (b"%d" % self._next_value).ljust(random.randint(0, self._most_bytes), b".")

    def _write(self, connection: WireConnection, partition: int, values: Sequence[bytes]) -> None:
        """Write a batch, and wait for the answer."""
        data = ProduceRequest.TopicProduceData
        batch = encode_batch([(number, _now_ms(), None, value, ()) for number, value in enumerate(values)])
        sent = data(name=TOPIC, partition_data=[data.PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[sent])
        (answer,) = connection.call(request, PRODUCE_VERSION).responses[0].partition_responses
        assert answer.error_code == 0, f"a producer was answered {answer.error_code}"
        self.account.produced(partition, answer.base_offset, values)

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
                        # On a busy machine time runs out. Whoever ended by that would release what it has not seen.
                        with contextlib.suppress(OperationTimeoutError):
                            consumer.commit_sync(timeout_ms=200)
        finally:
            consumer.close(timeout_ms=0)

    # ---- the end

    def _drain(self, servers: str) -> bool:
        """Consume what is left: everything comes that nobody may have accepted. False: it does not.

        A record at the end of each partition shows that nothing else would come.
        """
        with WireConnection(servers) as connection:
            for partition in range(PARTITIONS):
                self._write(connection, partition, [self._new_value(self._random)])
        limit_s = time.monotonic() + PATIENCE_S
        told = Told(self.account)
        with _consumer(servers) as consumer:
            consumer.set_acknowledgement_commit_callback(told.answered)
            while missing := self.account.outstanding():
                if time.monotonic() > limit_s:
                    self.account.complaints.append(f"never delivered: {sorted(missing)[:10]}")
                    return False
                for record in consumer.poll(timeout_ms=1_000):
                    told.delivered(record)
                    told.sent(record, AcknowledgeType.ACCEPT)
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT)
            consumer.commit_sync()
        with WireConnection(servers) as connection:
            wanted = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
            answer = connection.call(OffsetFetchRequest(group_id="offsets", topics=[wanted], require_stable=False), 7)
        self.account.compare_offset(answer.topics[0].partitions[0].committed_offset)
        return True

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


def _join(clients: Iterable[threading.Thread]) -> None:
    """Wait for clients whose broker is dead. Raises `TimeoutError` with what the first one does that does not end."""
    end_at_s = time.monotonic() + PATIENCE_S
    for client in clients:
        client.join(max(0.0, end_at_s - time.monotonic()))
        if client.is_alive() and client.ident is not None:
            frame = sys._current_frames().get(client.ident)
            raise TimeoutError(f"{client.name} does not end:\n{''.join(traceback.format_stack(frame))}")


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
