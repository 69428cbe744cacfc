"""The features of the cluster, with their finalized levels: what admins can switch on and off for all nodes at once.

Owned by the cluster; UpdateFeatures changes it, ApiVersions tells clients. `share.version` 0 switches share groups off,
2 allows dead-letter queues; `group.version` 0 switches the protocol of consumer groups (KIP-848) off;
`transaction.version` 2 tells clients that they may use the second protocol of transactions (KIP-890). As in Kafka 4.3
requests of both protocols are offered and worked on at any level of it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from kafka_share.broker.changes import nobody
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka_share.broker.changes import OnChange
    from kafka_share.broker.kafka_version import Behaviour

SHARE_VERSION: Final = "share.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"


class UpgradeType(enum.IntEnum):
    """Which way a change may go; the wire values."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Features:
    """Name -> level."""

    def __init__(self, highest: Mapping[str, int], levels: Mapping[str, int]) -> None:
        """`highest` is what this version of Kafka supports; the lowest level is always 0."""
        self.highest: Mapping[str, int] = highest
        self._levels = dict(levels)
        self.epoch: int = 0
        """How often something has changed."""
        self.on_change: OnChange = nobody
        """Called with the name of a feature."""

    @classmethod
    def of(cls, behaviour: Behaviour, share_version: int) -> Features:
        """Those of a version of Kafka. Raises `ConfigurationError` for a share.version that it does not have."""
        highest = behaviour.max_share_version
        if not 0 <= share_version <= highest:
            raise ConfigurationError(
                f"share.version of Kafka {behaviour.version} is 0 to {highest}, not {share_version}"
            )
        others = {GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
        return cls({SHARE_VERSION: highest, **others}, {SHARE_VERSION: share_version, **others})

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """The features that are on, with their levels."""
        return ((name, level) for name, level in self._levels.items() if level > 0)

    def level(self, name: str) -> int:
        """The finalized level; 0 is off."""
        return self._levels[name]

    def put(self, name: str, level: int) -> None:
        """The level has been checked."""
        self._levels[name] = level
        self.epoch += 1
        self.on_change(name)

    def require(self, name: str, level: int, upgrade_type: int) -> None:
        """Raises `Refusal` unless the level can be changed so."""
        problem = self._problem(name, level, upgrade_type)
        if problem is not None:
            raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, f"{name!r} cannot be updated to {level}: {problem}")

    def _problem(self, name: str, level: int, upgrade_type: int) -> str | None:
        if level < 0:
            return "levels begin with 0"
        if name not in self.highest:
            return "there is no such feature"
        if level > self.highest[name]:
            return f"its levels are 0 to {self.highest[name]}"
        present = self._levels[name]
        if upgrade_type not in tuple(UpgradeType):
            return f"upgrade type {upgrade_type} does not exist"
        if level < present and upgrade_type == UpgradeType.UPGRADE:
            return f"that is below its present level {present}, and no downgrade was asked for"
        if level > present and upgrade_type != UpgradeType.UPGRADE:
            return f"that is above its present level {present}, and a downgrade was asked for"
        return None
