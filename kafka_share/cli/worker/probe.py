"""The probe of `kafka-share worker`: /healthz, on a thread with its own loop, so that no handler holds it up.

`running` serves it beside the worker. The answer is 200 as long as `ShareWorker.is_healthy` is true, else 503.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.http_server import Answer, HttpServer
from kafka_share.worker import ShareWorker

log: logging.Logger = logging.getLogger("kafka_share.cli")


@contextmanager
def probed(worker: ShareWorker[Any, Any], listen: str, port: int | None) -> Generator[None]:
    """Answer probes as long as the block; with port None nobody does. Raises `ToolFailedError` if it cannot listen."""
    if port is None:
        yield
        return
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(
        target=lambda: asyncio.run(_serve(worker, listen, port, begun)), name="kafka-share probe", daemon=True
    )
    thread.start()
    loop, stopped = begun.result()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()


async def _serve(
    worker: ShareWorker[Any, Any],
    listen: str,
    port: int,
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]],
) -> None:
    async def healthz() -> Answer:
        return _answer(worker)

    stopped = asyncio.Event()
    try:
        async with HttpServer({"/healthz": healthz}, listen, port) as server:
            host = f"[{listen}]" if ":" in listen else listen
            log.info("the probe is http://%s:%d/healthz", host, server.port)
            begun.set_result((asyncio.get_running_loop(), stopped))
            await stopped.wait()
    except OSError as error:
        begun.set_exception(ToolFailedError(f"it cannot listen on {listen}:{port}: {os.strerror(error.errno or 0)}"))


def _answer(worker: ShareWorker[Any, Any]) -> Answer:
    state = worker.inspect()
    body = {"phase": state.phase, "ready": state.ready, "running": len(state.running), "waiting": state.waiting}
    status = HTTPStatus.OK if worker.is_healthy() else HTTPStatus.SERVICE_UNAVAILABLE
    return Answer(json.dumps(body).encode() + b"\n", "application/json", status)
