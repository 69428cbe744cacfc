"""A broker of taskiq: tasks are records of a topic, and the workers are members of a share group.

Needs the extra `taskiq`. taskiq runs the tasks, and says when it has done with one; it has no word for "not done", so a
task that raised is accepted. docs/bridges.md says what follows from that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import Unpack

try:
    from taskiq import AckableMessage, AsyncBroker, BrokerMessage
except ModuleNotFoundError as _missing:
    raise ImportError("the bridge to taskiq needs taskiq: pip install 'kafka-share[taskiq]'") from _missing

from kafka_share.bridges.held import HeldRecords, Record
from kafka_share.bridges.settings import bridge_settings
from kafka_share.bridges.trouble import Trouble
from kafka_share.config import ShareConsumerConfig
from kafka_share.errors import KafkaShareError
from kafka_share.handling.leasing import AsyncLeasingConsumer
from kafka_share.harmless import excerpt
from kafka_share.producing.kafka_python import OwnKafkaPythonProducer
from kafka_share.producing.producer import OutgoingRecord, RecordProducer, checked_producer
from kafka_share.records import AcknowledgeType
from kafka_share.settings import ShareConsumerSettings

POLL_MS = 1_000
"""taskiq handles signals between two polls: its handler wakes no event loop."""
CLOSE_TIMEOUT_MS = 10_000


class ShareGroupBroker(AsyncBroker):
    """Sends tasks to `topic`, and listens to it as a member of a share group.

    A task's record is accepted when taskiq acknowledges it: after its result was saved, unless `--ack-type` or a label
    says otherwise. Until then its lock is renewed, for `max_lease_ms` at most. What was not acknowledged when the
    broker shuts down is released, and what a process had that died comes back when its locks end.

    - `window_records`: how many records may be here at a time, running and waiting; not below taskiq's
      `--max-async-tasks`, whose default it is.
    - `producer`: writes the records; by default one of kafka-python with the connection of these settings.

    The others are the settings of `KafkaShareConsumer`. Raises `ConfigurationError` for what cannot be.
    """

    def __init__(
        self,
        topic: str,
        *,
        window_records: int = 100,
        max_lease_ms: int = 900_000,
        producer: RecordProducer | None = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None:
        super().__init__()
        self._topic = topic
        self._max_lease_ms = max_lease_ms
        self._settings = bridge_settings({**settings}, window_records, max_lease_ms)
        self._own_config = ShareConsumerConfig.from_mapping(self._settings)
        self._given_producer = None if producer is None else checked_producer(producer)
        self._producer: RecordProducer | None = None
        self._consumer: AsyncLeasingConsumer | None = None
        self._trouble = Trouble()

    async def kick(self, message: BrokerMessage) -> None:
        """Write the task, and wait until all in-sync replicas have it. Raises `ProduceError` if they may not."""
        if self._producer is None:
            self._producer = self._given_producer or OwnKafkaPythonProducer(self._own_config)
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()

        def told(error: Exception | None) -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(_resolve, written, error)

        self._producer.produce(OutgoingRecord(self._topic, None, message.message), told)
        await written

    async def listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        """The tasks of the topic, each with what accepts it."""
        consumer = self._consumer = AsyncLeasingConsumer(self._topic, **self._settings)
        held = HeldRecords(consumer, self._max_lease_ms)
        waiting: deque[Record] = deque()
        try:
            while True:
                while not waiting:
                    waiting.extend(await self._poll(consumer))
                    for record in waiting:
                        held.hold(record)
                record = waiting.popleft()
                if self._is_task(record, held):
                    yield AckableMessage(data=record.value, ack=partial(held.settle, record, AcknowledgeType.ACCEPT))
        finally:
            for record in waiting:
                held.settle(record, AcknowledgeType.RELEASE)

    async def _poll(self, consumer: AsyncLeasingConsumer) -> list[Record]:
        try:
            records = list(await consumer.poll(POLL_MS))
        except KafkaShareError as error:
            self._trouble.met(consumer, error)
            return []
        if records:
            self._trouble.is_over()
        return records

    def _is_task(self, record: Record, held: HeldRecords) -> bool:
        """Whether there is something to run. taskiq would acknowledge what it cannot read or does not know."""
        try:
            name = self.formatter.loads(record.value).task_name
        except Exception as error:  # noqa: BLE001 - of whatever serializer the application has chosen
            held.refuse(record, f"it is no task ({type(error).__name__})")
            return False
        if self.find_task(name) is None:
            held.leave_to_others(record, f"this worker has no task '{excerpt(name)}'")
            return False
        return True

    async def shutdown(self) -> None:
        """Send the acknowledgements, release what has none, and leave the group."""
        await super().shutdown()
        if self._consumer is not None:
            await self._consumer.close(CLOSE_TIMEOUT_MS)
        if self._producer is not None:
            await asyncio.to_thread(self._producer.close, CLOSE_TIMEOUT_MS)
        self._consumer = self._producer = None


def _resolve(written: asyncio.Future[None], error: Exception | None) -> None:
    if written.done():
        return  # who waited was cancelled
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
