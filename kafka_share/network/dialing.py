"""From a host name to a connected socket: look-up, then each address in turn.

Called by `connection.Connection` within its setup timeout; makes no choice between brokers and repeats nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence

from kafka_share.config import ClientConfig
from kafka_share.errors import BrokerUnreachableError
from kafka_share.network.blocking import BlockingCalls

Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


async def dial(host: str, port: int, settings: ClientConfig, calls: BlockingCalls) -> socket.socket:
    """A connected, non-blocking TCP socket to the first address of `host` that answers.

    Raises `BrokerUnreachableError` naming what happened with each address.
    """
    addresses = await look_up(host, port, calls)
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + settings.socket_connection_setup_timeout_ms / 1000
    failures = []
    for i, address in enumerate(addresses):
        # A silent first address must leave time for the others.
        share_s = max(0.0, ends_at - loop.time()) / (len(addresses) - i)
        try:
            return await _connect(address, settings, share_s)
        except TimeoutError:
            failures.append(f"{address[1][0]!s}: no answer within {int(share_s * 1000)} ms")
        except OSError as error:
            failures.append(f"{address[1][0]!s}: {os.strerror(error.errno) if error.errno else error}")
    raise BrokerUnreachableError(f"cannot connect to {host}:{port} ({'; '.join(failures)})")


async def look_up(host: str, port: int, calls: BlockingCalls) -> Sequence[Address]:
    """The addresses of a host, in the system's order. Raises `BrokerUnreachableError` if it has none."""

    def ask(flags: int) -> list[Address]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=flags)
        return list(dict.fromkeys((family, address) for family, _, _, _, address in found))

    try:
        return ask(socket.AI_NUMERICHOST)  # asks nobody, so it cannot block
    except (OSError, UnicodeError):
        pass
    try:
        return await calls.shared(f"kafka-share look-up of {host}:{port}", lambda: ask(0))
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BrokerUnreachableError(f"the address of {host} cannot be found: {reason}") from error


async def _connect(address: Address, settings: ClientConfig, timeout_s: float) -> socket.socket:
    family, target = address
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Before connecting: the window scale of TCP is agreed on with the first packet.
        if settings.receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        if settings.send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(sock, target), timeout_s)
    except BaseException:
        sock.close()
        raise
    return sock
