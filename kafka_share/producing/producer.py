"""What is written, and what may write it: the protocol that a worker asks of a producer.

`kafka_python`, `confluent` and `aiokafka` fulfil it with the producers of these clients; an application may, too.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias, runtime_checkable

import attrs

from kafka_share.errors import ConfigurationError, ProduceError
from kafka_share.harmless import excerpt

Headers: TypeAlias = "tuple[tuple[str, bytes | None], ...]"
Told: TypeAlias = Callable[[Exception | None], None]
"""Is told once how it went: None when the record is written, else why it is not."""


@attrs.frozen
class OutgoingRecord:
    """A record that is to be written. Its partition is the producer's choice, unless it is given."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None

    def __repr__(self) -> str:
        return f"<OutgoingRecord for {self.topic}>"


@runtime_checkable
class RecordProducer(Protocol):
    """Writes records to topics. One thread at a time calls it."""

    def produce(self, record: OutgoingRecord, told: Told) -> None:
        """Begin to write the record, and return without waiting.

        `told` is called once, by any thread: with None when all in-sync replicas have the record (acks=all), else with
        an exception that says why they may not. What is raised instead counts as told.
        """
        ...

    def close(self, timeout_ms: int) -> None:
        """No more records come; what is on its way may take this long. Called if `produce` was."""
        ...


def not_written(topic: str, error: BaseException | str, remedy: str = "") -> ProduceError:
    """What to tell when a client has refused a record."""
    kind, text = type(error).__name__, str(error)
    if not isinstance(error, str) and not text.startswith(kind):
        text = f"{kind}: {text}"
    made = ProduceError(f"topic '{topic}' has not taken the record: {excerpt(text)}{remedy and f' ({remedy})'}")
    if isinstance(error, BaseException):
        made.__cause__ = error
    return made


MISSING: Final = "does the topic exist, and does a broker answer?"
FORBIDDEN: Final = "the user needs WRITE and DESCRIBE on the topic"


_ADAPTERS: Final = MappingProxyType(
    {
        "kafka": "KafkaPythonProducer",
        "confluent_kafka": "ConfluentProducer",
        "cimpl": "ConfluentProducer",
        "aiokafka": "AiokafkaProducer",
    }
)
"""By the package of a client's own producer."""


def checked_producer(given: object) -> RecordProducer:
    """The same. Raises `ConfigurationError` for what is no `RecordProducer`, and says what to write instead."""
    for kind in type(given).__mro__:
        adapter = _ADAPTERS.get(kind.__module__.partition(".")[0])
        if adapter is not None:
            raise ConfigurationError(
                f"producer is a {kind.__qualname__} of {kind.__module__}: write {adapter}(…) of it"
            )
    if isinstance(given, type) or not isinstance(given, RecordProducer):
        raise ConfigurationError(f"producer is {given!r}: it needs the methods of RecordProducer, produce and close")
    return given
