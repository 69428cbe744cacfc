"""Unrelated clients on a broker with ACLs: what they are told when they may not, and their administration of ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.waiting import wait_until

from kafka_share.broker import Acl, ReferenceBroker, Security

PASSWORDS = {"alice": "alice's", "admin": "admin's"}
ALICE = "User:alice"


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(security=Security("SASL_PLAINTEXT", PASSWORDS, super_users=["User:admin"])) as broker:
        broker.create_topic("orders")
        broker.produce("orders", b"work")
        yield broker


# ---- confluent-kafka


def confluent(broker: ReferenceBroker, user: str, **rest: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
        **rest,
    }


def confluent_admin() -> Any:
    """The module; its type hints do not export what it has."""
    from confluent_kafka import admin

    return admin


@pytest.mark.foreign
def test_confluent_kafka_administers_acls(broker: ReferenceBroker) -> None:
    names = confluent_admin()
    topic, prefixed = names.ResourceType.TOPIC, names.ResourcePatternType.PREFIXED
    read, allow = names.AclOperation.READ, names.AclPermissionType.ALLOW
    admin = names.AdminClient(confluent(broker, "admin"))
    binding = names.AclBinding(topic, "ord", prefixed, ALICE, "*", read, allow)
    for made in admin.create_acls([binding]).values():
        made.result(20)
    assert broker.acls() == [Acl(ALICE, "read", "topic", "ord", pattern="prefixed")]
    match, any_operation = names.ResourcePatternType.MATCH, names.AclOperation.ANY
    wanted = names.AclBindingFilter(topic, "orders", match, None, None, any_operation, names.AclPermissionType.ANY)
    assert admin.describe_acls(wanted).result(20) == [binding]
    for gone in admin.delete_acls([wanted]).values():
        assert gone.result(20) == [binding]
    assert broker.acls() == []


@pytest.mark.foreign
def test_confluent_kafka_is_told_what_it_may_not_do(broker: ReferenceBroker) -> None:
    from confluent_kafka import KafkaError, KafkaException, Producer

    def produced() -> Any:
        """The code of the error, if there is one."""
        codes: list[Any] = []
        producer = Producer(confluent(broker, "alice"))
        producer.produce("orders", b"more", on_delivery=lambda error, _: codes.append(error and error.code()))
        producer.flush(20)
        return codes[0]

    assert produced() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    broker.add_acls(Acl(ALICE, "write", "topic", "orders"))
    assert produced() is None
    client = confluent_admin().AdminClient(confluent(broker, "alice"))
    (made,) = client.create_topics([confluent_admin().NewTopic("new", 1)]).values()
    with pytest.raises(KafkaException) as caught:
        made.result(20)
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "new" not in broker.topics()


@pytest.mark.foreign
def test_the_share_consumer_of_confluent_kafka_is_told_what_it_may_not_do(broker: ReferenceBroker) -> None:
    from confluent_kafka import KafkaException, ShareConsumer

    def outcome() -> str:
        """What comes first: a record or an error."""
        consumer = ShareConsumer(confluent(broker, "alice", **{"group.id": "g"}))
        consumer.subscribe(["orders"])
        try:

            def look() -> str:
                try:
                    messages = consumer.poll(timeout=0.5)
                except KafkaException as error:
                    return str(error.args[0].name())
                failures = [failure.name() for message in messages if (failure := message.error()) is not None]
                return failures[0] if failures else "read" if messages else ""

            return wait_until(look, "a record or an error")
        finally:
            consumer.close()

    broker.set_group_config("g", share_auto_offset_reset="earliest")
    broker.add_acls(Acl(ALICE, "describe", "topic", "orders"))
    assert outcome() == "GROUP_AUTHORIZATION_FAILED"
    broker.add_acls(Acl(ALICE, "read", "group", "g"), Acl(ALICE, "read", "topic", "orders"))
    assert outcome() == "read"


# ---- kafka-python


def test_kafka_python_administers_acls(broker: ReferenceBroker) -> None:
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )

    admin = KafkaAdminClient(**broker.client_settings("admin"))
    try:
        acl = ACL(ALICE, "*", ACLOperation.READ, ACLPermissionType.DENY, ResourcePattern(ResourceType.GROUP, "g"))
        admin.create_acls([acl])
        assert broker.acls() == [Acl(ALICE, "read", "group", "g", permission="deny")]
        wanted = ACLFilter(
            None,
            None,
            ACLOperation.ANY,
            ACLPermissionType.ANY,
            ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
        )
        found, _ = admin.describe_acls(wanted)
        assert [(one.principal, one.resource_pattern.resource_name) for one in found] == [(ALICE, "g")]
        admin.delete_acls([wanted])
        assert broker.acls() == []
    finally:
        admin.close()


def test_kafka_python_is_told_what_it_may_not_do(broker: ReferenceBroker) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

    settings = broker.client_settings("alice")
    broker.add_acls(Acl(ALICE, "describe", "topic", "orders"), Acl(ALICE, "idempotent_write", "cluster"))
    producer = KafkaProducer(**settings)
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("orders", b"more").get(timeout=20)
    finally:
        producer.close(timeout=0)
    consumer = KafkaConsumer("orders", group_id="g", auto_offset_reset="earliest", **settings)
    try:
        with pytest.raises(GroupAuthorizationFailedError):
            consumer.poll(timeout_ms=20_000)
    finally:
        consumer.close(autocommit=False)
