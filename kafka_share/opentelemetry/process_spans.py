"""A span for each call of a handler, joined to the trace of the program that wrote the record.

Users wrap their handlers, so a worker knows nothing of spans, and pays nothing without them. The names are those of
version 1.44 of OpenTelemetry's semantic conventions. No span has keys, values or headers of a record; what an exception
says is shown.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar, cast

from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.propagate import extract
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_current_span,
    get_tracer_provider,
    set_span_in_context,
)

from kafka_share._version import VERSION
from kafka_share.records import ShareRecord

H = TypeVar("H", bound=Callable[..., Any])
Record: TypeAlias = ShareRecord[Any, Any]

SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 60.0, 600.0)
"""Those that the conventions recommend, and two for long work."""


class _Headers(Getter[Any]):
    """Reads the headers of a record as propagators do."""

    def get(self, carrier: Any, key: str) -> list[str] | None:
        found = [value.decode("utf-8", "replace") for name, value in carrier if name == key and value is not None]
        return found or None

    def keys(self, carrier: Any) -> list[str]:
        return [name for name, _ in carrier]


_HEADERS: Final = _Headers()


class ProcessSpans:
    """Wraps handlers, so that each call is a CONSUMER span `process <topic>` and a value of a histogram.

    `spans(handle)` is a handler for `ShareWorker`, plain or `async def` as `handle` is; it may be used as a decorator.
    In a loop of your own write `with spans.process(record):`. The span is the current one inside, so what the handler
    does is part of its trace. The histogram is `messaging.process.duration`, in seconds.

    - `group_id`, `client_id`: of the consumer, for the attributes.
    - `own_traces`: False: a span continues the trace that the record's headers carry (`traceparent`, or what the global
      propagator reads). True: it begins a trace, which is better where records wait for hours. It has a link to the
      writer's span in both cases. A span of several records has one link for each, and no parent among them.
    - `tracer_provider`, `meter_provider`: OpenTelemetry's global ones by default.
    """

    def __init__(
        self,
        group_id: str,
        client_id: str | None = None,
        *,
        own_traces: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        tracers = tracer_provider or get_tracer_provider()
        self._tracer = tracers.get_tracer("kafka_share", VERSION, schema_url=SCHEMA)
        meter = (meter_provider or get_meter_provider()).get_meter("kafka_share", VERSION, schema_url=SCHEMA)
        self._durations = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        self._own_traces = own_traces
        self._common: dict[str, str] = {
            "messaging.system": "kafka",
            "messaging.operation.name": "process",
            "messaging.consumer.group.name": group_id,
        }
        self._client = {} if client_id is None else {"messaging.client.id": client_id}

    def __call__(self, handler: H) -> H:
        """The handler, with a span around each call. It takes the same arguments."""
        wrapped: Any = self._around_coroutine(handler) if _is_async(handler) else self._around_function(handler)
        return cast("H", functools.wraps(handler)(wrapped))

    def _around_function(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        def handle(first: Any, *others: Any) -> Any:
            with self.process(*_records_of(first)):
                return handler(first, *others)

        return handle

    def _around_coroutine(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def handle(first: Any, *others: Any) -> Any:
            with self.process(*_records_of(first)):
                return await handler(first, *others)

        return handle

    @contextmanager
    def process(self, *records: Record) -> Generator[Span]:
        """A span of work on these records, as long as the block. What the block raises makes it an error.

        Raises ValueError without records.
        """
        if not records:
            raise ValueError("process takes the records that the block works on: none was given")
        began = time.perf_counter()
        contexts = [extract(record.headers, Context(), _HEADERS) for record in records]
        parent = self._parent(contexts)
        topic = _common_topic(records)
        span = self._tracer.start_span(
            "process" if topic is None else f"process {topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=self._attributes(records, topic),
            links=[Link(origin) for origin in map(_origin, contexts) if origin.is_valid],
        )
        token = attach(set_span_in_context(span, parent))
        error_type: dict[str, str] = {}
        try:
            yield span
        except BaseException as error:
            error_type["error.type"] = _name_of(type(error))
            span.record_exception(error)
            span.set_attributes(error_type)
            span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
            raise
        finally:
            detach(token)
            span.end()
            destination = {} if topic is None else {"messaging.destination.name": topic}
            self._durations.record(time.perf_counter() - began, {**self._common, **destination, **error_type})

    def _parent(self, contexts: Sequence[Context]) -> Context | None:
        """Where the span belongs; None: to what is current here."""
        if self._own_traces:
            return Context()
        return contexts[0] if len(contexts) == 1 and _origin(contexts[0]).is_valid else None

    def _attributes(self, records: Sequence[Record], topic: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {**self._common, **self._client, "messaging.operation.type": "process"}
        if topic is not None:
            found["messaging.destination.name"] = topic
        if len(records) > 1:
            found["messaging.batch.message_count"] = len(records)
            return found
        record = records[0]
        found["messaging.destination.partition.id"] = str(record.partition)
        found["messaging.kafka.offset"] = record.offset
        found["kafka_share.delivery_count"] = record.delivery_count
        return found


def _records_of(first: Any) -> Sequence[Record]:
    """What a handler is given first: a record, or several."""
    return (first,) if isinstance(first, ShareRecord) else tuple(first)


def _common_topic(records: Sequence[Record]) -> str | None:
    topics = {record.topic for record in records}
    return topics.pop() if len(topics) == 1 else None


def _origin(context: Context) -> Any:
    """The context of the span in which a record was written; it is not valid if the headers have none."""
    return get_current_span(context).get_span_context()


def _name_of(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _is_async(handler: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
