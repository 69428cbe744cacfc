"""The whole broker as a machine without I/O: requests in, answers out, at once or later.

Driven by `server.py` or by the simulation of the tests: events into `handle`, `poll` for the outputs, `wake_at_ms` for
the timer. It has a request cleared by the authorizer, finds its handler, lets time pass for the machines of the
cluster, and has the handlers build the answers that come later.

What it must not do: keep anything of its own but answers that have not been polled and what has to be put into those
that come later, or know what a message holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker import dead_letter_topics
from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.events import ConnectionClosed, HostLookedUp, Reply, RequestArrived, RequestWorkedOn
from kafka_share.broker.handlers import classic_group, client_quotas, fetch, share_fetch
from kafka_share.broker.handlers.authorization import clear
from kafka_share.broker.handlers.handler_table import HANDLERS
from kafka_share.broker.handlers.throttling import throttle_fetch, throttle_request, throttle_share_fetch
from kafka_share.broker.share.exchange import AcknowledgeResult
from kafka_share.protocol.logs import FetchResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import Event, Message, RequestContext
    from kafka_share.broker.handlers.clearance import Clearance


class BrokerMachine:
    """All nodes of `cluster`; which one a request is for stands in its context."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._replies: list[Reply] = []
        self._unfinished: dict[RequestContext, Clearance] = {}
        """Requests whose answers come later, and lack what was denied."""
        self._spent_ns: dict[RequestContext, int] = {}
        """What requests have taken whose answers are to come."""

    def handle(self, event: Event, now_ms: int) -> None:
        """Take an event."""
        if isinstance(event, RequestArrived):
            self._request(event.context, event.request, now_ms)
        elif isinstance(event, RequestWorkedOn):
            self._spent_ns[event.context] = event.spent_ns
        elif isinstance(event, HostLookedUp):
            self.cluster.host_looked_up(event.host, event.address)
        else:
            assert isinstance(event, ConnectionClosed)
            for by_request in (self._unfinished, self._spent_ns):
                for context in [one for one in by_request if one.connection_id == event.connection_id]:
                    del by_request[context]
            self.cluster.connection_closed(event.connection_id, now_ms)

    def _request(self, context: RequestContext, request: Message, now_ms: int) -> None:
        self.cluster.requests[context.node_id, context.api_key, context.api_version] += 1
        if self.cluster.authorizer is None:
            response = HANDLERS[ApiKey(context.api_key)](self.cluster, context, request, now_ms)
        else:
            response = self._cleared(clear(self.cluster, context, request), now_ms)
        if response is not None:
            self._replies.append(Reply(context, response))

    def _cleared(self, clearance: Clearance, now_ms: int) -> Message | None:
        """The answer to what is left of a request, with what is not; None if it comes later."""
        if clearance.answer is not None:
            return clearance.finish(clearance.answer)
        context = clearance.context
        response = HANDLERS[ApiKey(context.api_key)](self.cluster, context, clearance.request, now_ms)
        if response is not None:
            return clearance.finish(response)
        if clearance.changes_answer:
            self._unfinished[context] = clearance
        return None

    def poll(self, now_ms: int) -> list[Reply]:
        """Let time pass up to `now_ms`; returns everything that has to be sent."""
        cluster = self.cluster
        cluster.share_groups.poll(now_ms)
        cluster.consumer_groups.poll(now_ms)
        cluster.share_states.poll(now_ms)
        cluster.group_records.poll(now_ms)
        cluster.transactions.poll(now_ms)
        cluster.retention.poll(now_ms)
        cluster.log_cleaner.poll(now_ms)
        cluster.producer_expiry.poll(now_ms)
        for context, waited in cluster.classic_groups.poll(now_ms):
            self._replies.append(Reply(context, classic_group.answer(context, waited)))
        self._poll_share_nodes(now_ms)
        while self._write_dead_letters(now_ms):
            self._poll_share_nodes(now_ms)
        for delayed in cluster.fetches.take_due(now_ms):
            self._replies.append(Reply(delayed.context, fetch.answer(cluster, delayed.context, delayed.request)))
        for waiting in cluster.host_lookups.take_done():
            answer = client_quotas.answer(cluster, waiting.request, waiting.addresses)
            self._replies.append(Reply(waiting.context, answer))
        produced = cluster.produces.poll(now_ms)
        if produced is not None:
            self._replies.append(Reply(*produced))
        replies, self._replies = self._replies, []
        for reply in replies:
            self._throttle_request(reply.context, reply.response, now_ms)
            if isinstance(reply.response, FetchResponse):
                throttle_fetch(cluster, reply.context, reply.response, now_ms)
        if self._unfinished:
            for reply in replies:
                clearance = self._unfinished.pop(reply.context, None)
                if clearance is not None:
                    clearance.finish(reply.response)
        return replies

    def _throttle_request(self, context: RequestContext, response: Message, now_ms: int) -> None:
        """Those between brokers have no time to wait in their answers, and count for nobody."""
        spent_ns = self._spent_ns.pop(context, None)
        if spent_ns is not None and hasattr(response, "throttle_time_ms"):
            throttle_request(self.cluster, context, response, spent_ns, now_ms)

    def _write_dead_letters(self, now_ms: int) -> bool:
        """Write the dead letters of all nodes; returns whether there were any."""
        found = False
        for node in self.cluster.share_nodes.values():
            for partition, letter in node.take_dead_letters():
                found = True
                dead_letter_topics.write(self.cluster, letter, now_ms)
                node.buried(partition, letter, now_ms)
        return found

    def _poll_share_nodes(self, now_ms: int) -> None:
        for node in self.cluster.share_nodes.values():
            for result in node.poll(now_ms):
                answer: Message
                if isinstance(result, AcknowledgeResult):
                    answer = share_fetch.acknowledge_answer(self.cluster, result)
                else:
                    answer = share_fetch.fetch_answer(self.cluster, result)
                    self._throttle_request(result.context, answer, now_ms)
                    throttle_share_fetch(self.cluster, result, answer, now_ms)
                self._replies.append(Reply(result.context, answer))

    def take_lookups(self) -> list[str]:
        """The names of hosts that have to be looked up now; what was found is the event `HostLookedUp`."""
        return self.cluster.host_lookups.take_new()

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run even if nothing happens."""
        cluster = self.cluster
        times = [node.wake_at_ms() for node in cluster.share_nodes.values()]
        times += [cluster.share_states.wake_at_ms(), cluster.share_groups.wake_at_ms()]
        times += [cluster.classic_groups.wake_at_ms(), cluster.consumer_groups.wake_at_ms()]
        times += [cluster.transactions.wake_at_ms(), cluster.fetches.wake_at_ms(), cluster.produces.wake_at_ms()]
        times += [cluster.retention.wake_at_ms(), cluster.log_cleaner.wake_at_ms()]
        times += [cluster.producer_expiry.wake_at_ms()]
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def check(self) -> None:
        """Assert the invariants of everything."""
        self.cluster.check()
