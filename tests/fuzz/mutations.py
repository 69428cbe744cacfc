"""What can be done to a broker's answer on its way: the bytes that the client gets instead.

Pure functions of the answer, of earlier answers on the same connection, and of a seeded source. Used by the fuzz of
the client under virtual time and by the proxy over sockets; what a mutated answer says is looked at by `lies`.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from kafka_share.errors import LocalProtocolError, RemoteProtocolError
from kafka_share.protocol.api_message import ApiMessage, MessageStruct
from kafka_share.protocol.messages import decode_response, encode_response

LENGTH_BYTES: Final = 4
CORRELATION_ID: Final = slice(4, 8)
_LENGTHS: Final = (-(2**31), -1, 0, 1, 3, 300 * 2**20, 2**31 - 1)
"""Besides lengths that are a little wrong. None is both allowed and large: such a buffer would only take memory."""
_NUMBERS: Final = (-(2**31), -1, 0, 1, 2, 3, 5, 16, 100, 2**15 - 1, 2**31 - 1)
_CODES: Final = (*range(-1, 120), 121, 122, 123, 124, 129, 200)
_ATTEMPTS: Final = 20


@attrs.frozen
class Answer:
    """One answer as the broker sent it: a frame with its length, and the request that it belongs to."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes

    def message(self) -> ApiMessage:
        return decode_response(self.api_key, self.version, self.frame[LENGTH_BYTES:])[1]

    def with_message(self, message: ApiMessage) -> bytes:
        return encode_response(self.correlation_id, message, self.version)


class Kind(enum.Enum):
    FLIPPED = "bits flipped"
    FIELD = "a field changed"
    CUT = "cut off in the middle"
    SHORTENED = "shorter than it was, with a length that fits"
    LENGTH = "another length"
    ID = "another correlation id"
    TWICE = "sent twice"
    OLD = "an old answer instead"
    REPEATED = "an old answer with the new correlation id"
    SILENCE = "not sent"
    GARBAGE = "garbage"


WEIGHTS: Final = {
    Kind.FLIPPED: 8,
    Kind.FIELD: 12,
    Kind.CUT: 1,
    Kind.SHORTENED: 1,
    Kind.LENGTH: 1,
    Kind.ID: 1,
    Kind.TWICE: 1,
    Kind.OLD: 1,
    Kind.REPEATED: 4,
    Kind.SILENCE: 1,
    Kind.GARBAGE: 1,
}


def draw_kind(source: random.Random) -> Kind:
    return source.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]


def mutated(kind: Kind, answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    """The bytes that are sent in place of the answer; `older` are the answers before it on its connection."""
    return _MUTATIONS[kind](answer, older, source)


def first_message(data: bytes, answer: Answer) -> ApiMessage | None:
    """What a client reads as the answer to the request, if these bytes begin with a whole and readable one."""
    length = int.from_bytes(data[:LENGTH_BYTES], "big", signed=True)
    frame = data[LENGTH_BYTES : LENGTH_BYTES + length]
    if len(data) < LENGTH_BYTES or not 0 < length == len(frame):
        return None
    if int.from_bytes(frame[:4], "big", signed=True) != answer.correlation_id:
        return None
    try:
        return decode_response(answer.api_key, answer.version, frame)[1]
    except RemoteProtocolError:
        return None


# ---- bytes


def _flipped(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    data = bytearray(answer.frame)
    for _ in range(source.choice((1, 1, 2, 4))):
        data[source.randrange(LENGTH_BYTES, len(data))] ^= 1 << source.randrange(8)
    return bytes(data)


def _cut(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    return answer.frame[: source.randrange(1, len(answer.frame))]


def _shortened(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    rest = answer.frame[LENGTH_BYTES : source.randrange(LENGTH_BYTES, len(answer.frame))]
    return _framed(rest)


def _length(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    true = len(answer.frame) - LENGTH_BYTES
    length = source.choice((*_LENGTHS, true + source.choice((-5, -1, 1, 4, 1000))))
    return length.to_bytes(LENGTH_BYTES, "big", signed=True) + answer.frame[LENGTH_BYTES:]


def _other_id(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    number = source.choice((answer.correlation_id + 1, answer.correlation_id - 1, 0, -1, 2**31 - 1))
    return _with_id(answer.frame, number)


def _twice(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    return answer.frame * 2


def _old(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    return source.choice(older).frame if older else answer.frame * 2


def _repeated(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    alike = [old for old in older if old.api_key == answer.api_key]
    return _with_id(source.choice(alike or [answer]).frame, answer.correlation_id)


def _silence(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    return b""


def _garbage(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    rest = source.randbytes(len(answer.frame) - 8)
    return answer.frame[:8] + rest if source.random() < 0.5 else source.randbytes(len(answer.frame))


def _framed(rest: bytes) -> bytes:
    return len(rest).to_bytes(LENGTH_BYTES, "big") + rest


def _with_id(frame: bytes, number: int) -> bytes:
    return frame[: CORRELATION_ID.start] + number.to_bytes(4, "big", signed=True) + frame[CORRELATION_ID.stop :]


# ---- fields


@attrs.frozen
class _Place:
    """Where a value stands: a field of a struct, with the struct's name for what codes are."""

    owner: MessageStruct
    name: str

    @property
    def value(self) -> Any:
        return getattr(self.owner, self.name)


def places(struct: MessageStruct) -> Iterator[_Place]:
    """Every field of a message and of what is in it."""
    for name in struct.declared_fields:
        yield _Place(struct, name)
        value = getattr(struct, name)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, MessageStruct):
                yield from places(inner)


def _field(answer: Answer, older: Sequence[Answer], source: random.Random) -> bytes:
    for _ in range(_ATTEMPTS):
        message = answer.message()
        place = source.choice(list(places(message)))
        setattr(place.owner, place.name, _other_value(place, source))
        try:
            data = answer.with_message(message)
        except (LocalProtocolError, AttributeError):  # does not fit: another field, another value
            continue
        if data != answer.frame:
            return data
    return _flipped(answer, older, source)


def _other_value(place: _Place, source: random.Random) -> Any:
    value = place.value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        if place.name.endswith("error_code"):
            return source.choice(_CODES)
        return source.choice((*_NUMBERS, value + 1, value - 1, value ^ (1 << source.randrange(31))))
    if isinstance(value, str):
        return source.choice(("", "x", value + "\n", None, value[::-1]))
    if isinstance(value, UUID):
        return source.choice((UUID(int=value.int ^ (1 << source.randrange(128))), None))
    if isinstance(value, bytes | memoryview):
        data = bytes(value)
        return source.choice((b"", None, data[: len(data) // 2], data + data))
    if isinstance(value, list):
        return source.choice(([], None, value[::-1], value + value, value[1:]))
    return source.choice((None, 0, "x", b"x", []))


_MUTATIONS: Final[dict[Kind, Callable[[Answer, Sequence[Answer], random.Random], bytes]]] = {
    Kind.FLIPPED: _flipped,
    Kind.FIELD: _field,
    Kind.CUT: _cut,
    Kind.SHORTENED: _shortened,
    Kind.LENGTH: _length,
    Kind.ID: _other_id,
    Kind.TWICE: _twice,
    Kind.OLD: _old,
    Kind.REPEATED: _repeated,
    Kind.SILENCE: _silence,
    Kind.GARBAGE: _garbage,
}
