"""ProcessSpans: what a call of a handler is for OpenTelemetry."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from handling.conftest import GROUP, Running
from handling.given import record
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from support.waiting import patience_s

from kafka_share.broker import ReferenceBroker
from kafka_share.opentelemetry import ProcessSpans
from kafka_share.opentelemetry.process_spans import SCHEMA
from kafka_share.worker import Lease, Retry, ShareWorker

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
WRITTEN = (("traceparent", f"00-{TRACE}-{PARENT}-01".encode()), ("other", None))


class Seen:
    """Two providers of the SDK, and what they were given."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    def make(self, **options: Any) -> ProcessSpans:
        return ProcessSpans(GROUP, tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def only(self) -> ReadableSpan:
        (span,) = self.spans
        return span

    def durations(self) -> list[dict[str, Any]]:
        """The attributes of each series of the histogram, and how many values it has."""
        data = self.reader.get_metrics_data()
        (resource,) = [] if data is None else data.resource_metrics
        (scope,) = resource.scope_metrics
        (metric,) = scope.metrics
        assert (metric.name, metric.unit) == ("messaging.process.duration", "s")
        points: Any = metric.data.data_points
        return [{**point.attributes, "count": point.count} for point in points]


@pytest.fixture
def seen() -> Iterator[Seen]:
    made = Seen()
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()


def written(offset: int, headers: Any = WRITTEN, **changes: Any) -> Any:
    return record(offset).__replace__(headers=headers, **changes)


def test_a_span_says_what_was_worked_on_and_continues_the_trace_of_its_writer(seen: Seen) -> None:
    inside: list[Any] = []

    @seen.make(client_id="c")
    def handle(record: Any) -> None:
        inside.append(get_current_span().get_span_context())

    handle(written(7, delivery_count=2))
    span = seen.only()
    assert (span.name, span.kind, span.status.status_code) == ("process t", SpanKind.CONSUMER, StatusCode.UNSET)
    assert span.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 7,
        "messaging.consumer.group.name": GROUP,
        "messaging.client.id": "c",
        "kafka_share.delivery_count": 2,
    }
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert [f"{link.context.span_id:016x}" for link in span.links] == [PARENT]
    assert inside == [span.context]
    assert not get_current_span().get_span_context().is_valid, "the span was left current"
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.schema_url == SCHEMA


def test_a_span_begins_a_trace_when_that_is_asked_for(seen: Seen) -> None:
    """The link to the writer stays; what is current around the call is no parent either."""
    spans = seen.make(own_traces=True)
    with seen.tracers.get_tracer("around").start_as_current_span("around"), spans.process(written(0)):
        pass
    span = seen.spans[0]
    assert span.parent is None
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE]


@pytest.mark.parametrize("headers", [(), (("traceparent", b"\xff nonsense"),), (("traceparent", None),)])
def test_a_record_without_a_trace_has_a_span_of_what_is_current(seen: Seen, headers: Any) -> None:
    spans = seen.make()
    with (
        seen.tracers.get_tracer("around").start_as_current_span("around") as around,
        spans.process(written(0, headers)),
    ):
        pass
    span = seen.spans[0]
    assert span.parent == around.get_span_context()
    assert span.links == ()


def test_several_records_are_one_span_with_a_link_for_each(seen: Seen) -> None:
    other = (("traceparent", f"00-{TRACE}-00000000000000aa-01".encode()),)
    seen.make()(len)([written(0), written(1, other), written(2, ())])
    span = seen.only()
    assert span.name == "process t"
    assert span.parent is None
    assert [f"{link.context.span_id:016x}" for link in span.links] == [PARENT, "00000000000000aa"]
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 3
    assert "messaging.kafka.offset" not in span.attributes
    with seen.make().process(written(0), written(1, topic="u")):
        pass
    assert seen.spans[1].name == "process"
    with pytest.raises(ValueError, match="none was given"), seen.make().process():
        pass


def test_a_failure_is_the_status_of_its_span_and_an_attribute_of_its_duration(seen: Seen) -> None:
    spans = seen.make()
    for error in (None, LookupError("no such order")):

        def handle(record: Any, error: Exception | None = error) -> None:
            if error is not None:
                raise error

        with nullcontext() if error is None else pytest.raises(LookupError):
            spans(handle)(written(0))
    good, bad = seen.spans
    assert good.status.status_code is StatusCode.UNSET
    assert (bad.status.status_code, bad.status.description) == (StatusCode.ERROR, "LookupError: no such order")
    assert bad.attributes is not None
    assert bad.attributes["error.type"] == "LookupError"
    assert [event.name for event in bad.events] == ["exception"]
    common = {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.consumer.group.name": GROUP,
        "messaging.destination.name": "t",
        "count": 1,
    }
    assert seen.durations() == [common, {**common, "error.type": "LookupError"}]


def test_a_wrapped_handler_is_to_a_worker_what_it_was(seen: Seen) -> None:
    """Its name, its parameters, and whether it is a coroutine."""
    spans = seen.make()

    @spans
    async def handle(record: Any, lease: Lease) -> None:
        """Of a worker."""

    assert inspect.iscoroutinefunction(handle)
    assert handle.__name__ == "handle"
    assert list(inspect.signature(handle).parameters) == ["record", "lease"]

    class Plain:
        def __call__(self, record: Any) -> None:
            """Of a worker."""

    assert not inspect.iscoroutinefunction(spans(Plain()))
    assert list(inspect.signature(spans(Plain())).parameters) == ["record"]


@ProcessSpans("g")
def decorated(record: Any) -> None:
    """As at the top of a module of the user's."""


def test_a_decorated_handler_can_be_sent_to_another_process() -> None:
    """A worker with processes sends it by its name, which is that of what the decorator made."""
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_each_try_of_a_worker_is_a_span_of_the_writers_trace(form: str, broker: ReferenceBroker, seen: Seen) -> None:
    broker.produce("t", b"0", headers=[("traceparent", WRITTEN[0][1])])
    spans = seen.make()
    tries: list[int] = []

    def plain(record: Any, lease: Lease) -> None:
        tries.append(lease.tries)
        if len(tries) == 1:
            raise ConnectionError("the database is away")

    async def coroutine(record: Any, lease: Lease) -> None:
        await asyncio.sleep(0)
        plain(record, lease)

    handler = spans(plain) if form == "threads" else spans(coroutine)
    settings: Any = {"bootstrap_servers": broker.bootstrap_servers, "group_id": GROUP}
    running = Running(form, broker, lambda record, lease: None)
    running.worker = ShareWorker("t", handler, on_error={ConnectionError: Retry(backoff_ms=1)}, **settings)
    with running:
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 1)
    assert tries == [1, 2]
    assert [span.status.status_code for span in seen.spans] == [StatusCode.ERROR, StatusCode.UNSET]
    assert {f"{span.context.trace_id:032x}" for span in seen.spans if span.context is not None} == {TRACE}


def test_a_handler_that_is_cancelled_has_a_span_that_says_so(broker: ReferenceBroker, seen: Seen) -> None:
    broker.produce("t", b"0")
    spans = seen.make()
    begun = asyncio.Event()

    @spans
    async def handle(record: Any) -> None:
        begun.set()
        await asyncio.sleep(patience_s())

    async def main() -> None:
        worker: ShareWorker[Any, Any] = ShareWorker(
            "t", handle, bootstrap_servers=broker.bootstrap_servers, group_id=GROUP, drain_timeout_ms=1
        )
        life = asyncio.create_task(worker.run_async())
        async with asyncio.timeout(patience_s()):
            await begun.wait()
        worker.stop()
        await life

    asyncio.run(main())
    span = seen.only()
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"
