"""One seed of the fuzz over sockets: a real consumer, a mutating proxy, and the reference broker behind it.

Threads and sockets take part, so a seed decides what is done to answers but not when they come: it is repeated, not
replayed. Demanded is what the client's fuzz under virtual time demands; each seed that fails keeps its log.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias

from fuzz.outcome import Outcome
from fuzz.proxy import MutatingProxy

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import CallerError, InternalError, KafkaShareError

Mode: TypeAlias = Literal["implicit", "explicit"]
MODES: Final[tuple[Mode, ...]] = ("implicit", "explicit")
TOPIC: Final = "t"
GROUP: Final = "g"
RECORDS: Final = 60
LIE_S: Final = 2.0
SETTLE_S: Final = 30.0
CLOSE_MS: Final = 5_000
BROKER: Final = {
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.record.lock.duration.ms": 1_000,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
}


def run_proxy(seed: int, *, trace: bool = False) -> Outcome:
    """Let a consumer work through the proxy, first mutating, then honest."""
    source = random.Random(f"proxy {seed}")
    mutations = source.choice((1, 3, 10))
    happened: Counter[str] = Counter()
    complaint = excuse = None
    before = threading.active_count()
    with ReferenceBroker(config=BROKER, keep_requests=False, random_seed=seed) as broker:
        broker.create_topic(TOPIC)
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        for number in range(RECORDS):
            broker.produce(TOPIC, b"v%d" % number)
        probability = source.choice((0.1, 0.3, 0.7))
        with (
            MutatingProxy(broker.bootstrap_servers, source, probability=probability, mutations=mutations) as proxy,
            _log_into(proxy.lines),
        ):
            try:
                is_settled = _work(broker, proxy, source.choice(MODES), happened)
                if not is_settled:
                    excuse = "; ".join(map(str, proxy.lies)) or None
                    complaint = None if excuse else f"not every record is settled after {SETTLE_S:.0f} s"
            except Exception as error:  # noqa: BLE001 - whatever comes out of the client is the finding
                complaint = f"{type(error).__name__}: {error}"
                proxy.lines += traceback.format_exc().splitlines()
            lines = proxy.lines
    if complaint is None and threading.active_count() > before:
        complaint = f"threads are left: {[thread.name for thread in threading.enumerate()]}"
    return Outcome(seed, proxy.mutations_done, happened, complaint, excuse, lines)


@contextlib.contextmanager
def _log_into(lines: list[str]) -> Iterator[None]:
    """What the client logs stands among what the proxy did."""
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("kafka_share")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _work(broker: ReferenceBroker, proxy: MutatingProxy, mode: Mode, happened: Counter[str]) -> bool:
    """Whether every record was settled in time."""
    consumer = KafkaShareConsumer(
        TOPIC,
        bootstrap_servers=proxy.address,
        group_id=GROUP,
        share_acknowledgement_mode=mode,
        request_timeout_ms=1_000,
        default_api_timeout_ms=3_000,
        socket_connection_setup_timeout_ms=1_000,
        metadata_max_age_ms=2_000,
    )
    try:
        _poll_until(consumer, mode, lambda: proxy.mutations_left <= 0, LIE_S, happened)
        proxy.be_honest()
        return _poll_until(consumer, mode, lambda: _is_settled(broker), SETTLE_S, happened)
    finally:
        consumer.close(timeout_ms=CLOSE_MS)


def _is_settled(broker: ReferenceBroker) -> bool:
    found = broker.share_partition(GROUP, TOPIC)
    return found is not None and found.start_offset >= RECORDS


def _poll_until(
    consumer: KafkaShareConsumer, mode: Mode, is_over: Callable[[], bool], limit_s: float, happened: Counter[str]
) -> bool:
    end_s = time.monotonic() + limit_s
    while not is_over():
        if time.monotonic() > end_s:
            return False
        try:
            for record in consumer.poll(timeout_ms=100):
                happened["records"] += 1
                if mode == "explicit":
                    consumer.acknowledge(record)
        except (InternalError, CallerError):
            raise
        except KafkaShareError as error:
            happened[f"poll raised {type(error).__name__}"] += 1
    return True
