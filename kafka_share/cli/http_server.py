"""A small HTTP server for a few paths, which no client can hold up: one request for each connection.

`export-lag`, the probe of `worker` and the ports of the reference broker run it. A path is there for GET, or for POST
with a body of JSON, which no web site can send. The head of a request has to come within a time limit, an answer has to
be taken within one, and there is a bound on clients; who comes beyond it is told to come back. A page that fails is
answered 500, and its error is logged."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

logger: logging.Logger = logging.getLogger(__name__)

MAX_CLIENTS: Final = 32
TIME_LIMIT_S: Final = 5.0
"""For the head of a request to arrive, and for an answer to be taken."""
_MAX_HEAD_BYTES: Final = 8_192
MAX_BODY_BYTES: Final = 1_048_576
_END_OF_HEAD: Final = b"\r\n\r\n"
_TEXT: Final = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """What a path answers with."""

    body: bytes
    content_type: str = _TEXT
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()


class HttpServer:
    """Use it as an asynchronous context manager; it listens from its beginning to its end.

    A page of `queries` is given what stands behind the question mark, one of `actions` the body of a POST. With
    `only_own_names` a request has to name the host by an address, as localhost, or as `host`: a web site whose name was
    made to lead here is refused.
    """

    def __init__(
        self,
        pages: Mapping[str, Callable[[], Awaitable[Answer]]],
        host: str,
        port: int,
        *,
        queries: Mapping[str, Callable[[str], Awaitable[Answer]]] | None = None,
        actions: Mapping[str, Callable[[bytes], Awaitable[Answer]]] | None = None,
        failures_as_json: bool = False,
        only_own_names: bool = False,
        max_clients: int = MAX_CLIENTS,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        self._pages = pages
        self._queries = queries or {}
        self._actions = actions or {}
        self._failures_as_json = failures_as_json
        self._only_own_names = only_own_names
        self._address = host, port
        self._max_clients = max_clients
        self._time_limit_s = time_limit_s
        self._clients: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The one it listens on, when port 0 was asked for."""
        assert self._server is not None, "it listens only inside its block"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> HttpServer:
        """Raises OSError if it cannot listen."""
        self._server = await asyncio.start_server(self._serve, *self._address, limit=_MAX_HEAD_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._clients.values():
            writer.transport.abort()
        if self._clients:  # nobody else ends their tasks before the loop is closed
            await asyncio.wait(self._clients, timeout=self._time_limit_s)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio calls this in a task"
        self._clients[task] = writer
        writer.transport.set_write_buffer_limits(0)  # so that a drained answer has left this process
        try:
            answer = await self._answer(reader)
            async with asyncio.timeout(self._time_limit_s):
                writer.write(_encoded(answer))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            del self._clients[task]
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        try:
            return await self._asked(reader)
        except _RefusedError as refused:
            return self._failure(refused)

    async def _asked(self, reader: asyncio.StreamReader) -> Answer:
        if len(self._clients) > self._max_clients:
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, ("Retry-After", "1"))
        try:
            async with asyncio.timeout(self._time_limit_s):
                head = _Head.of(await reader.readuntil(_END_OF_HEAD))
                if self._only_own_names and not self._is_own_name(_without_port(head.value("host"))):
                    raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST)
                page = self._page(head)
                body = b"" if page is not None else await _body(reader, head)
        except TimeoutError:
            raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT) from None
        except asyncio.LimitOverrunError:
            raise _RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None
        try:
            return await (self._actions[head.path](body) if page is None else page())
        except Exception:  # a defect costs one answer, and not the connection
            logger.exception("%s %s could not be answered", head.method, head.path)
            raise _RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, why="what went wrong stands in the log") from None

    def _page(self, head: _Head) -> Callable[[], Awaitable[Answer]] | None:
        """What answers a GET; None if an action answers a POST. Raises `_RefusedError`."""
        acts = head.path in self._actions
        if not acts and head.path not in self._pages and head.path not in self._queries:
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        if head.method != ("POST" if acts else "GET"):
            raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, ("Allow", "POST" if acts else "GET"))
        if acts:
            return None
        asked = self._queries.get(head.path)
        return self._pages[head.path] if asked is None else lambda: asked(head.query)

    def _failure(self, refused: _RefusedError) -> Answer:
        if self._failures_as_json:
            body = json.dumps({"error": str(refused)}).encode() + b"\n"
            return Answer(body, "application/json", refused.status, refused.headers)
        return Answer(f"{refused}\n".encode(), status=refused.status, headers=refused.headers)

    def _is_own_name(self, host: str) -> bool:
        if host in ("localhost", self._address[0]):
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


class _RefusedError(Exception):
    """The request gets no more than this status, and in a few words why."""

    def __init__(self, status: HTTPStatus, *headers: tuple[str, str], why: str = "") -> None:
        super().__init__(f"{status.phrase}: {why}" if why else status.phrase)
        self.status = status
        self.headers = headers


class _Head(NamedTuple):
    """What stands before the body."""

    method: str
    path: str
    query: str
    fields: tuple[tuple[str, str], ...]
    """Names in small letters, with their values."""

    @classmethod
    def of(cls, head: bytes) -> _Head:
        first, *lines = head.removesuffix(_END_OF_HEAD).decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise _RefusedError(HTTPStatus.BAD_REQUEST)
        path, _, query = words[1].partition("?")
        fields = (line.partition(":") for line in lines)
        return cls(words[0], path, query, tuple((name.strip().lower(), value.strip()) for name, _, value in fields))

    def value(self, name: str) -> str:
        """The value of a field; empty unless it is there once."""
        values = [value for field, value in self.fields if field == name]
        return values[0] if len(values) == 1 else ""


async def _body(reader: asyncio.StreamReader, head: _Head) -> bytes:
    """The body of a POST. Raises `_RefusedError` for what a web site could send, or if it is too large."""
    names = [name for name, _ in head.fields]
    if "origin" in names:
        raise _RefusedError(HTTPStatus.FORBIDDEN)
    if head.value("content-type").partition(";")[0].strip().lower() != "application/json":
        raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    length = head.value("content-length")
    if "transfer-encoding" in names or not (length.isascii() and length.isdecimal()):
        raise _RefusedError(HTTPStatus.LENGTH_REQUIRED)
    if len(length) > len(str(MAX_BODY_BYTES)) or int(length) > MAX_BODY_BYTES:
        raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return await reader.readexactly(int(length))


def _without_port(host: str) -> str:
    bracketed, bracket, _ = host.removeprefix("[").partition("]")
    return bracketed if bracket else host.partition(":")[0].lower()


def _encoded(answer: Answer) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    return "\r\n".join(lines).encode() + _END_OF_HEAD + answer.body
