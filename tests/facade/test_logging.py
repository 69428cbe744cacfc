"""What a consumer logs: events with fields, and never a part of a record or a secret."""

from __future__ import annotations

import json
import logging

import pytest
from support.consumers import MakeConsumer
from support.waiting import poll_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.core.log_events import LOG_EVENTS
from kafka_share.errors import AuthenticationError, RecordDeserializationError

SECRETS = ("geheime-nutzlast", "geheimer-schluessel", "geheimer-header", "geheimes-passwort")
PAYLOAD, KEY, HEADER, PASSWORD = SECRETS
STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def events(caplog: pytest.LogCaptureFixture) -> dict[str, logging.LogRecord]:
    """The last record of each event."""
    return {record.event: record for record in caplog.records if hasattr(record, "event")}


def produced(broker: ReferenceBroker, topic: str, value: bytes, count: int = 1) -> None:
    broker.create_topic(topic)
    for _ in range(count):
        broker.produce(topic, value, key=KEY.encode(), headers=[("h", HEADER.encode())])


def test_changes_of_state_are_logged_with_their_fields(
    broker: ReferenceBroker, make_consumer: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """Joining, an assignment, the coordinator, connections and leaving are events with the fields of the table."""
    caplog.set_level(logging.DEBUG, "kafka_share")
    produced(broker, "t", b"x")
    consumer = make_consumer("t", client_id="worker-7")
    poll_until(consumer, 1)
    consumer.close()
    found = events(caplog)
    wanted = {"joined", "assignment-changed", "coordinator-found", "connection-made", "connection-lost", "left"}
    assert set(found) >= wanted
    for name, record in found.items():
        event = LOG_EVENTS[name]
        extra = {key: value for key, value in vars(record).items() if key not in STANDARD}
        assert set(extra) == {"event", "client_id", "group_id", "member_id", *event.fields}
        assert (record.name, extra["client_id"], extra["group_id"]) == (event.logger, "worker-7", "g")
        assert record.getMessage().startswith(f"kafka_share: {name} ")
        assert record.levelno in (event.level, logging.DEBUG)
        json.dumps(extra)
    assert found["joined"].member_epoch >= 1  # type: ignore[attr-defined]
    assert found["coordinator-found"].node_id == 1  # type: ignore[attr-defined]
    assert found["assignment-changed"].partitions == 1  # type: ignore[attr-defined]


def test_failed_acknowledgements_and_lost_sessions_are_logged(
    broker: ReferenceBroker, make_consumer: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """A broken connection resets the session, and acknowledging what it had delivered fails: both can be read."""
    caplog.set_level(logging.INFO, "kafka_share")
    produced(broker, "t", b"x", 2)
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    for record in poll_until(consumer, 2):
        consumer.acknowledge(record)
    broker.drop_connections()
    consumer.commit_sync()
    found = events(caplog)
    assert found["acknowledgement-failed"].topic == "t"  # type: ignore[attr-defined]
    assert found["acknowledgement-failed"].partition == 0  # type: ignore[attr-defined]
    assert found["acknowledgement-failed"].records == 2  # type: ignore[attr-defined]
    assert found["session-reset"].node_id == 1  # type: ignore[attr-defined]


def test_no_part_of_a_record_is_logged_at_any_level(
    broker: ReferenceBroker, make_consumer: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """Delivery, acknowledgement, a deserializer that fails, a broken callback, a cut connection: no key or value."""
    caplog.set_level(logging.DEBUG)
    produced(broker, "t", PAYLOAD.encode(), 3)
    produced(broker, "bad", PAYLOAD.encode())
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    first, second, third = poll_until(consumer, 3)
    assert (first.value, first.key) == (PAYLOAD.encode(), KEY.encode())
    consumer.acknowledge(first)
    consumer.acknowledge(second, AcknowledgeType.REJECT)
    consumer.acknowledge(third, AcknowledgeType.RELEASE)
    consumer.commit_sync()
    broken = make_consumer("bad", group_id="h", value_deserializer=json.loads)
    with pytest.raises(RecordDeserializationError):
        poll_until(broken, 1)
    broker.drop_connections()
    broken.close()
    consumer.close()
    assert len(caplog.records) > 50
    assert_silent(caplog)


def test_names_with_line_breaks_and_escape_sequences_forge_no_line_at_any_level(
    broker: ReferenceBroker, make_consumer: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """A client id and a group id are shown as text, in lines and attributes, in the reference broker's log too."""
    caplog.set_level(logging.DEBUG, "kafka_share")
    forged = "x\n2030-01-01 CRITICAL root: forged \x1b[31m"
    produced(broker, "t", b"x")
    consumer = make_consumer("t", client_id=forged, group_id=forged)
    poll_until(consumer, 1)
    broker.drop_connections()
    consumer.close()
    assert {"kafka_share.broker.request_log", "kafka_share.core.membership"} <= {
        record.name for record in caplog.records
    }
    assert any("2030-01-01" in record.getMessage() for record in caplog.records)
    for record in caplog.records:
        assert record.getMessage().isprintable()
        texts = [value for key, value in vars(record).items() if key not in STANDARD and isinstance(value, str)]
        assert all(text.isprintable() for text in texts)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_no_password_is_logged_when_a_broker_refuses_it(
    broker: ReferenceBroker, make_consumer: MakeConsumer, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    """A consumer whose login fails logs that it failed, and nothing of the secret."""
    caplog.set_level(logging.DEBUG)
    consumer = make_consumer(
        "t",
        reset=None,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password=PASSWORD,
    )
    with pytest.raises(AuthenticationError):
        poll_until(consumer, 1)
    consumer.close()
    assert "authentication-failed" in events(caplog)
    assert_silent(caplog)


def assert_silent(caplog: pytest.LogCaptureFixture) -> None:
    """No record has a secret in its text, its arguments or its attributes."""
    formatter = logging.Formatter()
    for record in caplog.records:
        text = formatter.format(record) + repr({k: v for k, v in vars(record).items() if k not in ("exc_info",)})
        for secret in SECRETS:
            assert secret not in text, f"{record.name} logs {secret}"


def test_every_event_of_the_core_has_its_row() -> None:
    """No two events have one name, levels are those of Python's logging, and no field hides a standard attribute."""
    assert {event.level for event in LOG_EVENTS.values()} <= {logging.DEBUG, logging.INFO, logging.WARNING}
    for event in LOG_EVENTS.values():
        assert not {*event.fields, "event", "client_id", "group_id", "member_id"} & STANDARD
        assert event.logger.startswith("kafka_share.")
