"""What a client has to be allowed for each API: the one table of the checks, applied before a handler runs.

`BrokerMachine` calls `clear` for each request where there is an authorizer. Every API that has a handler has a rule, a
row of steps; no step means that everybody may use it. Handlers know nothing of this. Only ShareFetch and
ShareAcknowledge are judged twice: the share machines ask for each partition of a session (`ShareNode`).

Source: Kafka 4.3's `KafkaApis` and `ControllerApis`, and what a secured broker 4.3.1 answered.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kafka_share.admin_values import AclOperation
from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.error_answers import error_answer
from kafka_share.broker.handlers import topic_clearance
from kafka_share.broker.handlers.clearance import Clearance, Denial, keep
from kafka_share.broker.refusals import ErrorCode
from kafka_share.broker.security.acls import AclResource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import Message, RequestContext
    from kafka_share.broker.handlers.clearance import Judge, Step

_ALTER: Final = AclOperation.ALTER
_DELETE: Final = AclOperation.DELETE
_DESCRIBE: Final = AclOperation.DESCRIBE
_READ: Final = AclOperation.READ
_WRITE: Final = AclOperation.WRITE
_CLUSTER_ACTION: Final = AclOperation.CLUSTER_ACTION
_TOPIC: Final = AclResource.TOPIC
_GROUP: Final = AclResource.GROUP
_TRANSACTIONAL_ID: Final = AclResource.TRANSACTIONAL_ID


def clear(cluster: Cluster, context: RequestContext, request: Message) -> Clearance:
    """What is left of a request for its handler, and what the rest is answered with."""
    clearance = Clearance(cluster, context, request)
    for step in RULES[ApiKey(context.api_key)]:
        denial = step(clearance)
        if denial is not None:
            clearance.refuse(denial)
            break
    return clearance


# ---- steps that refuse the request as a whole


def _cluster(operation: AclOperation) -> Step:
    return lambda clearance: clearance.cluster_denied(operation)


def _group(operation: AclOperation) -> Step:
    return lambda clearance: clearance.denied(operation, _GROUP, clearance.request.group_id)


def _transactional_id(clearance: Clearance) -> Denial | None:
    return clearance.denied(_WRITE, _TRANSACTIONAL_ID, clearance.request.transactional_id)


def _subscribed_topics(clearance: Clearance) -> Denial | None:
    """A member may see every topic that it names."""
    denials = (clearance.denied(_DESCRIBE, _TOPIC, name) for name in clearance.request.subscribed_topic_names or ())
    return next(filter(None, denials), None)


def _write_markers(clearance: Clearance) -> Denial | None:
    """A broker, or an admin that ends a transaction."""
    return clearance.cluster_denied(_ALTER) and clearance.cluster_denied(_CLUSTER_ACTION)


def _producer_id(clearance: Clearance) -> Denial | None:
    """Without a transactional id whoever may write anything gets one."""
    if clearance.request.transactional_id is not None:
        return _transactional_id(clearance)
    if clearance.cluster.allows_any(clearance.context, _WRITE, _TOPIC):
        return None
    return clearance.cluster_denied(AclOperation.IDEMPOTENT_WRITE)


_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22
_TRANSACTIONAL: Final = 0x10


def _transactional_records(clearance: Clearance) -> Denial | None:
    """What decides is in the records: the request may name any transactional id, or none."""
    request = clearance.request
    batches = (partition.records for topic in request.topic_data for partition in topic.partition_data)
    if not any(_is_transactional(records) for records in batches if records is not None):
        return None
    if request.transactional_id is None:
        return Denial(_WRITE, _TRANSACTIONAL_ID)
    return _transactional_id(clearance)


def _is_transactional(records: bytes | memoryview) -> bool:
    if len(records) <= _ATTRIBUTES_AT or records[_MAGIC_AT] < 2:
        return False
    return bool(records[_ATTRIBUTES_AT] & _TRANSACTIONAL)


def _old_transactional_id(clearance: Clearance) -> Denial | None:
    """Up to version 3 clients send AddPartitionsToTxn, from then on only brokers."""
    if clearance.context.api_version > _CLIENTS_UNTIL_VERSION:
        return clearance.cluster_denied(_CLUSTER_ACTION)
    return clearance.denied(_WRITE, _TRANSACTIONAL_ID, clearance.request.v3_and_below_transactional_id)


_CLIENTS_UNTIL_VERSION: Final = 3
_SHARE_COORDINATOR: Final = 2
_BATCHED_SINCE_VERSION: Final = 4


def _coordinator_keys(clearance: Clearance) -> Denial | None:
    if clearance.request.key_type == _SHARE_COORDINATOR:
        return clearance.cluster_denied(_CLUSTER_ACTION)
    if clearance.context.api_version < _BATCHED_SINCE_VERSION:
        return _coordinator_key(clearance, clearance.request.key)
    clearance.take_out("coordinator_keys", _coordinator_key)
    return None


def _coordinator_key(clearance: Clearance, key: str) -> Denial | None:
    resource = {0: _GROUP, 1: _TRANSACTIONAL_ID}.get(clearance.request.key_type)
    return None if resource is None else clearance.denied(_DESCRIBE, resource, key)


def _scram_users(clearance: Clearance) -> Denial | None:
    """Each user of the request gets the error, whether it was to be changed or deleted."""
    denial = clearance.cluster_denied(_ALTER)
    if denial is not None:
        request, version = clearance.request, clearance.context.api_version
        answer = error_answer(request, version, denial.code, denial.message)
        result = type(answer).AlterUserScramCredentialsResult
        names = dict.fromkeys(one.name for one in (*request.deletions, *request.upsertions))
        answer.results = [result(user=name, error_code=denial.code, error_message=denial.message) for name in names]
        clearance.answer = answer
    return None


# ---- steps that take parts out


def _parts(array: str, judge: Judge, *, all_or_nothing: int | None = None) -> Step:
    def step(clearance: Clearance) -> None:
        clearance.take_out(array, judge, all_or_nothing=all_or_nothing)

    return step


def _topic(operation: AclOperation) -> Judge:
    """Of an element that names a topic, by name or by id. An id that nobody has is left to the handler."""
    return lambda clearance, element: clearance.denied(operation, _TOPIC, _topic_of(clearance, element))


def _topic_of(clearance: Clearance, element: Any) -> str | None:
    for field in ("name", "topic", "topic_name"):
        name: str | None = getattr(element, field, None)
        if name:
            return name
    return clearance.topic_name(getattr(element, "topic_id", None))


def _named(operation: AclOperation, resource: AclResource) -> Judge:
    """Of an element that is a name."""
    return lambda clearance, name: clearance.denied(operation, resource, name)


def _fetched_topic(clearance: Clearance, element: Any) -> Denial | None:
    request = clearance.request
    replica = request if request.replica_state is None else request.replica_state
    is_follower = replica.replica_id >= 0
    if is_follower and clearance.cluster_denied(_CLUSTER_ACTION) is not None:
        return Denial(_READ, _TOPIC)
    return None if is_follower else _topic(_READ)(clearance, element)


def _topic_epochs(clearance: Clearance, element: Any) -> Denial | None:
    if clearance.cluster_denied(_CLUSTER_ACTION) is None:
        return None
    return _topic(_DESCRIBE)(clearance, element)


def _config(operation: AclOperation) -> Judge:
    """Of a resource whose settings are seen or changed. Settings of all but topics and groups are the cluster's."""

    def judge(clearance: Clearance, resource: Any) -> Denial | None:
        if resource.resource_type == ResourceType.TOPIC:
            return clearance.denied(operation, _TOPIC, resource.resource_name)
        if resource.resource_type == ResourceType.GROUP:
            return clearance.denied(operation, _GROUP, resource.resource_name)
        return clearance.cluster_denied(operation)

    return judge


def _groups_with_topics(clearance: Clearance) -> None:
    """Groups, and in each of them its topics."""
    clearance.take_out("groups", lambda _, group: clearance.denied(_DESCRIBE, _GROUP, group.group_id))
    clearance.take_out_below("groups", "topics", _topic(_DESCRIBE))


_GROUPS_SINCE_VERSION: Final = 8
_GROUP_ERROR_SINCE_VERSION: Final = 2


def _fetched_offsets(clearance: Clearance) -> Denial | None:
    if clearance.context.api_version >= _GROUPS_SINCE_VERSION:
        _groups_with_topics(clearance)
        return None
    denial = clearance.denied(_DESCRIBE, _GROUP, clearance.request.group_id)
    if denial is not None:
        if clearance.context.api_version >= _GROUP_ERROR_SINCE_VERSION:
            clearance.change("topics", [])
    elif clearance.request.topics is None:
        _visible("topics", _topic(_DESCRIBE))(clearance)
    else:
        clearance.take_out("topics", _topic(_DESCRIBE))
    return denial


# ---- steps that look at the answer


def _visible(array: str, judge: Judge) -> Step:
    """Entries of the answer that the client may not see are left out."""

    def step(clearance: Clearance) -> None:
        clearance.add(lambda answer: keep(answer, array, lambda entry: judge(clearance, entry) is None))

    return step


def _listed_groups(clearance: Clearance) -> None:
    if clearance.cluster_denied(_DESCRIBE) is not None:
        _visible("groups", lambda _, group: clearance.denied(_DESCRIBE, _GROUP, group.group_id))(clearance)


def _topic_ids(clearance: Clearance) -> None:
    """Refused topics have their ids in the answer, as the others."""

    def addition(answer: Message) -> None:
        for entry in answer.responses:
            topic = clearance.cluster.topics.by_name(entry.topic_name)
            entry.topic_id = entry.topic_id if topic is None else topic.id

    clearance.add(addition)


def _topics_of_transactions(clearance: Clearance) -> None:
    def addition(answer: Message) -> None:
        for state in answer.transaction_states:
            keep(state, "topics", lambda topic: clearance.may(_DESCRIBE, _TOPIC, topic.topic))

    clearance.add(addition)


def _operations_of_groups(clearance: Clearance) -> None:
    def addition(answer: Message) -> None:
        for group in answer.groups:
            if group.authorized_operations is not None:
                operations = clearance.allowed_of(group.authorized_operations, _GROUP, group.group_id)
                group.authorized_operations = operations

    clearance.add(addition)


def _operations_of_cluster(clearance: Clearance) -> None:
    """Who may not describe the cluster is told that nothing is allowed."""

    def addition(answer: Message) -> None:
        if answer.authorized_operations is not None:
            denial = clearance.cluster_denied(_DESCRIBE)
            operations = [] if denial is not None else answer.authorized_operations
            answer.authorized_operations = {
                one for one in operations if clearance.cluster_denied(AclOperation(one)) is None
            }

    clearance.add(addition)


_NOT_ASKED_FOR: Final = -(2**31)


def _described_groups(clearance: Clearance) -> None:
    """A group with a topic that the client may not see is not shown at all."""

    def addition(answer: Message) -> None:
        answer.groups = [_shown(clearance, group) for group in answer.groups]

    clearance.add(addition)


def _shown(clearance: Clearance, group: Any) -> Any:
    denial = next(filter(None, (clearance.denied(_DESCRIBE, _TOPIC, name) for name in _topics_in(group))), None)
    if denial is not None:
        return type(group)(error_code=denial.code, error_message=denial.message, group_id=group.group_id, members=[])
    if group.authorized_operations != _NOT_ASKED_FOR:
        bits = [bit for bit in range(31) if group.authorized_operations & 1 << bit]
        group.authorized_operations = sum(1 << bit for bit in clearance.allowed_of(bits, _GROUP, group.group_id))
    return group


def _topics_in(group: Any) -> Iterable[str]:
    """The topics of a group's members, each once."""
    assignments = [
        assignment
        for member in group.members
        for assignment in (member.assignment, getattr(member, "target_assignment", None))
        if assignment is not None
    ]
    return dict.fromkeys(topic.topic_name for assignment in assignments for topic in assignment.topic_partitions)


# ---- the table


def _share(*steps: Step) -> tuple[Step, ...]:
    """Without the feature share.version the handler refuses the request before anybody is asked."""

    def if_enabled(step: Step) -> Step:
        return lambda clearance: step(clearance) if clearance.cluster.share_enabled() else None

    return tuple(if_enabled(step) for step in steps)


RULES: Final[Mapping[ApiKey, tuple[Step, ...]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: (_transactional_records, _parts("topic_data", _topic(_WRITE))),
        ApiKey.FETCH: (_parts("topics", _fetched_topic),),
        ApiKey.LIST_OFFSETS: (_parts("topics", _topic(_DESCRIBE)),),
        ApiKey.METADATA: (topic_clearance.metadata, _operations_of_cluster),
        ApiKey.OFFSET_COMMIT: (_group(_READ), _parts("topics", _topic(_READ))),
        ApiKey.OFFSET_FETCH: (_fetched_offsets,),
        ApiKey.FIND_COORDINATOR: (_coordinator_keys,),
        ApiKey.JOIN_GROUP: (_group(_READ),),
        ApiKey.HEARTBEAT: (_group(_READ),),
        ApiKey.LEAVE_GROUP: (_group(_READ),),
        ApiKey.SYNC_GROUP: (_group(_READ),),
        ApiKey.DESCRIBE_GROUPS: (_parts("groups", _named(_DESCRIBE, _GROUP)), _operations_of_groups),
        ApiKey.LIST_GROUPS: (_listed_groups,),
        ApiKey.SASL_HANDSHAKE: (),
        ApiKey.API_VERSIONS: (),
        ApiKey.CREATE_TOPICS: (topic_clearance.create,),
        ApiKey.DELETE_TOPICS: (topic_clearance.delete,),
        ApiKey.DELETE_RECORDS: (_parts("topics", _topic(_DELETE)),),
        ApiKey.INIT_PRODUCER_ID: (_producer_id,),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (_parts("topics", _topic_epochs),),
        ApiKey.ADD_PARTITIONS_TO_TXN: (
            _old_transactional_id,
            _parts("v3_and_below_topics", _topic(_WRITE), all_or_nothing=ErrorCode.OPERATION_NOT_ATTEMPTED),
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: (_transactional_id, _group(_READ)),
        ApiKey.END_TXN: (_transactional_id,),
        ApiKey.WRITE_TXN_MARKERS: (_write_markers,),
        ApiKey.TXN_OFFSET_COMMIT: (_transactional_id, _group(_READ), _parts("topics", _topic(_READ))),
        ApiKey.DESCRIBE_ACLS: (_cluster(_DESCRIBE),),
        ApiKey.CREATE_ACLS: (_cluster(_ALTER),),
        ApiKey.DELETE_ACLS: (_cluster(_ALTER),),
        ApiKey.DESCRIBE_CONFIGS: (_parts("resources", _config(AclOperation.DESCRIBE_CONFIGS)),),
        ApiKey.ALTER_CONFIGS: (_parts("resources", _config(AclOperation.ALTER_CONFIGS)),),
        ApiKey.DESCRIBE_LOG_DIRS: (_cluster(_DESCRIBE),),
        ApiKey.SASL_AUTHENTICATE: (),
        ApiKey.CREATE_PARTITIONS: (_parts("topics", _topic(_ALTER)),),
        ApiKey.DELETE_GROUPS: (_parts("groups_names", _named(_DELETE, _GROUP)),),
        ApiKey.ELECT_LEADERS: (_cluster(_ALTER),),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (_parts("resources", _config(AclOperation.ALTER_CONFIGS)),),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_cluster(_ALTER),),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (_cluster(_DESCRIBE),),
        ApiKey.OFFSET_DELETE: (_group(_DELETE), _parts("topics", _topic(_READ))),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (_cluster(AclOperation.DESCRIBE_CONFIGS),),
        ApiKey.ALTER_CLIENT_QUOTAS: (_cluster(AclOperation.ALTER_CONFIGS),),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_cluster(_DESCRIBE),),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_scram_users,),
        ApiKey.DESCRIBE_QUORUM: (_cluster(_DESCRIBE),),
        ApiKey.UPDATE_FEATURES: (_cluster(_ALTER),),
        ApiKey.DESCRIBE_CLUSTER: (_operations_of_cluster,),
        ApiKey.DESCRIBE_PRODUCERS: (_parts("topics", _topic(_READ)),),
        ApiKey.DESCRIBE_TRANSACTIONS: (
            _parts("transactional_ids", _named(_DESCRIBE, _TRANSACTIONAL_ID)),
            _topics_of_transactions,
        ),
        ApiKey.LIST_TRANSACTIONS: (
            _visible(
                "transaction_states",
                lambda clearance, state: clearance.denied(_DESCRIBE, _TRANSACTIONAL_ID, state.transactional_id),
            ),
        ),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (_group(_READ), _subscribed_topics),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (_parts("group_ids", _named(_DESCRIBE, _GROUP)), _described_groups),
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (),
        ApiKey.PUSH_TELEMETRY: (),
        ApiKey.LIST_CONFIG_RESOURCES: (_cluster(AclOperation.DESCRIBE_CONFIGS),),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (topic_clearance.describe_partitions,),
        ApiKey.SHARE_GROUP_HEARTBEAT: _share(_group(_READ), _subscribed_topics),
        ApiKey.SHARE_GROUP_DESCRIBE: _share(_parts("group_ids", _named(_DESCRIBE, _GROUP)), _described_groups),
        ApiKey.SHARE_FETCH: _share(_group(_READ)),
        ApiKey.SHARE_ACKNOWLEDGE: _share(_group(_READ)),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: (_cluster(_CLUSTER_ACTION),),
        ApiKey.READ_SHARE_GROUP_STATE: (_cluster(_CLUSTER_ACTION),),
        ApiKey.WRITE_SHARE_GROUP_STATE: (_cluster(_CLUSTER_ACTION),),
        ApiKey.DELETE_SHARE_GROUP_STATE: (_cluster(_CLUSTER_ACTION),),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (_cluster(_CLUSTER_ACTION),),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _share(_groups_with_topics),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: _share(_group(_READ), _parts("topics", _topic(_READ)), _topic_ids),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: _share(_group(_DELETE), _parts("topics", _topic(_READ))),
    }
)
"""API -> what is checked, in this order."""
