"""What is raised about requests without an answer, so that an application learns of it that only polls.

Owned by `ShareConsumerCore`, which passes on every answer and every failure. A single broker may be down for as long
as it likes; only when nothing at all answers is there something to raise. What no retry is likely to mend is raised at
once. It stops nothing: trying goes on.
"""

from __future__ import annotations

from typing import Final

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.condition import Troubles
from kafka_share.core.outputs import Outputs
from kafka_share.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    KafkaShareError,
    RemoteProtocolError,
    UnsupportedVersionError,
)

FIRST_ANSWER_MS: Final = 10_500
"""A little longer than a connection may take by default, whose failure is logged by itself."""
_MAX_REMEMBERED_FAILURES = 64
_SILENCE = "no broker answers"
_REFUSAL = "brokers refuse us, or do not speak Kafka's protocol"


class Outage:
    """From the first failure after an answer until the next answer; raised once, after `default_api_timeout_ms`."""

    def __init__(self, config: ShareConsumerConfig, outputs: Outputs, troubles: Troubles) -> None:
        self._outputs = outputs
        self._troubles = troubles
        self._bootstrap = config.bootstrap_servers
        self._limit_ms = config.default_api_timeout_ms
        # While the core wants something, failures follow each other faster than this. A longer pause means that
        # nothing was asked for in between, and says nothing about the brokers.
        self._longest_pause_ms = (
            config.request_timeout_ms + config.fetch_max_wait_ms + 2 * config.reconnect_backoff_max_ms
        )
        self._began_at_ms: int | None = None
        self._last_at_ms = 0
        self._is_known = False
        self._is_untried = True
        self._is_over = False
        """An answer is the latest that has happened: there is nothing to take note of."""
        self._silent_at_ms: int | None = None
        """When silence since the first poll has to be logged; None: not any more, or not yet."""
        self._refused_at_ms: int | None = None
        """When brokers began to refuse us since the last answer."""
        self._raised: dict[str, None] = {}
        """What was raised at once, since the last answer."""

    def poll_started(self, now_ms: int) -> None:
        """Somebody waits for an answer, perhaps for the first time."""
        if self._is_untried:
            self._is_untried = self._is_over = False
            self._silent_at_ms = now_ms + FIRST_ANSWER_MS

    def poll(self, now_ms: int) -> None:
        if self._silent_at_ms is not None and now_ms >= self._silent_at_ms:
            self._silent_at_ms = None
            addresses = ", ".join(f"{node.host}:{node.port}" for node in self._bootstrap)
            self._outputs.note("no-answer", error=f"neither an answer nor a refusal from {addresses}; trying goes on")

    def wake_at_ms(self) -> int | None:
        return self._silent_at_ms

    def answered(self) -> None:
        """A broker answered: whatever there was, it is over."""
        if self._is_over:
            return
        self._is_over = True
        self._began_at_ms = None
        self._is_known = False
        self._is_untried = False
        self._refused_at_ms = None
        self._silent_at_ms = None
        self._raised.clear()
        self._troubles.end(_SILENCE)
        self._troubles.end(_REFUSAL)

    def failed(self, error: KafkaShareError, now_ms: int) -> None:
        """A request got no answer."""
        if isinstance(error, UnsupportedVersionError):
            return  # nothing was sent
        self._is_over = False
        self._silent_at_ms = None  # the failure has been logged
        if not isinstance(error, AuthenticationError | RemoteProtocolError):
            self._lasts(error, now_ms)
            return
        if self._refused_at_ms is None:
            self._refused_at_ms = now_ms
        # One answer that was nonsense passes with the next connection; what comes again does not.
        is_lasting = isinstance(error, AuthenticationError) or now_ms > self._refused_at_ms
        self._troubles.begin(_REFUSAL, error, now_ms, is_raised=is_lasting)
        if str(error) not in self._raised and len(self._raised) < _MAX_REMEMBERED_FAILURES:
            self._raised[str(error)] = None
            self._outputs.raise_error(error)

    def _lasts(self, error: KafkaShareError, now_ms: int) -> None:
        if self._began_at_ms is None or now_ms - self._last_at_ms > self._longest_pause_ms:
            self._began_at_ms = now_ms
            self._troubles.end(_SILENCE)
        self._troubles.begin(_SILENCE, error, now_ms, is_raised=False)
        self._last_at_ms = now_ms
        silent_ms = now_ms - self._began_at_ms
        if not self._is_known and silent_ms >= self._limit_ms:
            self._is_known = True
            self._outputs.raise_error(
                BrokerUnreachableError(f"No broker has answered for {silent_ms} ms, and trying goes on; last: {error}")
            )
