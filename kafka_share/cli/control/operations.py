"""What the control port can do: the methods of `ReferenceBroker` and of its faults, with what each is given.

One table for what changes something and one for what looks. Nothing here reads or writes HTTP. Bytes are text where
they are UTF-8, else `{"base64": "…"}`, in both directions."""

from __future__ import annotations

import base64
import binascii
import enum
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from kafka_share.cli.output import json_bytes
from kafka_share.errors import ERRORS, KafkaShareError

if TYPE_CHECKING:
    from kafka_share.broker.inspection import StoredRecord
    from kafka_share.broker.reference_broker import ReferenceBroker

MAX_RECORDS: Final = 10_000
"""That one look lists."""


class InputError(KafkaShareError):
    """What was sent cannot be."""


class Kind(enum.Enum):
    """What a parameter may be, as the words of an error."""

    TEXT = "a text"
    NUMBER = "a whole number"
    FLAG = "true or false"
    DATA = 'a text, null, or {"base64": "..."}'
    DATA_BY_NAME = "an object of texts"
    SETTINGS = "an object of texts, whole numbers, and true or false"
    ENTITY = "an object of texts and nulls"
    QUOTAS = "an object of numbers and nulls"
    ERROR = "the name or the code of an error of Kafka"


@attrs.frozen
class Parameter:
    """`name` is that of the method's parameter."""

    name: str
    kind: Kind
    required: bool = True


Run: TypeAlias = "Callable[[ReferenceBroker, dict[str, Any]], Any]"


@attrs.frozen
class Operation:
    """`run` is given the broker and the checked arguments; what it returns goes into the answer."""

    run: Run
    parameters: tuple[Parameter, ...] = ()

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the method is called with. Raises `InputError`."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise InputError(f"there is no {name!r} here, only {', '.join(known) or 'nothing'}")
        missing = [one.name for one in self.parameters if one.required and one.name not in given]
        if missing:
            raise InputError(f"{missing[0]} is missing")
        return {name: _checked(known[name], value) for name, value in given.items()}

    def read(self, name: str, text: str) -> Any:
        """The value of a parameter that was given as text in a query."""
        kind = next((one.kind for one in self.parameters if one.name == name), Kind.TEXT)
        if kind is Kind.NUMBER and re.fullmatch(r"-?[0-9]{1,19}", text):
            return int(text)
        return {"true": True, "false": False}.get(text, text) if kind is Kind.FLAG else text


def _checked(parameter: Parameter, value: Any) -> Any:
    try:
        return _CHECKS[parameter.kind](value)
    except (TypeError, ValueError, binascii.Error):
        raise InputError(f"{parameter.name} has to be {parameter.kind.value}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise TypeError
    number: int = value
    return number


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _data(value: Any) -> str | bytes | None:
    if isinstance(value, dict) and list(value) == ["base64"]:
        return base64.b64decode(_text(value["base64"]), validate=True)
    return None if value is None else _text(value)


def _object_of(check: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    def checked(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError
        return {name: check(one) for name, one in value.items()}

    return checked


def _setting(value: Any) -> str:
    """As Kafka writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(_number(value))


def _quota(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _error(value: Any) -> int:
    if not isinstance(value, str):
        return _number(value)
    codes: list[int] = [code for code, error in ERRORS.items() if error.name == value]
    if not codes:
        raise ValueError
    code: int = codes[0]
    return code


_CHECKS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    Kind.TEXT: _text,
    Kind.NUMBER: _number,
    Kind.FLAG: _flag,
    Kind.DATA: _data,
    Kind.DATA_BY_NAME: _object_of(_data),
    Kind.SETTINGS: _object_of(_setting),
    Kind.ENTITY: _object_of(lambda value: None if value is None else _text(value)),
    Kind.QUOTAS: _object_of(_quota),
    Kind.ERROR: _error,
}


def _optional(name: str, kind: Kind) -> Parameter:
    return Parameter(name, kind, required=False)


_NAME: Final = Parameter("name", Kind.TEXT)
_TOPIC: Final = Parameter("topic", Kind.TEXT)
_GROUP: Final = Parameter("group", Kind.TEXT)
_PARTITION: Final = Parameter("partition", Kind.NUMBER)
_SOME_PARTITION: Final = _optional("partition", Kind.NUMBER)
_NODE: Final = Parameter("node_id", Kind.NUMBER)
_TIMES: Final = _optional("times", Kind.NUMBER)
_OF_ALL_FAULTS: Final = (Parameter("api", Kind.TEXT), _TIMES)
_OF_FAULTS: Final = (*_OF_ALL_FAULTS, _optional("node_id", Kind.NUMBER), _optional("client_id", Kind.TEXT))


def _method(name: str, *parameters: Parameter) -> tuple[str, Operation]:
    return name, Operation(lambda broker, given: _shown(getattr(broker, name)(**given)), parameters)


def _fault(name: str, *parameters: Parameter, of: Sequence[Parameter] = _OF_FAULTS) -> tuple[str, Operation]:
    return f"faults/{name}", Operation(lambda broker, given: getattr(broker.faults, name)(**given), (*of, *parameters))


def _set_quota(broker: ReferenceBroker, given: dict[str, Any]) -> None:
    broker.set_quota(given["entity"], **given["values"])


def _records(broker: ReferenceBroker, given: dict[str, Any]) -> dict[str, Any]:
    found = broker.records(**given)
    return {"records": [_record(one) for one in found[:MAX_RECORDS]], "total": len(found)}


def _record(record: StoredRecord) -> dict[str, Any]:
    shown = attrs.asdict(record)
    shown["key"], shown["value"] = json_bytes(record.key), json_bytes(record.value)
    shown["headers"] = [[name, json_bytes(value)] for name, value in record.headers]
    return shown


def _shown(found: Any) -> Any:
    """A value of the broker's inspection as JSON."""
    if isinstance(found, enum.Enum):
        return found.name
    if attrs.has(type(found)):
        return {field.name: _shown(getattr(found, field.name)) for field in attrs.fields(type(found))}
    if hasattr(found, "_asdict"):
        return {name: _shown(value) for name, value in found._asdict().items()}
    if isinstance(found, Mapping):
        return {str(key): _shown(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_shown(one) for one in found]
    return found if found is None or isinstance(found, str | int | float) else str(found)


LOOKS: Final[Mapping[str, Operation]] = MappingProxyType(
    dict(
        (
            ("now_ms", Operation(lambda broker, given: broker.clock.now_ms())),
            ("bootstrap_servers", Operation(lambda broker, given: broker.bootstrap_servers)),
            _method("topics"),
            _method("end_offset", _TOPIC, _SOME_PARTITION),
            ("records", Operation(_records, (_TOPIC, _SOME_PARTITION, _optional("read_committed", Kind.FLAG)))),
            _method("groups"),
            _method("group_config", _GROUP),
            _method("share_group", _GROUP),
            _method("share_partition", _GROUP, _TOPIC, _SOME_PARTITION),
            _method("stored_offset", _GROUP, _TOPIC, _SOME_PARTITION),
            _method("leader", _TOPIC, _SOME_PARTITION),
            _method("coordinator", _GROUP),
            ("faults/pending", Operation(lambda broker, given: broker.faults.pending())),
        )
    )
)
"""Path without its slash -> what a GET does."""

ACTIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    dict(
        (
            _method("advance", Parameter("span_ms", Kind.NUMBER)),
            _method(
                "create_topic",
                _NAME,
                _optional("partitions", Kind.NUMBER),
                _optional("replication_factor", Kind.NUMBER),
                _optional("config", Kind.SETTINGS),
            ),
            _method("delete_topic", _NAME),
            _method(
                "produce",
                _TOPIC,
                Parameter("value", Kind.DATA),
                _optional("key", Kind.DATA),
                _SOME_PARTITION,
                _optional("headers", Kind.DATA_BY_NAME),
                _optional("timestamp_ms", Kind.NUMBER),
            ),
            _method("delete_records", _TOPIC, _PARTITION, Parameter("before_offset", Kind.NUMBER)),
            _method("set_group_config", _GROUP, Parameter("config", Kind.SETTINGS)),
            _method("set_broker_config", Parameter("config", Kind.SETTINGS)),
            ("set_quota", Operation(_set_quota, (Parameter("entity", Kind.ENTITY), Parameter("values", Kind.QUOTAS)))),
            _method("stop_node", _NODE),
            _method("start_node", _NODE),
            _method("move_leader", _TOPIC, _PARTITION, _NODE),
            _method("move_coordinator", _GROUP, _NODE),
            _method("drop_connections", _optional("node_id", Kind.NUMBER)),
            _method("reset"),
            _fault("fail", Parameter("error", Kind.ERROR)),
            _fault("delay", Parameter("delay_ms", Kind.NUMBER)),
            _fault("drop", _optional("applied", Kind.FLAG)),
            _fault("lose_reply"),
            _fault("garbage"),
            _fault("cut_frame"),
            _fault("fail_log", Parameter("error", Kind.ERROR), of=(_TOPIC, _TIMES)),
            _fault("delay_persister", Parameter("delay_ms", Kind.NUMBER), of=_OF_ALL_FAULTS),
            _fault("fail_persister", Parameter("error", Kind.ERROR), of=_OF_ALL_FAULTS),
            ("faults/clear", Operation(lambda broker, given: broker.faults.clear())),
        )
    )
)
"""Path without its slash -> what a POST does."""
