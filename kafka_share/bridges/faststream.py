"""A broker of FastStream: its subscribers are members of a share group, and each message is settled by itself.

Needs the extra `faststream`. Only the subscribers are ours: they derive from those of FastStream's `KafkaBroker`, from
which the rest comes as it is, such as publishers, middlewares and dependencies. FastStream does not call these classes
public, so the extra names the versions that were tried. docs/bridges.md has what becomes of a record.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

import attrs

try:
    from faststream import AckPolicy, Context
    from faststream._internal.broker.registrator import Registrator
    from faststream._internal.constants import EMPTY
    from faststream._internal.endpoint.subscriber.call_item import CallsCollection
    from faststream._internal.endpoint.subscriber.usecase import SubscriberUsecase
    from faststream._internal.endpoint.utils import process_msg
    from faststream.kafka import KafkaBroker, KafkaRouter, Topic
    from faststream.kafka.broker.registrator import KafkaRegistrator
    from faststream.kafka.message import FAKE_CONSUMER, KafkaMessage
    from faststream.kafka.security import parse_security
    from faststream.kafka.subscriber.config import KafkaSubscriberConfig, KafkaSubscriberSpecificationConfig
    from faststream.kafka.subscriber.specification import KafkaSubscriberSpecification
    from faststream.kafka.subscriber.usecase import DefaultSubscriber
    from faststream.message.message import AckStatus
except ImportError as _missing:  # or another version, or aiokafka is missing
    _text = "the bridge to FastStream needs its version 0.7, from 0.7.8 on, with aiokafka"
    raise ImportError(f"{_text}: pip install 'kafka-share[faststream]'") from _missing

from kafka_share.bridges.held import HeldRecords, Record, log
from kafka_share.bridges.settings import bridge_settings
from kafka_share.bridges.trouble import Trouble
from kafka_share.config_checks import whole_number
from kafka_share.errors import ConfigurationError, IllegalStateError, KafkaShareError
from kafka_share.handling.leasing import AsyncLeasingConsumer
from kafka_share.harmless import excerpt
from kafka_share.records import AcknowledgeType, ShareRecord

POLL_MS: Final = 1_000
CLOSE_TIMEOUT_MS: Final = 10_000
RECORDS_PER_WORKER: Final = 5
"""The window of a subscriber, unless it is set."""

_OF_BOTH: Final = (
    "client_id", "client_rack", "connections_max_idle_ms", "metadata_max_age_ms", "request_timeout_ms",
    "retry_backoff_ms",
)  # fmt: skip
"""Options of `KafkaBroker` that are settings of a share consumer, too."""

_Settle: TypeAlias = Callable[[AcknowledgeType, int | None], None]


class ShareGroupMessage(KafkaMessage):
    """A message whose record is acknowledged by itself, once. `raw_message` is the `ShareRecord`."""

    def __init__(self, *args: Any, settle: _Settle, **kwargs: Any) -> None:
        super().__init__(*args, consumer=FAKE_CONSUMER, **kwargs)
        self.committed: AckStatus | None = None
        self._settle = settle

    async def ack(self) -> None:
        """Accept the record."""
        self._settle(AcknowledgeType.ACCEPT, None)
        await super().ack()

    async def nack(self, delay_ms: int | None = None) -> None:
        """Release the record, which spends this delivery, after `delay_ms`; by default the broker's `nack_delay_ms`.

        Raises `InvalidArgumentError` if that is not from 0 to 900,000.
        """
        self._settle(AcknowledgeType.RELEASE, delay_ms)
        await super().nack()

    async def reject(self) -> None:
        """Reject the record: it is not delivered again."""
        self._settle(AcknowledgeType.REJECT, None)
        await super().reject()


Message: TypeAlias = Annotated[ShareGroupMessage, Context("message")]
"""The annotation of a handler's parameter that gets the message."""


@attrs.frozen
class _Shared:
    """What the subscribers of a broker have in common."""

    settings: Mapping[str, Any]
    max_lease_ms: int
    nack_delay_ms: int = attrs.field(validator=whole_number(0, 900_000))  # what a consumer allows


@dataclass(kw_only=True)
class _SubscriberConfig(KafkaSubscriberConfig):
    """FastStream's, without what it knows of commits."""

    @property
    def auto_ack_disabled(self) -> bool:
        return self.ack_policy is AckPolicy.MANUAL

    @property
    def ack_policy(self) -> AckPolicy:
        for policy in (self._ack_policy, self._outer_config.ack_policy):
            if policy is not EMPTY:
                return policy
        return AckPolicy.NACK_ON_ERROR


class ShareGroupSubscriber(DefaultSubscriber):
    """One member of the group, and `max_workers` tasks that handle its records. A broker or a router makes it."""

    consumer: AsyncLeasingConsumer | None
    running: bool

    def __init__(
        self,
        config: _SubscriberConfig,
        specification: KafkaSubscriberSpecification,
        calls: CallsCollection[Any],
        *,
        max_workers: int,
        window_records: int,
        settings: Mapping[str, Any],
    ) -> None:
        super().__init__(config, specification, calls)
        self._parser = self._parsed  # instead of one for aiokafka's records
        self._max_workers = max_workers
        self._window_records = window_records
        self._settings = settings
        self._held: HeldRecords | None = None
        self._trouble = Trouble()
        self._waiting: deque[Record] = deque()
        """Received, and not begun."""
        self._turn = asyncio.Lock()
        """Who has it may poll."""
        self._workers: list[asyncio.Task[None]] = []

    @property
    def group_id(self) -> str | None:
        """Known when the subscriber belongs to a broker."""
        shared = self._shared
        known = self._settings if shared is None else {**shared.settings, **self._settings}
        return known.get("group_id")

    @group_id.setter
    def group_id(self, _: str | None) -> None:
        """The base class has none to set."""

    @property
    def _shared(self) -> _Shared | None:
        """None as long as the subscriber's router is in no broker."""
        return getattr(self._outer_config, "share_group", None)

    def consumer_settings(self) -> dict[str, Any]:
        """Raises `ConfigurationError` for what cannot be."""
        shared = self._shared
        if shared is None:
            raise ConfigurationError("a ShareGroupRouter belongs in a ShareGroupBroker: include it there")
        return bridge_settings({**shared.settings, **self._settings}, self._window_records, shared.max_lease_ms)

    # ---- life

    async def start(self) -> None:
        """Join the group, and begin to handle its records."""
        settings = self.consumer_settings()
        await SubscriberUsecase.start(self)
        await self._ensure_topics()
        assert self._shared is not None
        self.consumer = AsyncLeasingConsumer(*self.topic_names_for_subscribe, **settings)
        self._held = HeldRecords(self.consumer, self._shared.max_lease_ms)
        self._turn = asyncio.Lock()
        self._post_start()
        if self.calls:
            self._workers = [asyncio.create_task(self._work()) for _ in range(self._max_workers)]

    async def stop(self) -> None:
        """Release what has not begun, let handlers end within `graceful_timeout`, and leave the group."""
        consumer, self.consumer = self.consumer, None
        self.running = False
        self._let_go()  # so does who polls, with what this last poll still brings
        await SubscriberUsecase.stop(self)
        workers, self._workers = self._workers, []
        for worker in workers:
            if worker is not asyncio.current_task():  # its handler has raised StopConsume
                worker.cancel()
        if consumer is not None:
            await consumer.close(CLOSE_TIMEOUT_MS)

    async def _work(self) -> None:
        try:
            while (record := await self._next()) is not None:
                await self.consume(record)
                if self.ack_policy is not AckPolicy.MANUAL:  # then somebody has settled it, or said SkipMessage
                    self._settle(record, AcknowledgeType.RELEASE, None)
        except KafkaShareError as error:
            self._fail(error)

    def _fail(self, error: KafkaShareError) -> None:
        """It lasts until there is another consumer: the application ends, as when a handler raises SystemExit."""
        log.error("the subscriber of %s has ended: %s", ", ".join(self.topic_names), excerpt(str(error)))
        self.running = False
        self._let_go()
        app = self._outer_config.context.get("app")
        if app is not None:
            app.exit()

    # ---- records

    async def _next(self) -> Record | None:
        """The next record; None: the subscriber stops. Raises what lasts until there is another consumer."""
        async with self._turn:
            while self.running and not self._waiting:
                await self._receive()
            if self.running:
                return self._waiting.popleft()
        self._let_go()
        return None

    async def _receive(self) -> None:
        consumer, held = self.consumer, self._held
        assert consumer is not None
        assert held is not None
        try:
            records = await consumer.poll(POLL_MS)
        except KafkaShareError as error:
            if self.running:  # else it was closed
                self._trouble.met(consumer, error)
            return
        for record in records:
            held.hold(record)
            self._waiting.append(record)
            self._trouble.is_over()

    def _let_go(self) -> None:
        """What has not begun is for others."""
        while self._waiting:
            self._settle(self._waiting.popleft(), AcknowledgeType.RELEASE, 0)

    def _settle(self, record: Any, kind: AcknowledgeType, delay_ms: int | None) -> None:
        shared, held = self._shared, self._held
        if shared is None or held is None or not isinstance(record, ShareRecord):
            return  # FastStream's TestKafkaBroker has made it
        if delay_ms is None:
            delay_ms = shared.nack_delay_ms
        held.settle(record, kind, delay_ms if kind is AcknowledgeType.RELEASE else 0)

    async def _parsed(self, record: Any) -> ShareGroupMessage:
        headers = {name: "" if value is None else value.decode(errors="replace") for name, value in record.headers}
        return ShareGroupMessage(
            raw_message=record,
            body=record.value or b"",
            headers=headers,
            reply_to=headers.get("reply_to", ""),
            content_type=headers.get("content-type"),
            message_id=f"{record.offset}-{record.timestamp}",
            correlation_id=headers.get("correlation_id"),
            settle=partial(self._settle, record),
        )

    # ---- without handlers

    async def get_one(self, *, timeout: float = 5.0) -> ShareGroupMessage | None:  # noqa: ASYNC109 - its signature
        """The next message, which is yours to settle; None if there is none within so many seconds."""
        self._demand_no_handlers()
        try:
            async with asyncio.timeout(timeout):
                record = await self._next()
        except TimeoutError:
            return None
        return None if record is None else await self._processed(record)

    async def __aiter__(self) -> AsyncIterator[ShareGroupMessage]:
        """The messages, which are yours to settle, until the subscriber stops."""
        self._demand_no_handlers()
        while (record := await self._next()) is not None:
            yield await self._processed(record)

    def _demand_no_handlers(self) -> None:
        if self.calls:
            raise IllegalStateError("this subscriber has handlers, and its records are theirs")
        if self.consumer is None:
            raise IllegalStateError("start the subscriber first")

    async def _processed(self, record: Record) -> ShareGroupMessage:
        parser, decoder = self._get_parser_and_decoder()
        context = self._outer_config.context
        made = (one(record, context=context) for one in self._broker_middlewares)
        message: ShareGroupMessage = await process_msg(msg=record, middlewares=made, parser=parser, decoder=decoder)
        return message


class _ShareGroupRegistrator(KafkaRegistrator):
    """What a broker and a router of share groups have in common."""

    def subscriber(
        self,
        *topics: str | Topic,
        max_workers: int | None = None,
        window_records: int | None = None,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Any] = (),
        parser: Any = None,
        decoder: Any = None,
        codec: Any = None,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
        persistent: bool = True,
        batch: bool = False,
        **settings: Any,
    ) -> ShareGroupSubscriber:
        """One more member of the share group, for these topics; decorate its handlers with it.

        - `max_workers`: how many records may be handled at a time, one by default.
        - `window_records`: how many may be here, waiting ones too; five for each worker by default.
        - `ack_policy`: NACK_ON_ERROR, unless the broker or the router has another one.

        The last ones are settings of `KafkaShareConsumer` for this member, such as another `group_id`. The others are
        FastStream's own. Raises `ConfigurationError` for what cannot be: when it starts, if that depends on the broker
        that a router is included in.
        """
        workers = 1 if max_workers is None else max_workers
        window = RECORDS_PER_WORKER * workers if window_records is None else window_records
        if type(workers) is not int or workers < 1:
            raise ConfigurationError(f"max_workers is {workers!r}: write a whole number from 1")
        if type(window) is int and window < workers:
            raise ConfigurationError(f"window_records is {window}: it is at least max_workers, {workers}")
        if batch:
            raise ConfigurationError("batch=True is not possible: each message is settled by itself; use max_workers")
        if not topics:
            raise ConfigurationError("a subscriber needs at least one topic")
        declared = [Topic.validate(topic) for topic in topics]
        config = _SubscriberConfig(
            topics=declared, no_reply=no_reply, _outer_config=self.config, _ack_policy=ack_policy
        )
        calls = CallsCollection[Any]()
        shown = KafkaSubscriberSpecificationConfig(
            topics=declared, title_=title, description_=description, include_in_schema=include_in_schema
        )
        made = ShareGroupSubscriber(
            config,
            KafkaSubscriberSpecification(_outer_config=self.config, specification_config=shown, calls=calls),
            calls,
            max_workers=workers,
            window_records=window,
            settings=settings,
        )
        if isinstance(self, KafkaBroker):
            made.consumer_settings()
        Registrator.subscriber(self, made, persistent=persistent)
        made.add_call(parser_=parser, decoder_=decoder, codec_=codec, dependencies_=dependencies)
        return made


class ShareGroupBroker(_ShareGroupRegistrator, KafkaBroker):
    """FastStream's `KafkaBroker`, with subscribers that are members of the share group `group_id`.

    - `max_lease_ms`: how long the lock of a record is renewed, from its receipt on.
    - `nack_delay_ms`: how long a released record waits here, with its lock renewed, before it is delivered again.
    - `settings`: further settings of `KafkaShareConsumer`. The connection, `security` and what has the same name there
      are taken from the options of `KafkaBroker`.

    All others are the options of `KafkaBroker`; `acks` is "all" unless it is given. Raises `ConfigurationError` for
    what cannot be.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        *,
        group_id: str,
        max_lease_ms: int = 900_000,
        nack_delay_ms: int = 5_000,
        settings: Mapping[str, Any] | None = None,
        security: Any = None,
        **options: Any,
    ) -> None:
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
        given: dict[str, Any] = {name: options[name] for name in _OF_BOTH if name in options}
        given |= {name: value for name, value in parse_security(security).items() if value is not None}
        if nack_delay_ms:
            given["release_backoff_ms"] = 0  # released records wait by themselves, and hold up no others
        given |= {"bootstrap_servers": servers, "group_id": group_id, **(settings or {})}
        bridge_settings(given, RECORDS_PER_WORKER, max_lease_ms)  # says now what would be wrong later
        shared = _Shared(given, max_lease_ms, nack_delay_ms)
        super().__init__(servers, security=security, **{"acks": "all", **options})
        self.config.broker_config.share_group = shared


class ShareGroupRouter(_ShareGroupRegistrator, KafkaRouter):
    """FastStream's `KafkaRouter`, with subscribers that are members of the broker's share group."""
