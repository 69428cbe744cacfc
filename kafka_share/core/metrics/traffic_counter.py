"""Watches what goes into the core and what comes out of it, and records it in the `Measurements`.

Called by `ShareConsumerCore` with every answer and every list of outputs. It sees whole messages, so that the machines
need not count; it changes nothing, but for adding a `Log` behind acknowledgements that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_share.core.events import CompleteCommit, Log, Message, Output, ReportOutcomes, Send
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from kafka_share.core.events import AcknowledgementOutcome
    from kafka_share.protocol.share_fetch import ShareFetchResponse


class Observation:
    """Remembers the requests under way whose answers count, by send id."""

    def __init__(self, measurements: Measurements) -> None:
        self._measurements = measurements
        self._sent: dict[int, tuple[type[Any], int]] = {}
        """send_id → kind of request, when it was sent."""

    def outputs(self, outputs: list[Output], now_ms: int) -> list[Output]:
        """What the core says; answers the same, with a `Log` before all else for what failed."""
        logs: list[Output] = []
        for output in outputs:
            if isinstance(output, Send):
                self._request(output, now_ms)
            elif isinstance(output, ReportOutcomes):
                logs += [self._failed(outcome, now_ms) for outcome in output.outcomes if outcome.error is not None]
            elif isinstance(output, Log) and output.event == "assignment-changed":
                self._measurements.rebalances.record(1, now_ms)
            elif isinstance(output, CompleteCommit) and output.timed_out:
                self._measurements.events_expired += 1
        return logs + outputs if logs else outputs

    def _request(self, send: Send, now_ms: int) -> None:
        request = send.request
        kind = type(request)
        if kind is ShareFetchRequest or kind is ShareAcknowledgeRequest:
            said = sum(
                batch.last_offset - batch.first_offset + 1
                for topic in request.topics
                for partition in topic.partitions
                for batch in partition.acknowledgement_batches
            )
            if said:
                self._measurements.acknowledgements_sent.record(said, now_ms)
        if kind is ShareGroupHeartbeatRequest:
            self._measurements.last_heartbeat_at_ms = now_ms
        if kind is ShareFetchRequest or kind is ShareGroupHeartbeatRequest:
            self._sent[send.send_id] = (kind, now_ms)

    def _failed(self, outcome: AcknowledgementOutcome, now_ms: int) -> Log:
        records = sum(run.last - run.first + 1 for run in outcome.runs)
        self._measurements.acknowledgements_failed.record(records, now_ms)
        where = outcome.partition
        fields: dict[str, str | int] = {"topic": where.topic, "partition": where.partition, "records": records}
        return Log("acknowledgement-failed", {**fields, "error": str(outcome.error)})

    def answered(self, send_id: int, response: Message, now_ms: int) -> None:
        found = self._sent.pop(send_id, None)
        if found is None:
            return
        kind, sent_at_ms = found
        if kind is ShareGroupHeartbeatRequest:
            self._measurements.heartbeat_answered(now_ms - sent_at_ms, now_ms)
        else:
            self._fetched(response, now_ms - sent_at_ms, now_ms)

    def _fetched(self, response: ShareFetchResponse, latency_ms: int, now_ms: int) -> None:
        size = records = 0
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.acquired_records:
                    size += len(partition.records or b"")
                    # A hostile range may end before it begins; `Sampled` takes no negative numbers.
                    records += sum(max(0, r.last_offset - r.first_offset + 1) for r in partition.acquired_records)
        self._measurements.fetched(latency_ms, response.throttle_time_ms, size, records, now_ms)

    def failed(self, send_id: int) -> None:
        self._sent.pop(send_id, None)
