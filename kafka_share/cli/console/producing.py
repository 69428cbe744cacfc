"""`kafka-share-console --produce`: each line of standard input becomes a record. kafka-python's producer sends it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaError

from kafka_share.cli.console.lines import BadLineError, Parse
from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.foreign import client_settings
from kafka_share.errors import BrokerUnreachableError, KafkaShareError

_MAX_IN_FLIGHT: Final = 1_000
_CONFIRMATION_S: Final = 60


class ProducingFailedError(KafkaShareError):
    """A line was not written to the topic."""


def produce(
    lines: Iterable[bytes],
    topic: str,
    parse: Parse,
    settings: Mapping[str, Any],
    timeout_ms: int,
    before_line: Callable[[], None] = lambda: None,
) -> int:
    """Send the lines, and wait until the brokers have them; how many there were.

    `before_line` is called before each line is awaited. Raises `BrokerUnreachableError` after `timeout_ms`,
    `ToolFailedError` for a line that is no record, when those before it are written, and `ProducingFailedError` for
    what was refused.
    """
    try:
        producer = KafkaProducer(**client_settings(settings, timeout_ms), linger_ms=5)
    except KafkaError as error:
        raise BrokerUnreachableError(f"no broker answers at {settings['bootstrap_servers']}: {error}") from error
    try:
        return _Sending(producer, topic, parse).send_all(lines, before_line)
    finally:
        producer.close(timeout=5)


class _Sending:
    """The lines on their way."""

    def __init__(self, producer: Any, topic: str, parse: Parse) -> None:
        self._producer = producer
        self._topic = topic
        self._parse = parse
        self._in_flight: deque[Any] = deque()
        self._confirmed = 0

    def send_all(self, lines: Iterable[bytes], before_line: Callable[[], None]) -> int:
        before_line()
        for number, raw in enumerate(lines, 1):
            try:
                line = self._parse(raw.removesuffix(b"\n").removesuffix(b"\r"))
            except BadLineError as error:
                self._confirm(0)
                raise ToolFailedError(f"line {number}: {error}. {self._written()}", code="BAD_LINE") from None
            try:
                sent = self._producer.send(self._topic, value=line.value, key=line.key, headers=list(line.headers))
            except KafkaError as error:
                self._confirm(0)
                raise self._failure(error) from error
            self._in_flight.append(sent)
            self._confirm(_MAX_IN_FLIGHT)
            before_line()
        self._confirm(0)
        return self._confirmed

    def _confirm(self, at_most: int) -> None:
        """Take what the brokers have answered, and wait until at most so many lines are on their way."""
        try:
            while self._in_flight and (len(self._in_flight) > at_most or self._in_flight[0].is_done):
                self._in_flight[0].get(timeout=_CONFIRMATION_S)
                self._in_flight.popleft()
                self._confirmed += 1
        except KafkaError as error:
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> ProducingFailedError:
        return ProducingFailedError(f"'{self._topic}' refused line {self._confirmed + 1}: {error}. {self._written()}")

    def _written(self) -> str:
        if not self._confirmed:
            return "Nothing was written"
        return f"{self._confirmed} line{' before it was' if self._confirmed == 1 else 's before it were'} written"
