"""Serves the operations of the broker as JSON over HTTP: `GET /topics`, `POST /advance` with `{"span_ms": 1000}`.

What changes something is a POST with a JSON object as its body, whose names are those of the method of
`ReferenceBroker` that has the operation's name; what only looks is a GET with these names in its query. An answer is
`{"result": …}` with 200, or `{"error": "…"}`: 400 for input that cannot be, 409 for what is not possible now;
500 is a defect, which `HttpServer` logs.

Who may ask: requests that name the host by an address or as localhost, and no web site (see `HttpServer`).
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from kafka_share.cli.control.operations import ACTIONS, LOOKS, InputError, Operation
from kafka_share.cli.http_server import Answer, HttpServer
from kafka_share.errors import IllegalStateError, KafkaShareError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kafka_share.broker.reference_broker import ReferenceBroker


def control_server(broker: ReferenceBroker, host: str, port: int) -> HttpServer:
    """The control port of this broker."""

    def looking(operation: Operation) -> Callable[[str], Awaitable[Answer]]:
        return lambda query: _answered(broker, operation, lambda: _of_query(query, operation))

    def acting(operation: Operation) -> Callable[[bytes], Awaitable[Answer]]:
        return lambda body: _answered(broker, operation, lambda: _of_body(body))

    return HttpServer(
        {},
        host,
        port,
        queries={f"/{name}": looking(operation) for name, operation in LOOKS.items()},
        actions={f"/{name}": acting(operation) for name, operation in ACTIONS.items()},
        only_own_names=True,
        failures_as_json=True,
    )


async def _answered(broker: ReferenceBroker, operation: Operation, given: Callable[[], dict[str, Any]]) -> Answer:
    try:
        arguments = operation.arguments(given())
        result = await asyncio.to_thread(operation.run, broker, arguments)
    except InputError as error:
        return _json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
    except IllegalStateError as error:
        return _json({"error": str(error)}, HTTPStatus.CONFLICT)
    except OSError as error:  # a node cannot listen: somebody has its port
        return _json({"error": error.strerror or str(error)}, HTTPStatus.CONFLICT)
    except (KafkaShareError, ValueError) as error:
        return _json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
    return _json({"result": result})


def _json(document: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(json.dumps(document).encode() + b"\n", "application/json", status, (("Cache-Control", "no-store"),))


def _of_query(query: str, operation: Operation) -> dict[str, Any]:
    """A query has texts only: they are read as what the operation wants."""
    given: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in given:
            raise InputError(f"{name} is given twice")
        given[name] = operation.read(name, text)
    return given


def _of_body(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise InputError("the body is not JSON") from None
    if not isinstance(given, dict):
        raise InputError("the body has to be a JSON object")
    return given
