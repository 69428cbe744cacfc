"""The answer of any API that carries nothing but an error code, made from the schemas of the request and the answer.

Called by the server for the fault plan (a test wants the next answers of an API to fail). The code goes to the answer's
top level; where a version has no place for it there, into an entry for each thing that the request names: the entries
of the answer have the shape of the request's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafka_share.broker.api_keys import ApiKey
from kafka_share.protocol.messages import MESSAGES
from kafka_share.protocol.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_share.broker.events import Message
    from kafka_share.protocol.schema import Field, Struct

_ERROR_CODES: Final = ("error_code", "partition_error_code")
_IDS: Final = frozenset(
    ("group_id", "index", "name", "partition", "partition_index", "resource_name", "resource_type", "topic", "topic_id")
)
"""The fields by which an entry says which thing of the request it is about."""
_NOTHING: Final = dict.fromkeys(
    ("base_offset", "committed_offset", "high_watermark", "low_watermark", "node_id", "port"), -1
)
"""What Kafka writes beside an error where the default would be a number that means something."""
_BOTH_LEVELS: Final = frozenset((ApiKey.METADATA, ApiKey.OFFSET_FETCH))
"""Clients look for an error in the entries of these answers, also where there is one at the top level."""


def error_answer(request: Message, api_version: int, code: int) -> Message:
    """The answer to `request` that carries `code` wherever the API has a place for it."""
    asked, answer = (schema_of(message).struct for message in MESSAGES[request.API_KEY])
    fields = _in_version(answer, api_version)
    values = _failed(fields, code)
    if not any(name in values for name in _ERROR_CODES) or request.API_KEY in _BOTH_LEVELS:
        values |= {field.name: [] for field in fields if field.is_array}
        values |= _entries(fields, asked, request, api_version, code)
    return answer.data_class(**values)


def _in_version(struct: Struct, version: int) -> list[Field]:
    return [field for field in struct.fields if field.in_version(version)]


def _failed(fields: Iterable[Field], code: int) -> dict[str, Any]:
    """The error code, if these fields have a place for it, and what stands beside it."""
    names = [field.name for field in fields]
    return {name: code for name in names if name in _ERROR_CODES} | {n: _NOTHING[n] for n in names if n in _NOTHING}


def _entries(fields: Iterable[Field], asked: Struct, named: Any, version: int, code: int) -> dict[str, Any]:
    """The array that leads to an error code, with an entry for each element of the request's array."""
    answers = next(field for field in fields if field.is_array and _leads_to_error(field, version))
    source = next(field for field in _in_version(asked, version) if field.is_array)
    elements = getattr(named, source.name) or ()
    assert answers.struct is not None
    return {answers.name: [_entry(answers.struct, source.struct, one, version, code) for one in elements]}


def _leads_to_error(field: Field, version: int) -> bool:
    inner = [] if field.struct is None else _in_version(field.struct, version)
    return any(one.name in _ERROR_CODES or _leads_to_error(one, version) for one in inner)


def _entry(struct: Struct, asked: Struct | None, named: Any, version: int, code: int) -> Any:
    """One entry. `named` is an element of the request's array: a struct, or a plain id or index."""
    fields = _in_version(struct, version)
    values: dict[str, Any] = {field.name: [] for field in fields if field.is_array} | _failed(fields, code)
    plain = [field.name for field in fields if not field.is_array and "error" not in field.name]
    if asked is None:
        values[plain[0]] = named
        return struct.data_class(**values)
    values |= {
        f.name: getattr(named, f.name) for f in _in_version(asked, version) if f.name in _IDS.intersection(plain)
    }
    if not any(name in values for name in _ERROR_CODES):
        values |= _entries(fields, asked, named, version, code)
    return struct.data_class(**values)
