"""`kafka-share-console --produce`: each line of standard input becomes a record. kafka-python's producer sends it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaError

from kafka_share.errors import BrokerUnreachableError, KafkaShareError

_MAX_IN_FLIGHT: Final = 1_000
_SHARED_PREFIXES: Final = ("ssl_", "sasl_", "security_", "bootstrap_", "client_id")


class ProducingFailedError(KafkaShareError):
    """A line was not written to the topic."""


def produce(lines: Iterable[bytes], topic: str, key_separator: bytes | None, settings: Mapping[str, Any]) -> int:
    """Send the lines, and wait until the brokers have them; how many there were.

    With `key_separator` a line is a key and a value; a line without the separator has no key. Raises
    `ProducingFailedError` for what was refused, and `BrokerUnreachableError`.
    """
    own = {name: value for name, value in settings.items() if name.startswith(_SHARED_PREFIXES) and value is not None}
    own["bootstrap_servers"] = str(own["bootstrap_servers"]).split(",")
    try:
        producer = KafkaProducer(**own, linger_ms=5)
    except KafkaError as error:
        raise BrokerUnreachableError(f"no broker answers at {settings['bootstrap_servers']}: {error}") from error
    count = 0
    in_flight: deque[Any] = deque()
    try:
        for line in lines:
            key, value = _parts(line.rstrip(b"\r\n"), key_separator)
            in_flight.append(producer.send(topic, key=key, value=value))
            count += 1
            if len(in_flight) > _MAX_IN_FLIGHT:
                in_flight.popleft().get(timeout=60)
        while in_flight:
            in_flight.popleft().get(timeout=60)
    except KafkaError as error:
        confirmed = count - len(in_flight) - 1
        raise ProducingFailedError(f"'{topic}' took {max(0, confirmed)} lines, then: {error}") from error
    finally:
        producer.close(timeout=5)
    return count


def _parts(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    if separator is None or separator not in line:
        return None, line
    key, _, value = line.partition(separator)
    return key, value
