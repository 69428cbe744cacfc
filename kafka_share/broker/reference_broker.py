"""`ReferenceBroker`: a Kafka with share groups in the process of a test, on loopback sockets.

For users' tests and our own, and for the command line. It runs on a daemon thread; every method may be called from any
thread, and from a coroutine, and is carried out there. Nothing here knows the protocol: it starts and stops a
`BrokerServer` and reaches into its `Cluster`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from kafka_share.broker.api_keys import api_key_of
from kafka_share.broker.client_metrics import MetricsSubscription
from kafka_share.broker.clock import BrokerClock
from kafka_share.broker.cluster import Cluster
from kafka_share.broker.configs.broker_settings import broker_settings, config_text
from kafka_share.broker.configs.configs import ConfigRefusedError, ResourceType
from kafka_share.broker.conversation import DEFAULT_LIMITS
from kafka_share.broker.durability.fsync_policy import DEFAULT_INTERVAL_MS, fsync_policy
from kafka_share.broker.durability.held_answers import HeldAnswers
from kafka_share.broker.durability.opening import open_cluster
from kafka_share.broker.inspection import (
    ShareGroupSnapshot,
    StoredRecord,
    group_types,
    records_in,
    snapshot_of_group,
    snapshot_of_share_partition,
)
from kafka_share.broker.kafka_version import DEFAULT_VERSION, behaviour_of
from kafka_share.broker.loop_thread import LoopThread
from kafka_share.broker.machine import BrokerMachine
from kafka_share.broker.metrics import BrokerMetrics, metrics_of
from kafka_share.broker.quotas.entity import host_of
from kafka_share.broker.record_input import record_of, records_of
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.request_log import RequestLog
from kafka_share.broker.resolver import address_of_host
from kafka_share.broker.security.guard import Guard
from kafka_share.broker.security.settings import Security
from kafka_share.broker.server import BrokerServer
from kafka_share.broker.share.state_records import StateKey
from kafka_share.broker.storage.topics import MAX_PARTITIONS, topic_name_problem
from kafka_share.errors import ConfigurationError, IllegalStateError, InvalidArgumentError, KafkaStorageError
from kafka_share.protocol.record_batches import encode_batch, iter_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from kafka_share.broker.api_keys import Api
    from kafka_share.broker.client_metrics import MetricsPush
    from kafka_share.broker.durability.persistence import Persistence
    from kafka_share.broker.events import Message, RequestContext
    from kafka_share.broker.faults import FaultPlan
    from kafka_share.broker.inspection import SharePartitionSnapshot
    from kafka_share.broker.limits import Limits
    from kafka_share.broker.record_input import Data, HeadersInput, RecordInput, Written
    from kafka_share.broker.security.acls import Acl, Acls
    from kafka_share.broker.storage.topics import Partition, Topic
    from kafka_share.protocol.record_format import Codec

T = TypeVar("T")

MAX_NODES: Final = 16


class ReferenceBroker:
    """A cluster of 1 to 16 nodes, numbered from 1.

    `config` has broker settings by their Kafka names; values may be strings, numbers or booleans. `port` is that of the
    first node (0: any free port); further nodes get the ports after it, or free ones. `clock` is a `BrokerClock`: real
    time by default, `BrokerClock(manual=True)` stands still until `advance`. `share_version=0` switches share groups
    off. `kafka_version` is the minor version of Kafka whose behaviour it has: "4.1", "4.2", "4.3" or "4.4".
    `random_seed` makes topic ids and the cluster's id repeatable. `keep_requests=False` keeps no requests for
    `requests()`. `limits` are what clients may cost. `security` is what clients have to show; by default nothing, and
    what they send is not encrypted.

    With `data_dir`, a directory that is made if need be, records and all that was set are kept there, and each start
    begins with what is there. `fsync` says what is synced before it is answered, as in {"share": "interval"}: always
    (the default, but for "produce-acks-1") or interval, for any of produce, produce-acks-1, share, groups and metadata,
    or all; the rest is synced every `fsync_interval_ms`. See docs/reference-broker.md.

    Raises `ConfigurationError` for an unknown setting or version, or a value out of range. On entering, `OSError` if it
    cannot listen, and `ConfigurationError` if the data directory cannot be used.
    """

    def __init__(
        self,
        nodes: int = 1,
        host: str = "127.0.0.1",
        port: int = 0,
        config: Mapping[str, str | int | bool] | None = None,
        clock: BrokerClock | None = None,
        *,
        advertised_host: str | None = None,
        share_version: int = 1,
        kafka_version: str = DEFAULT_VERSION,
        random_seed: int | None = None,
        keep_requests: bool = True,
        security: Security | None = None,
        limits: Limits = DEFAULT_LIMITS,
        data_dir: Path | str | None = None,
        fsync: Mapping[str, str] | None = None,
        fsync_interval_ms: int = DEFAULT_INTERVAL_MS,
    ) -> None:
        if not 1 <= nodes <= MAX_NODES:
            raise InvalidArgumentError(f"a reference broker has 1 to {MAX_NODES} nodes, not {nodes}")
        behaviour = behaviour_of(kafka_version)
        random = Random(random_seed)
        self.clock: BrokerClock = BrokerClock() if clock is None else clock
        self._new_cluster = partial(
            Cluster,
            range(1, nodes + 1),
            config=broker_settings(nodes, config or {}, behaviour),
            cluster_id=str(UUID(int=random.getrandbits(128), version=4)),
            random=random,
            share_version=share_version,
            behaviour=behaviour,
        )
        advertised = advertised_host or ("127.0.0.1" if host in ("0.0.0.0", "") else host)
        security = Security("PLAINTEXT") if security is None else security
        if not isinstance(security, Security):
            raise ConfigurationError(f"security is a Security, not {type(security).__name__}")
        self._guard = Guard(security, (host, advertised))
        machine, requests = BrokerMachine(self._guarded_cluster()), RequestLog(keep=keep_requests)
        self._server = BrokerServer(
            machine,
            self.clock,
            requests,
            host=host,
            advertised_host=advertised,
            limits=limits,
            tls=self._guard.tls,
            sasl=self._guard.sasl,
        )
        self._port = port
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._fsync_policy = fsync_policy(fsync or {}, fsync_interval_ms)
        self._persistence: Persistence | None = None
        """Of a broker that runs with a data directory."""
        self._thread = LoopThread("kafka-share-broker")

    def __repr__(self) -> str:
        nodes = ",".join(f"{node.host}:{node.port}" for node in self._cluster.nodes.values() if node.port)
        state = "running" if self.is_running else "stopped" if nodes else "not started"
        return f"<ReferenceBroker {nodes + ' ' if nodes else ''}{state}, Kafka {self._cluster.behaviour.version}>"

    def _guarded_cluster(self) -> Cluster:
        """A new cluster that knows who may do what."""
        cluster = self._new_cluster()
        self._guard.instruct(cluster)
        return cluster

    @property
    def _cluster(self) -> Cluster:
        return self._server.cluster

    # ---- life

    @property
    def is_running(self) -> bool:
        """Whether it has been started and not been stopped."""
        return self._thread.is_running

    def start(self) -> None:
        """Listen; clients may connect when this returns. `with` and `async with` do the same.

        After `stop` it is the same cluster that starts again, with its topics and on its ports; with a data directory
        it is what is there. Raises `IllegalStateError` if it runs, `OSError` if it cannot listen, and
        `ConfigurationError` if the data directory cannot be used.
        """
        self._guard.warn_if_open(self._server.host)
        self._thread.start()
        try:
            if self._data_dir is not None:
                self._persistence = self._read(self._data_dir)
            self._thread.run(self._start_nodes)
        except BaseException:
            self._thread.stop()
            self._let_data_go()
            raise

    def _read(self, data_dir: Path) -> Persistence:
        """Go on with the cluster that is in the directory. Raises `ConfigurationError`."""
        old = self._cluster
        persistence, cluster = open_cluster(
            data_dir, self._new_cluster, old.cluster_id, len(old.nodes), self.clock.now_ms()
        )
        self._guard.instruct(cluster)
        self._server.install(BrokerMachine(cluster), HeldAnswers(persistence, self._fsync_policy))
        return persistence

    def _let_data_go(self) -> None:
        if self._persistence is not None:
            self._persistence.close()
            self._persistence = None

    def stop(self) -> None:
        """Stop all nodes: connections break, and what nodes keep in memory is lost. Does nothing if it does not run."""
        if not self.is_running:
            return
        try:
            self._thread.run(self._server.close)
        finally:
            self._thread.stop()
            self._let_data_go()

    def __enter__(self) -> ReferenceBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> ReferenceBroker:
        """As `with`: the broker has a thread of its own, so blocking clients work in the same coroutine."""
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _start_nodes(self) -> None:
        try:
            for node in self._cluster.nodes.values():
                await self._server.start_node(node.id, node.port or (self._port + node.id - 1 if self._port else 0))
        except BaseException:
            await self._server.close()
            raise

    def reset(self) -> None:
        """Make it as it was when it had just started: no topics, groups, faults or requests, settings as given.

        Connections break, nodes that were stopped run again, the clock is as if never advanced, and addresses stay. A
        consumer that is still open connects and joins its group again, so close what you have opened before. Raises
        `OSError` if a stopped node cannot listen, and `IllegalStateError` if there is a data directory, which stays.
        """
        if self._data_dir is not None:
            raise IllegalStateError("a broker with a data directory cannot be reset; give another one a new directory")
        self._thread.run(lambda: self._server.renew(BrokerMachine(self._guarded_cluster())))

    def _call(self, function: Callable[[], T]) -> T:
        """Run `function` on the broker's thread and then let the cluster send what follows from it."""
        return self._thread.call(lambda: self._call_here(function))

    def _call_here(self, function: Callable[[], T]) -> T:
        try:
            try:
                return function()
            finally:
                self._server.run()
                problem = self._server.commit()
                if problem is not None:
                    raise problem
        except Refusal as refusal:
            if refusal.code == KafkaStorageError.code:
                raise KafkaStorageError(refusal.message) from None
            raise InvalidArgumentError(refusal.message) from None
        except ConfigRefusedError as error:
            raise ConfigurationError(str(error)) from None

    # ---- what tests use

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every node, running or not, joined by commas. Raises `IllegalStateError` before the start."""
        nodes = self._cluster.nodes.values()
        if not all(node.port for node in nodes):
            raise IllegalStateError(
                "the broker has no address before it runs: use `with`, `async with` or start() first"
            )
        return ",".join(f"{node.host}:{node.port}" for node in nodes)

    def client_settings(self, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """The settings of a `KafkaShareConsumer` or admin client that get it in; all but the group's.

        `user` is one of `Security.users`; `mechanism` is SCRAM-SHA-256 by default. Without SASL it is the common name
        in a certificate that is made for it, where the broker's own certificates were made too. Raises
        `InvalidArgumentError`, and `IllegalStateError` before the start.
        """
        return {"bootstrap_servers": self.bootstrap_servers, **self._guard.client_settings(user, mechanism)}

    @property
    def faults(self) -> FaultPlan:
        """The faults that are to happen; plan them here."""
        return self._server.faults

    def requests(self, api: Api | None = None) -> list[tuple[RequestContext, Message]]:
        """The last requests that arrived (of an API, or all), oldest first; at most 10,000 or 16 MiB of them.

        The API is an `ApiKey`, Kafka's name ("ShareFetch") or its number.
        """
        key = None if api is None else api_key_of(api)
        return self._call(lambda: self._server.requests.of(key))

    def clear_requests(self) -> None:
        """Start the log of requests anew."""
        self._call(self._server.requests.clear)

    def advance(self, span_ms: int) -> None:
        """Push the broker's clock forward; what falls due has been done when this returns."""
        self._call(lambda: self.clock.advance(span_ms))

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> UUID:
        """Make a topic; returns its id. Raises `InvalidArgumentError` if it exists or the arguments cannot work."""

        def create() -> UUID:
            cluster = self._cluster
            problem = topic_name_problem(name)
            if problem is None and cluster.topics.by_name(name) is not None:
                problem = f"topic {name!r} exists"
            factor = replication_factor or cluster.configs.broker_int("default.replication.factor")
            if problem is None and not (1 <= partitions <= MAX_PARTITIONS and 1 <= factor <= len(cluster.nodes)):
                problem = f"{partitions} partitions with {factor} replicas are not possible here"
            if problem is not None:
                raise InvalidArgumentError(problem)
            cluster.configs.set_values(ResourceType.TOPIC, name, config or {})
            return cluster.create_topic(name, cluster.topics.place(partitions, factor)).id

        return self._call(create)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with everything in it."""

        def delete() -> None:
            self._cluster.delete_topic(self._topic(name), self.clock.now_ms())

        self._call(delete)

    def produce(
        self,
        topic: str,
        value: Data,
        key: Data = None,
        partition: int = 0,
        *,
        headers: HeadersInput = (),
        timestamp_ms: int | None = None,
    ) -> int:
        """Append one record, as a batch by itself; returns its offset. The topic has to exist.

        Text is written as UTF-8. `headers` are a mapping, or pairs of name and value. Raises `InvalidArgumentError`.
        """
        return self._append(topic, [record_of(key, value, headers)], partition, timestamp_ms)

    def produce_batch(
        self,
        topic: str,
        records: Iterable[RecordInput],
        partition: int = 0,
        *,
        timestamp_ms: int | None = None,
    ) -> int:
        """Append records as one batch; returns the offset of the first.

        A record is a value, (key, value), or (key, value, headers). Raises `InvalidArgumentError`.
        """
        return self._append(topic, records_of(records), partition, timestamp_ms)

    def _append(self, topic: str, records: list[Written], partition: int, timestamp_ms: int | None) -> int:
        at_ms = self.clock.now_ms() if timestamp_ms is None else timestamp_ms
        batch = encode_batch([(index, at_ms, r.key, r.value, r.headers) for index, r in enumerate(records)])
        return self._call(
            lambda: self._cluster.append(self._partition(topic, partition), batch, self.clock.now_ms())[0]
        )

    def append_batches(self, topic: str, batches: bytes, partition: int = 0) -> int:
        """Append record batches as they are, without the checks of a producer's; returns the offset of the first.

        For logs that time or damage made: holes that compaction left, a wrong checksum, other codecs, old formats. The
        batches get the next offsets; messages of the formats 0 and 1 keep theirs, which have to follow.
        Raises `RemoteProtocolError` for bytes that cannot even be told apart into batches, and `InvalidArgumentError`
        if there is no whole batch, or a message whose offset the log has.
        """
        if next(iter_batches(batches), None) is None:
            raise InvalidArgumentError("these bytes hold no whole record batch")
        return self._call(
            lambda: self._cluster.append_unchecked(self._partition(topic, partition), batches, self.clock.now_ms())
        )

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Delete the records below an offset; returns the partition's new start offset."""
        return self._call(
            lambda: self._cluster.delete_records(self._partition(topic, partition), before_offset, self.clock.now_ms())
        )

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The offset that the next record will get."""
        return self._call(lambda: self._partition(topic, partition).log.high_watermark)

    def set_group_config(self, group: str, config: Mapping[str, str | int | bool] | None = None, **keys: Any) -> None:
        """Set dynamic configuration of a share group. Names as in Kafka, or with underscores.

        `set_group_config("g", share_auto_offset_reset="earliest")` and `set_group_config("g",
        {"share.auto.offset.reset": "earliest"})` are the same. Raises `ConfigurationError`; then nothing changed.
        """
        values = {name.replace("_", "."): config_text(value) for name, value in {**(config or {}), **keys}.items()}
        self._call(lambda: self._cluster.configs.set_values(ResourceType.GROUP, group, values))

    def group_config(self, group: str) -> dict[str, str]:
        """What is set on the group itself, by Kafka's names; everything else has the broker's values."""
        return self._call(lambda: self._cluster.configs.own_values(ResourceType.GROUP, group))

    def set_broker_config(self, config: Mapping[str, str | int | bool]) -> None:
        """Change broker settings while it runs. Raises `ConfigurationError`; then nothing changed."""
        values = {name: config_text(value) for name, value in config.items()}
        self._call(lambda: self._cluster.configs.set_values(ResourceType.BROKER, "", values))

    def acls(self) -> list[Acl]:
        """The access control lists as they are now, in the order in which they came."""
        return self._call(lambda: list(self._cluster.acls))

    def add_acls(self, *acls: Acl) -> None:
        """Add access control lists. Raises `IllegalStateError` unless the broker's `Security` has any, or super users.

        What they allow and deny holds for the next request of everybody who is connected.
        """

        def add() -> None:
            for acl in acls:
                self._known_acls().add(acl)

        self._call(add)

    def remove_acls(self, *acls: Acl) -> None:
        """Remove access control lists, where they are there. Raises `IllegalStateError` as `add_acls`."""

        def remove() -> None:
            known = self._known_acls()
            for acl in acls:
                if acl in known:
                    known.remove(acl)

        self._call(remove)

    def _known_acls(self) -> Acls:
        if self._cluster.authorizer is None:
            raise IllegalStateError("this broker asks for no ACLs: it was made without acls and super_users")
        return self._cluster.acls

    def set_quota(self, entity: Mapping[str, str | None], **values: float | None) -> None:
        """Set client quotas: `set_quota({"user": "alice"}, producer_byte_rate=1000)`; None removes one. Of a "user", a
        "client-id" or both, or an "ip" (or host); the name None is all others. Raises `InvalidArgumentError`."""
        whose = tuple(sorted(entity.items()))
        host = host_of(whose)
        address = host and address_of_host(host)
        self._call(lambda: self._cluster.client_quotas.alter(whose, values, address=address))

    def subscribe_to_client_metrics(
        self,
        *metrics: str,
        interval_ms: int = 300_000,
        max_bytes: int = 1_048_576,
        delta: bool = True,
        codecs: Sequence[Codec] = ("zstd", "lz4", "gzip", "snappy"),
    ) -> None:
        """Have clients push the metrics whose names begin so ("*": all); without any name nothing is wanted any more.

        From then on connections are offered GetTelemetrySubscriptions and PushTelemetry (KIP-714), which needs the
        extra `metrics-push`. `codecs` are those that pushes may be compressed with, the preferred one first.
        """
        wanted = MetricsSubscription(metrics, interval_ms, max_bytes, delta, tuple(codecs)) if metrics else None
        self._call(lambda: self._cluster.want_client_metrics(wanted))

    def client_metrics(self) -> tuple[MetricsPush, ...]:
        """What clients have pushed, oldest first, decoded; the latest thousand."""
        return self._call(lambda: tuple(self._cluster.client_metrics.pushes))

    # ---- nodes

    def stop_node(self, node_id: int) -> None:
        """Stop a node: connections break, what it kept in memory is lost, others take over what it led."""
        self._call(lambda: self._require_running(node_id))
        self._thread.run(lambda: self._server.stop_node(node_id))

    def start_node(self, node_id: int) -> None:
        """Start a stopped node again, on the same port. Raises `OSError` if it cannot listen there."""
        if self._call(lambda: self._server.is_running(self._node(node_id))):
            raise IllegalStateError(f"node {node_id} is running")
        self._thread.run(lambda: self._server.start_node(node_id, self._cluster.nodes[node_id].port))

    def _node(self, node_id: int) -> int:
        if node_id not in self._cluster.nodes:
            raise InvalidArgumentError(f"there is no node {node_id}")
        return node_id

    def _require_running(self, node_id: int) -> None:
        if not self._server.is_running(self._node(node_id)):
            raise IllegalStateError(f"node {node_id} is not running")

    def drop_connections(self, node_id: int | None = None) -> None:
        """Break the connections to a node, or all; clients may connect again at once."""
        self._call(lambda: self._server.drop_connections(node_id))

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads the partition, -1 if none does."""
        return self._call(lambda: self._partition(topic, partition).leader_id)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make another running node the leader of a partition."""

        def move() -> None:
            self._require_running(node_id)
            self._cluster.move_leader(self._partition(topic, partition), node_id, self.clock.now_ms())

        self._call(move)

    def coordinator(self, group: str) -> int:
        """The node that coordinates a group."""
        return self._call(lambda: self._cluster.coordinator_of(group).id)

    def move_coordinator(self, group: str, node_id: int) -> None:
        """Make another running node the coordinator of a group, until it stops; the group need not exist yet."""

        def move() -> None:
            self._require_running(node_id)
            self._cluster.move_coordinator(group, node_id, self.clock.now_ms())

        self._call(move)

    # ---- inspection

    def topics(self) -> dict[str, int]:
        """The topics that exist, with their numbers of partitions; not the internal ones."""
        return self._call(lambda: {topic.name: len(topic.partitions) for topic in self._cluster.topics.public()})

    def records(self, topic: str, partition: int | None = None, *, read_committed: bool = False) -> list[StoredRecord]:
        """The records of a topic, or of one partition of it, by partition and offset.

        With `read_committed` without those of transactions that are open or were aborted. Raises
        `InvalidArgumentError` if there is no such topic or partition, and `CorruptBatchError` for a damaged batch.
        """

        def read() -> list[StoredRecord]:
            partitions = self._topic(topic).partitions if partition is None else [self._partition(topic, partition)]
            return [record for one in partitions for record in records_in(one, read_committed=read_committed)]

        return self._call(read)

    def groups(self) -> dict[str, str]:
        """The groups that exist, with their types: "share", "consumer" or "classic"."""
        return self._call(lambda: group_types(self._cluster))

    def share_group(self, group: str) -> ShareGroupSnapshot | None:
        """Members, epochs and assignment of a share group now, None if there is no such group."""
        return self._call(lambda: snapshot_of_group(self._cluster, group))

    def share_partition(self, group: str, topic: str, partition: int = 0) -> SharePartitionSnapshot | None:
        """What the leader has in memory for a group's partition: start, end, ranges with state and delivery count; None
        if no fetch has loaded it there."""
        return self._call(lambda: snapshot_of_share_partition(self._cluster, group, self._partition(topic, partition)))

    def stored_offset(self, group: str, topic: str, partition: int = 0) -> int:
        """The start offset that is stored for a group, -1 if none is; it lags one write behind the one in memory."""

        def read() -> int:
            found = self._partition(topic, partition)
            return self._cluster.share_states.summary(StateKey(group, found.topic_id, partition)).start_offset

        return self._call(read)

    def share_session_count(self, node_id: int = 1) -> int:
        """How many share sessions a node holds."""
        return self._call(lambda: len(self._cluster.share_nodes[self._node(node_id)].session_keys()))

    def metrics(self) -> BrokerMetrics:
        """The metrics as they are now, by Kafka's names: `metrics().value("InFlightMessageCount", group="g")`."""
        return self._call(lambda: metrics_of(self._cluster))

    def check(self) -> None:
        """Assert the invariants of all machines."""
        self._call(self._cluster.check)

    def _topic(self, name: str) -> Topic:
        found = self._cluster.topics.by_name(name)
        if found is None:
            raise InvalidArgumentError(f"there is no topic {name!r}")
        return found

    def _partition(self, topic: str, index: int) -> Partition:
        found = self._topic(topic)
        partition = found.partition(index)
        if partition is None:
            raise InvalidArgumentError(f"topic {topic!r} has partitions 0 to {len(found.partitions) - 1}, no {index}")
        return partition
