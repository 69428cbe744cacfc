"""One simulated client: a process with a real core, a real application half, and a workload that uses them.

`SimulatedClient` runs the workload's generator on virtual time: whatever it waits for, the process has to be alive and
not paused to go on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

from simulation.driver import SimulatedDriver
from simulation.facade import Confidant, SimulatedFacade, Sleep, Steps
from simulation.fault_profile import API_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS, POISON, SETUP_TIMEOUT_MS, ClientProfile
from simulation.line import SimulatedLine
from simulation.network import Network
from simulation.trace import Trace
from simulation.virtual_time import VirtualTime

from kafka_share.application.decoding import Decoder
from kafka_share.application.direct import Wait
from kafka_share.application.side import ApplicationSide
from kafka_share.config import ShareConsumerConfig
from kafka_share.core.member_id import new_member_id
from kafka_share.records import Node, ShareRecord


class PoisonDeserializer:
    """Gives values back as they are; one that is poison it cannot take."""

    def deserialize(self, topic: str, headers: Sequence[tuple[str, bytes | None]], data: bytes | None) -> bytes | None:
        if data is not None and data.startswith(POISON):
            raise ValueError("poison")
        return data


class Life(Protocol):
    """What the application does, from its first subscription to its end."""

    def __call__(self, client: SimulatedClient) -> Steps[None]: ...


class SimulatedClient:
    """See the module's docstring. `name` is its client id."""

    def __init__(
        self,
        name: str,
        profile: ClientProfile,
        bootstrap: tuple[Node, ...],
        source: random.Random,
        time: VirtualTime,
        network: Network,
        trace: Trace,
        ahead_ms: int,
    ) -> None:
        self.name = name
        self.profile = profile
        self.source = source
        self.trace = trace
        self.member_id = new_member_id(source)
        self.is_quiet = False
        """The faults are over: the application works quickly and accepts everything."""
        self.should_close = False
        self.close_took_ms = 0
        self.held: list[ShareRecord[Any, Any]] = []
        """Open window: what the application has in work."""
        self.has_ended = False
        self._time = time
        self._wait: Wait | Sleep | None = None
        self._waits = 0
        self._life: Steps[None] | None = None
        config = ShareConsumerConfig(
            bootstrap_servers=[f"{node.host}:{node.port}" for node in bootstrap],
            client_id=name,
            group_id=profile.group,
            share_acknowledgement_mode="explicit" if profile.explicit else "implicit",
            explicit_window_records=profile.window_records,
            enable_metrics_push=profile.metrics_push,
            fetch_max_wait_ms=profile.fetch_max_wait_ms,
            max_poll_records=profile.max_poll_records,
            share_acquire_mode="record_limit" if profile.record_limit else "batch_optimized",
            max_poll_interval_ms=profile.max_poll_interval_ms,
            request_timeout_ms=profile.request_timeout_ms,
            default_api_timeout_ms=API_TIMEOUT_MS,
            retry_backoff_max_ms=500,
            reconnect_backoff_max_ms=500,
            socket_connection_setup_timeout_ms=SETUP_TIMEOUT_MS,
            metadata_max_age_ms=3_000,
            allow_auto_create_topics=profile.auto_create,
            protect_locks=profile.protect_locks,
            release_backoff_ms=profile.release_backoff_ms,
            send_ahead=profile.send_ahead,
        )
        self.driver = SimulatedDriver(
            name, config, self.member_id, source, time, network, trace, self._on_news, ahead_ms, lends=profile.lends
        )
        self.facade: SimulatedFacade

    def live(self, auditor: Confidant, life: Life) -> None:
        """Begin."""
        side = ApplicationSide(
            explicit=self.profile.explicit,
            decoder=Decoder(None, PoisonDeserializer() if self.profile.deserializes else None),
            max_poll_records=self.profile.max_poll_records,
            now_ms=self.driver.now_ms,
            window_records=self.profile.window_records,
            protects_locks=self.profile.protect_locks,
        )
        self.facade = SimulatedFacade(self.driver, side, auditor, API_TIMEOUT_MS, sends_ahead=self.profile.send_ahead)
        self.driver.start(self.facade)
        self._life = life(self)
        self._time.after(0, lambda: self.driver.run(self._resume))

    @property
    def is_alive(self) -> bool:
        """Neither killed nor closed."""
        return not self.driver.is_dead and not self.has_ended

    @property
    def knows_its_place(self) -> bool:
        """Whether it is a member in its own eyes, and knows whom to tell when it leaves.

        Not while a heartbeat waits for a connection that was begun when its node could not be reached.
        """
        beat_at_ms = self.driver.core.measurements.last_heartbeat_at_ms or 0
        return self.driver.core.is_settled and self.driver.now_ms() - beat_at_ms <= 2 * HEARTBEAT_INTERVAL_MS

    def wakeup(self) -> None:
        """What another thread of the application may do at any time."""
        if self.is_alive and not self.facade.is_closed:
            self.driver.mailbox.wakeup()

    # ---- the application's thread

    def _resume(self) -> None:
        assert self._life is not None
        self._waits += 1
        if isinstance(self._wait, Wait):
            # It is over, and uses up an interrupt.
            if self._wait.direct:
                self.driver.mailbox.end_wait(with_records=self._wait.with_records)
            else:
                self.driver.mailbox.wait(0, with_records=self._wait.with_records)
        self._wait = None
        try:
            wait = next(self._life)
        except StopIteration:
            self.has_ended = True
            return
        self._wait = wait
        number = self._waits
        until_ms = wait.until_ms if isinstance(wait, Sleep) else wait.deadline_at_ms
        self._time.after(max(0, until_ms - self.driver.now_ms()), lambda: self.driver.run(lambda: self._go_on(number)))
        self._on_news()

    def _go_on(self, number: int) -> None:
        if number == self._waits and self._wait is not None:
            self._resume()

    def _on_news(self) -> None:
        wait, number = self._wait, self._waits
        if isinstance(wait, Wait) and self._is_over(wait):
            self._time.after(0, lambda: self.driver.run(lambda: self._go_on(number)))

    def _is_over(self, wait: Wait) -> bool:
        """Whether a wait has anything to go on for before its time is up."""
        for direct in wait.direct:
            assert isinstance(direct.line, SimulatedLine)
            if direct.is_recalled or direct.line.is_ready:
                return True
        return self.driver.mailbox.has_news(with_records=wait.with_records)
