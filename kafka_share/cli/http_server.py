"""A small HTTP server for a few paths, which no client can hold up: GET only, one request for each connection.

`export-lag` and the probe of `worker` run it. The head of a request has to come within a time limit, an answer has to
be taken within one, and there is a bound on clients; who comes beyond it is told to come back.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

MAX_CLIENTS: Final = 32
TIME_LIMIT_S: Final = 5.0
"""For the head of a request to arrive, and for an answer to be taken."""
_MAX_HEAD_BYTES: Final = 8_192
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

    A page of `queries` is given what stands behind the question mark. With `only_own_names` a request has to name the
    host by an address, as localhost, or as `host`: a web site whose name was made to lead here is refused.
    """

    def __init__(
        self,
        pages: Mapping[str, Callable[[], Awaitable[Answer]]],
        host: str,
        port: int,
        *,
        queries: Mapping[str, Callable[[str], Awaitable[Answer]]] | None = None,
        only_own_names: bool = False,
        max_clients: int = MAX_CLIENTS,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        self._pages = pages
        self._queries = queries or {}
        self._only_own_names = only_own_names
        self._address = host, port
        self._max_clients = max_clients
        self._time_limit_s = time_limit_s
        self._clients = 0
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

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        writer.transport.set_write_buffer_limits(0)  # so that a drained answer has left this process
        try:
            answer, allow = await self._answer(reader)
            async with asyncio.timeout(self._time_limit_s):
                writer.write(_encoded(answer, allow))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._clients -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Answer, bool]:
        """The answer, and whether it has to say which methods there are."""
        if self._clients > self._max_clients:
            return _failure(HTTPStatus.SERVICE_UNAVAILABLE), False
        try:
            async with asyncio.timeout(self._time_limit_s):
                head = await reader.readuntil(_END_OF_HEAD)
        except TimeoutError:
            return _failure(HTTPStatus.REQUEST_TIMEOUT), False
        except asyncio.LimitOverrunError:
            return _failure(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), False
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _failure(HTTPStatus.BAD_REQUEST), False
        if self._only_own_names and not self._is_own_name(_host_of(head)):
            return _failure(HTTPStatus.MISDIRECTED_REQUEST), False
        path, _, query = words[1].decode("latin-1").partition("?")
        page = self._page(path, query)
        if page is None:
            return _failure(HTTPStatus.NOT_FOUND), False
        if words[0] != b"GET":
            return _failure(HTTPStatus.METHOD_NOT_ALLOWED), True
        return await page(), False

    def _page(self, path: str, query: str) -> Callable[[], Awaitable[Answer]] | None:
        asked = self._queries.get(path)
        return self._pages.get(path) if asked is None else lambda: asked(query)

    def _is_own_name(self, host: str) -> bool:
        if host in ("localhost", self._address[0]):
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def _host_of(head: bytes) -> str:
    """The host that a request names, without its port; empty unless it names one."""
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    hosts = [value.strip().decode("latin-1") for name, _, value in lines if name.strip().lower() == b"host"]
    if len(hosts) != 1:
        return ""
    bracketed, bracket, _ = hosts[0].removeprefix("[").partition("]")
    return bracketed if bracket else hosts[0].partition(":")[0].lower()


def _failure(status: HTTPStatus) -> Answer:
    return Answer(f"{status.phrase}\n".encode(), status=status)


def _encoded(answer: Answer, allow: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in answer.headers),
        *(["Allow: GET"] if allow else []),
        *(["Retry-After: 1"] if answer.status is HTTPStatus.SERVICE_UNAVAILABLE else []),
    ]
    return "\r\n".join(lines).encode() + _END_OF_HEAD + answer.body
