"""Open window: for how long a broker may hold a fetch back. What the core and polls that fetch by themselves go by."""

from __future__ import annotations

from typing import Final

WAITS_IN_LOCK: Final = 6
"""While records are held, a broker holds a fetch back for this part of their lock time at most. Renewals and
acknowledgements wait behind the fetch, and leave with a third of the lock left at least."""
ANSWER_MS: Final = 4
"""A poll with less time than this asks for nothing more, because the answer would come after its end."""


def before_the_end_ms(left_ms: int) -> int:
    """What comes after its poll has no holder while its locks run, so the answer is to be here before."""
    return max(1, left_ms // 2)


def window_wait_ms(left_ms: int, lock_ms: int) -> int | None:
    """Of a fetch that a poll with so much time sends by itself; None: it has too little."""
    return min(before_the_end_ms(left_ms), within_the_lock_ms(lock_ms)) if left_ms > ANSWER_MS else None


def within_the_lock_ms(lock_ms: int) -> int:
    return max(1, lock_ms // WAITS_IN_LOCK)
