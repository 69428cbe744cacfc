"""What a consumer tells about itself: its metrics, its id in brokers' telemetry, metrics of the application's own.

Mixed into the façades, whose driver it asks. All methods may be called from any thread, from inside the acknowledgement
commit callback and after close; none of them waits, `_client_instance_id` aside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from kafka_share.core.metrics.metric_table import as_mapping
from kafka_share.core.timeouts import checked_timeout
from kafka_share.errors import IllegalStateError
from kafka_share.health import Health

if TYPE_CHECKING:
    from kafka_share.application.side import ApplicationSide
    from kafka_share.config import ShareConsumerConfig
    from kafka_share.network.background import ConsumerBackground


class ConsumerMetrics:
    """The façade sets `_driver` and `_config` before anybody can call these."""

    _driver: ConsumerBackground | None
    _config: ShareConsumerConfig
    _application: ApplicationSide

    def _poll_begins(self) -> None:
        assert self._driver is not None
        self._driver.measurements.poll_started(self._driver.now_ms())

    def _poll_ends(self, records: int) -> None:
        """With so many records to return."""
        assert self._driver is not None
        self._driver.measurements.poll_ended(records, self._driver.now_ms())

    def _own_driver(self) -> ConsumerBackground:
        """Raises `IllegalStateError` in a forked child, whose parent it belongs to."""
        assert self._driver is not None
        self._driver.origin.demand()
        return self._driver

    def metrics(self) -> dict[str, dict[str, float]]:
        """The numbers of this consumer now: group → name → value, under the names of Kafka's Java client.

        The numbers of one broker are in the group `consumer-node-metrics.node-<id>`. Averages, maxima and rates are
        those of the latest `metrics_num_samples` windows of `metrics_sample_window_ms`; names that end with `-total`
        count from the beginning. What has not happened is 0 (seconds since something that never happened: -1), never
        NaN. May be called from any thread, also after close, and does not wait.
        """
        driver = self._own_driver()
        return as_mapping(driver.measurements, driver.now_ms())

    def health(self) -> Health:
        """What this consumer knows about itself now, for liveness probes: membership, assignment, what is wrong.

        May be called from any thread, also after close, and does not wait. A consumer joins with its first poll, and a
        closed one is no member. Raises `IllegalStateError` in a forked child.
        """
        driver = self._own_driver()
        condition, now_ms = driver.mailbox.condition, driver.now_ms()
        trouble = condition.trouble
        return Health(
            is_joined=condition.is_joined,
            assigned=frozenset(condition.assigned),
            missing_topics=frozenset(condition.missing_topics),
            error=None if trouble is None else trouble.error,
            error_for_ms=None if trouble is None else max(0, now_ms - trouble.since_ms),
            is_fatal=trouble is not None and trouble.is_fatal,
            oldest_unacknowledged=self._application.oldest_unacknowledged(now_ms),
        )

    def _client_instance_id(self, timeout_ms: int) -> UUID | None:
        """The id by which the brokers know this consumer; waits for it. Raises `IllegalStateError` without a push."""
        if not self._config.enable_metrics_push:
            raise IllegalStateError("No metrics are pushed: set enable_metrics_push to True.")
        checked_timeout(timeout_ms)
        return self._own_driver().client_instance_id(timeout_ms)

    def register_metric_for_subscription(self, name: str, read: Callable[[], float]) -> None:
        """Have a metric of the application pushed to brokers whose subscription asks for its name (KIP-1076).

        `name` is compared as it is with what the subscription asks for, such as `org.example.orders.pending`. `read`
        is called by the background thread before each push and must not block; what it raises is logged once, and
        the metric is left out. A name that is registered already gets the new function. Nothing happens while
        `enable_metrics_push` is off. Raises TypeError if `read` cannot be called.
        """
        if not callable(read):
            raise TypeError("register_metric_for_subscription takes a name and a function without arguments")
        self._own_driver().measurements.application_metrics[name] = read

    def unregister_metric_from_subscription(self, name: str) -> None:
        """Push this metric of the application no longer. A name that is not registered is no error."""
        self._own_driver().measurements.application_metrics.pop(name, None)


def labels_of(consumer: ConsumerMetrics) -> dict[str, str]:
    """Whose metrics these are, for those who collect them from several consumers."""
    return {"client_id": consumer._config.client_id, "group_id": consumer._config.group_id}
