"""Runs an ASGI application as a server does, without a socket: its lifespan, and requests in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

Messages = asyncio.Queue[dict[str, Any]]


class Served:
    """An application whose lifespan has begun."""

    def __init__(self, app: Any, state: dict[str, Any]) -> None:
        self._app = app
        self._state = state

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of the answer."""
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [],
            "state": dict(self._state),
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@asynccontextmanager
async def serving(app: Any) -> AsyncGenerator[Served]:
    """The application from its startup to its shutdown. What it raises then is raised here."""
    state: dict[str, Any] = {}
    told, answers = Messages(), Messages()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}
    life = asyncio.create_task(app(scope, told.get, answers.put))
    told.put_nowait({"type": "lifespan.startup"})
    assert (await answers.get())["type"] == "lifespan.startup.complete"
    try:
        yield Served(app, state)
    finally:
        told.put_nowait({"type": "lifespan.shutdown"})
        await life
        assert (await answers.get())["type"] == "lifespan.shutdown.complete"
