"""The UUIDs of messages: the same object for the same bytes, as far as they were seen lately.

Called by the decoders, and by the reference broker for the ids that it makes. Topic ids are parts of keys, and keys
that hold the same object are equal without a look into it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from uuid import UUID

_NONE: Final = bytes(16)
_MOST_KNOWN: Final = 1_024


@lru_cache(maxsize=_MOST_KNOWN)
def uuid_of(data: bytes) -> UUID | None:
    """The UUID of these 16 bytes, None for zeroes, which are how messages say that there is none."""
    return UUID(bytes=data) if data != _NONE else None


def same_uuid(uuid: UUID) -> UUID:
    """The object that `uuid_of` has for this UUID, which is not zero."""
    found = uuid_of(uuid.bytes)
    assert found is not None
    return found
