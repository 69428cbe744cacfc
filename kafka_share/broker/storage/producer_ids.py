"""The ids of producers: each is given out once, also by a broker that was killed and started again.

Owned by the cluster. Ids are taken from blocks, as in Kafka, and only the end of the block has to be remembered.
"""

from __future__ import annotations

from typing import Final

from kafka_share.broker.changes import OnChange, nobody

BLOCK: Final = 1_000
_KEY: Final = "block"


class ProducerIds:
    """From 0 on."""

    def __init__(self) -> None:
        self._next = 0
        self.block_end: int = 0
        """No id from here on has been given out."""
        self.on_change: OnChange = nobody

    def take(self) -> int:
        """An id that nobody has."""
        if self._next == self.block_end:
            self.block_end += BLOCK
            self.on_change(_KEY)
        self._next += 1
        return self._next - 1

    def restore(self, block_end: int) -> None:
        """Go on behind the block of which some were given out."""
        self._next = self.block_end = block_end
