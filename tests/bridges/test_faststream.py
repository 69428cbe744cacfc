"""The broker of FastStream: each message is settled by itself, as the policy or the handler says."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from bridges.conftest import GROUP, TOPIC, failing_twice, left_over
from support.event_loop import until
from support.waiting import patience_s

from kafka_share.broker import ReferenceBroker, Security
from kafka_share.errors import ConfigurationError, GroupAuthorizationFailedError, IllegalStateError
from kafka_share.handling.leasing import AsyncLeasingConsumer
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.records import AcknowledgeType

pytest.importorskip("faststream.kafka", reason="FastStream is not installed: pip install 'kafka-share[faststream]'")
from faststream import AckPolicy, BaseMiddleware, Context, Depends, FastStream
from faststream.exceptions import AckMessage, NackMessage, RejectMessage, SkipMessage, StopConsume
from faststream.kafka import KafkaBroker, KafkaMessage, TestKafkaBroker
from faststream.security import SASLPlaintext
from faststream.specification import AsyncAPI
from pydantic import BaseModel

from kafka_share.bridges.faststream import Message, ShareGroupBroker, ShareGroupRouter

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class Order(BaseModel):
    number: int


def made(broker: ReferenceBroker, **options: Any) -> ShareGroupBroker:
    given = {"group_id": GROUP, "nack_delay_ms": 1, "logger": None, **options}
    return ShareGroupBroker(broker.bootstrap_servers, **given)


@asynccontextmanager
async def working(jobs: ShareGroupBroker) -> AsyncGenerator[None]:
    await jobs.start()
    try:
        yield
    finally:
        await jobs.stop()


def settled(broker: ReferenceBroker) -> dict[int, list[AcknowledgeType]]:
    """How each record of the topic was acknowledged, by offset; locks that were renewed are left out."""
    found: dict[int, list[AcknowledgeType]] = {}
    for _, request in broker.requests():
        if not isinstance(request, (ShareFetchRequest, ShareAcknowledgeRequest)):
            continue
        for topic in request.topics:
            for batch in (batch for one in topic.partitions for batch in one.acknowledgement_batches):
                count = batch.last_offset - batch.first_offset + 1
                kinds = batch.acknowledge_types * (count if len(batch.acknowledge_types) == 1 else 1)
                for offset, kind in zip(range(batch.first_offset, batch.last_offset + 1), kinds, strict=True):
                    if kind in (ACCEPT, RELEASE, REJECT):
                        found.setdefault(offset, []).append(AcknowledgeType(kind))
    return found


def test_messages_are_decoded_handled_and_answered_as_with_kafka(
    broker: ReferenceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Dependencies, middlewares and publishers are FastStream's own; each record is accepted after its handler."""
    broker.create_topic("packed")
    seen: list[str] = []

    class Noting(BaseMiddleware):
        async def on_receive(self) -> None:
            seen.append("middleware")

    jobs = made(broker, middlewares=[Noting])

    @jobs.subscriber(TOPIC)
    @jobs.publisher("packed")
    async def pack(order: Order, warehouse: Annotated[str, Depends(lambda: "north")], message: KafkaMessage) -> Order:
        seen.append(f"{order.number} {warehouse} {message.headers['tenant']} {message.raw_message.delivery_count}")
        return Order(number=order.number + 100)

    async def main() -> None:
        async with working(jobs):
            await jobs.publish(Order(number=1), TOPIC, key=b"k", headers={"tenant": "acme"})
            await until(lambda: broker.records("packed"))

    asyncio.run(main())
    assert seen == ["middleware", "1 north acme 1"]
    assert [json.loads(record.value or b"") for record in broker.records("packed")] == [{"number": 101}]
    assert {request.acks for _, request in broker.requests() if isinstance(request, ProduceRequest)} == {-1}
    assert settled(broker) == {0: [ACCEPT]}
    assert caplog.messages == []
    assert left_over(broker) == []


@pytest.mark.parametrize(
    ("policy", "kinds"),
    [
        (AckPolicy.ACK_FIRST, [ACCEPT]),
        (AckPolicy.ACK, [ACCEPT]),
        (AckPolicy.REJECT_ON_ERROR, [REJECT]),
        (AckPolicy.NACK_ON_ERROR, [RELEASE, ACCEPT]),
        (None, [RELEASE, ACCEPT]),
    ],
)
@pytest.mark.parametrize("place", ["broker", "subscriber"])
def test_the_policy_says_what_becomes_of_a_record_whose_handler_raises(
    broker: ReferenceBroker, policy: AckPolicy | None, kinds: list[AcknowledgeType], place: str
) -> None:
    """The first delivery raises, a second one does not. Without a policy it is NACK_ON_ERROR."""
    given = {} if policy is None else {"ack_policy": policy}
    jobs = made(broker, **(given if place == "broker" else {}))
    calls: list[int] = []

    @jobs.subscriber(TOPIC, **(given if place == "subscriber" else {}))
    async def fail(number: int, message: Message) -> None:
        calls.append(number)
        if number == 1 and message.raw_message.delivery_count == 1:
            raise LookupError("no such order")

    async def main() -> None:
        async with working(jobs):
            await jobs.publish(1, TOPIC)
            await until(lambda: len(calls) == (2 if RELEASE in kinds else 1))
            await jobs.publish(2, TOPIC)
            await until(lambda: 2 in calls)

    asyncio.run(main())
    assert settled(broker) == {0: kinds, 1: [ACCEPT]}


def test_a_record_is_accepted_first_if_the_policy_says_so(broker: ReferenceBroker) -> None:
    """It is while its handler still runs; with the other policies not."""
    jobs, may_end = made(broker, group_id="others"), asyncio.Event()

    @jobs.subscriber(TOPIC, group_id=GROUP, ack_policy=AckPolicy.ACK_FIRST)
    async def wait(_: int) -> None:
        await may_end.wait()

    async def main() -> None:
        async with working(jobs):
            await jobs.publish(1, TOPIC)
            await until(lambda: settled(broker) == {0: [ACCEPT]})
            may_end.set()

    asyncio.run(main())


def test_a_handler_settles_its_message_itself_with_manual(broker: ReferenceBroker) -> None:
    """Only the first word counts; a message that it says nothing of is released when the subscriber stops."""
    jobs, calls = made(broker, ack_policy=AckPolicy.MANUAL), list[str]()

    @jobs.subscriber(TOPIC, max_workers=4)
    async def settle(what: str, message: Message) -> None:
        calls.append(what)
        if message.raw_message.delivery_count > 1:
            await message.ack()
        elif what == "nothing":
            return
        elif what == "nack":
            with pytest.raises(Exception, match="delay_ms"):
                await message.nack(-1)
            await message.nack(delay_ms=2)
            await message.ack()
        else:
            await {"ack": message.ack, "reject": message.reject}[what]()

    async def main() -> None:
        async with working(jobs):
            for what in ("ack", "nack", "reject", "nothing"):
                await jobs.publish(what, TOPIC)
            await until(lambda: len(calls) == 5)

    asyncio.run(main())
    assert settled(broker) == {0: [ACCEPT], 1: [RELEASE, ACCEPT], 2: [REJECT]}
    assert left_over(broker) == [3]


@pytest.mark.parametrize(
    ("raised", "kinds"),
    [
        (AckMessage(), [ACCEPT]),
        (RejectMessage(), [REJECT]),
        (NackMessage(delay_ms=3), [RELEASE, ACCEPT]),
        (NackMessage(delay_ms="3"), [RELEASE, ACCEPT]),
        (SkipMessage(), [RELEASE, ACCEPT]),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else "",
)
def test_an_exception_of_faststream_says_what_becomes_of_the_record(
    broker: ReferenceBroker, raised: Exception, kinds: list[AcknowledgeType]
) -> None:
    """A record of which nothing could be said is released."""
    jobs, calls = made(broker, ack_policy=AckPolicy.ACK), list[int]()

    @jobs.subscriber(TOPIC)
    async def settle(number: int, message: Message) -> None:
        calls.append(number)
        if message.raw_message.delivery_count == 1:
            raise raised

    async def main() -> None:
        async with working(jobs):
            await jobs.publish(1, TOPIC)
            await until(lambda: len(calls) == len(kinds))

    asyncio.run(main())
    assert settled(broker) == {0: kinds}


def test_so_many_records_are_handled_at_a_time_as_there_are_workers(broker: ReferenceBroker) -> None:
    """Those that wait are within the window, and no more are locked."""
    jobs, running, most, may_end = made(broker), set[int](), list[int](), asyncio.Event()

    @jobs.subscriber(TOPIC, max_workers=3, window_records=4)
    async def wait(number: int) -> None:
        running.add(number)
        most.append(len(running))
        await may_end.wait()
        running.discard(number)

    async def main() -> None:
        await jobs.connect()
        for number in range(6):
            await jobs.publish(number, TOPIC)
        async with working(jobs):
            await until(lambda: len(running) == 3)
            await until(lambda: locked(broker) == 4)
            may_end.set()
            await until(lambda: len(most) == 6 and not running)

    asyncio.run(main())
    assert max(most) == 3
    assert left_over(broker) == []


def members(broker: ReferenceBroker) -> int:
    group = broker.share_group(GROUP)
    return 0 if group is None else len(group.members)


def locked(broker: ReferenceBroker) -> int:
    state = broker.share_partition(GROUP, TOPIC)
    return 0 if state is None else sum(part.last - part.first + 1 for part in state.ranges if part.member)


def test_a_record_is_delivered_once_when_its_handler_takes_several_lock_times(broker: ReferenceBroker) -> None:
    broker.set_broker_config({"group.share.min.record.lock.duration.ms": 1_000})
    broker.set_group_config(GROUP, {"share.record.lock.duration.ms": 1_000})
    jobs, deliveries = made(broker), list[int]()

    @jobs.subscriber(TOPIC)
    async def take_long(_: int, message: Message) -> None:
        record, deadlines = message.raw_message, set[float | None]()
        deliveries.append(record.delivery_count)

        def has_been_renewed() -> bool:
            deadlines.add(record.lock_deadline)
            return len(deadlines) > 3

        await until(has_been_renewed)

    async def main() -> None:
        async with working(jobs):
            await jobs.publish(1, TOPIC)
            await until(lambda: settled(broker))

    asyncio.run(main())
    assert deliveries == [1]
    assert settled(broker) == {0: [ACCEPT]}


@pytest.mark.parametrize("in_time", [True, False])
def test_a_stop_lets_handlers_end_and_releases_what_has_not_begun(
    broker: ReferenceBroker, in_time: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that does not end in time is cancelled, and its record is released, too."""
    jobs = made(broker, graceful_timeout=patience_s() if in_time else 0.01)
    may_end, how = asyncio.Event(), list[str]()

    @jobs.subscriber(TOPIC)
    async def wait(_: int) -> None:
        how.append("begun")
        try:
            await may_end.wait()
            how.append("ended")
        except asyncio.CancelledError:
            how.append("cancelled")
            raise

    async def main() -> None:
        await jobs.connect()
        for number in range(3):
            await jobs.publish(number, TOPIC)
        await jobs.start()
        await until(lambda: locked(broker) == 3 and how)
        stopping = asyncio.create_task(jobs.stop())
        if in_time:
            await until(lambda: settled(broker) == {1: [RELEASE], 2: [RELEASE]})
            may_end.set()
        await stopping
        await until(lambda: len(how) == 2)

    asyncio.run(main())
    assert caplog.messages == []
    assert how == ["begun", "ended" if in_time else "cancelled"]
    assert left_over(broker) == ([1, 2] if in_time else [0, 1, 2])


def test_a_handler_can_stop_its_subscriber(broker: ReferenceBroker) -> None:
    """The rest is for others, and the broker can still be stopped."""
    jobs, seen = made(broker, ack_policy=AckPolicy.ACK), list[int]()
    subscriber = jobs.subscriber(TOPIC)

    @subscriber
    async def stop(number: int) -> None:
        seen.append(number)
        raise StopConsume

    async def main() -> None:
        async with working(jobs):
            await asyncio.gather(*(jobs.publish(number, TOPIC) for number in range(3)))
            await until(lambda: seen)
            await until(lambda: members(broker) == 0)

    asyncio.run(main())
    assert len(seen) == 1
    assert left_over(broker) == [1, 2]


def test_messages_are_taken_one_by_one_without_a_handler(broker: ReferenceBroker) -> None:
    jobs = made(broker)
    subscriber = jobs.subscriber(TOPIC)

    async def main() -> None:
        with pytest.raises(IllegalStateError, match="start"):
            await subscriber.get_one()
        async with working(jobs):
            assert await subscriber.get_one(timeout=0.01) is None
            await jobs.publish({"number": 1}, TOPIC)
            await jobs.publish({"number": 2}, TOPIC)
            first = await subscriber.get_one(timeout=patience_s())
            assert first is not None
            assert await first.decode() == {"number": 1}
            await first.reject()
            async for message in subscriber:
                assert await message.decode() == {"number": 2}
                await message.ack()
                await subscriber.stop()
            await subscriber.start()
            waiting = asyncio.create_task(subscriber.get_one(timeout=patience_s()))
            await until(lambda: members(broker))
            await subscriber.stop()
            assert await waiting is None

        @subscriber
        async def handle(_: Any) -> None:
            """Is never called."""

        with pytest.raises(IllegalStateError, match="handlers"):
            await subscriber.get_one()

    asyncio.run(main())
    assert settled(broker) == {0: [REJECT], 1: [ACCEPT]}


def test_a_router_adds_subscribers_to_the_group_of_its_broker(broker: ReferenceBroker) -> None:
    router, seen = ShareGroupRouter(prefix="ta"), list[int]()

    @router.subscriber("sks")
    async def handle(number: int) -> None:
        seen.append(number)

    jobs = made(broker)
    jobs.include_router(router)

    async def main() -> None:
        async with working(jobs):
            await jobs.publish(1, TOPIC)
            await until(lambda: seen)

    asyncio.run(main())
    assert settled(broker) == {0: [ACCEPT]}


def test_a_router_of_share_groups_is_refused_in_a_broker_of_consumer_groups(broker: ReferenceBroker) -> None:
    router, plain = ShareGroupRouter(), KafkaBroker(broker.bootstrap_servers, logger=None)

    @router.subscriber(TOPIC)
    async def handle(_: Any) -> None:
        """Is never called."""

    plain.include_router(router)

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="ShareGroupBroker"):
            await plain.start()
        await plain.stop()

    asyncio.run(main())


def test_headers_need_not_be_text(broker: ReferenceBroker) -> None:
    """Anybody may write to a topic."""
    broker.produce(TOPIC, None, headers=[("null", None), ("bytes", b"\xff")])
    jobs, seen = made(broker), list[Any]()

    @jobs.subscriber(TOPIC)
    async def handle(body: bytes, message: Message) -> None:
        seen.append((body, message.headers))

    async def main() -> None:
        async with working(jobs):
            await until(lambda: seen)

    asyncio.run(main())
    assert seen == [(b"", {"null": "", "bytes": "\ufffd"})]


def test_what_may_pass_is_logged_once_and_ends_nothing(
    broker: ReferenceBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing_twice(monkeypatch, AsyncLeasingConsumer)
    jobs, seen = made(broker), list[int]()

    @jobs.subscriber(TOPIC)
    async def handle(number: int) -> None:
        seen.append(number)

    async def main() -> None:
        async with working(jobs):
            await jobs.publish(1, TOPIC)
            await until(lambda: seen)

    asyncio.run(main())
    assert caplog.text.count("no route to it") == 1


@pytest.mark.parametrize("has_application", [True, False])
def test_an_error_that_lasts_ends_the_application(
    broker: ReferenceBroker, caplog: pytest.LogCaptureFixture, has_application: bool
) -> None:
    """Where there is none, the subscriber ends."""
    broker.faults.fail("ShareGroupHeartbeat", GroupAuthorizationFailedError)
    jobs = made(broker)
    subscriber = jobs.subscriber(TOPIC, max_workers=2)

    @subscriber
    async def handle(_: int) -> None:
        """Is never called."""

    async def main() -> None:
        async with asyncio.timeout(patience_s()):
            if has_application:
                await FastStream(jobs, logger=None).run()
            else:
                async with working(jobs):
                    await until(lambda: not subscriber.running)

    asyncio.run(main())
    errors = [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.ERROR]
    assert [text.startswith(f"the subscriber of {TOPIC} has ended: ") for text in errors] == [True]


def test_producer_and_members_get_in_with_the_security_of_the_broker() -> None:
    with ReferenceBroker(security=Security("SASL_PLAINTEXT", {"user": "secret"})) as broker:
        broker.create_topic(TOPIC)
        broker.set_group_config(GROUP, share_auto_offset_reset="earliest")
        jobs, seen = made(broker, security=SASLPlaintext("user", "secret")), list[int]()

        @jobs.subscriber(TOPIC)
        async def handle(number: int) -> None:
            seen.append(number)

        async def main() -> None:
            async with working(jobs):
                await jobs.publish(1, TOPIC)
                await until(lambda: seen)

        asyncio.run(main())
        assert settled(broker) == {0: [ACCEPT]}


def test_the_test_client_of_faststream_needs_no_broker_at_all() -> None:
    jobs = ShareGroupBroker("localhost:1", group_id=GROUP, logger=None)
    router = ShareGroupRouter(ack_policy=AckPolicy.MANUAL)

    @jobs.subscriber("jobs")
    @jobs.publisher("packed")
    async def pack(order: Order) -> int:
        return order.number

    @router.subscriber("others")
    async def settle(_: str, message: Message, broker: Annotated[Any, Context()]) -> None:
        await message.nack(delay_ms=5)
        assert broker is jobs

    jobs.include_router(router)

    async def main() -> None:
        async with TestKafkaBroker(jobs) as client:
            await client.publish(Order(number=7), "jobs")
            await client.publish("text", "others")
            pack.mock.assert_called_once_with({"number": 7})
            settle.mock.assert_called_once_with("text")

    asyncio.run(main())


def test_the_document_of_an_application_has_its_subscribers() -> None:
    jobs = ShareGroupBroker("localhost:1", group_id=GROUP)

    @jobs.subscriber("jobs", title="Jobs", description="what is to be packed")
    async def pack(order: Order) -> None:
        """Is never called."""

    document = AsyncAPI(jobs).to_specification().to_jsonable()
    assert document["channels"]["Jobs"]["address"] == "jobs"
    assert document["channels"]["Jobs"]["description"] == "what is to be packed"


@pytest.mark.parametrize(
    ("options", "pause_ms"),
    [({}, 0), ({"nack_delay_ms": 0}, None), ({"settings": {"release_backoff_ms": 7}}, 7)],
)
def test_a_member_pauses_after_releases_only_if_these_do_not_wait(
    options: dict[str, Any], pause_ms: int | None
) -> None:
    """Kafka hands out records with many deliveries one by one: each would hold up all others."""
    jobs = ShareGroupBroker("localhost:1", group_id="g", **options)
    assert jobs.subscriber("t").consumer_settings().get("release_backoff_ms") == pause_ms


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": {"share_acknowledgement_mode": "implicit"}}, "sets it itself"),
        ({"max_lease_ms": 0}, "max_lease_ms"),
        ({"nack_delay_ms": -1}, "nack_delay_ms"),
        ({"settings": {"group_idd": "g"}}, "group_id"),
        ({"request_timeout_ms": -1}, "request_timeout_ms"),
        ({"group_id": ""}, "group_id"),
    ],
)
def test_a_mistake_is_refused_when_the_broker_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ShareGroupBroker("localhost:1", **{"group_id": "g", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_workers": 0}, "max_workers"),
        ({"max_workers": 3, "window_records": 2}, "at least max_workers, 3"),
        ({"window_records": 0}, "window_records"),
        ({"batch": True}, "max_workers"),
        ({"auto_offset_reset": "earliest"}, "share.auto.offset.reset"),
        ({"pattern": "t.*"}, "pattern"),
    ],
)
def test_a_mistake_is_refused_when_a_subscriber_is_made(options: dict[str, Any], message: str) -> None:
    jobs = ShareGroupBroker("localhost:1", group_id="g")
    with pytest.raises(ConfigurationError, match=message):
        jobs.subscriber("t", **options)
    with pytest.raises(ConfigurationError, match="topic"):
        jobs.subscriber()
    assert jobs.subscribers == []
