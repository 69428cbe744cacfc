"""What a part of our client costs: two consumers in one process, one with it and one without, work in turns.

Used by `bench --costs`. Both consume from the stub, a hundred polls at a time, so that what the machine does meanwhile
befalls both. Of two equal consumers the one that was made first needs a few percent more: each part is measured twice,
with either of them made first, and the two results stand beside their mean.
"""

from __future__ import annotations

import contextlib
import logging
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest import mock

import attrs
from performance import targets
from performance.figures import Spread
from performance.stub_broker import Settings

from kafka_share import KafkaShareConsumer
from kafka_share.core.events import Tally
from kafka_share.core.metrics.measurements import Many, Measurements, Sampled

PAIRS: Final = 150
TURN_RECORDS: Final = 50_000
"""Of each turn: a hundred polls, about fifty milliseconds."""
_WINDOW: Final = 1_000_000
"""Records in flight that nothing here comes near: a poll always has room for all that it wants."""
_POLL_MS: Final = 5_000

Consumer = KafkaShareConsumer[Any, Any]
Handler = Callable[[Consumer, Any], None]


class NoSamples(Sampled):
    __slots__ = ()

    def record(self, value: float, now_ms: int) -> None: ...


class NoMeasurements(Measurements):
    """Records nothing. What remains of the cost is the call of an empty method."""

    def __init__(self, num_samples: int = 2, window_ms: int = 30_000) -> None:
        super().__init__(num_samples, window_ms)
        for name, value in list(vars(self).items()):
            if isinstance(value, Sampled):
                setattr(self, name, NoSamples(num_samples, window_ms))

    def poll_started(self, now_ms: int) -> None: ...
    def poll_ended(self, records: int, now_ms: int) -> None: ...
    def polled(self, spans: Many, idle_ratios: Many, records: Many, now_ms: int) -> None: ...
    def fetch_answered(self, latency_ms: int, throttle_ms: int, now_ms: int) -> None: ...
    def acquired(self, size: int, records: int, now_ms: int) -> None: ...
    def acknowledged(self, records: int, now_ms: int) -> None: ...
    def fetched_directly(self, node_id: int, tally: Tally, now_ms: int) -> None: ...
    def request_sent(self, node_id: int, size: int, now_ms: int) -> None: ...
    def response_received(self, node_id: int, size: int, latency_ms: float, now_ms: int) -> None: ...


class NoLog(logging.Logger):
    """Never asked twice."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name that logging has
        return False


@contextlib.contextmanager
def _nothing_recorded() -> Iterator[None]:
    with mock.patch("kafka_share.core.consumer.Measurements", NoMeasurements):
        yield


@contextlib.contextmanager
def _nothing_logged() -> Iterator[None]:
    with mock.patch("kafka_share.network.connection.log", NoLog("silent")):
        yield


@attrs.frozen
class Part:
    """`given`: settings that switch it on. `made_without`: while the consumer without it is made; `runs_without`: while
    that one works. `acknowledges`: each record, in explicit mode."""

    title: str
    given: dict[str, Any] = attrs.field(factory=dict)
    made_without: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    runs_without: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    acknowledges: bool = False


PARTS: Final = {
    "metrics": Part("metrics, against calls that record nothing", made_without=_nothing_recorded),
    "logging": Part("logging that nobody has configured, against none", runs_without=_nothing_logged),
    "window": Part(
        "the open window with room for every poll, against explicit mode without it",
        given={"explicit_window_records": _WINDOW},
        acknowledges=True,
    ),
    "nothing": Part("nothing at all: what the machine makes of two equal consumers"),
}


@attrs.frozen
class Cost:
    """`with_it`, `without`: CPU seconds per million records of the quieter turns. `more`: by which part the former is
    above the latter; the mean, and what it was with either of the two made first."""

    name: str
    with_it: float
    without: float
    more: Spread

    def __str__(self) -> str:
        more = f"{100 * self.more.median:+.1f} % [{100 * self.more.low:+.1f} to {100 * self.more.high:+.1f}]"
        return f"{self.name:<10}{more:<28}{self.with_it:.3f} CPU s/M with, {self.without:.3f} without"


def costs(names: list[str], pairs: int, size: float) -> Iterator[Cost]:
    """One after the other, on a stub for each."""
    records = max(1_000, int(TURN_RECORDS * size))
    for name in names:
        part, measured = PARTS[name], []
        for is_first in (True, False):
            with targets.stub(Settings()) as target:
                measured.append(_quiet_turns(part, target, pairs, records, is_with_first=is_first))
        more = [with_it / without - 1 for with_it, without in measured]
        with_it, without = (1e6 * statistics.mean(of_one) for of_one in zip(*measured, strict=True))
        yield Cost(name, with_it, without, Spread(statistics.mean(more), min(more), max(more)))


def _quiet_turns(
    part: Part, target: targets.Target, pairs: int, records: int, *, is_with_first: bool
) -> tuple[float, float]:
    """CPU seconds for each record with the part and without it: the first quartile of the turns of each.

    What disturbs a turn only adds to it.
    """
    consumers: dict[bool, Consumer] = {}
    turns: dict[bool, list[float]] = {True: [], False: []}
    with contextlib.ExitStack() as stack:
        for is_with in (is_with_first, not is_with_first):
            with contextlib.nullcontext() if is_with else part.made_without():
                made = _consumer(part, target, (pairs + 1) * records, is_with=is_with)
                consumers[is_with] = stack.enter_context(made)
        for number in range(pairs + 1):
            for is_with in (number % 2 == 0, number % 2 != 0):
                with contextlib.nullcontext() if is_with else part.runs_without():
                    turns[is_with].append(_turn(consumers[is_with], part, records))
    first, other = (statistics.quantiles(turns[is_with][1:], n=4)[0] for is_with in (True, False))
    return first, other


@contextlib.contextmanager
def _consumer(part: Part, target: targets.Target, records: int, *, is_with: bool) -> Iterator[Consumer]:
    place = target.place(Settings(), records, 1)
    with KafkaShareConsumer(
        place.topic,
        bootstrap_servers=place.bootstrap,
        group_id=place.group,
        share_acknowledgement_mode="explicit" if part.acknowledges else "implicit",
        **(part.given if is_with else {}),
    ) as consumer:
        yield consumer
        consumer.commit_sync()


def _turn(consumer: Consumer, part: Part, records: int) -> float:
    """CPU seconds of this process for each of so many records."""
    handle = _acknowledge if part.acknowledges else _look
    count, before_s = 0, time.process_time()
    while count < records:
        found = consumer.poll(timeout_ms=_POLL_MS)
        if not found:
            raise TimeoutError(f"the stub has handed out {count} records of {records}")
        handle(consumer, found)
        count += len(found)
    return (time.process_time() - before_s) / count


def _look(_: Consumer, records: Any) -> None:
    for record in records:
        record.value  # noqa: B018


def _acknowledge(consumer: Consumer, records: Any) -> None:
    acknowledge = consumer.acknowledge
    for record in records:
        record.value  # noqa: B018
        acknowledge(record)
