"""Operations on the dynamic configs of groups (resource type 32): describe, alter, ensure.

The group need not exist. Any broker answers; the controller applies a change, and the brokers follow a moment later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafka_share.admin_values import ConfigChange, ConfigEntry, ConfigSource, ConfigSynonym, ConfigType, ConfigValue
from kafka_share.core.admin import arguments
from kafka_share.core.admin.conversation import Call, Conversation, Operation
from kafka_share.core.admin.routing import ask_any, ask_every, find_brokers
from kafka_share.errors import (
    BrokerError,
    KafkaShareError,
    NetworkError,
    NotControllerError,
    RemoteProtocolError,
    RequestTimedOutError,
    error_for_code,
)
from kafka_share.protocol.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest

if TYPE_CHECKING:
    from kafka_share.protocol.configs import DescribeConfigsResponse

GROUP_RESOURCE: Final = 32
_SET: Final = 0
_DELETE: Final = 1
_WITH_SYNONYMS: Final = 1
_RETRIED: Final = (NotControllerError, RequestTimedOutError)

_Resource = DescribeConfigsRequest.DescribeConfigsResource
_AlteredResource = IncrementalAlterConfigsRequest.AlterConfigsResource
_Change = _AlteredResource.AlterableConfig
_Wanted = Mapping[str, "str | None"]
_K = TypeVar("_K", ConfigSource, ConfigType)


# ---- describe


def describe_group_configs(
    group_ids: Iterable[str],
) -> Operation[dict[str, dict[str, ConfigEntry] | KafkaShareError]]:
    """Every config of each group, all groups in one request."""
    return partial(_describe, arguments.names("group id", group_ids))


def _describe(
    group_ids: tuple[str, ...], call: Call
) -> Conversation[dict[str, dict[str, ConfigEntry] | KafkaShareError]]:
    if not group_ids:
        return {}
    response = yield from ask_any(call, _describe_request(group_ids), _WITH_SYNONYMS)
    found = _configs_in(response)
    silence = RemoteProtocolError("the broker's answer does not mention this group")
    return {group_id: found.get(group_id, silence) for group_id in group_ids}


def _describe_request(group_ids: Iterable[str], keys: Iterable[str] | None = None) -> DescribeConfigsRequest:
    names = None if keys is None else list(keys)
    return DescribeConfigsRequest(
        resources=[
            _Resource(resource_type=GROUP_RESOURCE, resource_name=group_id, configuration_keys=names)
            for group_id in group_ids
        ],
        include_synonyms=True,
        include_documentation=False,
    )


def _configs_in(response: DescribeConfigsResponse) -> dict[str, dict[str, ConfigEntry] | KafkaShareError]:
    found: dict[str, dict[str, ConfigEntry] | KafkaShareError] = {}
    for result in response.results:
        error = error_for_code(result.error_code, result.error_message or None)
        entries = {config.name: _entry(config) for config in sorted(result.configs, key=lambda c: c.name)}
        found[result.resource_name] = entries if error is None else error
    return found


def _entry(config: Any) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_known(ConfigSource, config.config_source),
        type=_known(ConfigType, config.config_type),
        is_sensitive=config.is_sensitive,
        is_read_only=config.read_only,
        synonyms=tuple(ConfigSynonym(s.name, s.value, _known(ConfigSource, s.source)) for s in config.synonyms),
    )


def _known(kind: type[_K], code: int) -> _K:
    try:
        return kind(code)
    except ValueError:
        return kind(0)


# ---- alter


def alter_group_configs(
    group_id: str, configs: Mapping[str, ConfigValue | None], validate_only: bool
) -> Operation[None]:
    """Set configs, None to unset; the broker takes all or none. Raises what the broker says against it."""
    arguments.name("group id", group_id)
    return partial(_alter, group_id, _wanted(configs), bool(validate_only))


def _wanted(configs: Mapping[str, ConfigValue | None]) -> _Wanted:
    """The values by Kafka's names, none of which has an underscore: `share_auto_offset_reset` is taken too."""
    return {
        arguments.name("config name", name).replace("_", "."): arguments.config_value(name, value)
        for name, value in arguments.mapping("config names to values", configs).items()
    }


def _alter(group_id: str, wanted: _Wanted, validate_only: bool, call: Call) -> Conversation[None]:
    if not wanted:
        return
    changes = [
        _Change(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in wanted.items()
    ]
    resource = _AlteredResource(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    last: BrokerError | None = None
    while not call.is_over():
        response = yield from ask_any(call, request)
        answers = [answer for answer in response.responses if answer.resource_name == group_id]
        if not answers:
            raise RemoteProtocolError(f"the broker's answer does not mention group {group_id!r}")
        last = error_for_code(answers[0].error_code, answers[0].error_message or None)
        if last is None:
            return
        if not isinstance(last, _RETRIED):
            raise last
        yield call.pause()
    raise call.timed_out(last)


# ---- ensure


def ensure_group_config(group_id: str, configs: Mapping[str, ConfigValue | None]) -> Operation[dict[str, ConfigChange]]:
    """Set on the group what is not set on it so already, then wait until every broker that can be reached shows it.

    A value that merely happens to be the default counts as not set: the default may change. Returns what was changed.
    """
    arguments.name("group id", group_id)
    return partial(_ensure, group_id, _wanted(configs))


def _ensure(group_id: str, wanted: _Wanted, call: Call) -> Conversation[dict[str, ConfigChange]]:
    if not wanted:
        return {}
    described = yield from _describe((group_id,), call)
    present = described[group_id]
    if isinstance(present, KafkaShareError):
        raise present
    before = {name: _own_value(present, name) for name in wanted}
    changes = {name: ConfigChange(before[name], value) for name, value in wanted.items() if before[name] != value}
    if changes:
        yield from _alter(group_id, {name: change.after for name, change in changes.items()}, False, call)
    yield from _wait_until_shown(group_id, wanted, call)
    return changes


def _own_value(configs: Mapping[str, ConfigEntry], name: str) -> str | None:
    entry = configs.get(name)
    return entry.value if entry is not None and entry.source is ConfigSource.DYNAMIC_GROUP_CONFIG else None


def _wait_until_shown(group_id: str, wanted: _Wanted, call: Call) -> Conversation[None]:
    """Partition leaders read the config, so each broker has to know it; one that is down reads it when it starts."""
    request = _describe_request((group_id,), wanted)
    waiting = yield from find_brokers(call)
    while waiting and not call.is_over():
        answers = yield from ask_every(call, waiting, request, _WITH_SYNONYMS, lambda _: None)
        late = []
        for node, answer in answers.items():
            if isinstance(answer, KafkaShareError):
                if not isinstance(answer, NetworkError | TimeoutError):
                    raise answer
                continue
            shown = _configs_in(answer).get(group_id)
            if isinstance(shown, KafkaShareError):
                raise shown
            if shown is None or any(_own_value(shown, name) != value for name, value in wanted.items()):
                late.append(node)
        waiting = tuple(late)
        if waiting and not call.is_over():
            yield call.pause()
    if waiting:
        raise call.timed_out()
