from __future__ import annotations

import socket
from typing import Any

import pytest
from network.peer import ask, talking
from network.test_connection import expect_answer, serve_one


@pytest.mark.better_than_java("receive-buffer-grows")
@pytest.mark.parametrize(("settings", "asked_for"), [({}, []), ({"receive_buffer_bytes": 200_000}, [200_000])])
def test_the_operating_system_sizes_the_receive_buffer_unless_a_size_is_given(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], asked_for: list[int]
) -> None:
    """A size that a program asks for is one that the system does not let grow."""
    sizes: list[Any] = []

    class Recording(socket.socket):
        def setsockopt(self, level: int, option: int, value: Any) -> None:  # type: ignore[override]
            if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVBUF):
                sizes.append(value)
            super().setsockopt(level, option, value)

    with talking(serve_one, **settings) as (client, peer):
        monkeypatch.setattr(socket, "socket", Recording)
        client.do(ask(peer))
        expect_answer(client)
    assert sizes == asked_for
