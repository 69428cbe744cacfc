"""A TCP proxy in front of one broker that sends answers on mutated, until it is told to be honest.

For the fuzz over sockets. It has an event loop and a thread of its own; addresses in answers are changed to its own, so
that clients stay with it. What it did stands in `lines`, in order.
"""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any, Final, Self

from fuzz.lies import Lie, lasting_lies
from fuzz.mutations import LENGTH_BYTES, Answer, draw_kind, first_message, mutated

from kafka_share.broker.api_keys import ApiKey
from kafka_share.protocol.messages import decode_request_header

HOST: Final = "127.0.0.1"
_REMEMBERED: Final = 8


class MutatingProxy:
    """Use it as a context manager. `upstream` is the broker's host:port; one answer in `1 / probability` is mutated."""

    def __init__(self, upstream: str, source: random.Random, *, probability: float, mutations: int) -> None:
        host, port = upstream.rsplit(":", 1)
        self._upstream = (host, int(port))
        self._source = source
        self._probability = probability
        self.mutations_left = mutations
        self.mutations_done = 0
        self.lines: list[str] = []
        self.lies: list[Lie] = []
        self.port = 0
        self._loop: asyncio.AbstractEventLoop
        self._is_over: asyncio.Event
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="mutating proxy", daemon=True)
        self._ready = threading.Event()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()

    def be_honest(self) -> None:
        """From now on every answer is sent on as it is."""
        self.mutations_left = 0

    # ---- the thread

    async def _serve(self) -> None:
        self._loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accepted, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._is_over.wait()
        server.close()  # what still runs is cancelled with the loop

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        try:
            answers, upstream = await asyncio.open_connection(*self._upstream)
            asked: dict[int, tuple[int, int]] = {}
            ways = [self._up(reader, upstream, asked), self._down(answers, writer, asked)]
            _, pending = await asyncio.wait(
                [asyncio.ensure_future(way) for way in ways], return_when=asyncio.FIRST_COMPLETED
            )
            for way in pending:
                way.cancel()
        except OSError as error:
            self.lines.append(f"the broker cannot be reached: {error}")
        except asyncio.CancelledError:
            pass  # the proxy ends, and nobody awaits this
        finally:
            writer.transport.abort()
            if upstream is not None:
                upstream.transport.abort()

    async def _up(
        self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter, asked: dict[int, tuple[int, int]]
    ) -> None:
        while (frame := await _frame(reader)) is not None:
            header = decode_request_header(frame[LENGTH_BYTES:])
            asked[header.correlation_id] = (header.api_key, header.api_version)
            upstream.write(frame)

    async def _down(
        self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[int, tuple[int, int]]
    ) -> None:
        older: list[Answer] = []
        while (frame := await _frame(answers)) is not None:
            correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
            answer = self._with_own_address(Answer(*asked.pop(correlation_id), correlation_id, frame))
            writer.write(self._sent(answer, older))
            older = [*older, answer][-_REMEMBERED:]

    def _with_own_address(self, answer: Answer) -> Answer:
        message: Any = answer.message()
        if answer.api_key == ApiKey.METADATA:
            nodes = message.brokers
        elif answer.api_key == ApiKey.FIND_COORDINATOR:
            nodes = message.coordinators
        else:
            return answer
        for node in nodes:
            node.host, node.port = HOST, self.port
        return Answer(answer.api_key, answer.version, answer.correlation_id, answer.with_message(message))

    def _sent(self, answer: Answer, older: list[Answer]) -> bytes:
        name = ApiKey(answer.api_key).name
        if self.mutations_left <= 0 or self._source.random() >= self._probability:
            self.lines.append(f"{name} #{answer.correlation_id}")
            return answer.frame
        self.mutations_left -= 1
        self.mutations_done += 1
        kind = draw_kind(self._source)
        data = mutated(kind, answer, older, self._source)
        told = first_message(data, answer)
        self.lines.append(f"{name} #{answer.correlation_id} {kind.value}: {data.hex()} {told!r}")
        if told is not None:
            now_ms = int(self._loop.time() * 1000)
            self.lies += lasting_lies(answer.api_key, "the client", 0, answer.message(), told, now_ms)
        return data


async def _frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next frame with its length; None at the end."""
    try:
        head = await reader.readexactly(LENGTH_BYTES)
        return head + await reader.readexactly(int.from_bytes(head, "big"))
    except (asyncio.IncompleteReadError, OSError):
        return None
