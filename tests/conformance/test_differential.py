"""Random scripts of share group operations, played on a real Kafka and on the reference broker: the answers agree.

What is compared is everything that an answer says but the records' bytes: error codes, lock times, acquired ranges,
delivery counts, the record batches that come with them, stored start offsets and lags. A difference counts when it is
seen again in a second run of the same script, because real brokers do part of their work after they have answered.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conformance.differential_brokers import Pair
from conformance.differential_run import Run
from conformance.differential_script import (
    FIRST,
    HELD,
    LAST,
    Acknowledge,
    Alter,
    Close,
    Describe,
    Drop,
    Fetch,
    Produce,
    Reload,
    Said,
    Script,
    Wait,
    scripts,
)
from conformance.kafka_targets import REFERENCE, Target, running
from conformance.known_differences import explanation
from hypothesis import HealthCheck, given, settings
from support.share_requests import Limits

MIRRORED = "4.3"
"""The minor version whose behaviour the reference broker has."""
RUNS = 2

PINNED = {
    "a release comes back with its count when it rides on a fetch": Script(
        1, 30_000, 5,
        (
            Produce(0, (2, 1)),
            Fetch("A"),
            Fetch("A", Limits(max_wait_ms=2_000), (Said(0, HELD, 2),)),  # the release is written before it counts
            Fetch("A", Limits(), (Said(0, FIRST, 1),)),
            Describe(),
        ),
    ),
    "a waiting fetch ends when another member acknowledges": Script(
        1, 30_000, 5,
        (
            Produce(0, (3,)),
            Fetch("A"),
            Fetch("B"),
            Fetch("B", Limits(max_wait_ms=400), parked=True),
            Acknowledge("A", (Said(0, FIRST, 2),)),
            Acknowledge("A", (Said(0, LAST, 2),)),
            Fetch("B"),
            Close("A"),
            Fetch("B"),
        ),
    ),
    "records go to others when the connection of their holder ends or their locks do": Script(
        1, 1_000, 2,
        (Produce(0, (2,)), Fetch("A"), Drop("A"), Fetch("B"), Wait(), Fetch("B"), Fetch("A"), Describe()),
    ),
    "altered offsets hold when the share partition is loaded again": Script(
        1, 30_000, 5,
        (Produce(0, (4,)), Fetch("A"), Alter(0, 2), Describe(), Reload(), Fetch("A"), Describe()),
    ),
    "the end of a connection counts when the fetch that waits on it is over": Script(
        1, 30_000, 5,
        (
            Produce(0, (4,)),
            Fetch("A"),
            Fetch("B"),
            Fetch("A", Limits(max_wait_ms=400), parked=True),
            Drop("A"),
            Fetch("B"),
        ),
    ),
    "an acknowledgement across the start of an empty window fails as a whole": Script(
        1, 30_000, 5,
        (
            Produce(0, (4,)),
            Fetch("A"),
            Acknowledge("A", (Said(0, HELD, 1),)),
            Acknowledge("A", (Said(0, (2, 5), 1),)),
            Acknowledge("A", (Said(0, (0, 1), 1),)),
            Fetch("A"),
        ),
    ),
    "what a request gives back is not seen when it ended another fetch": Script(
        1, 30_000, 5,
        (
            Produce(0, (1, 1, 1)),
            Fetch("A"),
            Fetch("B"),
            Fetch("B", Limits(max_wait_ms=400), parked=True),
            Acknowledge("A", (Said(0, LAST, 2),)),
            Fetch("A", Limits(max_wait_ms=400), (Said(0, HELD, 2),), parked=True),
        ),
    ),
    "a waiting fetch looks again when an acknowledgement is refused": Script(
        1, 30_000, 5,
        (
            Produce(0, (1,)),
            Fetch("A"),
            Fetch("B"),
            Fetch("B", Limits(max_wait_ms=400), parked=True),
            Acknowledge("A", (Said(0, HELD, 2),)),
            Acknowledge("A", (Said(0, (0, 0), 1),)),
        ),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def pair(real_version: str, real_kafka: Target) -> Iterator[Pair]:
    if not real_version.startswith(MIRRORED):
        pytest.skip(f"the reference broker answers as Kafka {MIRRORED}, not as {real_version}")
    with running(REFERENCE) as reference, Pair(real_kafka.bootstrap_servers, reference.bootstrap_servers) as pair:
        yield pair


def show_agreement(pair: Pair, script: Script) -> None:
    """Fails with the script and what was answered, if the brokers differ in every run."""
    for _ in range(RUNS):
        run = Run(pair, script)
        run.play()
        if not run.differs or explanation(script, run.lines[-1]) is not None:
            return
    *agreed, last = run.lines
    story = [f"  step {line.number}: {line.asked} -> {line.real}" for line in agreed]
    story += [f"  step {last.number}: {last.asked}", f"    real:      {last.real}", f"    reference: {last.reference}"]
    pytest.fail("\n".join(["the brokers differ; the script for PINNED:", f"  {script!r}", *story]), pytrace=False)


@pytest.mark.parametrize("name", PINNED)
def test_both_brokers_answer_alike_when_a_script_is_known(pair: Pair, name: str) -> None:
    show_agreement(pair, PINNED[name])


def test_both_brokers_answer_alike_when_a_script_is_random(pair: Pair, pytestconfig: pytest.Config) -> None:
    """--differential-examples says how many; always the same ones."""

    @settings(
        max_examples=pytestconfig.getoption("differential_examples"),
        derandomize=True,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(scripts())
    def play(script: Script) -> None:
        show_agreement(pair, script)

    play()
