"""Questions that several operations share: to any broker, to every broker, to the coordinators of groups.

Routing follows Kafka's admin client: share groups are looked up with FindCoordinator key type 0, like all groups (key
type 2 is for brokers among themselves), many in one request; then each coordinator gets its groups in one request
where the API allows it. A coordinator that moved is looked up again, one that is still loading is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import attrs

from kafka_share.core.admin.conversation import Ask, Call, Conversation, Question
from kafka_share.core.coordinator import KEY_TYPE_GROUP
from kafka_share.core.events import Message
from kafka_share.core.metadata import usable_node
from kafka_share.errors import (
    AuthenticationError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaShareError,
    NetworkError,
    NotCoordinatorError,
    OperationTimeoutError,
    RebootstrapRequiredError,
    RemoteProtocolError,
    error_for_code,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest, MetadataRequest
from kafka_share.records import Node

V = TypeVar("V")

NODE_ATTEMPTS: Final = 3
"""How often one certain broker is tried before it counts as down, where others can answer without it."""
_BATCHED_FIND_COORDINATOR: Final = 4
_METADATA_WITH_TOPIC_IDS: Final = 10
_MOVED: Final = (NotCoordinatorError, CoordinatorNotAvailableError)


def may_pass(error: KafkaShareError) -> bool:
    """Whether a lost connection or the like is worth another try; wrong credentials and broken answers are not."""
    return isinstance(error, NetworkError) and not isinstance(error, AuthenticationError)


def ask_any(call: Call, request: Message, min_version: int = 0) -> Conversation[Any]:
    """The answer of the first broker that gives one. Raises what will not pass, `OperationTimeoutError` at the end."""
    last: KafkaShareError | None = None
    while not call.is_over():
        (reply,) = yield Ask((Question(request, None, min_version),))
        if not isinstance(reply, KafkaShareError):
            return reply
        if not may_pass(reply):
            raise call.timed_out(last) if call.is_over() else reply
        last = reply
    raise call.timed_out(last)


def ask_metadata(call: Call, request: MetadataRequest) -> Conversation[Any]:
    """A Metadata answer without an error of its own."""
    last: KafkaShareError | None = None
    while not call.is_over():
        response = yield from ask_any(call, request, _METADATA_WITH_TOPIC_IDS)
        last = error_for_code(response.error_code)
        if last is None:
            return response
        if not isinstance(last, RebootstrapRequiredError):
            raise last
        yield call.pause()
    raise call.timed_out(last)


def nodes_of(response: Any) -> tuple[Node, ...]:
    """The brokers in a Metadata answer, by id."""
    nodes = [usable_node(b.node_id, b.host, b.port, b.rack) for b in response.brokers]
    return tuple(sorted(node for node in nodes if node is not None))


def find_brokers(call: Call) -> Conversation[tuple[Node, ...]]:
    """The brokers of the cluster, by id."""
    response = yield from ask_metadata(call, MetadataRequest(topics=[], allow_auto_topic_creation=False))
    return nodes_of(response)


def ask_every(
    call: Call,
    nodes: Iterable[Node],
    request: Message,
    min_version: int,
    error_in: Callable[[Any], KafkaShareError | None],
) -> Conversation[dict[Node, Any]]:
    """One answer per broker, or the error that it ended with.

    A broker that is loading is asked until the deadline, one that cannot be reached `NODE_ATTEMPTS` times. `error_in`
    finds the error in an answer.
    """
    waiting: dict[Node, int] = dict.fromkeys(nodes, 0)
    troubles: dict[Node, KafkaShareError] = {}
    done: dict[Node, Any] = {}
    while waiting and not call.is_over():
        asked = tuple(waiting)
        replies = yield Ask(tuple(Question(request, node, min_version) for node in asked))
        for node, reply in zip(asked, replies, strict=True):
            waiting[node] += 1
            if isinstance(reply, OperationTimeoutError):
                continue  # what stood in the way before says more
            error = reply if isinstance(reply, KafkaShareError) else error_in(reply)
            is_loading = isinstance(error, CoordinatorLoadInProgressError | CoordinatorNotAvailableError)
            if error is not None:
                troubles[node] = error
            if error is None or not (is_loading or (may_pass(error) and waiting[node] < NODE_ATTEMPTS)):
                done[node] = reply if error is None else error
                del waiting[node]
        if waiting and not call.is_over():
            yield call.pause()
    return {**done, **{node: call.timed_out(troubles.get(node)) for node in waiting}}


@attrs.frozen
class GroupRequest(Generic[V]):
    """A request about groups, for their coordinator."""

    build: Callable[[list[str]], Message]
    read: Callable[[Any, Node], Mapping[str, V | KafkaShareError]]
    """(response, coordinator) -> per group a value or the error that the coordinator answered."""
    one_group_each: bool = False
    min_version: int = 0


def ask_coordinators(
    group_ids: Iterable[str], what: GroupRequest[V], call: Call
) -> Conversation[dict[str, V | KafkaShareError]]:
    """Per group a value or an error, in the order of `group_ids`. Raises `AuthenticationError`."""
    order = tuple(dict.fromkeys(group_ids))
    search = _Search(order)
    while search.waiting and not call.is_over():
        yield from _find_coordinators(search, tuple(g for g in search.waiting if g not in search.found))
        batches = search.batches(what.one_group_each)
        if batches and not call.is_over():
            questions = [Question(what.build(groups), node, what.min_version) for node, groups in batches]
            replies = yield Ask(tuple(questions))
            for (node, groups), reply in zip(batches, replies, strict=True):
                _take(search, what, node, groups, reply, call)
        if search.waiting and not call.is_over():
            yield call.pause()
    for group_id in search.waiting:
        search.done[group_id] = call.timed_out(search.troubles.get(group_id))
    return {group_id: search.done[group_id] for group_id in order}


class _Search:
    """How far `ask_coordinators` is: the groups without a result, their coordinators, what went wrong last."""

    def __init__(self, group_ids: tuple[str, ...]) -> None:
        self.waiting: dict[str, None] = dict.fromkeys(group_ids)
        self.found: dict[str, Node] = {}
        self.troubles: dict[str, KafkaShareError] = {}
        self.done: dict[str, Any] = {}

    def batches(self, one_group_each: bool) -> list[tuple[Node, list[str]]]:
        by_node: dict[Node, list[str]] = {}
        for group_id in self.waiting:
            if group_id in self.found:
                by_node.setdefault(self.found[group_id], []).append(group_id)
        if one_group_each:
            return [(node, [group_id]) for node, groups in by_node.items() for group_id in groups]
        return list(by_node.items())

    def finish(self, group_id: str, result: Any) -> None:
        self.waiting.pop(group_id, None)
        self.done[group_id] = result

    def look_again(self, group_id: str, error: KafkaShareError) -> None:
        self.found.pop(group_id, None)
        self.troubles[group_id] = error


def _find_coordinators(search: _Search, group_ids: tuple[str, ...]) -> Conversation[None]:
    """One look-up for all of these; those that it does not find stay without a coordinator."""
    if not group_ids:
        return
    request = FindCoordinatorRequest(key_type=KEY_TYPE_GROUP, coordinator_keys=list(group_ids))
    (reply,) = yield Ask((Question(request, None, _BATCHED_FIND_COORDINATOR),))
    if isinstance(reply, OperationTimeoutError):
        return  # what stood in the way before says more
    if isinstance(reply, KafkaShareError):
        if not may_pass(reply):
            raise reply
        search.troubles.update(dict.fromkeys(group_ids, reply))
        return
    for found in reply.coordinators:
        if found.key not in search.waiting:
            continue
        error = error_for_code(found.error_code, found.error_message or None)
        node = usable_node(found.node_id, found.host, found.port)
        if error is None and node is not None:
            search.found[found.key] = node
        elif error is None or isinstance(error, CoordinatorNotAvailableError | CoordinatorLoadInProgressError):
            search.troubles[found.key] = error or RemoteProtocolError("a broker named a coordinator that cannot exist")
        else:
            search.finish(found.key, error)


def _take(search: _Search, what: GroupRequest[Any], node: Node, groups: list[str], reply: Any, call: Call) -> None:
    if isinstance(reply, KafkaShareError):
        if call.is_over():
            return  # it is the deadline; what stood in the way before says more
        for group_id in groups:
            if may_pass(reply):
                search.look_again(group_id, reply)
            elif isinstance(reply, AuthenticationError):
                raise reply
            else:
                search.finish(group_id, reply)
        return
    results = what.read(reply, node)
    for group_id in groups:
        result = results.get(group_id)
        if group_id not in results:
            search.finish(group_id, RemoteProtocolError(f"the answer of {node} does not mention group {group_id!r}"))
        elif isinstance(result, _MOVED):
            search.look_again(group_id, result)
        elif isinstance(result, CoordinatorLoadInProgressError):
            search.troubles[group_id] = result
        else:
            search.finish(group_id, result)
