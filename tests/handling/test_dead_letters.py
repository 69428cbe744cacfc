"""Dead letters of a worker on a reference broker: what is in the topic, and what becomes of the records."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from handling.conftest import GROUP, Running
from support.event_loop import until
from support.waiting import patience_s, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.inspection import StoredRecord
from kafka_share.config import ShareAdminConfig
from kafka_share.errors import ConfigurationError, RecordDeserializationError
from kafka_share.handling import jobs
from kafka_share.producing import kafka_python
from kafka_share.producing.dead_letters import Origin, origin_of
from kafka_share.worker import (
    AiokafkaProducer,
    ConfluentProducer,
    DeadLetter,
    KafkaPythonProducer,
    OutgoingRecord,
    Release,
    ShareWorker,
)

# isort: split
import kafka

pytestmark = pytest.mark.timeout(60)  # producers of three clients make their connections


class PermanentError(Exception):
    """What no try helps against."""


DYING = {PermanentError: DeadLetter(), RecordDeserializationError: DeadLetter()}


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(config={"auto.create.topics.enable": False}) as running:
        for topic in ("t", "dlq.t"):
            running.create_topic(topic)
        running.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        yield running


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PRODUCE_BACKOFF_MS", 10)
    monkeypatch.setattr(kafka_python, "_OWN", {**kafka_python._OWN, "max_block_ms": 500})


def always(record: Any, lease: Any) -> None:
    raise PermanentError("for ever \x1b[31m")


def origin(letter: StoredRecord) -> Origin:
    found = origin_of(letter.headers)
    assert found is not None
    return found


class Producer:
    """One that a test answers for."""

    def __init__(self) -> None:
        self.begun: list[tuple[OutgoingRecord, Callable[[Exception | None], None]]] = []
        self.is_closed = False

    def produce(self, record: OutgoingRecord, told: Callable[[Exception | None], None]) -> None:
        self.begun.append((record, told))

    def close(self, timeout_ms: int) -> None:
        self.is_closed = True


def test_one_per_cent_of_permanent_failures_are_dead_letters_once_each(form: str, broker: ReferenceBroker) -> None:
    """The rest is accepted, and nothing is delivered twice."""
    broker.produce_batch("t", [b"%d" % n for n in range(1_000)])

    def handle(record: Any, lease: Any) -> None:
        if record.offset % 100 == 7:
            raise PermanentError(record.offset)

    with Running(form, broker, handle, on_error=DYING) as running:
        running.wait_for(lambda: running.worker.inspect().counts.dead_lettered == 10)
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 990)
    letters = broker.records("dlq.t")
    assert sorted((int(letter.value or b""), origin(letter).offset) for letter in letters) == [
        (n, n) for n in range(7, 1_000, 100)
    ]
    counts = running.worker.inspect().counts
    assert (counts.received, counts.redelivered, counts.rejected, counts.released) == (1_000, 0, 0, 0)


def test_the_copy_has_the_bytes_that_were_received(form: str, broker: ReferenceBroker) -> None:
    """Whatever deserializers made of them, and whether they could; headers of an earlier dead letter are replaced."""
    before = [("h", b"\x00\xff"), ("__dlq.errors.topic", b"old"), ("h", b"2"), ("__dlq.errors.exception.message", b"")]
    broker.produce("t", b'{"a":   1}', key=b"\xff", headers=before, timestamp_ms=1_234)
    broker.produce("t", b"no JSON")
    broker.produce("t", None)
    with Running(form, broker, always, on_error=DYING, value_deserializer=json.loads) as running:
        running.wait_for(lambda: running.worker.inspect().counts.dead_lettered == 3)
    found = {origin(letter).offset: letter for letter in broker.records("dlq.t")}
    assert {offset: (letter.key, letter.value) for offset, letter in found.items()} == {
        0: (b"\xff", b'{"a":   1}'),
        1: (None, b"no JSON"),
        2: (None, None),
    }
    assert found[0].headers == (
        ("h", b"\x00\xff"),
        ("h", b"2"),
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", GROUP.encode()),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Set aside by a worker of kafka_share."),
        ("__dlq.errors.exception.class.name", f"{PermanentError.__module__}.PermanentError".encode()),
        ("__dlq.errors.exception.message", rb"for ever \x1b[31m"),
        ("__dlq.errors.timestamp", b"1234"),
    )
    assert found[0].timestamp > 1_000_000_000_000, "retention counts from its writing"
    assert origin(found[1]).exception_class == "kafka_share.errors.RecordDeserializationError"


def test_on_its_last_delivery_a_record_is_kept_instead_of_rejected(form: str, broker: ReferenceBroker) -> None:
    broker.set_group_config(GROUP, {"share.delivery.count.limit": 2})
    broker.produce("t", b"v")
    settings: dict[str, Any] = {"on_last_delivery": DeadLetter(), "release_backoff_ms": 0}
    with Running(form, broker, always, on_error={PermanentError: Release()}, **settings) as running:
        running.wait_for(lambda: running.worker.inspect().counts.dead_lettered == 1)
    assert running.deliveries == {(0, 1): 1, (0, 2): 1}
    [letter] = broker.records("dlq.t")
    assert dict(letter.headers)["__dlq.errors.delivery.count"] == b"2"


# ---- producers


@contextmanager
def producer_of(client: str, broker: ReferenceBroker) -> Iterator[Any]:
    servers = broker.bootstrap_servers
    if client == "kafka-python":
        made = kafka.KafkaProducer(bootstrap_servers=servers, acks="all")
        yield KafkaPythonProducer(made)
        made.close()
    elif client == "confluent-kafka":
        confluent_kafka = pytest.importorskip("confluent_kafka")
        yield ConfluentProducer(
            confluent_kafka.Producer({"bootstrap.servers": servers, "topic.metadata.propagation.max.ms": 100})
        )
    else:
        yield None


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka", "made by the worker"])
def test_producers_of_other_clients_write_the_copies(client: str, form: str, broker: ReferenceBroker) -> None:
    headers = [("a", b"1"), ("null", None)]
    for n in range(50):
        broker.produce("t", None if n % 2 else b"v%d" % n, key=b"k%d" % n, headers=headers)
    with (
        producer_of(client, broker) as producer,
        Running(form, broker, always, on_error=DYING, producer=producer) as running,
    ):
        running.wait_for(lambda: running.worker.inspect().counts.dead_lettered == 50)
    letters = {letter.key: letter for letter in broker.records("dlq.t")}
    assert len(letters) == len(broker.records("dlq.t")) == 50
    assert letters[b"k4"].value == b"v4"
    assert letters[b"k5"].value is None
    null = None if client == "confluent-kafka" else b""
    assert letters[b"k4"].headers[:2] == (("a", b"1"), ("null", null))


def test_aiokafkas_producer_writes_the_copies_of_a_worker_on_its_loop(broker: ReferenceBroker) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    broker.produce("t", b"v", key=b"k", headers=[("null", None)])

    async def handle(record: Any) -> None:
        raise PermanentError

    async def main() -> ShareWorker[Any, Any]:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all") as client:
            worker: ShareWorker[Any, Any] = ShareWorker(
                "t",
                handle,
                bootstrap_servers=broker.bootstrap_servers,
                group_id=GROUP,
                on_error=DYING,
                producer=AiokafkaProducer(client),
            )
            life = asyncio.create_task(worker.run_async())
            await until(lambda: worker.inspect().counts.dead_lettered)
            worker.stop()
            await life
            return worker

    assert asyncio.run(main()).inspect().counts.dead_lettered == 1
    [letter] = broker.records("dlq.t")
    assert (letter.key, letter.value, letter.headers[0]) == (b"k", b"v", ("null", None))


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka", "made by the worker"])
def test_a_record_that_is_too_large_leaves_a_letter_that_says_where_it_is(
    client: str, form: str, broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic would refuse a copy of it for ever. The others are copied."""
    broker.create_topic("small", config={"max.message.bytes": "4000"})
    for value in (b"a", os.urandom(5_000), b"b"):
        broker.produce("t", value, key=b"k", headers=[("h", b"1")])
    policy = {PermanentError: DeadLetter("small", max_bytes=3_000)}
    with (
        producer_of(client, broker) as producer,
        Running(form, broker, always, on_error=policy, producer=producer) as running,
    ):
        running.wait_for(lambda: running.worker.inspect().counts.dead_lettered == 3)
    letters = {origin(letter).offset: letter for letter in broker.records("small")}
    assert [letters[offset].value for offset in range(3)] == [b"a", b"", b"b"]
    assert (letters[0].key, letters[1].key) == (b"k", None)
    assert {*dict(letters[1].headers)} == {*dict(letters[0].headers), "__dlq.errors.copy"} - {"h"}
    errors = [one.getMessage() for one in caplog.records if one.name == "kafka_share.worker" and one.levelno > 30]
    assert errors == ["t-0@1 is larger than max_bytes, and its dead letter has no copy of it"]


@pytest.mark.parametrize("client", ["confluent-kafka", "made by the worker"])
def test_a_topic_that_is_missing_is_named_and_the_record_stays(
    client: str, form: str, broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """When the topic is there, the copy is written, with the same delivery."""
    broker.delete_topic("dlq.t")
    broker.produce("t", b"v")
    with (
        producer_of(client, broker) as producer,
        Running(form, broker, always, on_error=DYING, producer=producer) as running,
    ):
        running.wait_for(lambda: "its copy could not be written" in caplog.text)
        counts = running.worker.inspect().counts
        broker.create_topic("dlq.t")
        running.wait_for(lambda: running.worker.inspect().counts.dead_lettered == 1)
    assert (counts.received, counts.accepted, counts.released, counts.dead_lettered) == (1, 0, 0, 0)
    [warning, *_] = [one.getMessage() for one in caplog.records if "its copy could not be written" in one.getMessage()]
    assert "topic 'dlq.t' has not taken the record" in warning
    assert "does the topic exist" in warning
    assert [origin(letter).delivery_count for letter in broker.records("dlq.t")] == [1]


def test_an_outage_of_the_producer_loses_and_accepts_nothing(form: str, broker: ReferenceBroker) -> None:
    """Its failures are as many as they like; each record is written in the end, and accepted once."""
    broker.produce_batch("t", [b"%d" % n for n in range(20)])
    producer = Producer()
    with Running(form, broker, always, on_error=DYING, producer=producer) as running:
        for _ in range(3):
            running.wait_for(lambda: len(producer.begun) >= 20)
            begun, producer.begun = producer.begun, []
            for _, told in begun:
                told(ConnectionError("no broker"))
            assert running.worker.inspect().counts.dead_lettered == 0
        running.wait_for(lambda: len(producer.begun) == 20)
        for _, told in producer.begun:
            told(None)
        running.wait_for(lambda: running.worker.inspect().counts.dead_lettered == 20)
    assert running.deliveries == {(n, 1): 1 for n in range(20)}
    assert producer.is_closed


def test_a_producer_that_raises_keeps_the_record(form: str, broker: ReferenceBroker) -> None:
    broker.produce("t", b"v")
    producer = Producer()
    mistakes: list[str] = []

    def produce(record: OutgoingRecord, told: Callable[[Exception | None], None]) -> None:
        mistakes.append("raised")
        if len(mistakes) < 3:
            raise RuntimeError("closed")
        told(None)

    producer.produce = produce  # type: ignore[method-assign]
    with Running(form, broker, always, on_error=DYING, producer=producer) as running:
        running.wait_for(lambda: running.worker.inspect().counts.dead_lettered == 1)
    assert len(mistakes) == 3


# ---- the end


def test_sigterm_waits_for_a_copy_that_is_being_written(form: str, broker: ReferenceBroker) -> None:
    broker.produce("t", b"v")
    producer = Producer()

    def handle(record: Any) -> None:
        raise PermanentError

    async def handle_as_task(record: Any) -> None:
        handle(record)

    worker: ShareWorker[Any, Any] = ShareWorker(
        "t",
        handle if form == "threads" else handle_as_task,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=GROUP,
        on_error=DYING,
        producer=producer,
    )

    def end() -> None:
        wait_until(lambda: producer.begun)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: worker.inspect().phase == "draining")
        producer.begun[0][1](None)

    helper = threading.Thread(target=end)
    helper.start()
    worker.run()  # on the main thread, which handles signals
    helper.join(patience_s())
    counts = worker.inspect().counts
    assert (counts.dead_lettered, counts.released) == (1, 0)
    broker.produce("t", b"next")
    with Running(form, broker, lambda record, lease: None) as second:
        second.wait_for(lambda: second.worker.inspect().counts.accepted == 1)
    assert second.deliveries == {(1, 1): 1}


def test_what_is_not_written_within_the_drain_is_delivered_again(form: str, broker: ReferenceBroker) -> None:
    broker.produce("t", b"v")
    producer = Producer()
    with Running(form, broker, always, on_error=DYING, producer=producer, drain_timeout_ms=1) as running:
        running.wait_for(lambda: producer.begun)
    counts = running.worker.inspect().counts
    assert (counts.dead_lettered, counts.released, counts.accepted) == (0, 1, 0)
    with Running(form, broker, lambda record, lease: None) as second:
        second.wait_for(lambda: second.worker.inspect().counts.accepted == 1)
    assert second.deliveries == {(0, 2): 1}


def test_a_copy_that_is_lost_on_the_last_delivery_is_an_error_in_the_log(
    broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.produce("t", b"v")
    producer = Producer()
    broker.set_group_config(GROUP, {"share.delivery.count.limit": 2})

    def handle(record: Any, lease: Any) -> None:
        raise PermanentError(record.delivery_count)

    policy = {PermanentError: lambda error: Release() if error.args == (1,) else DeadLetter()}
    settings: dict[str, Any] = {"drain_timeout_ms": 1, "release_backoff_ms": 0, "producer": producer}
    with Running("threads", broker, handle, on_error=policy, **settings) as running:
        running.wait_for(lambda: producer.begun)
    [error] = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.ERROR]
    assert "t-0@0 (delivery 2): the worker stops before its copy is written" in error


# ---- mistakes


def made(**settings: Any) -> ShareWorker[Any, Any]:
    return ShareWorker("t", lambda record: None, bootstrap_servers="localhost:1", group_id="g", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on_error": {ValueError: DeadLetter("t")}}, "which this worker reads"),
        ({"on_last_delivery": DeadLetter("t")}, "which this worker reads"),
        ({"on_last_delivery": Release()}, r"write Reject\(\) or DeadLetter\(\)"),
        ({"on_error": {ValueError: DeadLetter}}, r"DeadLetter\(\)"),
        ({"producer": kafka.KafkaProducer.__new__(kafka.KafkaProducer)}, r"write KafkaPythonProducer\(…\)"),
        ({"producer": AiokafkaProducer(None)}, "async def"),
        ({"producer": Producer}, "produce and close"),
        ({"producer": "producer"}, "produce and close"),
    ],
)
def test_a_mistake_is_refused_when_the_worker_is_made(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        made(**settings)


def test_a_producer_of_confluent_kafka_is_given_in_its_adapter() -> None:
    client = pytest.importorskip("confluent_kafka").Producer({})
    with pytest.raises(ConfigurationError, match=r"write ConfluentProducer\(…\)"):
        made(producer=client)


def test_a_worker_without_dead_letters_imports_no_producer() -> None:
    """kafka-python is imported when the first copy is written."""
    assert made()._driver._producer.__class__.__name__ == "OwnKafkaPythonProducer"


def test_a_producer_that_does_not_wait_for_all_replicas_is_refused(broker: ReferenceBroker) -> None:
    client = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks=1, enable_idempotence=False)
    with pytest.raises(ConfigurationError, match="write acks='all'"):
        KafkaPythonProducer(client)
    client.close()


class Tokens:
    """What our clients take for OAUTHBEARER."""

    def token(self) -> str:
        return "t"


def test_the_workers_own_producer_connects_as_the_worker_does() -> None:
    """Security settings are the same, names of IPv6 addresses have brackets, and any token provider will do."""
    given: dict[str, Any] = {"security_protocol": "SASL_SSL", "ssl_cafile": "ca.pem", "sasl_mechanism": "OAUTHBEARER"}
    provider = Tokens()
    config = ShareAdminConfig.from_mapping(
        {"bootstrap_servers": "[::1]:9092,b:9093", **given, "sasl_oauth_token_provider": provider}
    )
    settings = kafka_python._connection(config)
    assert settings["bootstrap_servers"] == ["[::1]:9092", "b:9093"]
    assert {name: settings[name] for name in given} == given
    assert (settings["sasl_oauth_token_provider"], settings["ssl_check_hostname"]) == (provider, True)
    assert isinstance(provider, kafka_python._oauth().AbstractTokenProvider)
    assert "ssl_keyfile" not in settings
