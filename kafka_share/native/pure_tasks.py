"""Whether a task is inside of an asyncio consumer: the twin of what is compiled, which each acknowledgement asks."""

from __future__ import annotations

from collections.abc import Callable


class OneTask:
    """What lets one task at a time in. `this_thread` returns the number of the thread that calls it."""

    __slots__ = ("_this_thread", "_thread", "inside", "is_wanted")

    def __init__(self, this_thread: Callable[[], int]) -> None:
        self.inside: str | None = None
        """The method that a task is in."""
        self.is_wanted: bool = False
        """Somebody waits to come in and close: a call that waits inside ends."""
        self._this_thread = this_thread
        self._thread: int | None = None

    def belong_to_this_thread(self) -> None:
        """The event loop runs on the thread that calls this."""
        self._thread = self._this_thread()

    def is_elsewhere(self) -> bool:
        """Whether the event loop runs on another thread."""
        return self._thread is not None and self._thread != self._this_thread()

    def is_busy_here(self) -> bool:
        """Whether a task is inside, or no event loop runs on this thread."""
        return self.inside is not None or self.is_wanted or self._thread != self._this_thread()
