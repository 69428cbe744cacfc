"""The addresses of hosts, from the resolver of this machine. It may take seconds, and blocks meanwhile.

Called by the server, off its loop, and by `ReferenceBroker` on the caller's thread."""

from __future__ import annotations

import socket


def address_of_host(name: str) -> str | None:
    """The first IPv4 address, else the first IPv6 address, as Java takes it; None if the host is not known."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    hosts = sorted(found, key=lambda one: one[0] != socket.AF_INET)
    return str(hosts[0][4][0]) if hosts else None
