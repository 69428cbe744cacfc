"""What a client is told that may not do what it asks for: as Apache Kafka tells it, for every API."""

from __future__ import annotations

from support.denials import ANSWERS_OF_KAFKA, Denials

from kafka_share.broker import ReferenceBroker, Security

PASSWORDS = {"alice": "alice's", "admin": "admin's"}


def test_answers_with_and_without_rights_are_those_of_kafka() -> None:
    """1,199 answers of Apache Kafka 4.3.1 with its StandardAuthorizer, under eleven sets of ACLs."""
    security = Security("SASL_PLAINTEXT", PASSWORDS, super_users=["User:admin"])
    with ReferenceBroker(security=security) as broker:
        denials = Denials(broker.bootstrap_servers, PASSWORDS)
        try:
            answers = list(denials.lines())
        finally:
            denials.close()
        broker.check()
    assert answers == ANSWERS_OF_KAFKA.read_text(encoding="utf-8").splitlines()
