"""The admin core on group configs: describe, alter, and ensure, which waits until every broker shows the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from core.admin.scripted_admin import Cluster, in_turn, run, script

from kafka_share.admin_values import ConfigChange, ConfigEntry, ConfigSource, ConfigSynonym, ConfigType
from kafka_share.core.admin import configs
from kafka_share.errors import (
    BrokerUnreachableError,
    GroupAuthorizationFailedError,
    InvalidArgumentError,
    InvalidConfigError,
    InvalidRequestError,
    KafkaShareError,
    NotControllerError,
    OperationTimeoutError,
    RemoteProtocolError,
)
from kafka_share.protocol.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Config = _Result.DescribeConfigsResourceResult
_Altered = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
RESET = "share.auto.offset.reset"
LOCK = "share.record.lock.duration.ms"
DEFAULTS = {RESET: "latest", LOCK: "30000"}


def shown(own: Mapping[str, str], group: str = "g") -> DescribeConfigsResponse:
    """What a broker shows of a group with these configs of its own."""
    entries = [
        _Config(
            name=name,
            value=own.get(name, default),
            read_only=False,
            config_source=8 if name in own else 5,
            is_sensitive=False,
            synonyms=[_Config.DescribeConfigsSynonym(name=name, value=default, source=5)],
            config_type=2,
        )
        for name, default in DEFAULTS.items()
    ]
    return DescribeConfigsResponse(
        results=[_Result(error_code=0, resource_type=32, resource_name=group, configs=entries)]
    )


def altered(error: int = 0, group: str = "g") -> IncrementalAlterConfigsResponse:
    message = "as scripted" if error else None
    entry = _Altered(error_code=error, error_message=message, resource_type=32, resource_name=group)
    return IncrementalAlterConfigsResponse(responses=[entry])


def alter(wanted: Mapping[str, Any], *answers: Any, cluster: Cluster | None = None, **options: Any) -> Any:
    operation = configs.alter_group_configs("g", wanted, options.pop("validate_only", False))
    return run(operation, script((IncrementalAlterConfigsRequest, in_turn(*answers))), cluster, **options)


# ---- describe


@pytest.mark.behaviour("administration")
def test_a_config_has_value_source_type_and_synonyms() -> None:
    """The configs of a group are listed by name, with value, source, type and synonyms."""
    cluster = Cluster()
    answers = script((DescribeConfigsRequest, lambda *_: shown({RESET: "earliest"})))
    found = run(configs.describe_group_configs(["g"]), answers, cluster)
    assert list(found["g"]) == sorted(DEFAULTS)
    assert found["g"][RESET] == ConfigEntry(
        RESET,
        "earliest",
        ConfigSource.DYNAMIC_GROUP_CONFIG,
        ConfigType.STRING,
        False,
        False,
        (ConfigSynonym(RESET, "latest", ConfigSource.DEFAULT_CONFIG),),
    )
    assert found["g"][LOCK].source is ConfigSource.DEFAULT_CONFIG
    ((request, _),) = cluster.requests(DescribeConfigsRequest)
    (resource,) = request.resources
    assert (resource.resource_type, resource.resource_name, resource.configuration_keys) == (32, "g", None)
    assert request.include_synonyms is True


def test_each_described_group_has_its_own_result() -> None:
    """A group that may not be described has its error, one that the answer leaves out another one."""
    refused = _Result(error_code=30, error_message="no right", resource_type=32, resource_name="h", configs=[])
    reply = DescribeConfigsResponse(results=[*shown({}).results, refused])
    found = run(configs.describe_group_configs(["g", "h", "i"]), script((DescribeConfigsRequest, lambda *_: reply)))
    assert isinstance(found["g"], dict)
    assert isinstance(found["h"], GroupAuthorizationFailedError)
    assert isinstance(found["i"], RemoteProtocolError)


def test_a_source_and_type_of_a_later_kafka_are_unknown() -> None:
    """Numbers that this version has no name for become UNKNOWN."""
    reply = shown({})
    reply.results[0].configs[0].config_source = 99
    reply.results[0].configs[0].config_type = 98
    found = run(configs.describe_group_configs(["g"]), script((DescribeConfigsRequest, lambda *_: reply)))
    assert (found["g"][RESET].source, found["g"][RESET].type) == (ConfigSource.UNKNOWN, ConfigType.UNKNOWN)


def test_another_broker_is_asked_when_one_cannot_be_reached() -> None:
    """Any broker can answer, so a lost connection only moves the question on."""
    cluster = Cluster()
    answers = in_turn(BrokerUnreachableError("gone"), shown({}))
    assert run(configs.describe_group_configs(["g"]), script((DescribeConfigsRequest, answers)), cluster)["g"]
    assert len(cluster.requests(DescribeConfigsRequest)) == 2


# ---- alter


@pytest.mark.behaviour("administration")
def test_values_travel_as_text_and_none_unsets() -> None:
    """Texts, numbers and booleans are set as text, and None unsets a group config."""
    cluster = Cluster()
    wanted = {RESET: "earliest", LOCK: 15_000, "share.renew.acknowledge.enable": False, "x": None}
    alter(wanted, altered(), cluster=cluster)
    ((request, _),) = cluster.requests(IncrementalAlterConfigsRequest)
    (resource,) = request.resources
    assert (resource.resource_type, resource.resource_name, request.validate_only) == (32, "g", False)
    assert [(c.name, c.config_operation, c.value) for c in resource.configs] == [
        (RESET, 0, "earliest"),
        (LOCK, 0, "15000"),
        ("share.renew.acknowledge.enable", 0, "false"),
        ("x", 1, None),
    ]


@pytest.mark.parametrize(
    ("code", "kind"), [(40, InvalidConfigError), (42, InvalidRequestError), (30, GroupAuthorizationFailedError)]
)
@pytest.mark.behaviour("administration")
def test_what_the_broker_says_against_a_config_is_raised(code: int, kind: type[KafkaShareError]) -> None:
    """A group config that a broker refuses is raised with the broker's message, and not tried again."""
    cluster = Cluster()
    with pytest.raises(kind, match="as scripted"):
        alter({RESET: "EARLIEST"}, altered(code), cluster=cluster, validate_only=True)
    ((request, _),) = cluster.requests(IncrementalAlterConfigsRequest)
    assert request.validate_only is True


def test_a_controller_that_is_away_is_waited_for() -> None:
    """NOT_CONTROLLER and REQUEST_TIMED_OUT pass: setting a config again changes nothing."""
    cluster = Cluster()
    alter({RESET: "earliest"}, altered(41), altered(7), altered(), cluster=cluster)
    assert len(cluster.requests(IncrementalAlterConfigsRequest)) == 3
    with pytest.raises(OperationTimeoutError) as caught:
        alter({RESET: "earliest"}, altered(41), timeout_ms=700)
    assert isinstance(caught.value.__cause__, NotControllerError)


def test_nothing_is_sent_when_no_config_is_given() -> None:
    """No configs, no requests."""
    cluster = Cluster()
    assert alter({}, altered(), cluster=cluster) is None
    assert cluster.sent == []


def test_an_answer_about_another_group_is_a_defect() -> None:
    """An answer without this group is reported as the broker's fault."""
    with pytest.raises(RemoteProtocolError):
        alter({RESET: "earliest"}, altered(group="other"))


# ---- ensure


class Brokers:
    """Three brokers that follow the controller some looks later."""

    def __init__(self, own: dict[str, str] | None = None, late: dict[int, int] | None = None) -> None:
        self.own = dict(own or {})
        self.before = dict(self.own)
        self.late = dict(late or {})
        """Node id -> how many more looks still show what was before."""
        self.cluster = Cluster()

    def show(self, _: Any, node: int) -> DescribeConfigsResponse:
        if self.late.get(node, 0) > 0 and self.own != self.before:
            self.late[node] -= 1
            return shown(self.before)
        return shown(self.own)

    def change(self, request: Any, _: int) -> IncrementalAlterConfigsResponse:
        for config in request.resources[0].configs:
            if config.config_operation == 1:
                self.own.pop(config.name, None)
            else:
                self.own[config.name] = config.value
        return altered()

    def ensure(self, wanted: Mapping[str, Any], **options: Any) -> Any:
        answers = script((DescribeConfigsRequest, self.show), (IncrementalAlterConfigsRequest, self.change))
        return run(configs.ensure_group_config("g", wanted), answers, self.cluster, **options)

    def changes(self) -> list[dict[str, Any]]:
        sent = self.cluster.requests(IncrementalAlterConfigsRequest)
        return [{c.name: c.value for c in request.resources[0].configs} for request, _ in sent]


def test_only_what_differs_is_set_and_reported() -> None:
    """A config that is set so already is left alone; the result says what it was and what it is."""
    brokers = Brokers({RESET: "earliest", LOCK: "20000"})
    changed = brokers.ensure({RESET: "earliest", LOCK: 15_000})
    assert changed == {LOCK: ConfigChange("20000", "15000")}
    assert brokers.changes() == [{LOCK: "15000"}]


def test_nothing_is_changed_when_all_is_as_wanted() -> None:
    """A second call changes nothing and says so."""
    brokers = Brokers({RESET: "earliest"})
    assert brokers.ensure({RESET: "earliest", LOCK: None}) == {}
    assert brokers.changes() == []


def test_a_value_that_is_only_the_default_is_set_on_the_group() -> None:
    """What the group shall have must not depend on a broker's default."""
    brokers = Brokers()
    assert brokers.ensure({RESET: "latest"}) == {RESET: ConfigChange(None, "latest")}
    assert brokers.own == {RESET: "latest"}


def test_none_unsets_what_is_set() -> None:
    """None means: not set on the group."""
    brokers = Brokers({RESET: "earliest"})
    assert brokers.ensure({RESET: None}) == {RESET: ConfigChange("earliest", None)}
    assert brokers.own == {}


@pytest.mark.behaviour("administration")
def test_it_waits_until_every_broker_shows_the_change() -> None:
    """A changed group config is reported as done only when every broker shows it."""
    brokers = Brokers(late={2: 1, 3: 3})
    brokers.ensure({RESET: "earliest"})
    looks = [node for _, node in brokers.cluster.requests(DescribeConfigsRequest)]
    assert looks == [-1, *(1, 2, 3), *(2, 3), 3, 3]
    assert brokers.late == {2: 0, 3: 0}


def test_a_broker_that_is_down_is_not_waited_for() -> None:
    """It reads the config when it starts."""
    brokers = Brokers()
    show = brokers.show
    brokers.show = lambda r, n: BrokerUnreachableError("down") if n == 2 else show(r, n)  # type: ignore[method-assign,assignment,return-value]
    assert brokers.ensure({RESET: "earliest"}) == {RESET: ConfigChange(None, "earliest")}
    assert brokers.cluster.took_ms < 5_000


def test_it_times_out_when_a_broker_never_shows_the_change() -> None:
    """The call does not pretend: the change was made, but a broker does not show it in time."""
    brokers = Brokers(late={3: 1_000})
    with pytest.raises(OperationTimeoutError):
        brokers.ensure({RESET: "earliest"}, timeout_ms=3_000)
    assert brokers.own == {RESET: "earliest"}


def test_a_group_that_may_not_be_described_is_raised() -> None:
    """Without the right to look nothing is changed."""
    refused = DescribeConfigsResponse(
        results=[_Result(error_code=30, error_message="no", resource_type=32, resource_name="g", configs=[])]
    )
    with pytest.raises(GroupAuthorizationFailedError):
        run(configs.ensure_group_config("g", {RESET: "x"}), script((DescribeConfigsRequest, lambda *_: refused)))


# ---- arguments


@pytest.mark.parametrize(
    "make",
    [
        lambda: configs.describe_group_configs("g"),
        lambda: configs.alter_group_configs("", {RESET: "x"}, False),
        lambda: configs.alter_group_configs("g", [RESET], False),  # type: ignore[arg-type]
        lambda: configs.alter_group_configs("g", {"": "x"}, False),
        lambda: configs.alter_group_configs("g", {RESET: 1.5}, False),  # type: ignore[dict-item]
        lambda: configs.ensure_group_config("g", {RESET: b"x"}),  # type: ignore[dict-item]
        lambda: configs.ensure_group_config("", {}),
    ],
)
def test_arguments_about_configs_that_cannot_work_are_refused_at_once(make: Callable[[], Any]) -> None:
    """Values that no config can have are refused before anything is sent."""
    with pytest.raises(InvalidArgumentError):
        make()
