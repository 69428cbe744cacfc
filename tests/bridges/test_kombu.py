"""The transport of kombu: messages are acknowledged, requeued and rejected one by one; Celery runs tasks over it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from bridges.conftest import GROUP, TOPIC, failing_twice, left_over
from support.documentation import environment
from support.waiting import patience_s, wait_until

from kafka_share._version import VERSION
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    ConfigurationError,
    GroupAuthorizationFailedError,
    OperationTimeoutError,
    ProduceError,
)
from kafka_share.handling.leasing import LeasingConsumer

pytest.importorskip("kombu", reason="kombu is not installed: pip install 'kafka-share[celery]'")
from kombu import Connection, Consumer, Message, Queue

import kafka_share.bridges.kombu  # noqa: F401 - it makes the URLs known


def connected(broker: ReferenceBroker, **options: Any) -> Connection:
    address = broker.bootstrap_servers
    return Connection(f"kafka-share://{address}", transport_options={"group_id": GROUP, **options})


@pytest.fixture
def connection(broker: ReferenceBroker) -> Iterator[Connection]:
    with connected(broker) as made:
        yield made


class Received:
    """What a consumer of kombu was given."""

    def __init__(self, connection: Connection, prefetch_count: int = 0, **options: Any) -> None:
        self.messages: list[Message] = []
        self._connection = connection
        channel = connection.channel()
        self.consumer = Consumer(channel, [Queue(TOPIC)], on_message=self.messages.append, **options)
        if prefetch_count:
            self.consumer.qos(prefetch_count=prefetch_count)
        self.consumer.consume()

    def wait_for(self, count: int) -> list[Message]:
        def look() -> bool:
            self.look()
            return len(self.messages) >= count

        wait_until(look)
        return self.messages

    def look(self) -> None:
        """Once, for a moment."""
        try:
            self._connection.drain_events(timeout=0.01)
        except TimeoutError:
            return


def send(connection: Connection, *bodies: str) -> None:
    with connection.Producer() as producer:
        for body in bodies:
            producer.publish(body, routing_key=TOPIC)


def test_each_message_is_acknowledged_requeued_or_rejected_by_itself(
    broker: ReferenceBroker, connection: Connection
) -> None:
    """The middle one comes again, on its second delivery; the others are done."""
    send(connection, "accept", "requeue", "reject")
    received = Received(connection)
    one, two, three = received.wait_for(3)
    three.reject()
    one.ack()
    two.requeue()
    again = received.wait_for(4)[3]
    assert [message.payload for message in received.messages] == ["accept", "requeue", "reject", "requeue"]
    assert (two.delivery_info["redelivered"], again.delivery_info["redelivered"]) == (False, True)
    again.ack()
    connection.release()
    assert left_over(broker) == []


def test_what_is_not_acknowledged_when_a_connection_closes_is_for_others(broker: ReferenceBroker) -> None:
    """One message had been taken, another one had not: the next connection gets both at once."""
    with connected(broker) as first:
        send(first, "taken", "waiting")
        Received(first, prefetch_count=1).wait_for(1)
    with connected(broker) as second:
        received = Received(second)
        assert sorted(message.payload for message in received.wait_for(2)) == ["taken", "waiting"]
        for message in received.messages:
            message.ack()
    assert left_over(broker) == []


def test_no_more_messages_are_delivered_than_the_prefetch_count_says(
    broker: ReferenceBroker, connection: Connection
) -> None:
    """Nor are more of them locked. An acknowledgement on another thread makes room."""
    send(connection, *"abcdef")
    received = Received(connection, prefetch_count=2)
    received.wait_for(2)
    received.look()
    assert len(received.messages) == 2
    state = broker.share_partition(GROUP, TOPIC)
    assert state is not None
    assert sum(part.last - part.first + 1 for part in state.ranges if part.member) == 2
    acknowledging = threading.Thread(target=received.messages[0].ack)
    acknowledging.start()
    received.wait_for(3)
    acknowledging.join()


def test_a_consumer_that_acknowledges_nothing_loses_nothing_twice(
    broker: ReferenceBroker, connection: Connection
) -> None:
    send(connection, "a", "b")
    received = Received(connection, no_ack=True)
    received.wait_for(2)
    connection.release()
    assert left_over(broker) == []


def asked(queue: Any, *, no_ack: bool = False) -> Any:
    """The next message of the queue, acknowledged."""
    got: list[Any] = []

    def look() -> bool:
        got.append(queue.get(no_ack=no_ack))
        return got[-1] is not None

    wait_until(look)
    if not no_ack:
        got[-1].ack()
    return got[-1]


def test_a_message_can_be_asked_for(broker: ReferenceBroker, connection: Connection) -> None:
    send(connection, "a", "b")
    with connection.channel() as channel:
        queue = Queue(TOPIC)(channel)
        assert [asked(queue).payload, asked(queue, no_ack=True).payload] == ["a", "b"]
        assert queue.queue_declare().message_count == 0
        with pytest.raises(NotImplementedError, match="reset-offsets"):
            queue.purge()
        queue.delete()
    assert left_over(broker) == []


def test_what_is_no_message_is_rejected(
    broker: ReferenceBroker, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    broker.produce(TOPIC, b"anything")
    send(connection, "a message")
    received = Received(connection)
    received.wait_for(1)[0].ack()
    assert f"{TOPIC}-0@0 (delivery 1): it is no message of kombu; it is rejected" in caplog.text
    connection.release()
    assert left_over(broker) == []


def test_queues_are_added_while_a_channel_consumes(broker: ReferenceBroker, connection: Connection) -> None:
    broker.create_topic("others")
    received = Received(connection)
    received.look()
    received.consumer.add_queue(Queue("others"))
    received.consumer.consume()
    with connection.Producer() as producer:
        producer.publish("there", routing_key="others")
    message = received.wait_for(1)[0]
    assert (message.payload, message.delivery_info["routing_key"]) == ("there", "others")
    message.ack()


def test_a_message_that_cannot_be_written_is_an_error(broker: ReferenceBroker) -> None:
    class Refusing:
        def produce(self, record: Any, told: Any) -> None:
            told(ProduceError("not today"))

        def close(self, timeout_ms: int) -> None:
            """Nothing to close."""

    with connected(broker, producer=Refusing()) as refused, pytest.raises(ProduceError, match="not today"):
        send(refused, "a")


def test_what_may_pass_is_logged_once_and_ends_nothing(
    broker: ReferenceBroker, connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing_twice(monkeypatch, LeasingConsumer)
    send(connection, "a")
    Received(connection).wait_for(1)[0].ack()
    assert caplog.text.count("no route to it") == 1


def test_what_is_not_acknowledged_can_be_given_back_together(broker: ReferenceBroker, connection: Connection) -> None:
    """basic.recover of AMQP: each message comes again."""
    send(connection, "a", "b")
    received = Received(connection)
    received.wait_for(2)
    received.consumer.recover(requeue=True)
    again = received.wait_for(4)[2:]
    assert {message.delivery_info["redelivered"] for message in again} == {True}
    for message in again:
        message.ack()
    connection.release()
    assert left_over(broker) == []


def test_a_message_that_is_not_written_in_time_is_an_error(broker: ReferenceBroker) -> None:
    class Silent:
        def produce(self, record: Any, told: Any) -> None:
            """Tells nothing."""

        def close(self, timeout_ms: int) -> None:
            """Nothing to close."""

    settings = {"default_api_timeout_ms": 10, "request_timeout_ms": 10}
    with connected(broker, producer=Silent(), settings=settings) as silent, pytest.raises(OperationTimeoutError):
        send(silent, "a")
    assert silent.transport.driver_version() == VERSION


def test_an_error_that_lasts_is_raised_to_who_consumes(broker: ReferenceBroker, connection: Connection) -> None:
    broker.faults.fail("ShareGroupHeartbeat", GroupAuthorizationFailedError)
    received = Received(connection)
    with pytest.raises(GroupAuthorizationFailedError):
        received.wait_for(1)
    assert not issubclass(GroupAuthorizationFailedError, connection.connection_errors)


def test_a_wrong_option_is_refused_when_the_connection_is_made(broker: ReferenceBroker) -> None:
    with connected(broker, window_records=0) as wrong, pytest.raises(ConfigurationError, match="window_records"):
        wrong.connect()


def test_a_dotted_setting_overrules_what_the_url_says() -> None:
    with Connection("kafka-share://nowhere:1", transport_options={"settings": {"bootstrap.servers": "b:2"}}) as made:
        assert made.transport.settings_for(0)["bootstrap_servers"] == "b:2"


# ---- Celery

_APPLICATION = """
import os, signal
from celery import Celery
import kafka_share.bridges.kombu

app = Celery("tests", broker="kafka-share://" + os.environ["BROKER"])
app.conf.update(
    broker_transport_options={"group_id": os.environ["GROUP"]},
    task_default_queue=os.environ["TOPIC"],
    task_acks_late=True,
    worker_redirect_stdouts=False,
)

@app.task(name="work")
def work(number):
    if number == 13 and not os.environ.get("SAFE"):
        os.kill(os.getpid(), signal.SIGKILL)
    print("worked", number, flush=True)
"""


@pytest.mark.timeout(120)  # Celery starts twice: on a busy machine each start takes long
def test_a_task_of_celery_is_run_again_when_its_process_has_died(broker: ReferenceBroker, tmp_path: Any) -> None:
    """Tasks are sent, run and acknowledged late; the one that killed its worker is run by the next one."""
    (tmp_path / "tasks_of_test.py").write_text(_APPLICATION)
    variables = {**environment(), "BROKER": broker.bootstrap_servers, "GROUP": GROUP, "TOPIC": TOPIC}
    variables["PYTHONPATH"] += f":{tmp_path}"
    command = [sys.executable, "-m", "celery", "-A", "tasks_of_test", "worker", "-P", "solo", "-l", "warning"]
    sending = "import tasks_of_test as t\nfor number in (1, 13): t.work.delay(number)"
    subprocess.run([sys.executable, "-c", sending], cwd=tmp_path, env=variables, check=True)
    died = subprocess.run(command, cwd=tmp_path, env=variables, check=False, capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert "worked 1\n" in died.stdout
    with subprocess.Popen(
        command, cwd=tmp_path, env={**variables, "SAFE": "1"}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any(line == "worked 13\n" for line in lines)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=patience_s())
    assert process.returncode == 0
    assert left_over(broker) == []
