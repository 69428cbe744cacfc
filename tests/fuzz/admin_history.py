"""One seed of the admin client's fuzz: calls whose answers are mutated for a while, and then a sane network.

The real `AdminCore` with the real operations, under virtual time. Demanded are: every call ends in time, in a result or
in an error of the package that is no defect of it; once the network is sane, every kind of call succeeds; and no
question is asked without end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
from fuzz.fuzzed_network import FuzzedNetwork
from fuzz.lies import Effect
from fuzz.outcome import Outcome
from simulation.broker import SimulatedBroker
from simulation.connection import PORT
from simulation.driver import SimulatedProcess
from simulation.fault_profile import SETUP_TIMEOUT_MS, draw_cluster
from simulation.plan import Flavour, PlannedBatch
from simulation.producer import produce
from simulation.trace import ComplaintError, Trace
from simulation.virtual_time import VirtualTime

from kafka_share.admin_values import GroupType, OffsetSpec
from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.events import RequestContext
from kafka_share.config import ShareAdminConfig
from kafka_share.core.admin import cluster, configs, groups, log_offsets, share_offsets, topics
from kafka_share.core.admin.events import AdminOutput, CallStarted, CompleteCall
from kafka_share.core.admin.machine import AdminCore
from kafka_share.core.events import CloseRequested
from kafka_share.errors import InternalError, KafkaShareError
from kafka_share.records import TopicPartition

NAME: Final = "admin"
GROUP: Final = "g"
CALL_TIMEOUT_MS: Final = 3_000
LATE_MS: Final = 100
SETTLE_LIMIT_MS: Final = 20_000
CALLS: Final = (3, 10, 25)
REQUESTS_LIMIT: Final = 100
"""Of a call, on the average."""
_WHERE: Final = TopicPartition("a", 0)
OPERATIONS: Final[dict[str, Callable[[], Any]]] = {
    "alter_share_group_offsets": lambda: share_offsets.alter_share_group_offsets(GROUP, {_WHERE: 0}),
    "list_share_group_offsets": lambda: share_offsets.list_share_group_offsets({GROUP: None}),
    "list_groups": lambda: groups.list_groups(None, (GroupType.SHARE,)),
    "describe_share_groups": lambda: groups.describe_share_groups([GROUP], True),
    "describe_group_configs": lambda: configs.describe_group_configs([GROUP]),
    "ensure_group_config": lambda: configs.ensure_group_config(GROUP, {"share.auto.offset.reset": "earliest"}),
    "list_offsets": lambda: log_offsets.list_offsets({_WHERE: OffsetSpec.LATEST}),
    "describe_topics": lambda: topics.describe_topics(None, True),
    "describe_cluster": cluster.describe_cluster,
}
"""By the names of the admin client. The first one makes the group."""


def run_admin(seed: int, *, trace: bool = False) -> Outcome:
    """Run the history of a seed to its end, or to the first complaint."""
    history = AdminHistory(seed, is_traced=trace)
    complaint = None
    try:
        history.run()
    except Exception as error:  # noqa: BLE001 - whatever comes out of the product is the finding
        complaint = str(error) if isinstance(error, ComplaintError) else f"{type(error).__name__}: {error}"
        history.trace.add("COMPLAINT", complaint)
    mutated = history.mutations - history.network.mutations_left
    return Outcome(seed, mutated, history.trace.happened, complaint, history.excuse, history.trace.lines)


class Results:
    """What the calls of the admin client came to: the application's side of the process."""

    def __init__(self) -> None:
        self.completed: dict[int, CompleteCall] = {}
        self.is_over = False

    def take(self, output: AdminOutput, _: Callable[[Any], None]) -> None:
        if isinstance(output, CompleteCall):
            assert output.call_id not in self.completed, "a call ended twice"
            self.completed[output.call_id] = output

    def flush(self) -> None:
        """Nothing waits here."""

    def failed(self, error: BaseException) -> None:
        raise error

    def ended(self) -> None:
        self.is_over = True


class NoWitness:
    """Nobody consumes here, so there is nothing to audit."""

    def asked(self, context: RequestContext, request: Any) -> None: ...
    def answered(self, context: RequestContext, request: Any, response: Any) -> None: ...
    def stepped(self) -> None: ...


class AdminHistory:
    """The parts of one history, joined."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self._source = source = random.Random(f"admin {seed}")
        profile = draw_cluster(source)
        if profile.kafka_version == "4.1":  # which cannot do all that is asked here
            profile = attrs.evolve(profile, kafka_version="4.2")
        self.time = VirtualTime()
        self.trace = Trace(self.time, is_on=is_traced)
        self.network = FuzzedNetwork(self.time, random.Random(source.getrandbits(64)), self.trace, profile.latency_ms)
        self.network.apis = tuple(ApiKey)
        self.broker = SimulatedBroker(
            self.time,
            self.network,
            self.trace,
            nodes=profile.nodes,
            kafka_version=profile.kafka_version,
            config=profile.config(),
            source=random.Random(source.getrandbits(64)),
        )
        self.broker.witness = NoWitness()
        brokers = self.broker.cluster
        for name, partitions in profile.topics.items():
            brokers.create_topic(name, brokers.topics.place(partitions, profile.nodes))
        produce(self.broker, PlannedBatch(0, 0, 3, Flavour.PLAIN), self.trace)
        self.mutations = source.choice((1, 2, 5, 10, 25))
        self.excuse: str | None = None
        self.network.probability = source.choice((0.02, 0.1, 0.3, 0.7))
        self._results = Results()
        self._calls = 0
        config = ShareAdminConfig(
            bootstrap_servers=[f"node{node}:{PORT}" for node in self.broker.running],
            client_id=NAME,
            request_timeout_ms=source.choice((700, 1_500, 3_000)),
            retry_backoff_max_ms=500,
            reconnect_backoff_max_ms=500,
            socket_connection_setup_timeout_ms=SETUP_TIMEOUT_MS,
        )
        core = AdminCore(config, random.Random(source.getrandbits(64)))
        self._process = SimulatedProcess(NAME, config, core, self.time, self.network, self.trace, ahead_ms=1_000)
        self._process.begin(self._results)

    def run(self) -> None:
        self._succeed(next(iter(OPERATIONS)))
        self.network.mutations_left = self.mutations
        for _ in range(self._source.choice(CALLS)):
            name = self._source.choice(list(OPERATIONS))
            self._start(name)
            self.time.run_until(self.time.now_ms + self._source.choice((0, 0, 20, 300)))
        self._all_end()
        self.network.be_honest()
        self.trace.add("SANE", f"lies: {[str(lie) for lie in self.network.lies]}")
        for name in OPERATIONS:
            self._succeed(name)
        self._be_silent()
        self._process.post(CloseRequested((), self._process.now_ms()))
        self.time.run_until(self.time.now_ms + 1)
        if not self._results.is_over:
            raise ComplaintError("it did not close at once")
        self.broker.cluster.check()

    # ---- calls

    def _start(self, name: str) -> int:
        self._calls += 1
        self.trace.add(f"CALL {self._calls}: {name}")
        self._process.post(CallStarted(self._calls, OPERATIONS[name](), CALL_TIMEOUT_MS))
        return self._calls

    def _all_end(self) -> None:
        """Every call has ended when its time is up."""
        self.time.run_until(self.time.now_ms + CALL_TIMEOUT_MS + LATE_MS)
        for number in range(1, self._calls + 1):
            self._error_of(number)
        asked = sum(self.network.asked.values())
        if asked > REQUESTS_LIMIT * self._calls:
            raise ComplaintError(f"{self._calls} calls have sent {asked} requests")

    def _error_of(self, number: int) -> KafkaShareError | None:
        """The error that an ended call raises, or one of the errors in its result."""
        completed = self._results.completed.get(number)
        if completed is None:
            raise ComplaintError(f"call {number} did not end in its time")
        values = completed.value.values() if isinstance(completed.value, dict) else [completed.value]
        errors = [completed.error, *(value for value in values if isinstance(value, KafkaShareError))]
        error = next(filter(None, errors), None)
        if isinstance(error, InternalError):
            raise ComplaintError(f"call {number} ended in a defect: {error}")
        self.trace.count("call succeeded" if error is None else f"call raised {type(error).__name__}")
        self.trace.add(f"END OF {number}:", error or "success")
        return error

    def _succeed(self, name: str) -> None:
        """Brokers are sane: the call succeeds sooner or later, unless a lie that lasts explains that it does not."""
        silences = [lie.until_ms for lie in self.network.lies if lie.effect is Effect.SILENCE]
        limit_ms = max([self.time.now_ms, *silences]) + SETTLE_LIMIT_MS
        while True:
            number = self._start(name)
            self.time.run_until(self.time.now_ms + CALL_TIMEOUT_MS + LATE_MS)
            error = self._error_of(number)
            if error is None:
                return
            if self.time.now_ms >= limit_ms:
                break
        reasons = list(self._lasting())
        if not reasons:
            raise ComplaintError(f"{name} raises {error!r}, {SETTLE_LIMIT_MS} ms after the last lie")
        self.excuse = "; ".join(reasons)

    def _lasting(self) -> Iterator[str]:
        """Versions of the APIs are asked for once on each connection."""
        wires = {wire.id for wire in self.network.wires_of(NAME)}
        yield from (str(lie) for lie in self.network.lies if lie.effect is Effect.VERSIONS and lie.wire_id in wires)

    def _be_silent(self) -> None:
        """Without a call nothing is asked."""
        before = sum(self.network.asked.values())
        self.time.run_until(self.time.now_ms + SETTLE_LIMIT_MS)
        asked = sum(self.network.asked.values()) - before
        if asked:
            raise ComplaintError(f"{asked} requests without a call")
