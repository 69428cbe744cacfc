"""The answer of any API that carries nothing but an error code, made from the schemas of the request and the answer.

Called by the server for the fault plan (a test wants the next answers of an API to fail), and for what a client may not
do. The code goes to the answer's top level; where a version has no place for it there, into an entry for each thing
that the request names: the entries of the answer have the shape of the request's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_share.broker.api_keys import ApiKey
from kafka_share.protocol.messages import MESSAGES
from kafka_share.protocol.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_share.broker.events import Message
    from kafka_share.protocol.schema import Field, Struct

_MESSAGE: Final = "error_message"
_ERROR_CODES: Final = ("error_code", "partition_error_code")
_IDS: Final = frozenset(
    ("group_id", "index", "name", "partition", "partition_index", "resource_name", "resource_type", "topic", "topic_id",
     "topic_name")
)  # fmt: skip
"""The fields by which an entry says which thing of the request it is about."""
_OTHER_NAMES: Final = {"partition": "partition_index"}
"""What an answer calls such a field, where it does not have the request's name for it."""
_NOTHING: Final = {
    **dict.fromkeys(
        ("base_offset", "committed_offset", "high_watermark", "low_watermark", "node_id", "port", "start_offset"), -1
    ),
    "records": b"",
}
"""What Kafka writes beside an error where the default would be a number that means something."""
_BOTH_LEVELS: Final = frozenset(
    (
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    )
)
"""Clients look for an error in the entries of these answers, also where there is one at the top level."""


def error_answer(
    request: Message, api_version: int, code: int, message: str | None = None, *, skipped_levels: int = 0
) -> Message:
    """The answer to `request` that carries `code` wherever the API has a place for it, and the text beside it.

    With `skipped_levels` it carries none at the top level (1), or in the entries there (2), but only below.
    """
    asked, answer = (schema_of(message_class).struct for message_class in MESSAGES[request.API_KEY])
    error = _Error(api_version, code, message)
    fields = error.fields_of(answer)
    values = error.stated(fields) if skipped_levels == 0 else {}
    if not any(name in values for name in _ERROR_CODES) or request.API_KEY in _BOTH_LEVELS:
        values |= {field.name: [] for field in fields if field.is_array}
        values |= error.entries(fields, asked, request, skipped_levels - 1)
    return answer.data_class(**values)


class _Error(NamedTuple):
    """What an answer of this version has to say."""

    version: int
    code: int
    message: str | None

    def fields_of(self, struct: Struct) -> list[Field]:
        return [field for field in struct.fields if field.in_version(self.version)]

    def stated(self, fields: Iterable[Field]) -> dict[str, Any]:
        """The error, if these fields have a place for it, and what stands beside it."""
        names = [field.name for field in fields]
        values: dict[str, Any] = {name: self.code for name in names if name in _ERROR_CODES}
        if values and _MESSAGE in names:
            values[_MESSAGE] = self.message
        return values | {name: _NOTHING[name] for name in names if name in _NOTHING}

    def entries(self, fields: Iterable[Field], asked: Struct, named: Any, skipped_levels: int) -> dict[str, Any]:
        """The array that leads to an error code, with an entry for each element of the request's array."""
        answers = next(field for field in fields if field.is_array and self._leads_to_error(field))
        source = next(field for field in self.fields_of(asked) if field.is_array)
        elements = getattr(named, source.name) or ()
        assert answers.struct is not None
        return {answers.name: [self._entry(answers.struct, source.struct, one, skipped_levels) for one in elements]}

    def _leads_to_error(self, field: Field) -> bool:
        inner = [] if field.struct is None else self.fields_of(field.struct)
        return any(one.name in _ERROR_CODES or self._leads_to_error(one) for one in inner)

    def _entry(self, struct: Struct, asked: Struct | None, named: Any, skipped_levels: int) -> Any:
        """One entry. `named` is an element of the request's array: a struct, or a plain id or index."""
        fields = self.fields_of(struct)
        values: dict[str, Any] = {field.name: [] for field in fields if field.is_array}
        if skipped_levels <= 0:
            values |= self.stated(fields)
        plain = [field.name for field in fields if not field.is_array and "error" not in field.name]
        if asked is None:
            values[plain[0]] = named
            return struct.data_class(**values)
        for field in self.fields_of(asked):
            name = field.name if field.name in plain else _OTHER_NAMES.get(field.name, "")
            if field.name in _IDS and name in plain:
                values[name] = getattr(named, field.name)
        if not any(name in values for name in _ERROR_CODES):
            values |= self.entries(fields, asked, named, skipped_levels - 1)
        return struct.data_class(**values)
