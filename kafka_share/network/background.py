"""The background half of one consumer, as its façade sees it: a driver with the consumer's core, and the mailbox.

Made by the façade; `post` and the mailbox are the two ways between the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.events import ClientInstanceIdWanted
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import ConsumerClosedError
from kafka_share.network.clock import clock_ms
from kafka_share.network.driver import CoreDriver
from kafka_share.network.futures import DoneCallbacks
from kafka_share.network.mailbox import Application, ConsumerPort, Mailbox
from kafka_share.network.process import Origin
from kafka_share.network.turns import Core


class ConsumerBackground:
    """Owns `core` from now on. `notify` is the mailbox's. Raises `ConfigurationError` as `CoreDriver` does."""

    def __init__(
        self,
        core: Core,
        config: ShareConsumerConfig,
        *,
        application: Application | None = None,
        notify: Callable[[], None] | None = None,
    ) -> None:
        self.measurements: Measurements = core.measurements
        self.mailbox: Mailbox = Mailbox(notify, core.measurements, clock_ms)
        self.callbacks: DoneCallbacks = DoneCallbacks(f"kafka-share callbacks {config.client_id}")
        """Runs what the application adds to the futures of its acknowledgements."""
        self.origin: Origin = Origin()
        self._port = ConsumerPort(self.mailbox, application, self.callbacks)
        self._driver = CoreDriver(core, config, name=f"kafka-share {config.client_id}", application=self._port)
        self.start: Callable[[], None] = self._driver.start
        self.now_ms: Callable[[], int] = self._driver.now_ms

    def post(self, event: Any, *, wake: bool = True) -> None:
        """As `CoreDriver.post`."""
        self._driver.post(event, wake=wake)

    def stop(self, timeout_ms: int, callbacks_timeout_ms: int = 0) -> None:
        """Close all connections, end the thread and wait for it, up to `timeout_ms`.

        Done callbacks of futures have until `callbacks_timeout_ms`: how long they take is the application's business.
        """
        ends_at_ms = self.now_ms() + callbacks_timeout_ms
        self._driver.stop(timeout_ms)
        self.mailbox.close()
        self._port.ended()  # once more, for a thread that does not end: nobody is left waiting
        self.callbacks.join(max(0, ends_at_ms - self.now_ms()))

    @property
    def is_current_thread(self) -> bool:
        """Whether this is called on a thread of the client itself, where nobody may wait for it."""
        return self._driver.is_current_thread or self.callbacks.is_current_thread

    def client_instance_id(self, timeout_ms: int) -> UUID | None:
        """This client's id in telemetry; waits for it up to `timeout_ms`. None: not known, or there is none."""
        port = self._port
        if not port.has_instance_id.is_set():
            try:
                self.post(ClientInstanceIdWanted())
            except ConsumerClosedError:
                return None
            port.has_instance_id.wait(timeout_ms / 1_000)
        return port.client_instance_id
