"""The users of SCRAM, by mechanism: state of the cluster, changed by AlterUserScramCredentials.

Plain values without the password; `put` and `remove` are the only changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.changes import nobody

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_share.broker.changes import OnChange
    from kafka_share.broker.security.scram import ScramCredential, ScramMechanism


class ScramUsers:
    """User and mechanism -> credential."""

    def __init__(self) -> None:
        self._credentials: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        self.on_change: OnChange = nobody
        """Called with the name of a user."""

    def __iter__(self) -> Iterator[tuple[str, ScramMechanism, ScramCredential]]:
        return ((name, mechanism, credential) for (name, mechanism), credential in self._credentials.items())

    def __repr__(self) -> str:
        return f"<{len(self.names())} users of SCRAM>"

    def names(self) -> list[str]:
        """Every user with a credential, in order."""
        return sorted({name for name, _ in self._credentials})

    def find(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return self._credentials.get((name, mechanism))

    def put(self, name: str, mechanism: ScramMechanism, credential: ScramCredential) -> None:
        """Add a credential, or replace the one that is there."""
        self._credentials[name, mechanism] = credential
        self.on_change(name)

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        """Remove a credential that is there. Connections that were made with it go on."""
        del self._credentials[name, mechanism]
        self.on_change(name)
