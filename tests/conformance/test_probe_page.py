"""The page on the probes says what their tests know; the references hold no text of Apache Kafka's."""

from __future__ import annotations

import pytest
from conformance.probe_differences import CLIENT_DIFFERENCES, WIRE_DIFFERENCES
from conformance.probe_lines import client_line, wire_line
from conformance.probe_page import PAGE, agreement, behaviours, differing
from conformance.probe_runs import CLIENT, MINOR_VERSIONS, PROBES, WIRE

from kafka_share.broker.kafka_version import BEHAVIOURS

pytestmark = pytest.mark.one_python


@pytest.mark.parametrize(
    "table",
    [agreement(), differing(WIRE_DIFFERENCES), differing(CLIENT_DIFFERENCES), behaviours()],
    ids=["agreement", "raw requests", "client", "behaviours"],
)
def test_the_page_has_the_table_as_it_is_made_from_the_tests(table: str) -> None:
    assert f"\n\n{table}\n" in PAGE.read_text(encoding="utf-8"), f"docs/{PAGE.name} should have\n{table}"


def test_each_version_of_the_broker_has_a_reference_when_probes_compare_them() -> None:
    assert tuple(BEHAVIOURS) == MINOR_VERSIONS
    assert set(WIRE_DIFFERENCES) == set(CLIENT_DIFFERENCES) == set(BEHAVIOURS)


@pytest.mark.parametrize("version", MINOR_VERSIONS)
def test_known_differences_name_lines_that_the_references_have(version: str) -> None:
    assert WIRE_DIFFERENCES[version].keys() <= WIRE.reference(version).keys()
    assert CLIENT_DIFFERENCES[version].keys() <= CLIENT.reference(version).keys()


@pytest.mark.parametrize("version", MINOR_VERSIONS)
def test_nine_lines_in_ten_agree_on_every_version(version: str) -> None:
    for probe, known in ((WIRE, WIRE_DIFFERENCES), (CLIENT, CLIENT_DIFFERENCES)):
        assert len(known[version]) <= len(probe.reference(version)) // 10


@pytest.mark.parametrize("version", MINOR_VERSIONS)
def test_references_are_stripped_of_texts(version: str) -> None:
    for probe, clean in ((WIRE, wire_line), (CLIENT, client_line)):
        for line in (PROBES / f"{probe.prefix}-{version}.txt").read_text(encoding="utf-8").splitlines():
            assert line == clean(line)


@pytest.mark.parametrize(
    ("line", "stripped"),
    [
        ("a/b: KafkaException(Not (at all) here)<-IOException(x) ok", "a/b: KafkaException()<-IOException() ok"),
        ("a/b: {t-0=TimeoutError(cut off", "a/b: {t-0=TimeoutError()"),
        ("a/b: RDE(RecordDeserializationException VALUE t1-0@2 msg=so it is)",
         "a/b: RDE(RecordDeserializationException VALUE t1-0@2 msg=text)"),
    ],
)  # fmt: skip
def test_client_lines_keep_classes_but_no_messages(line: str, stripped: str) -> None:
    assert client_line(line) == stripped
    assert client_line(stripped) == stripped


def test_wire_lines_keep_codes_but_no_messages() -> None:
    line = "x | y | 42:INVALID_REQUEST{it's wrong} R(partition=0, errorMessage='it's wrong', z=1), msg=null"
    assert wire_line(line) == "x | y | 42:INVALID_REQUEST R(partition=0, msg=text, z=1), msg=null"
