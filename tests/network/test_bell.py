"""What wakes a task that waits for a line: its answer, news, the time, and nothing else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_share.native import DirectLine
from kafka_share.network import bell as bell_module
from kafka_share.network.bell import Bell

pytestmark = pytest.mark.skipif(DirectLine is None, reason="lines are waited for in the compiled module only")
LONG_MS = 60_000
ANSWER = b"\0\0\0\x06answer"


def no_news() -> bool:
    return False


@pytest.fixture(params=["epoll", "a reader for each wait"])
def bell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bell:
    if request.param != "epoll":
        monkeypatch.setattr(bell_module, "epoll", None)
    elif bell_module.epoll is None:
        pytest.skip("this system has no epoll")
    return Bell()


@pytest.fixture
def pair() -> Iterator[tuple[Any, socket.socket]]:
    ours, peer = socket.socketpair()
    with peer:
        line = DirectLine(ours.detach())
        yield line, peer
        line.close()


def test_answers_end_waits_one_after_the_other(bell: Bell, pair: tuple[Any, socket.socket]) -> None:
    line, peer = pair

    async def waits() -> None:
        loop = asyncio.get_running_loop()
        bell.bind(loop)
        for _ in range(3):
            line.send(b"?", None)
            loop.call_soon(peer.sendall, ANSWER[:7])
            loop.call_later(0.01, peer.sendall, ANSWER[7:])  # an answer that comes in two pieces
            await bell.hear([line], no_news, LONG_MS)
            assert bytes(line.answer) == b"answer"
            line.done()
        bell.close()

    asyncio.run(waits())


def test_others_run_although_the_answer_is_there(bell: Bell, pair: tuple[Any, socket.socket]) -> None:
    line, peer = pair

    async def waits() -> None:
        bell.bind(asyncio.get_running_loop())
        ran: list[str] = []
        line.send(b"?", None)
        peer.sendall(ANSWER)
        asyncio.get_running_loop().call_soon(ran.append, "another task")
        await bell.hear([line], no_news, LONG_MS)
        assert ran
        bell.close()

    asyncio.run(waits())


def test_a_wait_ends_when_its_time_is_up_and_the_next_one_has_its_own(
    bell: Bell, pair: tuple[Any, socket.socket]
) -> None:
    """Also if the next one is shorter than what was left of the one before."""
    line, peer = pair

    async def waits() -> None:
        loop = asyncio.get_running_loop()
        bell.bind(loop)
        line.send(b"?", None)
        await bell.hear([line], no_news, 1)
        assert line.answer is None
        loop.call_soon(peer.sendall, ANSWER)
        await bell.hear([line], no_news, LONG_MS)
        assert line.has_come
        line.done()
        line.send(b"?", None)
        await bell.hear([line], no_news, 1)
        assert line.answer is None
        bell.close()

    asyncio.run(waits())


def test_a_ring_ends_a_wait_if_there_is_news(bell: Bell, pair: tuple[Any, socket.socket]) -> None:
    line, _ = pair

    async def waits() -> None:
        loop = asyncio.get_running_loop()
        bell.bind(loop)
        news: list[str] = []
        line.send(b"?", None)
        loop.call_soon(bell.ring)  # for nothing
        loop.call_later(0.01, news.append, "news")
        loop.call_later(0.02, bell.ring)
        await bell.hear([line], lambda: bool(news), LONG_MS)
        assert news
        await bell.hear([line], lambda: bool(news), LONG_MS)
        bell.close()

    asyncio.run(waits())


def test_a_line_that_was_given_back_wakes_nobody(bell: Bell) -> None:
    async def waits() -> None:
        bell.bind(asyncio.get_running_loop())
        first, first_peer = socket.socketpair()
        second, second_peer = socket.socketpair()
        with first, first_peer, second_peer:
            line = DirectLine(first.dup().detach())
            line.send(b"?", None)
            await bell.hear([line], no_news, 1)
            line.close()
            first_peer.sendall(ANSWER)  # for whoever has the socket now
            other: Any = DirectLine(second.detach())
            other.send(b"?", None)
            await bell.hear([other], no_news, 20)
            assert other.answer is None
            second_peer.sendall(ANSWER)
            await bell.hear([other], no_news, LONG_MS)
            assert other.has_come
            other.close()
        bell.close()

    asyncio.run(waits())


def test_another_loop_begins_anew(bell: Bell, pair: tuple[Any, socket.socket]) -> None:
    line, peer = pair

    async def waits() -> None:
        loop = asyncio.get_running_loop()
        assert not bell.is_of(loop)
        bell.bind(loop)
        assert bell.is_of(loop)
        line.send(b"?", None)
        loop.call_soon(peer.sendall, ANSWER)
        await bell.hear([line], no_news, LONG_MS)
        assert line.answer is not None
        line.done()

    for _ in range(2):
        asyncio.run(waits())
