"""A broker that is killed, returns garbage or closes mid-frame: a clear error within the timeouts, no thread left.

Every consumer here is closed by its test or fixture, after which the directory's fixture demands that no thread is
left behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from facade.delivery_checks import Outcomes, counted, left_for_others, only_result, outcomes_of, produce_values
from support.consumers import Consumer, MakeConsumer, Record
from support.waiting import offsets, poll_until
from support.wire_connection import WireConnection

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    BrokerUnreachableError,
    NotLeaderOrFollowerError,
    OperationTimeoutError,
    OutcomeUnknownError,
    RemoteProtocolError,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest, MetadataRequest
from kafka_share.protocol.configs import IncrementalAlterConfigsRequest
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest
from kafka_share.protocol.topics import CreateTopicsRequest

APIS = [
    ApiVersionsRequest,
    MetadataRequest,
    FindCoordinatorRequest,
    ShareGroupHeartbeatRequest,
    ShareFetchRequest,
]
FAULTS: dict[str, Callable[[ReferenceBroker, int, int], None]] = {
    "garbage": lambda broker, api, times: broker.faults.garbage(api, times),
    "cut frame": lambda broker, api, times: broker.faults.cut_frame(api, times),
    "dropped before": lambda broker, api, times: broker.faults.drop(api, times),
    "dropped after": lambda broker, api, times: broker.faults.drop(api, times, applied=True),
    "lost reply": lambda broker, api, times: broker.faults.lose_reply(api, times),
}
SHORT: dict[str, Any] = {
    "request_timeout_ms": 1_000,
    "fetch_max_wait_ms": 100,
    "socket_connection_setup_timeout_ms": 1_000,
    "reconnect_backoff_max_ms": 100,
}
"""So that what is never answered is given up soon, and what is answered comes in time on a busy machine."""
OUTAGE_MS = 2_000
"""The same for a broker that never answers."""


@pytest.mark.behaviour("membership")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__)
def test_records_arrive_all_the_same_when_answers_are_broken_for_a_while(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, api: type, fault: str
) -> None:
    """A consumer gets over broken answers to any of its requests: every record arrives and is accepted."""
    produce_values(broker, topic, 3)
    consumer = make_consumer(topic, **SHORT)
    FAULTS[fault](broker, api.API_KEY, 2)  # type: ignore[attr-defined]
    seen: set[int] = set()
    while len(seen) < 3:
        seen.update(offsets(poll_through_protocol_errors(consumer)))
    consumer.commit_sync()
    assert broker.faults.pending() == 0
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


def poll_through_protocol_errors(consumer: Consumer) -> list[Record]:
    """Poll until records come; what a broker's garbage makes poll raise is no reason to stop."""
    found: list[Record] = []
    while not found:
        with contextlib.suppress(RemoteProtocolError):
            found = poll_until(consumer, 1)
    return found


@pytest.mark.better_than_java("outcome-unknown")
@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize("fault", FAULTS)
def test_commit_says_that_the_outcome_is_unknown_when_its_answer_is_broken(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, fault: str
) -> None:
    """A commit whose answer is broken returns that its outcome is unknown; the callback gets it, too."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic, **SHORT)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    FAULTS[fault](broker, ShareAcknowledgeRequest.API_KEY, 1)
    error = only_result(consumer.commit_sync())
    assert isinstance(error, OutcomeUnknownError)
    assert "may or may not have been applied" in str(error)
    assert broker.bootstrap_servers in str(error), "the message names the broker"
    assert outcomes.failed == [(0, OutcomeUnknownError), (1, OutcomeUnknownError)]
    again = left_after_accepting(broker, consumer)
    if fault == "dropped before":
        assert again == [(0, 2), (1, 2)], "it was not applied, and the records came again"
    else:
        assert again == [], "it was applied"


def left_after_accepting(broker: ReferenceBroker, consumer: Consumer) -> list[tuple[int, int]]:
    """What the consumer itself gets until a record that is written now."""
    broker.produce("t", b"the end")
    found = []
    while True:
        records = poll_through_protocol_errors(consumer)
        found += [record for record in records if record.value != b"the end"]
        if len(records) > len([record for record in records if record.value != b"the end"]):
            return counted(found)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__)
def test_poll_raises_when_a_broker_answers_garbage(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, api: type
) -> None:
    """Bytes that are no Kafka are a RemoteProtocolError from poll, which names the broker; polling goes on."""
    consumer = make_consumer(topic, **SHORT)
    broker.faults.garbage(api.API_KEY)  # type: ignore[attr-defined]
    with pytest.raises(RemoteProtocolError) as raised:
        poll_until(consumer, 1)
    assert broker.bootstrap_servers in str(raised.value)
    broker.produce(topic, b"later")
    assert [record.value for record in poll_until(consumer, 1)] == [b"later"]


@pytest.mark.better_than_java("outage-is-raised")
def test_poll_raises_once_per_outage_when_no_broker_answers(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """No answer of any broker for default_api_timeout_ms: poll raises, once, and works when the broker is back."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic, default_api_timeout_ms=OUTAGE_MS, **SHORT)
    poll_until(consumer, 1)
    consumer.commit_sync()
    broker.stop_node(1)
    with pytest.raises(BrokerUnreachableError, match="No broker has answered"):
        poll_until(consumer, 1)
    for _ in range(5):
        assert not consumer.poll(timeout_ms=100)
    broker.start_node(1)
    broker.produce(topic, b"after the outage")
    assert b"after the outage" in [record.value for record in poll_until(consumer, 1)]


@pytest.mark.better_than_java("outage-is-raised")
def test_poll_raises_when_no_broker_was_ever_there(make_consumer: MakeConsumer) -> None:
    """A wrong bootstrap address is not an endless silence: poll says that nobody answers, and where it looked."""
    consumer = make_consumer("t", bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=OUTAGE_MS, **SHORT)
    with pytest.raises(BrokerUnreachableError, match=r"No broker has answered.*127\.0\.0\.1:1"):
        poll_until(consumer, 1)


@pytest.mark.behaviour("share sessions")
def test_commit_fails_at_once_when_the_node_was_stopped(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A commit for a broker that has stopped fails at once, and the result says why: the session has ended."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    poll_until(consumer, 2)
    broker.stop_node(1)
    error = only_result(consumer.commit_sync())
    assert isinstance(error, NotLeaderOrFollowerError | OutcomeUnknownError)
    assert consumer.commit_sync() == {}
    broker.start_node(1)
    assert counted(poll_until(consumer, 2)) == [(0, 2), (1, 2)]


@pytest.mark.behaviour("fetching")
def test_consumption_goes_on_elsewhere_when_one_of_three_nodes_stops() -> None:
    """The partitions of a stopped node are led by others; their records arrive, and poll raises nothing."""
    with ReferenceBroker(nodes=3) as broker:
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.create_topic("t", partitions=3)
        consumer: Consumer = KafkaShareConsumer(
            "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", client_id="stubborn"
        )
        with consumer:
            for partition in range(3):
                broker.produce("t", b"before", partition=partition)
            poll_until(consumer, 3)
            assert set(consumer.commit_sync().values()) == {None}
            broker.stop_node(broker.leader("t", 1))
            for partition in range(3):
                broker.produce("t", b"after", partition=partition)
            seen: set[int] = set()
            while seen != {0, 1, 2}:
                seen |= {record.partition for record in poll_until(consumer, 1) if record.value == b"after"}


# ---- a broker process that is killed


class BrokerProcess:
    """`kafka-share-broker` in a process of its own, with topic t of one partition, read from its start."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from kafka_share.cli.broker import main; main()"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.bootstrap_servers = self.process.stdout.readline().partition("bootstrap: ")[2].strip()
        try:
            self._set_up()
        except BaseException:
            self.kill()
            raise

    def _set_up(self) -> None:
        self._wire = WireConnection(self.bootstrap_servers)
        group = IncrementalAlterConfigsRequest.AlterConfigsResource
        earliest = group.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        altered = self._wire.call(
            IncrementalAlterConfigsRequest(resources=[group(resource_type=32, resource_name="g", configs=[earliest])]),
            1,
        )
        assert altered.responses[0].error_code == 0
        topic = CreateTopicsRequest.CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        assert self._wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 5).topics[0].error_code == 0

    def produce(self, value: bytes) -> None:
        topic = ProduceRequest.TopicProduceData
        records = encode_batch([(0, 1_700_000_000_000, None, value, [])])
        data = topic(name="t", partition_data=[topic.PartitionProduceData(index=0, records=records)])
        answer = self._wire.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[data]), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def kill(self) -> None:
        """SIGKILL: no farewell, the kernel closes the connections."""
        self.process.kill()
        self.process.wait()

    def stand_still(self) -> None:
        """SIGSTOP: returns when the process has stopped, which on a busy machine may be later than the signal."""
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def close(self) -> None:
        self._wire.close()
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def broker_process() -> Iterator[BrokerProcess]:
    running = BrokerProcess()
    yield running
    running.close()


def killed_under_a_holder(broker_process: BrokerProcess, **config: Any) -> tuple[Consumer, Outcomes]:
    """A consumer that holds one record of a broker that has just been killed."""
    broker_process.produce(b"held")
    consumer: Consumer = KafkaShareConsumer(
        "t", bootstrap_servers=broker_process.bootstrap_servers, group_id="g", **{**SHORT, **config}
    )
    outcomes = outcomes_of(consumer)
    assert [record.value for record in poll_until(consumer, 1)] == [b"held"]
    broker_process.kill()
    return consumer, outcomes


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
@pytest.mark.behaviour("explicit acknowledgement")
def test_commit_poll_and_close_end_with_clear_errors_when_the_broker_is_killed(broker_process: BrokerProcess) -> None:
    """When the broker is killed a commit has an error as its result, poll raises one, and close ends in time."""
    consumer, outcomes = killed_under_a_holder(broker_process, default_api_timeout_ms=OUTAGE_MS)
    error = only_result(consumer.commit_sync())
    assert isinstance(error, NotLeaderOrFollowerError | OutcomeUnknownError)
    assert [offset for offset, _ in outcomes.failed] == [0]
    with pytest.raises(BrokerUnreachableError, match="No broker has answered"):
        poll_until(consumer, 1)
    consumer.close(timeout_ms=300)


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_close_reports_what_it_could_not_send_when_the_broker_is_killed(broker_process: BrokerProcess) -> None:
    """Acknowledgements that close cannot get out any more are reported as failed; close itself raises nothing."""
    consumer, outcomes = killed_under_a_holder(broker_process)
    consumer.poll(timeout_ms=0)
    consumer.close(timeout_ms=300)
    assert [offset for offset, _ in outcomes.failed] == [0]


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_unsubscribe_ends_at_its_timeout_when_the_broker_is_killed(broker_process: BrokerProcess) -> None:
    """Leaving a group whose coordinator is gone ends at the latest with default_api_timeout_ms."""
    consumer, _ = killed_under_a_holder(broker_process, default_api_timeout_ms=OUTAGE_MS)
    consumer.unsubscribe()
    assert consumer.subscription() == frozenset()
    consumer.close(timeout_ms=300)


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_commit_raises_at_its_timeout_when_the_broker_process_stands_still(broker_process: BrokerProcess) -> None:
    """A broker that is stopped, not dead, keeps its connections: commit_sync raises when its own time is over."""
    broker_process.produce(b"held")
    consumer: Consumer = KafkaShareConsumer("t", bootstrap_servers=broker_process.bootstrap_servers, group_id="g")
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 1)
    broker_process.stand_still()
    with pytest.raises(OperationTimeoutError):
        consumer.commit_sync(timeout_ms=100)
    consumer.close(timeout_ms=300)
    assert [offset for offset, _ in outcomes.failed] == [0]
