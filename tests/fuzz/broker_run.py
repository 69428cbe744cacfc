"""One seed of the fuzz of the reference broker: requests with any values, damaged frames and random bytes.

A seed decides whether the broker asks who its clients are, and what comes on the connections of an attacker, before
and after it has said who it is. Requests are made from the schemas; the coverage-guided fuzz begins with such ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from fuzz.batch_run import sound_batches
from fuzz.broker_world import GROUPS, PASSWORD, TOPICS, USER, BrokerWorld
from fuzz.outcome import Outcome

from kafka_share.errors import LocalProtocolError
from kafka_share.protocol.handshake import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka_share.protocol.messages import MESSAGES, encode_request
from kafka_share.protocol.schema import Field, Struct, schema_of

STEPS: Final = 40
_CONNECTIONS: Final = 3
_INTEGERS: Final = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
_TEXTS: Final = (
    *TOPICS,
    *GROUPS,
    "",
    "t",
    "m" * 22,
    "earliest",
    "retention.ms",
    "x" * 300,
    "ä\u2028",
    "range",
    "1",
    "__x",
)
_SMALL: Final = (0, 0, 0, 1, 1, 2, 3, -1, -1, -2, 4, 10, 32)
_SENSIBLE: Final[dict[str, tuple[Any, ...]]] = {
    "group_id": GROUPS,
    "groups": GROUPS,
    "member_id": ("m" * 22, "n" * 22),
    "transactional_id": ("t",),
    "name": TOPICS,
    "topic": TOPICS,
    "topic_name": TOPICS,
    "subscribed_topic_names": TOPICS,
    "protocol_type": ("consumer",),
    "share_session_epoch": (0, 1, 1, 2, 3, -1),
    "member_epoch": (0, 0, 1, 2, -1),
    "partition": (0,),
    "partition_index": (0,),
    "acks": (1, -1, 0),
    "max_wait_ms": (0, 500),
    "max_bytes": (1_000, 1 << 20),
    "max_records": (1, 10),
    "batch_size": (1, 10),
    "session_timeout_ms": (6_000, 45_000),
    "rebalance_timeout_ms": (5_000,),
    "acknowledge_types": (1, 1, 2, 3),
    "first_offset": (0, 1),
    "last_offset": (0, 1, 2),
}
"""What makes a request go further than to the first check."""
_WAITS: Final = (0, 0, 0, 1, 500, 5_000, 45_000)


def run_broker(seed: int, *, trace: bool = False) -> Outcome:
    """Play a seed; an exception that comes out of the broker is the complaint."""
    source = Random(f"broker {seed}")
    world = BrokerWorld(is_secured=source.random() < 0.5)
    lines: list[str] = []
    complaint = None
    mutations = 0
    try:
        for step in range(STEPS):
            connection = source.randrange(_CONNECTIONS)
            what, data = _next_bytes(world, source)
            mutations += what != "request"
            if trace:
                lines.append(f"{step}: on {connection}: {what}: {data.hex()}")
            world.happened[what] += 1
            world.received(connection, data)
            if source.random() < 0.1:
                world.close(source.randrange(_CONNECTIONS))
            world.advance(source.choice(_WAITS))
        world.check()
    except Exception as error:  # noqa: BLE001  whatever it is, it should not have come out
        complaint = f"{type(error).__name__}: {error}"
    return Outcome(seed, mutations, world.happened, complaint, None, lines)


def _next_bytes(world: BrokerWorld, source: Random) -> tuple[str, bytes]:
    kind = source.choice(("request",) * 12 + ("login",) * 2 + ("damaged", "cut", "random", "random frame"))
    if kind == "login":
        return kind, b"".join(_login(source))
    if kind == "random":
        return kind, source.randbytes(source.choice((1, 4, 40)))
    if kind == "random frame":
        body = source.randbytes(source.choice((0, 1, 10, 200)))
        return kind, len(body).to_bytes(4, "big") + body
    frame = any_request(world, source)
    if kind == "damaged":
        damaged = bytearray(frame)
        for _ in range(source.choice((1, 1, 3))):
            damaged[source.randrange(4, len(damaged))] = source.randrange(256)
        return kind, bytes(damaged)
    return kind, frame[: source.randrange(1, len(frame))] if kind == "cut" else frame


def _login(source: Random) -> Iterator[bytes]:
    mechanism = source.choice(("PLAIN", "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI"))
    password = source.choice((PASSWORD, PASSWORD, "wrong"))
    message = source.choice(
        (f"\0{USER}\0{password}".encode(), b"n,,n=alice,r=abc", b"n,,\1auth=Bearer x.y.\1\1", source.randbytes(30))
    )
    if mechanism == "PLAIN" and source.random() < 0.7:
        message = f"\0{USER}\0{password}".encode()
    yield encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 1, "fuzz")
    yield encode_request(SaslAuthenticateRequest(auth_bytes=message), 2, 2, "fuzz")


# ---- requests with any values


def any_request(world: BrokerWorld, source: Random) -> bytes:
    """A frame of some API in some version that the broker offers."""
    offered = world.cluster.api_versions
    ids = [topic.id for topic in world.cluster.topics]
    while True:
        api_key = source.choice(list(offered))
        version = source.randint(*offered[api_key])
        request = _struct(schema_of(MESSAGES[api_key][0]).struct, version, source, ids)
        try:
            return encode_request(request, version, source.randrange(2**31), source.choice(("fuzz", None)))
        except LocalProtocolError:
            continue  # values that only another version has a place for


def _struct(struct: Struct, version: int, source: Random, ids: list[uuid.UUID]) -> Any:
    fields = [field for field in struct.fields if field.in_version(version)]
    return struct.data_class(**{field.name: _value(field, version, source, ids) for field in fields})


def _value(field: Field, version: int, source: Random, ids: list[uuid.UUID]) -> Any:
    if field.is_nullable(version) and source.random() < 0.2:
        return None
    if field.is_array:
        return [_one(field, version, source, ids) for _ in range(source.choice((0, 1, 1, 1, 2, 3)))]
    return _one(field, version, source, ids)


def _one(field: Field, version: int, source: Random, ids: list[uuid.UUID]) -> Any:
    if field.struct is not None:
        return _struct(field.struct, version, source, ids)
    if field.name in _SENSIBLE and source.random() < 0.9:
        return source.choice(_SENSIBLE[field.name])
    if field.type in _INTEGERS:
        bits = _INTEGERS[field.type]
        value = source.choice((*_SMALL, *_SMALL, 1_000, source.getrandbits(bits - 1), -(1 << bits - 1)))
        low, high = (0, (1 << bits) - 1) if field.type == "uint16" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        return min(max(value, low), high)
    if field.type == "records":
        return b"".join(sound_batches(source)[0]) if source.random() < 0.7 else source.randbytes(source.choice((0, 80)))
    values: dict[str, Callable[[], Any]] = {
        "string": lambda: source.choice(_TEXTS),
        "uuid": lambda: source.choice([*ids, *ids, uuid.UUID(int=source.getrandbits(128)), None]),
        "bool": lambda: source.random() < 0.5,
        "bytes": lambda: source.randbytes(source.choice((0, 1, 30))),
        "float64": lambda: source.choice((0.0, -1.0, float("inf"), float("nan"))),
        "bitfield": lambda: {1, 3},
    }
    return values[field.type]()


# ---- for a fuzzer that is guided by coverage


def try_broker(data: bytes) -> None:
    """A byte that says whether the broker is secured and the client known, then what comes on its connection."""
    if not data:
        return
    world = BrokerWorld(is_secured=bool(data[0] & 1))
    if data[0] & 2:
        world.received(0, encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "fuzz"))
        token = f"\0{USER}\0{PASSWORD}".encode()
        world.received(0, encode_request(SaslAuthenticateRequest(auth_bytes=token), 2, 2, "fuzz"))
    world.received(0, data[1:])
    world.advance(1_000)
    world.close(0)
    world.check()


def broker_corpus(seeds: int) -> Iterator[bytes]:
    """What to begin with: some requests after one another."""
    source = Random("guided broker")
    for number in range(seeds):
        world = BrokerWorld(is_secured=False)
        yield bytes((number % 4,)) + b"".join(any_request(world, source) for _ in range(source.choice((1, 1, 3))))
