"""Connections that have proved nothing: bounded, and the oldest goes first."""

from __future__ import annotations

import contextlib
import socket

from kafka_share.spark.waiting_room import WaitingRoom


def is_hung_up_on(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False


def test_who_has_waited_longest_makes_place_and_who_has_left_takes_none() -> None:
    room = WaitingRoom(2)
    with contextlib.ExitStack() as open_ones:
        pairs = [[open_ones.enter_context(one) for one in socket.socketpair()] for _ in range(5)]
        for ours, _ in pairs[:2]:
            room.enter(ours)
        assert not any(is_hung_up_on(peer) for _, peer in pairs)
        room.enter(pairs[2][0])
        assert [is_hung_up_on(peer) for _, peer in pairs] == [True, False, False, False, False]
        room.leave(pairs[0][0])  # as its thread does when it sees its end
        room.leave(pairs[1][0])
        room.enter(pairs[3][0])
        assert [is_hung_up_on(peer) for _, peer in pairs] == [True, False, False, False, False]
        pairs[2][0].close()
        room.enter(pairs[4][0])  # the one that makes place has ended by itself
        assert not is_hung_up_on(pairs[3][1])
