"""A process that ends without having closed its consumers: what was acknowledged counts, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from facade.delivery_checks import counted, left_for_others, produce_one_batch
from support.consumers import MakeConsumer
from support.waiting import patience_s

from kafka_share.broker import ReferenceBroker

pytestmark = pytest.mark.timeout(120)  # most tests start a Python: on a busy machine that alone may take 20 s

BEGIN = """
import sys, threading, time
from kafka_share import KafkaShareConsumer

def make(**settings):
    return KafkaShareConsumer("t", bootstrap_servers=sys.argv[1], group_id="g", **settings)

def poll_once(consumer):
    while not (records := consumer.poll(timeout_ms=100)):
        pass
    return records
"""
IN_POLL = """
def work(consumer):
    while True:
        consumer.poll(timeout_ms=60_000)
"""
IN_COMMIT = """
def work(consumer):
    while True:
        for record in consumer.poll(timeout_ms=20):
            consumer.acknowledge(record)
        consumer.commit_sync()
"""
IN_ACKNOWLEDGE = """
def work(consumer):
    for record in consumer.poll(timeout_ms=60_000):
        while True:
            consumer.acknowledge(record)
"""
LOGGING = """
def work(consumer):
    while True:
        try:
            consumer.poll(timeout_ms=60_000)
        except BaseException as error:
            print("saw", repr(error), file=sys.stderr)
"""


def run(script: str, address: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", BEGIN + script, address]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience_s(), check=False)


def members(broker: ReferenceBroker) -> int:
    group = broker.share_group("g")
    return 0 if group is None else len(group.members)


@pytest.fixture(autouse=True)
def three_records(broker: ReferenceBroker, topic: str) -> None:
    produce_one_batch(broker, topic, 3)
    broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})


@pytest.mark.behaviour("misuse and close")
@pytest.mark.parametrize("window", [0, 10])
def test_what_was_acknowledged_counts_when_the_process_ends_without_close(
    broker: ReferenceBroker, make_consumer: MakeConsumer, window: int
) -> None:
    """A process that ends without close sends its acknowledgements and leaves the group, and warns as Python does."""
    script = f"""
consumer = make(share_acknowledgement_mode="explicit", explicit_window_records={window})
for record in poll_once(consumer):
    consumer.acknowledge(record)
"""
    ended = run(script, broker.bootstrap_servers, "-W", "default")
    assert ended.returncode == 0
    assert "ResourceWarning" in ended.stderr
    assert "Traceback" not in ended.stderr
    produce_one_batch(broker, "t", 1)
    assert counted(left_for_others(broker, make_consumer, "t")) == [(3, 1)]
    assert members(broker) == 0


def test_records_that_were_not_acknowledged_are_given_back_when_the_process_ends_without_close(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """At once, by several consumers of the process: nobody has to wait for locks and sessions to run out."""
    ended = run(
        "kept = [make() for _ in range(3)]\npoll_once(kept[0])\nkept[1].poll(timeout_ms=0)", broker.bootstrap_servers
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert members(broker) == 0
    assert counted(left_for_others(broker, make_consumer, "t")) == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.behaviour("misuse and close")
@pytest.mark.parametrize("work", [IN_POLL, IN_COMMIT, IN_ACKNOWLEDGE, LOGGING])
def test_a_daemon_thread_ends_without_a_word_when_the_process_ends_while_it_uses_a_consumer(
    broker: ReferenceBroker, work: str
) -> None:
    """A daemon thread in a call of a consumer sees no error at the end of the process, and its group no ghost."""
    script = f"""
consumer = make(share_acknowledgement_mode="explicit" if {"acknowledge" in work} else "implicit")
{work}
threading.Thread(target=work, args=(consumer,), daemon=True).start()
while not consumer.health().is_joined:
    time.sleep(0.01)
"""
    ended = run(script, broker.bootstrap_servers)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert members(broker) == 0


def test_the_process_ends_when_no_broker_answers(broker: ReferenceBroker) -> None:
    """Waiting for an answer has an end, and the daemon thread is quiet then, too."""
    address = broker.bootstrap_servers
    script = f"""
consumer = make()
{IN_POLL}
threading.Thread(target=work, args=(consumer,), daemon=True).start()
other = make()
other.poll(timeout_ms=100)
sys.exit(3)
"""
    broker.stop_node(1)
    ended = run(script, address)
    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_parent_keeps_its_consumer_when_a_forked_child_ends(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    script = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
consumer = make()
poll_once(consumer)
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
consumer.commit_sync()
"""
    ended = run(script, broker.bootstrap_servers)
    assert (ended.returncode, ended.stderr) == (0, "")
    produce_one_batch(broker, "t", 1)
    assert counted(left_for_others(broker, make_consumer, "t")) == [(3, 1)]


def test_other_consumers_are_closed_when_the_callback_of_one_exits_at_the_end_of_the_process(
    broker: ReferenceBroker,
) -> None:
    """sys.exit has nothing to end any more there: no traceback, the exit code of the program, no ghost."""
    script = """
kept = [make(share_acknowledgement_mode="explicit"), make()]
kept[0].set_acknowledgement_commit_callback(lambda offsets, error: sys.exit(5))
for record in poll_once(kept[0]):
    kept[0].acknowledge(record)
kept[1].poll(timeout_ms=0)
sys.exit(4)
"""
    ended = run(script, broker.bootstrap_servers)
    assert (ended.returncode, ended.stderr) == (4, "")
    assert members(broker) == 0
