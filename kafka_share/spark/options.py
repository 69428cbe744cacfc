"""SourceOptions: every option of the source, checked once, with what to write instead for those that cannot be.

Made from Spark's options when a DataFrame is loaded. It travels with the plan to every executor, so it has no secrets:
a password is named by the file or the environment variable that has it on the driver (`consumer_settings` reads those,
and is called on the driver only). Nothing here needs Spark.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self, get_args, get_type_hints

import attrs

from kafka_share.config import ShareConsumerConfig
from kafka_share.errors import ConfigurationError
from kafka_share.spark.refused_options import MANAGED, REFUSED

_INT32_MAX: Final = 2**31 - 1
DATA_PLANES: Final = ("auto", "inline", "tcp")
AGENT_MODES: Final = ("subprocess", "embedded")
SECRETS: Final = ("sasl_plain_password", "ssl_password")

Converter = Callable[[str, str], Any]


def _number(low: int, high: int = _INT32_MAX) -> Converter:
    def convert(name: str, value: str) -> int:
        if not value.strip().removeprefix("-").isdecimal():
            raise ConfigurationError(f"{name} is a whole number")
        if not low <= int(value) <= high:
            raise ConfigurationError(f"{name} is {int(value)}; allowed are {low} to {high}")
        return int(value)

    return convert


def _truth(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ConfigurationError(f"{name} is true or false")
    return value.strip().lower() == "true"


def _fraction(name: str, value: str) -> float:
    try:
        fraction = float(value)
    except ValueError:
        fraction = 0.0
    if not 0.05 <= fraction <= 0.9:
        raise ConfigurationError(f"{name} is the part of the lock time after which locks are renewed: 0.05 to 0.9")
    return fraction


def _one_of(*choices: str) -> Converter:
    def convert(name: str, value: str) -> str:
        if value.strip().lower() not in choices:
            raise ConfigurationError(f"{name} is one of {', '.join(choices)}")
        return value.strip().lower()

    return convert


def _text(_: str, value: str) -> str:
    return value.strip()


def _places(name: str, value: str) -> tuple[str, ...]:
    places = tuple(dict.fromkeys(place.strip() for place in value.split(",") if place.strip()))
    for place in places:
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:
            raise ConfigurationError(f"{name} is a list of host:port with commas between them; {place} is none")
    return places


def _option(name: str, converter: Converter, default: Any) -> Any:
    return attrs.field(default=default, metadata={"option": name, "converter": converter})


@attrs.frozen(kw_only=True)
class SourceOptions:
    """The options of one DataFrame. Times are milliseconds, sizes bytes."""

    topics: tuple[str, ...]
    group_id: str
    consumer: Mapping[str, Any] = attrs.field(factory=dict)
    """Settings of the consumer as they were given (`kafka.*`), without secrets."""
    secret_files: Mapping[str, str] = attrs.field(factory=dict)
    """Secret setting -> the file on the driver that has it."""
    secret_variables: Mapping[str, str] = attrs.field(factory=dict)
    """Secret setting -> the environment variable on the driver that has it."""

    max_records: int = _option("maxRecordsPerTrigger", _number(1), 10_000)
    max_bytes: int = _option("maxBytesPerTrigger", _number(1), 64 << 20)
    max_wait_ms: int = _option("maxWaitMs", _number(0, 60_000), 500)
    min_partitions: int = _option("minPartitions", _number(0, 10_000), 0)
    split_bytes: int = _option("splitBytes", _number(0), 0)
    data_plane: str = _option("dataPlane", _one_of(*DATA_PLANES), "auto")
    data_plane_host: str = _option("dataPlaneHost", _text, "127.0.0.1")
    data_cert_file: str = _option("dataPlaneCertFile", _text, "")
    data_key_file: str = _option("dataPlaneKeyFile", _text, "")
    data_ca_file: str = _option("dataPlaneCaFile", _text, "")
    include_headers: bool = _option("includeHeaders", _truth, False)
    renew: bool = _option("renew", _truth, True)
    renew_fraction: float = _option("lockRenewFraction", _fraction, 1 / 3)
    max_lease_ms: int = _option("maxLeaseMs", _number(0), 0)
    grace_ms: int = _option("orphanGraceMs", _number(0), 30_000)
    max_replays: int = _option("maxReplays", _number(0, 100), 1)
    bisect: bool = _option("bisectAfterFailure", _truth, True)
    reject_after: int = _option("rejectAfterDeliveries", _number(0, 100), 0)
    fail_on_data_loss: bool = _option("failOnDataLoss", _truth, True)
    available_now_idle_ms: int = _option("availableNowIdleMs", _number(100, 600_000), 2_000)
    lease_ttl_ms: int = _option("leaseTtlMs", _number(1_000), 600_000)
    agent_dir: str = _option("agentDir", _text, "")
    agent_mode: str = _option("agentMode", _one_of(*AGENT_MODES), "subprocess")
    agents: tuple[str, ...] = _option("agents", _places, ())
    agents_key_file: str = _option("agentsKeyFile", _text, "")
    metrics_host: str = _option("metricsHost", _text, "127.0.0.1")
    metrics_port: int = _option("metricsPort", _number(0, 65_535), 0)
    load_id: str = _option("loadId", _text, "")

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Check the options of a DataFrame; their names are not case-sensitive.

        Raises `ConfigurationError` for one that is unknown, impossible here, out of range or missing.
        """
        given = {name.lower(): value for name, value in options.items()}
        kafka = {name.removeprefix("kafka."): given.pop(name) for name in list(given) if name.startswith("kafka.")}
        topics = tuple(dict.fromkeys(topic.strip() for topic in given.pop("subscribe", "").split(",") if topic.strip()))
        group_id = _one_name(given.pop("sharegroup", None), kafka.pop("group.id", None))
        fields = {field.metadata["option"].lower(): field for field in attrs.fields(cls) if field.metadata}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in fields:
                raise ConfigurationError(_refusal(name, fields))
            metadata = fields[name].metadata
            values[fields[name].name] = metadata["converter"](metadata["option"], value)
        if not topics:
            raise ConfigurationError("subscribe is required: the topics to read, with commas between them")
        _check_agents(values)
        _check_tls(values)
        made = cls(topics=topics, group_id=group_id, **_consumer_parts(kafka), **values)
        made._check_secrets()
        ShareConsumerConfig.from_mapping(made.consumer_settings())  # says now what would be wrong later
        return made

    def consumer_settings(self) -> dict[str, Any]:
        """The settings of the agent's consumer, secrets included. On the driver only.

        Raises `ConfigurationError` if a secret is not where the options say.
        """
        settings = {**self.consumer, "group_id": self.group_id}
        for name, path in self.secret_files.items():
            try:
                settings[name] = Path(path).read_text("utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise ConfigurationError(f"kafka.{_dotted(name)}.file cannot be read on the driver: {reason}") from None
        for name, variable in self.secret_variables.items():
            if variable not in os.environ:
                raise ConfigurationError(
                    f"kafka.{_dotted(name)}.env: the driver has no environment variable of that name"
                )
            settings[name] = os.environ[variable]
        return settings

    def _check_secrets(self) -> None:
        if self.agents and not self.data_ca_file and (self.secret_files or self.secret_variables):
            raise ConfigurationError(
                "passwords would travel to the hosts of agents unencrypted: start those with --cert-file, and write "
                "dataPlaneCaFile, the PEM file of the authority that has signed their certificates"
            )

    def demand_batch(self) -> None:
        """Raises `ConfigurationError` for options that a batch read cannot have."""
        if self.agent_mode == "embedded":
            raise ConfigurationError(
                "agentMode embedded is for streaming queries: a batch read has no Python process on the driver that "
                "lasts as long as it"
            )
        if self.agents:
            raise ConfigurationError("agents is for streaming queries: a batch read has its agent on the driver's host")

    @property
    def agents_folder(self) -> Path:
        """Where the agents of this user have their sockets, on the driver's host."""
        return agents_folder(self.agent_dir)


def agents_folder(agent_dir: str = "") -> Path:
    """The folder of the option agentDir, or the default of this user."""
    return Path(agent_dir) if agent_dir else Path(tempfile.gettempdir()) / f"kafka-share-{os.getuid()}"


def _one_name(alias: str | None, name: str | None) -> str:
    if alias is not None and name is not None and alias != name:
        raise ConfigurationError("kafka.group.id and shareGroup name two different groups: write one of them")
    group_id = (name if alias is None else alias) or ""
    if not group_id.strip():
        raise ConfigurationError("kafka.group.id is required: the share group to read through")
    return group_id


def _check_agents(values: dict[str, Any]) -> None:
    """Where the agents run: what goes together and what does not. An embedded agent has no grace."""
    if values.get("agent_mode") == "embedded":
        if values.get("agents"):
            raise ConfigurationError("agentMode embedded is one agent, in the driver: write agents or agentMode")
        if values.setdefault("grace_ms", 0):
            raise ConfigurationError(
                "agentMode embedded ends with the query, so there is no grace: leave orphanGraceMs out"
            )
    if bool(values.get("agents")) != bool(values.get("agents_key_file")):
        raise ConfigurationError(
            "agents, the hosts where kafka_share.spark.agent_host runs, and agentsKeyFile, the file on the driver with "
            "the key that those were started with: write both or neither"
        )
    for name, option in (("data_plane_host", "dataPlaneHost"), ("data_cert_file", "dataPlaneCertFile")):
        if values.get("agents") and values.get(name):
            raise ConfigurationError(
                f"{option} is the driver's: with agents, each host has its own address and certificate, which "
                f"kafka_share.spark.agent_host is started with"
            )


def _check_tls(values: Mapping[str, Any]) -> None:
    """The agent and the tasks need their parts of it, or neither; agents elsewhere have theirs there."""
    if values.get("agents"):
        return
    if bool(values.get("data_cert_file")) != bool(values.get("data_ca_file")):
        raise ConfigurationError(
            "TLS between tasks and agent needs dataPlaneCertFile, a PEM file on the driver, and dataPlaneCaFile, a PEM "
            "file on every executor: write both or neither"
        )
    if values.get("data_key_file") and not values.get("data_cert_file"):
        raise ConfigurationError("dataPlaneKeyFile is the key of dataPlaneCertFile, which is missing")


def _refusal(name: str, known: Mapping[str, attrs.Attribute[Any]]) -> str:
    if name in REFUSED:
        return f"{name} cannot be set on the source kafka_share: {REFUSED[name]}"
    by_name = {
        field.metadata["option"].lower(): field.metadata["option"]
        for field in attrs.fields(SourceOptions)
        if field.metadata
    }
    close = difflib.get_close_matches(name, [*known, "subscribe", "sharegroup"], n=1)
    hint = f"; did you mean {by_name.get(close[0], close[0])}?" if close else ""
    return f"{name} is not an option of the source kafka_share{hint}"


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _consumer_parts(kafka: Mapping[str, str]) -> dict[str, Any]:
    """The options `kafka.*`: settings of the consumer by their types, and where the secrets are."""
    converters = _consumer_converters()
    plain: dict[str, Any] = {}
    files: dict[str, str] = {}
    variables: dict[str, str] = {}
    for name, value in kafka.items():
        key, _, where = name.rpartition(".")
        setting = name.replace(".", "_")
        if key.replace(".", "_") in SECRETS and where in ("file", "env"):
            (files if where == "file" else variables)[key.replace(".", "_")] = value
        elif setting in SECRETS:
            raise ConfigurationError(
                f"kafka.{name} would reach every executor with the plan: write kafka.{name}.file, the path of a file "
                f"on the driver, or kafka.{name}.env, the name of an environment variable of the driver"
            )
        elif setting in MANAGED:
            raise ConfigurationError(f"kafka.{name} cannot be set on the source kafka_share: {MANAGED[setting]}")
        else:  # what is no setting of ours is refused by the consumer's own check, which knows the other clients' names
            plain[setting] = converters.get(setting, _text)(f"kafka.{name}", value)
    return {"consumer": plain, "secret_files": files, "secret_variables": variables}


def _consumer_converters() -> dict[str, Converter]:
    """By the type of each setting."""
    found: dict[str, Converter] = {}
    for name, kind in get_type_hints(ShareConsumerConfig).items():
        if kind is bool:
            found[name] = _truth
        elif kind is int or int in get_args(kind):
            found[name] = _number(-1)
    return found
