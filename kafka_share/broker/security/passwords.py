"""The users of PLAIN with their passwords, which no log and no repr shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Passwords:
    """User -> password. They cannot be changed while the broker runs."""

    def __init__(self, by_user: Mapping[str, str]) -> None:
        self._by_user = dict(by_user)

    def __repr__(self) -> str:
        return f"<passwords of {len(self._by_user)} users>"

    def __contains__(self, user: str) -> bool:
        return user in self._by_user

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_user)

    def of(self, user: str) -> str:
        """The user's password, or "" if there is no such user."""
        return self._by_user.get(user, "")
