"""What client quotas do to requests and their answers.

Called by `BrokerMachine` with the answers that are ready, and by the handlers that make and delete partitions. The time
to wait stands in the answer, and whoever drives the machine does not read from the connection for as long (Kafka mutes
the channel). What a throttled fetch would have brought is left out, and does not count: of a ShareFetch only what it
acknowledged is told, and the records that it has acquired stay locked, as in Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.quotas.client_quotas import CONSUMED, PRODUCED
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import ThrottlingQuotaExceededError
from kafka_share.protocol.messages import encode_request, encode_response

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import Message, RequestContext
    from kafka_share.broker.share.exchange import FetchResult
    from kafka_share.protocol.logs import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
    from kafka_share.protocol.share_fetch import ShareFetchResponse


# ---- bytes


def throttle_produce(
    cluster: Cluster, context: RequestContext, request: ProduceRequest, response: ProduceResponse, now_ms: int
) -> None:
    """Count a produce request, by its size, and put into its answer how long the producer has to wait."""
    if cluster.client_quotas.at_once(PRODUCED, *_owner(context)) is None:
        return
    size = len(encode_request(request, context.api_version, context.correlation_id, context.client_id))
    response.throttle_time_ms = cluster.client_quotas.take(PRODUCED, *_owner(context), size, now_ms)


def fetch_limit(cluster: Cluster, context: RequestContext, request: FetchRequest) -> int:
    """How many bytes a fetch brings at most."""
    limit = min(request.max_bytes, cluster.configs.broker_int("fetch.max.bytes"))
    at_once = cluster.client_quotas.at_once(CONSUMED, *_owner(context))
    return limit if at_once is None else min(limit, at_once)


def throttle_fetch(cluster: Cluster, context: RequestContext, response: FetchResponse, now_ms: int) -> None:
    """Count an answer with records, by its size, or empty it if that is too much."""
    _throttle_bytes(cluster, context, response, now_ms)
    if response.throttle_time_ms:
        response.responses = []


def throttle_share_fetch(cluster: Cluster, result: FetchResult, response: ShareFetchResponse, now_ms: int) -> None:
    """The same for a ShareFetch."""
    _throttle_bytes(cluster, result.context, response, now_ms)
    if not response.throttle_time_ms:
        return
    for topic in response.responses:
        topic.partitions = [
            one for one in topic.partitions if (topic.topic_id, one.partition_index) in result.acknowledged
        ]
        for partition in topic.partitions:
            partition.records, partition.acquired_records = b"", []
    response.responses = [topic for topic in response.responses if topic.partitions]


def _throttle_bytes(
    cluster: Cluster, context: RequestContext, response: FetchResponse | ShareFetchResponse, now_ms: int
) -> None:
    quotas, owner = cluster.client_quotas, _owner(context)
    if response.error_code or quotas.at_once(CONSUMED, *owner) is None:
        return
    size = len(encode_response(context.correlation_id, response, context.api_version))
    response.throttle_time_ms = max(response.throttle_time_ms, quotas.take(CONSUMED, *owner, size, now_ms))
    if response.throttle_time_ms:
        quotas.take(CONSUMED, *owner, -size, now_ms)


# ---- time


def throttle_request(cluster: Cluster, context: RequestContext, response: Message, spent_ns: int, now_ms: int) -> None:
    """Count the time that a request has taken, and put into its answer how long the client has to wait."""
    wait_ms = cluster.client_quotas.worked(*_owner(context), spent_ns, now_ms)
    response.throttle_time_ms = max(response.throttle_time_ms, wait_ms)


# ---- partitions


class Mutations:
    """The partitions that one request makes and deletes.

    From the version `strict_since` on clients know the error that says that there have been too many (KIP-599). Older
    requests are carried out, and their clients wait before the next one."""

    def __init__(self, cluster: Cluster, context: RequestContext, now_ms: int, *, strict_since: int) -> None:
        self._quotas = cluster.client_quotas
        self._owner = _owner(context)
        self._strict = context.api_version >= strict_since
        self._now_ms = now_ms
        self.throttle_ms: int = 0
        """How long the client has to wait."""

    def may_add(self, partitions: int) -> bool:
        """Whether so many, which are about to be made or deleted, may be; then they count."""
        self.throttle_ms = self._quotas.mutate(*self._owner, partitions, self._now_ms, strict=self._strict)
        return not (self._strict and self.throttle_ms)

    def add(self, partitions: int) -> None:
        """The same. Raises `Refusal` if they must not be."""
        if not self.may_add(partitions):
            raise Refusal(ThrottlingQuotaExceededError, "more partitions than a quota allows were made or deleted")


def _owner(context: RequestContext) -> tuple[str, str]:
    """User and client."""
    return context.principal.partition(":")[2], context.client_id
